"""SAM's mask decoder (Kirillov et al. 2023, appendix A): two-way attention between a prompt's tokens and the image."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from luxel.render.nets.mobile_sam.image_encoder import ChannelNorm

MASKS = 4  # one for prompts without ambiguity, then three: whole, part, sub-part


@dataclass(frozen=True)
class DecoderSize:
    """Sizes of the decoder; the defaults are those of the published weights.

    Args:
        features: of tokens and of the image.
        heads: attention heads.
        hidden: of the perceptrons of the layers.
        depth: layers.
    """

    features: int = 256
    heads: int = 8
    hidden: int = 2048
    depth: int = 2


class Attention(nn.Module):
    """Attention whose queries, keys and values are projected to ``inner`` features."""

    def __init__(self, features: int, inner: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q_proj = nn.Linear(features, inner)
        self.k_proj = nn.Linear(features, inner)
        self.v_proj = nn.Linear(features, inner)
        self.out_proj = nn.Linear(inner, features)

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """[P, Q, F], [P, K, F] and [P, K, F] to [P, Q, F]."""
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in (self.q_proj(query), self.k_proj(key), self.v_proj(value))
        )
        return self.out_proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class TwoWayLayer(nn.Module):
    """Tokens attend to themselves and to the image, then the image to the tokens.

    Args:
        size: sizes.
        first: whether tokens have nothing to add to their own embedding yet.
    """

    def __init__(self, size: DecoderSize, first: bool) -> None:
        super().__init__()
        features, half = size.features, size.features // 2
        self.first = first
        self.self_attn = Attention(features, features, size.heads)
        self.cross_attn_token_to_image = Attention(features, half, size.heads)
        self.cross_attn_image_to_token = Attention(features, half, size.heads)
        self.mlp = nn.ModuleDict(
            {"lin1": nn.Linear(features, size.hidden), "lin2": nn.Linear(size.hidden, features)}
        )
        self.norm1, self.norm2, self.norm3, self.norm4 = (nn.LayerNorm(features) for _ in range(4))

    def forward(self, tokens: Tensor, image: Tensor, start: Tensor, grid: Tensor) -> tuple[Tensor, Tensor]:
        """One layer.

        Args:
            tokens: [P, T, F].
            image: [P, H * W, F], or [1, H * W, F] where it is the same for all prompts.
            start: the tokens before the first layer, which stand for their positions.
            grid: encoded positions of the image, [H * W, F].

        Returns:
            Tokens and image, [P, T, F] and [P, H * W, F].
        """
        if self.first:
            tokens = self.norm1(self.self_attn(tokens, tokens, tokens))
        else:
            placed = tokens + start
            tokens = self.norm1(tokens + self.self_attn(placed, placed, tokens))
        placed_image = image + grid
        tokens = self.norm2(tokens + self.cross_attn_token_to_image(tokens + start, placed_image, image))
        tokens = self.norm3(tokens + self.mlp["lin2"](F.relu(self.mlp["lin1"](tokens))))
        image = self.norm4(image + self.cross_attn_image_to_token(placed_image, tokens + start, tokens))
        return tokens, image


class TwoWayTransformer(nn.Module):
    """The layers, and a last attention of the tokens to the image."""

    def __init__(self, size: DecoderSize) -> None:
        super().__init__()
        self.layers = nn.ModuleList(TwoWayLayer(size, index == 0) for index in range(size.depth))
        self.final_attn_token_to_image = Attention(size.features, size.features // 2, size.heads)
        self.norm_final_attn = nn.LayerNorm(size.features)

    def forward(self, tokens: Tensor, image: Tensor, grid: Tensor) -> tuple[Tensor, Tensor]:
        start = tokens
        for layer in self.layers:
            tokens, image = layer(tokens, image, start, grid)
        looked = self.final_attn_token_to_image(tokens + start, image + grid, image)
        return self.norm_final_attn(tokens + looked), image


class LinearStack(nn.Module):
    """Linear layers with ReLU between."""

    def __init__(self, *widths: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        return self.layers[-1](x)


class MaskDecoder(nn.Module):
    """Masks and their predicted IoU from an image's features and a prompt's tokens."""

    def __init__(self, size: DecoderSize | None = None) -> None:
        super().__init__()
        size = DecoderSize() if size is None else size
        features = size.features
        self.transformer = TwoWayTransformer(size)
        self.iou_token = nn.Embedding(1, features)
        self.mask_tokens = nn.Embedding(MASKS, features)
        self.output_upscaling = nn.Sequential(
            nn.ConvTranspose2d(features, features // 4, 2, 2),
            ChannelNorm(features // 4, eps=1e-6),
            nn.GELU(),
            nn.ConvTranspose2d(features // 4, features // 8, 2, 2),
            nn.GELU(),
        )
        self.output_hypernetworks_mlps = nn.ModuleList(
            LinearStack(features, features, features, features // 8) for _ in range(MASKS)
        )
        self.iou_prediction_head = LinearStack(features, features, features, MASKS)

    def forward(
        self, image: Tensor, grid: Tensor, prompts: Tensor, multimask: bool | None
    ) -> tuple[Tensor, Tensor]:
        """Masks of P prompts on one image.

        Args:
            image: [1, F, H, W], the embedding for "no mask" added.
            grid: encoded positions, [H * W, F].
            prompts: tokens, [P, T, F].
            multimask: three masks, for prompts that could mean several things; otherwise one. None: the one, then the
                three.

        Returns:
            Logits [P, M, 4 H, 4 W] and predicted IoU [P, M], M = 3, 1 or 4.
        """
        own = torch.cat([self.iou_token.weight, self.mask_tokens.weight])
        tokens = torch.cat([own.expand(len(prompts), -1, -1), prompts], dim=1)
        tokens, pixels = self.transformer(tokens, image.flatten(2).transpose(1, 2), grid)
        first, end = {True: (1, MASKS), False: (0, 1), None: (0, MASKS)}[multimask]
        networks = self.output_hypernetworks_mlps
        filters = torch.stack([networks[i](tokens[:, 1 + i]) for i in range(first, end)], dim=1)
        fine = self.output_upscaling(pixels.transpose(1, 2).unflatten(2, image.shape[2:]))
        logits = (filters @ fine.flatten(2)).unflatten(2, fine.shape[2:])
        return logits, self.iou_prediction_head(tokens[:, 0])[:, first:end]
