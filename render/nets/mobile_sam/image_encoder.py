"""TinyViT-5M (Wu et al. 2022, arXiv 2207.10666) as MobileSAM uses it: features at 1/16 of a square image.

Convolutions at 1/4 of the image, then windowed attention at 1/8 and 1/16; the last stage keeps 1/16 instead of going
down to 1/32. Tensors are [B, H, W, F] between the stages: the attention wants that order, and the convolutions take
it as torch's channels-last layout without a copy.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class EncoderSize:
    """Sizes of the encoder; the defaults are those of the published weights.

    Args:
        widths: features of the four stages.
        depths: blocks of the stages.
        heads: attention heads of the stages; that of the first, which is convolutional, counts nothing.
        windows: side of the attention windows of the stages, tokens.
        strides: of the transitions between the stages.
        expansion: hidden features over features, of convolutional blocks and perceptrons.
        out: features of the result.
    """

    widths: tuple[int, ...] = (64, 128, 160, 320)
    depths: tuple[int, ...] = (2, 2, 6, 2)
    heads: tuple[int, ...] = (2, 4, 5, 10)
    windows: tuple[int, ...] = (7, 7, 14, 7)
    strides: tuple[int, ...] = (2, 2, 1)
    expansion: int = 4
    out: int = 256


class ChannelNorm(nn.LayerNorm):
    """Layer normalisation over the features of [B, F, H, W]."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input.movedim(1, -1)).movedim(-1, 1)


def _gelu(x: Tensor) -> Tensor:
    """GELU in place: on a CPU most of its time otherwise goes into fresh pages of memory."""
    return torch.ops.aten.gelu_(x)


def _depthwise(features: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(features, features, 3, stride, 1, groups=features)


class InvertedBottleneck(nn.Module):
    """Widen (1 x 1), filter each feature (3 x 3), narrow (1 x 1), GELU between (Sandler et al. 2018).

    Args:
        source, hidden, out: features before, within and after.
        stride: of the 3 x 3 convolution.
        residual: whether the input is added, and GELU follows.
    """

    def __init__(self, source: int, hidden: int, out: int, stride: int = 1, residual: bool = False) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(source, hidden, 1)
        self.conv2 = _depthwise(hidden, stride)
        self.conv3 = nn.Conv2d(hidden, out, 1)
        self.residual = residual

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv3(_gelu(self.conv2(_gelu(self.conv1(x)))))
        return _gelu(y + x) if self.residual else y


class WindowAttention(nn.Module):
    """Self-attention within a square window, with a learned bias per head and absolute offset of two tokens.

    Args:
        features: of a token.
        heads: attention heads.
        window: side W of the window, tokens.
    """

    offset: Tensor

    def __init__(self, features: int, heads: int, window: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(features)
        self.qkv = nn.Linear(features, 3 * features)
        self.proj = nn.Linear(features, features)
        self.attention_biases = nn.Parameter(torch.zeros(heads, window * window))
        row, column = torch.arange(window * window).div(window, rounding_mode="floor"), torch.arange(window)
        column = column.repeat(window)
        offset = (row[:, None] - row).abs() * window + (column[:, None] - column).abs()
        self.register_buffer("offset", offset, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """[B, W * W, F] to the same."""
        batch, tokens, features = x.shape
        # Each head's query, key and value lie side by side.
        heads = self.qkv(self.norm(x)).view(batch, tokens, self.heads, -1).transpose(1, 2)
        query, key, value = heads.chunk(3, dim=-1)
        bias = self.attention_biases[:, self.offset][None].to(x.dtype)
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        return self.proj(mixed.transpose(1, 2).reshape(batch, tokens, features))


class Perceptron(nn.Module):
    """Layer normalisation, then two linear layers with GELU between."""

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(features)
        self.fc1 = nn.Linear(features, hidden)
        self.fc2 = nn.Linear(hidden, features)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(_gelu(self.fc1(self.norm(x))))


class AttentionBlock(nn.Module):
    """Windowed attention, a 3 x 3 convolution of each feature, and a perceptron."""

    def __init__(self, features: int, heads: int, window: int, expansion: int) -> None:
        super().__init__()
        self.window = window
        self.attn = WindowAttention(features, heads, window)
        self.local_conv = _depthwise(features)
        self.mlp = Perceptron(features, features * expansion)

    def forward(self, x: Tensor) -> Tensor:
        """[B, H, W, F] to the same."""
        x = x + self._attend(x)
        x = self.local_conv(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        return x + self.mlp(x)

    def _attend(self, x: Tensor) -> Tensor:
        """Attention in windows; the last ones reach beyond the image, where tokens are 0 and are attended to."""
        side, (batch, height, width, features) = self.window, x.shape
        rows, columns = -(-height // side), -(-width // side)
        x = F.pad(x, (0, 0, 0, columns * side - width, 0, rows * side - height))
        x = x.view(batch, rows, side, columns, side, features).transpose(2, 3)
        x = self.attn(x.reshape(batch * rows * columns, side * side, features))
        x = x.view(batch, rows, columns, side, side, features).transpose(2, 3)
        return x.reshape(batch, rows * side, columns * side, features)[:, :height, :width]


class Stage(nn.Module):
    """Blocks of one resolution, and the transition to the next one."""

    def __init__(self, blocks: list[nn.Module], downsample: nn.Module | None, channels_last: bool) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.downsample = downsample
        self.channels_last = channels_last

    def forward(self, x: Tensor) -> Tensor:
        """[B, F, H, W] to [B, F', H', W']."""
        x = x.permute(0, 2, 3, 1).contiguous() if self.channels_last else x
        for block in self.blocks:
            x = block(x)
        x = x.permute(0, 3, 1, 2) if self.channels_last else x
        return x if self.downsample is None else self.downsample(x)


class ImageEncoder(nn.Module):
    """The image encoder: [B, 3, S, S], normalised, to [B, F, S / 16, S / 16]."""

    def __init__(self, size: EncoderSize | None = None) -> None:
        super().__init__()
        size = EncoderSize() if size is None else size
        first = size.widths[0]
        convolutions = nn.Conv2d(3, first // 2, 3, 2, 1), nn.GELU(), nn.Conv2d(first // 2, first, 3, 2, 1)
        self.patch_embed = nn.ModuleDict({"seq": nn.Sequential(*convolutions)})
        self.layers = nn.Sequential(*(_stage(size, index) for index in range(len(size.widths))))
        self.neck = nn.Sequential(
            nn.Conv2d(size.widths[-1], size.out, 1, bias=False),
            ChannelNorm(size.out, eps=1e-6),
            nn.Conv2d(size.out, size.out, 3, padding=1, bias=False),
            ChannelNorm(size.out, eps=1e-6),
        )

    def forward(self, image: Tensor) -> Tensor:
        return self.neck(self.layers(self.patch_embed["seq"](image)))


def _stage(size: EncoderSize, index: int) -> Stage:
    width = size.widths[index]
    hidden = width * size.expansion
    if index == 0:
        blocks: list[nn.Module] = [
            InvertedBottleneck(width, hidden, width, residual=True) for _ in range(size.depths[0])
        ]
    else:
        blocks = [
            AttentionBlock(width, size.heads[index], size.windows[index], size.expansion)
            for _ in range(size.depths[index])
        ]
    last = index + 1 == len(size.widths)
    wider = 0 if last else size.widths[index + 1]
    down = None if last else InvertedBottleneck(width, wider, wider, size.strides[index])
    return Stage(blocks, down, channels_last=index > 0)
