"""SAM's prompt encoder (Kirillov et al. 2023, arXiv 2304.02643, section 3 and appendix A) for points and boxes."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class FourierPosition(nn.Module):
    """Positions as sines and cosines of random projections (Tancik et al. 2020)."""

    positional_encoding_gaussian_matrix: Tensor

    def __init__(self, features: int) -> None:
        super().__init__()
        self.register_buffer("positional_encoding_gaussian_matrix", torch.randn(2, features // 2))

    def forward(self, position: Tensor) -> Tensor:
        """[..., 2] (x, y) in [0, 1] to [..., F]."""
        matrix = self.positional_encoding_gaussian_matrix.float()
        phase = 2 * math.pi * ((2 * position.float() - 1) @ matrix)
        return torch.cat([phase.sin(), phase.cos()], dim=-1)


class PromptEncoder(nn.Module):
    """Tokens of points and boxes.

    Args:
        features: of a token, F.
        side: of the square image that positions refer to, pixels.
    """

    def __init__(self, features: int = 256, side: int = 1024) -> None:
        super().__init__()
        self.side = side
        self.pe_layer = FourierPosition(features)
        # Of background points, object points, and the two corners of a box.
        self.point_embeddings = nn.ModuleList(nn.Embedding(1, features) for _ in range(4))
        self.not_a_point_embed = nn.Embedding(1, features)
        self.no_mask_embed = nn.Embedding(1, features)

    def forward(self, points: Tensor | None, signs: Tensor | None, boxes: Tensor | None) -> Tensor:
        """Tokens of P prompts of one form.

        Args:
            points: [P, K, 2] (x, y) in pixels of the encoder's image, or None.
            signs: [P, K]; 1: on the object, 0: next to it.
            boxes: [P, 4] x0 y0 x1 y1, in the same pixels, or None.

        Returns:
            [P, T, F]: T is K + 1 without boxes, K + 2 with them, 2 for boxes alone.
        """
        tokens = []
        if points is not None and signs is not None:
            kinds = self._kinds()[:2, 0]
            tokens.append(self._position(points) + kinds[signs.long()])
            if boxes is None:  # stands where the box would be
                empty = self.not_a_point_embed.weight.expand(len(points), 1, -1)
                tokens.append(empty)
        if boxes is not None:
            tokens.append(self._position(boxes.reshape(-1, 2, 2)) + self._kinds()[2:, 0])
        return torch.cat(tokens, dim=1)

    def grid(self, rows: int) -> Tensor:
        """Encoded positions of the pixel centres of the encoder's features, [rows * rows, F]."""
        centre = (torch.arange(rows, device=self.no_mask_embed.weight.device) + 0.5) / rows
        y, x = torch.meshgrid(centre, centre, indexing="ij")
        encoded = self.pe_layer(torch.stack([x, y], dim=-1).flatten(0, 1))
        return encoded.to(self.no_mask_embed.weight.dtype)

    def _kinds(self) -> Tensor:
        """What is added to the positions of the four kinds of points, [4, 1, F]."""
        return torch.stack([torch.as_tensor(entry.weight) for entry in self.point_embeddings])

    def _position(self, pixels: Tensor) -> Tensor:
        """Encoded centres of pixels; in float32, as half precision cannot tell neighbouring pixels apart."""
        return self.pe_layer((pixels.float() + 0.5) / self.side).to(self.no_mask_embed.weight.dtype)
