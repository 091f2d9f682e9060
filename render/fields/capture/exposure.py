"""Exposure and white balance of each training image of a radiance field, learnt alongside it."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

WIDTHS = {"gain": 3, "affine": 12}  # parameters per image
# Weight of half the sum of squares of an image's parameters. Exposures that vary with the direction of view and colours
# that do explain the same images: the penalty prefers colours. A few thousandths of the Huber loss's curvature.
PENALTY = 2.5e-4


class Exposure:
    """A colour transform per training image, with the parameters of `luxel.render.ops.train.view_exposure`.

    The colours of rays pass it before they are compared with the images; renders and held-out views do not.
    ``gain`` has the natural logarithms of a factor per channel; ``affine`` a matrix less the identity, row by row, and
    an offset (Kerbl et al. 2024, "A Hierarchical 3D Gaussian Representation", sec. 5.2). The mean over all images is
    taken out of the parameters before each use, so that it is the identity: what is common to all belongs to the field.

    Args:
        model: "gain" or "affine".
        views: V, number of training images.
        device: of the field.

    Attributes:
        table: [V, P], a leaf of autograd; `values` are what it stands for.
    """

    def __init__(self, model: Literal["gain", "affine"], views: int, device: torch.device) -> None:
        self.model = model
        self.table = torch.zeros(views, WIDTHS[model], device=device, requires_grad=True)

    def values(self) -> Tensor:
        """The parameters of all images, [V, P], whose mean is 0."""
        return self.table - self.table.mean(0)

    def penalty(self) -> Tensor:
        """What is added to a loss that is a mean over rays and channels, a scalar."""
        return PENALTY / 2 * self.values().square().sum(1).mean()

    def apply(
        self,
        rgb: Tensor,
        views: Tensor,
        transmittance: Tensor | None = None,
        background: Tensor | None = None,
    ) -> Tensor:
        """Colours of rays as the training images would show them; gradients by colours, transmittance and the table.

        Args:
            rgb: [R, 3].
            views: number of each ray's image, int64 [R].
            transmittance: [R], for colours composited onto a background, which is not transformed; None: they are not.
            background: [R, 3], given together with transmittance.

        Returns:
            [R, 3].
        """
        own = self.values().index_select(0, views)
        backdrop, cover = None, 1.0
        if transmittance is not None and background is not None:
            backdrop, cover = transmittance[:, None] * background, 1 - transmittance[:, None]
            rgb = rgb - backdrop
        if self.model == "gain":
            shown = rgb * own.exp()
        else:
            matrix, offset = own[:, :9].unflatten(1, (3, 3)), own[:, 9:]
            shown = rgb + (matrix * rgb[:, None]).sum(-1) + cover * offset
        return shown if backdrop is None else shown + backdrop
