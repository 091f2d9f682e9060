"""The losses of the geometry in a step without autograd: from blended channels to their gradients."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from luxel.render.ops.raster.blend_splats import Blended
from luxel.render.primitives.parameters import Parameters, Projected, Viewing
from luxel.render.primitives.planes import PlaneGradients, plane_gradients, with_planes
from luxel.render.primitives.spec import GeometryImages, PrimitiveSpec


def measured(projected: Projected, scene: Parameters, view: Viewing) -> Projected:
    """The projection with all channels that the losses use: of planar primitives with distances of planes."""
    return with_planes(projected, scene, view.world_to_cam) if scene.planar else projected


def without_planes(
    projected: Projected, scene: Parameters, view: Viewing, g_values: Tensor
) -> PlaneGradients | None:
    """Gradients through the channel that `measured` has added; None where it adds none."""
    return plane_gradients(projected, scene, view.world_to_cam, g_values) if scene.planar else None


def geometry_gradients(
    spec: PrimitiveSpec,
    loss: object,
    scalars: Mapping[float, Tensor],
    blended: Blended,
    photographs: tuple[Tensor, Tensor | None],
    view: Viewing,
    names: tuple[str, ...],
) -> tuple[Tensor, Tensor]:
    """Gradients of the terms of the geometry by the channels after the colours [B, H, W, 5] and by the transmittance.

    Args:
        spec: of the primitive.
        loss: options with the weights.
        scalars: the weights on the device.
        blended: images of colours and of the channels of `measured`.
        photographs: of B views, [B, H, W, 3], and the weights of their pixels, [B, H, W] or None.
        view: their cameras.
        names: of the terms, see `PrimitiveEngine.geometry`.
    """
    with torch.enable_grad():
        more = blended.image[..., 3:].detach().requires_grad_()
        transmittance = blended.transmittance.detach().requires_grad_()
        planar = spec.engine.parameters.planar
        images = GeometryImages(
            depth=more[..., 0],
            square=None if planar else more[..., 1],
            normals=more[..., 1:4] if planar else more[..., 2:],
            transmittance=transmittance,
            weight=photographs[1],
            world_to_cam=view.world_to_cam,
            intrinsics=view.intrinsics,
            distance=more[..., 4] if planar else None,
            rgb=photographs[0],
        )
        terms = spec.engine.geometry(images, loss, names)
    values, seeds = [value for _, value in terms], [scalars[weight] for weight, _ in terms]
    g_more, g_transmittance = torch.autograd.grad(values, [more, transmittance], seeds)
    return g_more, g_transmittance
