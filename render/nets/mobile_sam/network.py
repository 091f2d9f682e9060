"""MobileSAM as one object: an image is encoded once, then prompts become masks at the image's resolution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from luxel.render.nets.mobile_sam.image_encoder import EncoderSize, ImageEncoder
from luxel.render.nets.mobile_sam.mask_decoder import DecoderSize, MaskDecoder
from luxel.render.nets.mobile_sam.prompt_encoder import PromptEncoder
from luxel.render.nets.mobile_sam.replayed import ReplayedPart
from luxel.render.nets.mobile_sam.weights import find_weights, fold, read_weights

MEAN = (123.675, 116.28, 103.53)  # of the training images, in levels of 0 to 255
STD = (58.395, 57.12, 57.375)
STRIDE = 16  # pixels of the encoder's image per feature
MAX_REPLAYED = 16  # prompts of one call; with more the kernels are large enough


@dataclass(frozen=True)
class Embedding:
    """An encoded image.

    Args:
        features: [1, F, S / 16, S / 16].
        height, width: of the image, pixels.
    """

    features: Tensor
    height: int
    width: int


@dataclass(frozen=True)
class Predictions:
    """Masks of P prompts, M for each.

    Args:
        logits: above 0 inside, at the resolution of the network, float32 [P, M, S / 4, S / 4]; `MobileSam.resize`
            brings those of a prompt to the image's resolution.
        predicted_iou: what the network expects of each mask's IoU with the object, float32 [P, M]; can exceed 1.
        full_size: resizes the logits of one prompt.
    """

    logits: Tensor
    predicted_iou: Tensor
    full_size: Callable[[Tensor], Tensor]

    @property
    def masks(self) -> Tensor:
        """Bool [P, M, H, W], resized when they are asked for."""
        return torch.stack([self.full_size(logits) > 0 for logits in self.logits])


class MobileSam(nn.Module):
    """Segments images by clicks and boxes (Zhang et al. 2023). Nothing in it has gradients.

    Args:
        side: S of the square image that is encoded; images are scaled to it by their longer side.
        encoder, decoder: sizes; None: those of the published weights.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self, side: int = 1024, encoder: EncoderSize | None = None, decoder: DecoderSize | None = None
    ) -> None:
        super().__init__()
        self.side = side
        self.image_encoder = ImageEncoder(encoder)
        decoder = DecoderSize() if decoder is None else decoder
        self.prompt_encoder = PromptEncoder(decoder.features, side)
        self.mask_decoder = MaskDecoder(decoder)
        self.register_buffer("mean", torch.tensor(MEAN)[:, None, None] / 255, persistent=False)
        self.register_buffer("std", torch.tensor(STD)[:, None, None] / 255, persistent=False)
        self.requires_grad_(False)
        self.eval()
        self._grid: Tensor | None = None
        self._encode = ReplayedPart(lambda pixels: (self.image_encoder(pixels),))
        self._decode = ReplayedPart(self.mask_decoder.forward)

    @property
    def dtype(self) -> torch.dtype:
        """Of the encoder's arithmetic."""
        return next(self.image_encoder.parameters()).dtype

    @torch.no_grad()
    def encode(self, image: Tensor) -> Embedding:
        """Encodes an image.

        Args:
            image: RGB [H, W, 3], uint8 or in [0, 1].

        Raises:
            ValueError: another shape.
        """
        if image.dim() != 3 or image.shape[-1] != 3 or 0 in image.shape:
            raise ValueError(f"image must be [H, W, 3] and not empty, got {list(image.shape)}")
        height, width = image.shape[:2]
        levels = image.to(self.mean.device).float() * (1 if image.dtype == torch.uint8 else 255)
        rows, columns = self._scaled(height, width)
        levels = levels.round().clamp(0, 255).movedim(-1, 0)[None]
        for size in ((height, columns), (rows, columns)):  # rounded twice, as images of 8 bits are resized
            levels = F.interpolate(levels, size, mode="bilinear", antialias=True).round()
        pixels = (levels / 255 - self.mean) / self.std
        pixels = F.pad(pixels, (0, self.side - pixels.shape[3], 0, self.side - pixels.shape[2]))
        pixels = pixels.to(self.dtype, memory_format=torch.channels_last)
        return Embedding(self._encode(pixels)[0].float(), height, width)

    @torch.no_grad()
    def predict(
        self,
        embedding: Embedding,
        points: Tensor | None = None,
        signs: Tensor | None = None,
        boxes: Tensor | None = None,
        multimask: bool | None = True,
    ) -> Predictions:
        """Masks of P prompts of one form; each has K points, a box, or both.

        Args:
            embedding: of the image.
            points: [P, K, 2], column and row of pixels, from 0.
            signs: [P, K]; 1: the pixel is on the object, 0: it is next to it. None: all are on it.
            boxes: [P, 4], column and row of the upper left, then of the lower right corner.
            multimask: three masks for each prompt, in the network's order; otherwise one, which is better for a box
                and for several points. None: that one, then the three.

        Raises:
            ValueError: neither points nor boxes, or shapes that do not fit each other.
        """
        points, signs, boxes = _checked(points, signs, boxes)
        device = self.mean.device
        scale = torch.tensor(self._scaled(embedding.height, embedding.width)[::-1], device=device)
        scale = scale / torch.tensor([embedding.width, embedding.height], device=device)
        tokens = self.prompt_encoder(
            None if points is None else points.to(device).float() * scale,
            None if signs is None else signs.to(device),
            None if boxes is None else boxes.to(device).float() * scale.repeat(2),
        )
        dense = self.prompt_encoder.no_mask_embed.weight[0][:, None, None]
        features = embedding.features.to(device, dense.dtype) + dense
        if self._grid is None or self._grid.device != device:
            self._grid = self.prompt_encoder.grid(self.side // STRIDE)
        few = len(tokens) <= MAX_REPLAYED
        logits, iou = self._decode(features, self._grid, tokens, options=(multimask,), capture=few)
        return Predictions(logits.float(), iou.float(), partial(self.resize, embedding=embedding))

    @torch.no_grad()
    def resize(self, logits: Tensor, embedding: Embedding) -> Tensor:
        """Logits at the image's resolution: [M, S / 4, S / 4] to [M, H, W]."""
        rows, columns = self._scaled(embedding.height, embedding.width)
        full = F.interpolate(logits[None], (self.side, self.side), mode="bilinear", align_corners=False)
        full = full[..., :rows, :columns]
        size = (embedding.height, embedding.width)
        return F.interpolate(full, size, mode="bilinear", align_corners=False)[0]

    def _scaled(self, height: int, width: int) -> tuple[int, int]:
        """Size of an image whose longer side is S."""
        factor = self.side / max(height, width)
        return max(1, int(height * factor + 0.5)), max(1, int(width * factor + 0.5))


def load_mobile_sam(path: str | Path | None = None, device: torch.device | str = "cpu") -> MobileSam:
    """MobileSAM with its published weights; the encoder computes in half precision on a GPU.

    Args:
        path: the file of weights; None: see `find_weights`.
        device: where it computes.

    Returns:
        The network, in evaluation mode.

    Raises:
        WeightsError: the file is missing, or not the known one.
    """
    parameters = fold(read_weights(find_weights(path)))
    network = MobileSam()
    network.load_state_dict(parameters, assign=True)
    network.requires_grad_(False).to(device)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if torch.device(device).type == "cuda":
        network.image_encoder.half()
    return network


def _checked(
    points: Tensor | None, signs: Tensor | None, boxes: Tensor | None
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """The prompts of `MobileSam.predict`, with signs for all points."""
    if points is None and boxes is None:
        raise ValueError("points or boxes must be given, got neither")
    count = len(points) if points is not None else len(boxes)  # type: ignore[arg-type]
    if points is not None:
        if points.dim() != 3 or points.shape[-1] != 2 or points.shape[1] == 0:
            raise ValueError(f"points must be [P, K, 2], K at least 1, got {list(points.shape)}")
        signs = torch.ones(points.shape[:2], dtype=torch.int64) if signs is None else signs
        if signs.shape != points.shape[:2] or not bool(((signs == 0) | (signs == 1)).all()):
            raise ValueError(f"signs must be 0 or 1, {list(points.shape[:2])}, got {list(signs.shape)}")
    elif signs is not None:
        raise ValueError("signs must be None where there are no points")
    if boxes is not None and boxes.shape != (count, 4):
        raise ValueError(f"boxes must be {[count, 4]}, got {list(boxes.shape)}")
    return points, signs, boxes
