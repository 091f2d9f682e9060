"""Votes of label maps on primitives: how much of each label's pixels a primitive contributes to.

The weight of primitive i at pixel p is T_i(p) alpha_i(p), as in blending; its votes for label l are the sum of that
over the pixels of l. The argmax of these sums is the optimum of FlashSplat's linear programme (Shen et al. 2024).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from luxel.render.camera import Camera
from luxel.render.primitives.parameters import Parameters
from luxel.render.rasterize import rasterize

MOST_LABELS = 255  # 0 to 254
NO_LABEL = 255  # of a pixel: no vote; of a primitive: undecided


class Leaders(NamedTuple):
    """The labels with most and second most votes of each primitive.

    Args:
        label: uint8 [N]; NO_LABEL where there are no votes.
        top, second: their votes, float32 [N].
    """

    label: Tensor
    top: Tensor
    second: Tensor


class Votes:
    """Votes of N primitives for L labels, summed over label maps.

    Args:
        count: N.
        labels: L, 1 to 255.
        device: where the sums are kept; that of the primitives.
        dtype: of the sums that are returned.

    Raises:
        ValueError: ``labels`` out of range.
    """

    def __init__(
        self,
        count: int,
        labels: int,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        if not 1 <= labels <= MOST_LABELS:
            raise ValueError(f"labels must be 1 to {MOST_LABELS}, got {labels}")
        self.labels = labels
        self._sums = torch.zeros(count, labels + 1, device=device, dtype=dtype)

    @property
    def weights(self) -> Tensor:
        """Votes for each label, [N, L]."""
        return self._sums[:, : self.labels]

    @property
    def seen(self) -> Tensor:
        """Contribution to all pixels, those without a vote included, [N]."""
        return self._sums[:, self.labels]

    def add(
        self,
        scene: Parameters,
        camera: Camera,
        maps: Tensor,
        time: float | Tensor | None = None,
        **options: Any,
    ) -> None:
        """Adds the votes of label maps, in place.

        Args:
            scene: the N primitives.
            camera: a camera or C of them.
            maps: uint8 [H, W] or [C, H, W]; NO_LABEL: no vote.
            time: of moving scenes; see `luxel.render.rasterize.rasterize`.
            options: others of `rasterize` that change alpha: antialiased, dilation, max_alpha.

        Raises:
            ValueError: maps of another size, or labels beyond L.
        """
        shape = (*camera.world_to_cam.shape[:-2], camera.height, camera.width)
        if maps.shape != shape:
            raise ValueError(f"maps must be {list(shape)}, got {list(maps.shape)}")
        if maps.dtype != torch.uint8:
            raise ValueError(f"maps must be uint8, got {maps.dtype}")
        given = maps.to(self._sums.device, torch.int64)
        beyond = (given >= self.labels) & (given != NO_LABEL)
        if bool(beyond.any()):
            largest = int(given[beyond].max())
            raise ValueError(f"maps must hold labels below {self.labels}, or {NO_LABEL}, got {largest}")
        features = torch.zeros_like(self._sums, requires_grad=True)
        blended = rasterize(scene.detach(), camera, time=time, features=features, **options).features
        assert blended is not None
        votes = torch.zeros_like(blended).scatter_(-1, given.clamp(max=self.labels)[..., None], 1)
        votes[..., -1] = 1
        self._sums += torch.autograd.grad(blended, features, votes)[0]

    def leaders(self, background_bias: float = 1.0) -> Leaders:
        """The two labels with most votes of each primitive.

        Args:
            background_bias: factor on the votes for label 0; above 1, primitives that are doubtful become background.
        """
        weights = self.weights.float()
        if background_bias != 1:
            weights = weights.clone()
            weights[:, 0] *= background_bias
        top, index = torch.nn.functional.pad(weights, (0, 1)).topk(2, dim=1)
        label = torch.where(top[:, 0] > 0, index[:, 0], NO_LABEL).to(torch.uint8)
        return Leaders(label, top[:, 0], top[:, 1])
