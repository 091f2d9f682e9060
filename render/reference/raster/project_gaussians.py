"""World Gaussians to screen splats for one camera: EWA (Zwicker et al. 2002), behind a lens by sigma points."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.geometry.lens import FISHEYE, LIMIT, MODEL, image_through
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.primitives.parameters import Parameters
from luxel.render.reference.raster.sh import sh_color

MIN_DEPTH = 0.25  # of a sigma point of a radial lens, as a share of the depth of the centre


class Splats(NamedTuple):
    """The V visible splats of one camera, in the order of the Gaussians."""

    index: Tensor  # [V] which Gaussian
    mean2d: Tensor  # [V, 2] x, y in px
    depth: Tensor  # [V] z in the camera's axes; of a fisheye the distance
    opacity: Tensor  # [V] after compensation
    conic: Tensor  # [V, 3] a, b, c: the exponent is -(a dx^2 + c dy^2) / 2 - b dx dy
    half_extent: Tensor  # [V, 2] px, of the box in which alpha reaches 1/255; no gradient
    rgb: Tensor  # [V, 3]
    normal: Tensor  # [V, 3] world space, towards the camera


class Ellipsoids(NamedTuple):
    """N Gaussians in world space, from any parameters."""

    means: Tensor  # [N, 3]
    root: Tensor  # [N, 3, K] of the covariance, which is root root^T
    opacity: Tensor  # [N] before compensation
    normal: Tensor  # [N, 3] the shortest axis, of either sign
    sh_dc: Tensor  # [N, 3]
    sh_rest: Tensor  # [N, K - 1, 3]


Given = TypeVar("Given", bound=Parameters)


def project_gaussians_reference(
    gaussians: Gaussians,
    camera: Camera,
    *,
    sh_degree: int | None = None,
    antialiased: bool = False,
    dilation: float = 0.3,
) -> Splats:
    """Projects Gaussians and drops those that cannot be visible.

    Dropped are: z outside (near, far), opacity under 1/255, a box outside of the image, and whatever is not
    finite. Every guard is phrased so that NaN fails it; dropped Gaussians get gradients of exactly 0.

    Args:
        gaussians: N Gaussians of any float type.
        camera: one camera; its tensors are used in the Gaussians' float type.
        sh_degree: degree to evaluate, None for all that is stored.
        antialiased: multiply opacity by sqrt(det(cov) / det(cov + dilation)) (Mip-Splatting, Yu et al. 2024).
        dilation: px^2 added to the diagonal of the 2D covariance.
    """
    return project_ellipsoids_reference(
        gaussians, ellipsoids, camera, sh_degree=sh_degree, antialiased=antialiased, dilation=dilation
    )


def ellipsoids(g: Gaussians) -> Ellipsoids:
    """The root R S of the covariance of each Gaussian, and the axis of its smallest scale."""
    axes = quat_to_matrix(g.quats)
    root = axes * g.log_scales.exp()[:, None, :]
    smallest = g.log_scales.argmin(-1)
    normal = axes.gather(2, smallest[:, None, None].expand(-1, 3, 1))[..., 0]
    return Ellipsoids(g.means, root, g.opacity_logits.sigmoid(), normal, g.sh_dc, g.sh_rest)


def project_ellipsoids_reference(
    given: Given,
    shape: Callable[[Given], Ellipsoids],
    camera: Camera,
    *,
    sh_degree: int | None,
    antialiased: bool,
    dilation: float,
) -> Splats:
    """Projects what ``shape`` makes of ``given``; the rest is as in `project_gaussians_reference`."""
    degree = given.sh_degree if sh_degree is None else min(sh_degree, given.sh_degree)
    with torch.no_grad():
        every = torch.arange(given.count, device=given.device)
        splats, finite = _project(shape(given), every, camera, degree, antialiased, dilation)
        low, high = splats.mean2d - splats.half_extent, splats.mean2d + splats.half_extent
        size = splats.mean2d.new_tensor([camera.width, camera.height])
        visible = (
            finite
            & (splats.depth > camera.near)
            & (splats.depth < camera.far)
            & (splats.opacity >= 1 / 255)
            & (low < size).all(-1)
            & (high > 0).all(-1)
        )
    index = every[visible]
    return _project(shape(given.select(index)), index, camera, degree, antialiased, dilation)[0]


def _project(
    e: Ellipsoids, index: Tensor, camera: Camera, degree: int, antialiased: bool, dilation: float
) -> tuple[Splats, Tensor]:
    """All of the given Gaussians as splats, and which of them came out finite."""
    world_to_cam = camera.world_to_cam.to(e.means)
    rotation, translation = world_to_cam[:3, :3], world_to_cam[:3, 3]
    in_camera = e.means @ rotation.T + translation
    within = torch.ones_like(e.opacity, dtype=torch.bool)
    if camera.shutter is not None:
        before = in_camera[:, 2] if camera.lens is None else depth_and_coverage(in_camera, camera)[0]
        within = (before > camera.near) & (before < camera.far)
        if camera.lens is not None:
            within = within & depth_and_coverage(in_camera, camera)[1]
        in_camera = roll_reference(in_camera, camera)
    depth = in_camera[:, 2]
    if camera.lens is None:
        mean2d, cov2d = _by_jacobian(in_camera, rotation @ e.root, camera)
    else:
        mean2d, cov2d = _by_sigma_points(in_camera, rotation @ e.root, camera)
        depth, inside = depth_and_coverage(in_camera, camera)
        within = within & inside
    plain_xx, xy, plain_yy = cov2d[:, 0, 0], cov2d[:, 0, 1], cov2d[:, 1, 1]
    xx, yy = plain_xx + dilation, plain_yy + dilation
    det = xx * yy - xy * xy
    conic = torch.stack([yy, -xy, xx], -1) / det[:, None]

    opacity = e.opacity
    if antialiased:
        share = (plain_xx * plain_yy - xy * xy) / det
        positive = share > 0
        opacity = opacity * torch.where(positive, torch.where(positive, share, 1.0).sqrt(), 0.0)
    reach = 2 * (255 * opacity.detach()).log()
    half_extent = (reach[:, None] * torch.stack([xx, yy], -1).detach()).clamp_min(0).sqrt()

    position = -(rotation.T @ translation)
    offset = e.means - position
    color = sh_color(offset / offset.norm(dim=-1, keepdim=True), e.sh_dc, e.sh_rest, degree)
    away = (e.normal * offset).sum(-1, keepdim=True) > 0
    normal = torch.where(away, -e.normal, e.normal)

    splats = Splats(index, mean2d, depth, opacity, conic, half_extent, color.clamp_min(0), normal)
    parts = [mean2d, conic, half_extent, color, normal, depth[:, None], opacity[:, None], det[:, None]]
    return splats, torch.cat(parts, -1).isfinite().all(-1) & (det > 0) & within


def roll_reference(in_camera: Tensor, camera: Camera) -> Tensor:
    """Points where they are when their rows are read, [N, 3]; see `luxel.render.geometry.shutter`."""
    assert camera.shutter is not None
    linear, angular, direction = camera.shutter.to(in_camera).split((3, 3, 2))
    velocity = linear + torch.linalg.cross(angular.expand_as(in_camera), in_camera)
    size = in_camera.new_tensor([camera.width, camera.height])
    least = MIN_DEPTH * in_camera[:, 2]

    def time_of(points: Tensor) -> Tensor:
        shown = _image_of(points, camera, least) / size - 0.5
        return (shown * direction.detach()).sum(-1, keepdim=True).clamp(-0.5, 0.5)

    return in_camera + time_of(in_camera + time_of(in_camera) * velocity) * velocity


def _image_of(points: Tensor, camera: Camera, least: Tensor) -> Tensor:
    """Pixels of points in camera axes, [N, 2]."""
    intrinsics = camera.intrinsics.to(points)
    if camera.lens is None:
        shown = points[:, :2] / points[:, 2:]
    else:
        shown = torch.stack(image_through(camera.lens.to(points), *points.unbind(-1), min_depth=least), -1)
    return shown * intrinsics[:2] + intrinsics[2:]


def _by_jacobian(in_camera: Tensor, root: Tensor, camera: Camera) -> tuple[Tensor, Tensor]:
    """Means [N, 2] and covariances [N, 2, 2] on the screen of a pinhole (EWA)."""
    fx, fy, cx, cy = camera.intrinsics.to(in_camera).unbind()
    x, y, z = in_camera.unbind(-1)
    covariance = root @ root.mT
    # The Jacobian of the projection is taken inside of a widened image, or it explodes far outside of the view.
    margin_x, margin_y = 0.15 * camera.width / fx, 0.15 * camera.height / fy
    u = (x / z).clamp(-(cx / fx + margin_x), (camera.width - cx) / fx + margin_x)
    v = (y / z).clamp(-(cy / fy + margin_y), (camera.height - cy) / fy + margin_y)
    zero = torch.zeros_like(z)
    jacobian = torch.stack(
        [torch.stack([fx / z, zero, -fx * u / z], -1), torch.stack([zero, fy / z, -fy * v / z], -1)], 1
    )
    return torch.stack([fx * x / z + cx, fy * y / z + cy], -1), jacobian @ covariance @ jacobian.mT


def _by_sigma_points(in_camera: Tensor, root: Tensor, camera: Camera) -> tuple[Tensor, Tensor]:
    """The same behind a lens: those of the images of 2 K sigma points (Wu et al. 2025, "3DGUT"), which weigh alike."""
    assert camera.lens is not None
    fx, fy, cx, cy = camera.intrinsics.to(in_camera).unbind()
    offsets = root.shape[-1] ** 0.5 * root.mT
    points = in_camera[:, None] + torch.cat([offsets, -offsets], 1)
    least = MIN_DEPTH * in_camera[:, None, 2]
    u, v = image_through(camera.lens.to(in_camera), *points.unbind(-1), min_depth=least)
    images = torch.stack([fx * u + cx, fy * v + cy], -1)
    mean = images.mean(1)
    away = images - mean[:, None]
    return mean, away.mT @ away / away.shape[1]


def depth_and_coverage(in_camera: Tensor, camera: Camera) -> tuple[Tensor, Tensor]:
    """Depths of points (distances of a fisheye), and whether they are within the limit of the lens, [N] each."""
    assert camera.lens is not None
    lens, z = camera.lens.to(in_camera), in_camera[:, 2]
    if float(lens[MODEL]) == FISHEYE:
        distance = in_camera.norm(dim=-1)
        return distance, z > distance * lens[LIMIT].cos()
    return z, (z > 0) & (in_camera[:, :2].square().sum(-1) < (lens[LIMIT] * z) ** 2)


def quat_to_matrix(quats: Tensor) -> Tensor:
    """Rotation matrices of quaternions wxyz of any length but 0, [N, 4] to [N, 3, 3]."""
    w, x, y, z = (quats / quats.norm(dim=-1, keepdim=True)).unbind(-1)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return torch.stack([torch.stack(row, -1) for row in rows], 1)
