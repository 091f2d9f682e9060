"""The channel of planes in a step without autograd, and the gradients through it."""

from __future__ import annotations

from torch import Tensor

from luxel.render.primitives.parameters import Parameters, Projected, Viewing
from luxel.render.primitives.planes import PlaneGradients, plane_gradients, with_planes


def measured(projected: Projected, scene: Parameters, view: Viewing) -> Projected:
    """The projection with all channels that the losses use: of planar primitives with distances of planes."""
    return with_planes(projected, scene, view.world_to_cam) if scene.planar else projected


def without_planes(
    projected: Projected, scene: Parameters, view: Viewing, g_values: Tensor
) -> PlaneGradients | None:
    """Gradients through the channel that `measured` has added; None where it adds none."""
    return plane_gradients(projected, scene, view.world_to_cam, g_values) if scene.planar else None
