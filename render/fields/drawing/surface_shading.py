"""Lighting and shading of the surface of a distance field."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import normalize

from luxel.render.ops.field.sphere_trace import Hits, Rays

LIFT = 2e-3  # above the surface where shadow rays start, in sides of the box


class Surface(Protocol):
    """The interface of a distance field for shading; see `luxel.render.fields.sdf.SdfField`."""

    def slopes(self, positions: Tensor, detail: int | None = None) -> Tensor:
        """Gradients of the distance at positions, [N, 3] to [N, 3]."""
        ...

    def trace(self, rays: Rays, tolerance: float = ..., widening: float = ...) -> Hits:
        """Intersections of rays with the surface."""
        ...


@dataclass
class SurfaceLook:
    """Matte material under a lamp at the camera, a sun and a sky; colours in [0, 1], sRGB.

    Args:
        colour: of the material.
        lamp: strength of the light from the camera.
        sun: strength of the light from ``sun_direction``, with shadows where ``shadows``.
        sun_direction: towards the sun.
        shadows: a second ray from each point to the sun.
        sky: strength of the light from above; half as strong from the sides.
        zenith, horizon: colours of the sky behind the surface.
        detail: of the normals, in cells along the unit box; see `SdfField.slopes`.
    """

    colour: tuple[float, float, float] = (0.86, 0.80, 0.72)
    lamp: float = 0.45
    sun: float = 0.0
    sun_direction: tuple[float, float, float] = (0.4, -0.5, 0.77)
    shadows: bool = False
    sky: float = 0.5
    zenith: tuple[float, float, float] = (0.60, 0.72, 0.90)
    horizon: tuple[float, float, float] = (0.94, 0.95, 0.96)
    detail: int | None = 512


def backdrop(rays: Rays, look: SurfaceLook, background: Tensor | None = None) -> Tensor:
    """Colours behind the surface, [M, 3].

    Args:
        rays: of a camera.
        look: its sky is used without a background.
        background: colour instead of the sky, [3].
    """
    assert rays.cam_to_unit is not None
    if background is None:
        return _sky(rays, look)
    return background.to(rays.cam_to_unit).expand(rays.count, 3).clone()


def shade_surface(field: Surface, rays: Rays, hits: Hits, look: SurfaceLook, image: Tensor) -> Tensor:
    """Colours of a camera's rays, [M, 3]; z is up.

    Args:
        field: the distance field that was traced.
        rays: of a camera.
        hits: where they met the surface.
        look: material and light.
        image: colours behind the surface, see `backdrop`; changed in place.
    """
    assert rays.cam_to_unit is not None
    if not len(hits.rays):
        return image
    x = hits.x
    normals = normalize(field.slopes(x, look.detail), dim=-1)
    to_eye = normalize(rays.cam_to_unit[:, 3] - x, dim=-1)
    facing = (normals * to_eye).sum(-1)
    normals = torch.where((facing < 0)[:, None], -normals, normals)  # visible from inside
    light = look.lamp * facing.abs() + look.sky * (0.5 + 0.5 * normals[:, 2])
    if look.sun > 0:
        towards = normalize(_constant(look.sun_direction, x.dtype, x.device), dim=0)
        sunny = look.sun * (normals @ towards).clamp(min=0)
        if look.shadows:
            start = torch.cat([x + LIFT * normals, towards.expand_as(x)], -1)
            sunny[field.trace(Rays(len(x), start.contiguous())).rays.long()] = 0
        light = light + sunny
    image[hits.rays.long()] = (light[:, None] * _constant(look.colour, x.dtype, x.device)).clamp(0, 1)
    return image


def _sky(rays: Rays, look: SurfaceLook) -> Tensor:
    """From the horizon to the zenith by the height of each ray's direction, [M, 3]."""
    assert rays.cam_to_unit is not None and rays.intrinsics is not None
    fx, fy, cx, cy = rays.intrinsics.unbind()
    scale = {"dtype": rays.cam_to_unit.dtype, "device": rays.cam_to_unit.device}
    across = (torch.arange(rays.width, **scale) + 0.5 - cx) / fx
    down = ((torch.arange(rays.count // rays.width, **scale) + 0.5 - cy) / fy)[:, None]
    # Only the third coordinate of the direction, to save memory.
    axis = normalize(rays.cam_to_unit[2, :3], dim=0)
    height = (axis[0] * across + (axis[1] * down + axis[2])) * (
        across.square() + (down.square() + 1)
    ).rsqrt_()
    up = height.clamp_(0, 1).sqrt_().view(-1, 1)
    horizon, zenith = (_constant(colour, up.dtype, up.device) for colour in (look.horizon, look.zenith))
    return torch.lerp(horizon[None], zenith[None], up)


@functools.lru_cache(maxsize=256)
def _constant(colour: tuple[float, float, float], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Three numbers on the device, [3]: stored, since sending them in each frame would wait for all work in flight."""
    return torch.tensor(colour, dtype=dtype, device=device)
