"""World surfels to planes in the axes of one camera (Huang et al. 2024, "2D Gaussian Splatting")."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.primitives.surfels import Surfels
from luxel.render.reference.raster.blend_surfels import LOW_PASS
from luxel.render.reference.raster.project_gaussians import quat_to_matrix
from luxel.render.reference.raster.sh import sh_color

MAX_TILT = 0.9  # of the squared slope in depth of the region where alpha is at least 1/255


class SurfelPlanes(NamedTuple):
    """The V visible surfels of one camera, in the order of the surfels."""

    index: Tensor  # [V] which surfel
    mean2d: Tensor  # [V, 2] image of the centre, px
    depth: Tensor  # [V] z of the centre
    opacity: Tensor  # [V]
    centre: Tensor  # [V, 3] in the camera's axes
    tangents: Tensor  # [V, 2, 3] the axes times their standard deviations, in the camera's axes
    low: Tensor  # [V, 2] px, the box in which alpha reaches 1/255; no gradient
    high: Tensor  # [V, 2]
    rgb: Tensor  # [V, 3]
    normal: Tensor  # [V, 3] world space, towards the camera


def project_surfels_reference(
    surfels: Surfels, camera: Camera, *, sh_degree: int | None = None
) -> SurfelPlanes:
    """Brings surfels into the camera's axes and drops those that cannot be visible.

    Dropped are: z of the centre outside (near, far), opacity under 1/255, a region of alpha of at least 1/255 that is
    not well in front of the camera or outside of the image, and whatever is not finite. With m = 2 ln(255 opacity),
    this region is u^2 + v^2 <= m, whose least depth is z (1 - |q| sqrt(m)) with q = (t_u.z, t_v.z) / z;
    m |q|^2 must be below 0.9.
    Every guard is phrased so that NaN fails it; dropped surfels get gradients of exactly 0.

    Args:
        surfels: N surfels of any float type.
        camera: one camera without a lens; its tensors are used in the surfels' float type.
        sh_degree: degree to evaluate, None for all that is stored.
    """
    degree = surfels.sh_degree if sh_degree is None else min(sh_degree, surfels.sh_degree)
    with torch.no_grad():
        every = torch.arange(surfels.count, device=surfels.device)
        planes, sound = _project(surfels, every, camera, degree)
        size = planes.mean2d.new_tensor([camera.width, camera.height])
        visible = (
            sound
            & (planes.depth > camera.near)
            & (planes.depth < camera.far)
            & (planes.opacity >= 1 / 255)
            & (planes.low < size).all(-1)
            & (planes.high > 0).all(-1)
        )
    index = every[visible]
    return _project(surfels.select(index), index, camera, degree)[0]


def _project(surfels: Surfels, index: Tensor, camera: Camera, degree: int) -> tuple[SurfelPlanes, Tensor]:
    """All of the given surfels, and which of them came out finite and in front of the camera."""
    world_to_cam = camera.world_to_cam.to(surfels.means)
    rotation, translation = world_to_cam[:3, :3], world_to_cam[:3, 3]
    fx, fy, cx, cy = camera.intrinsics.to(surfels.means).unbind()
    axes = quat_to_matrix(surfels.quats)
    centre = surfels.means @ rotation.T + translation
    tangents = (axes[..., :2].mT @ rotation.T) * surfels.log_scales.exp()[..., None]
    x, y, z = centre.unbind(-1)
    mean2d = torch.stack([fx * x / z + cx, fy * y / z + cy], -1)
    opacity = surfels.opacity_logits.sigmoid()

    with torch.no_grad():
        reach = 2 * (255 * opacity).log()
        tilt = reach * (tangents[..., 2] / z[:, None]).square().sum(-1)
        low, high = _box(centre, tangents, reach, camera)
        radius = LOW_PASS * reach.sqrt()[:, None]  # of the low-pass filter
        low, high = low.minimum(mean2d - radius), high.maximum(mean2d + radius)

    offset = surfels.means + rotation.T @ translation
    color = sh_color(offset / offset.norm(dim=-1, keepdim=True), surfels.sh_dc, surfels.sh_rest, degree)
    normal = axes[..., 2]
    away = (normal * offset).sum(-1, keepdim=True) > 0
    normal = torch.where(away, -normal, normal)
    planes = SurfelPlanes(index, mean2d, z, opacity, centre, tangents, low, high, color.clamp_min(0), normal)
    numbers = torch.cat([mean2d, low, high, color, normal, z[:, None], opacity[:, None]], -1)
    area = torch.linalg.cross(tangents[:, 0], tangents[:, 1])
    edge_on = (area * centre).sum(-1) == 0
    return planes, numbers.isfinite().all(-1) & (tilt < MAX_TILT) & ~edge_on


def _box(centre: Tensor, tangents: Tensor, reach: Tensor, camera: Camera) -> tuple[Tensor, Tensor]:
    """The box around the image of the disc u^2 + v^2 <= reach, [V, 2] each, px.

    A line x = w of the image touches it where its plane through the camera is at the distance sqrt(reach) from the
    centre in (u, v): a quadratic equation for w.
    """
    fx, fy, cx, cy = camera.intrinsics.to(centre).unbind()
    z, slope = centre[:, 2], tangents[..., 2]
    sides: list[tuple[Tensor, Tensor]] = []
    for axis, focal, middle in ((0, fx, cx), (1, fy, cy)):
        p, q = centre[:, axis], tangents[..., axis]
        # (p - w z)^2 = reach |q - w slope|^2 for w = (pixel - middle) / focal
        a = z * z - reach * slope.square().sum(-1)
        b = p * z - reach * (q * slope).sum(-1)
        c = p * p - reach * q.square().sum(-1)
        root = (b * b - a * c).clamp_min(0).sqrt()
        sides.append(((b - root) / a * focal + middle, (b + root) / a * focal + middle))
    low, high = (torch.stack(each, -1) for each in zip(*sides, strict=True))
    return low, high
