"""Exposure and white balance of each training image: a colour transform between the scene and the photograph."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from luxel.render.ops.train.view_exposure import view_exposure
from luxel.render.train.views.table import ViewTable

ExposureModel = Literal["none", "gain", "affine"]
WIDTHS = {"gain": 3, "affine": 12}  # parameters per image
RATE, FINAL = 0.02, 0.05


class Exposure:
    """A colour transform per training image, learnt beside the scene by the same loss.

    The render of a training view passes it before it is compared with the photograph; held-out views, the viewer and
    exported scenes do not. ``gain`` has a factor per channel, as an exposure time and a white balance act; ``affine`` a
    matrix and an offset (Kerbl et al. 2024, "A Hierarchical 3D Gaussian Representation", sec. 5.2). The mean of all
    images' parameters is 0, the identity: what is common to all belongs to the scene.

    Args:
        model: "gain" or "affine".
        views: number of training views.
        device: of the scene.

    Attributes:
        table: the parameters of all views, [V, 3] natural logarithms of factors, or [V, 12]: matrix less the identity,
            row by row, and offset.
    """

    def __init__(self, model: ExposureModel, views: int, device: torch.device) -> None:
        self.model = model
        self.table = ViewTable("exposure", views, WIDTHS[model], RATE, FINAL, device)

    def apply(
        self,
        image: Tensor,
        parameters: Tensor,
        transmittance: Tensor | None = None,
        background: Tensor | None = None,
    ) -> Tensor:
        """Images as the photographs would show them.

        Args:
            image: rendered, [B, H, W, 3].
            parameters: of their views, [B, P].
            transmittance: [B, H, W]: the background behind the scene keeps its colour; None: there is none to keep.
            background: [B, 3]; without ``transmittance`` it has no part in it.

        Returns:
            [B, H, W, 3].
        """
        return view_exposure(image, parameters, transmittance, background)

    def backward(
        self,
        g_shown: Tensor,
        image: Tensor,
        parameters: Tensor,
        transmittance: Tensor | None = None,
        background: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Gradients by image, parameters and transmittance (None without one), from that by what `apply` gave."""
        inputs = image, parameters, transmittance, background
        g_image, g_parameters, g_through = torch.ops.luxel.view_exposure_bwd(g_shown, *inputs)
        return g_image, g_parameters, None if transmittance is None else g_through
