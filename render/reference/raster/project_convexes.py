"""World convexes to convex polygons on the screen (Held et al. 2025, "3D Convex Splatting"), for one camera."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.primitives.convexes import Convexes
from luxel.render.reference.raster.sh import sh_color

MIN_DEPTH = 0.2  # capture units; nearer centroids are not rendered
MAX_SPREAD = 1e4  # px; nor are convexes with a point farther than this from the centroid on the screen


class ConvexSplats(NamedTuple):
    """The V visible convexes of one camera, in the order of the convexes.

    Edge j of M goes from corner j to the next around the polygon, with x right and y down clockwise to the eye. Its
    normal (b.y - a.y, a.x - b.x) points outwards and is as long as the edge: L_j(q) = normal . (q - a) is negative
    inside.
    """

    index: Tensor  # [V] which convex
    center2d: Tensor  # [V, 2] px, the centroid on the screen; no gradient
    depth: Tensor  # [V] z of the centroid in the camera's axes
    opacity: Tensor  # [V] after the mask
    corners: Tensor  # [V, K, 2] px, those of the polygon first
    normals: Tensor  # [V, K, 2] px, 0 where there is no edge
    edges: Tensor  # [V] M, 3..K
    delta: Tensor  # [V] smoothness times depth
    sigma: Tensor  # [V] sharpness times depth
    reach: Tensor  # [V] alpha is below 1/255 wherever an L_j is above this; no gradient
    low: Tensor  # [V, 2] px, least corner of the box in which alpha may reach 1/255; no gradient
    high: Tensor  # [V, 2] px, its greatest corner; no gradient
    rgb: Tensor  # [V, 3]
    margin: Tensor  # [V] relative distance of the polygon from one with other corners; no gradient


def project_convexes_reference(
    convexes: Convexes, camera: Camera, *, sh_degree: int | None = None
) -> ConvexSplats:
    """Projects convexes and drops those that cannot be visible.

    Dropped are: a centroid with z outside (max(0.2, near), far), a point at z <= near, a point over 10,000 px from
    the centroid on the screen, points whose hull on the screen has fewer than three edges, opacity after the mask
    under 1/255, a box outside of the image, and whatever is not finite. Dropped convexes get gradients of exactly 0.

    No gradient passes through the factor z of delta and sigma, nor through the choice of the corners; so points
    inside of the polygon have only that of the colour, by the direction to the centroid.

    Bounds: with l = ln(255 opacity - 1) / (z^2 delta sigma), alpha is below 1/255 wherever an L_j is above l, since
    phi >= z delta max_j L_j. The box is the exact one of the polygon {q: L_j(q) <= l for all j}.

    Args:
        convexes: N convexes of any float type.
        camera: one camera; its tensors are used in the convexes' float type.
        sh_degree: degree to evaluate, None for all that is stored.
    """
    degree = convexes.sh_degree if sh_degree is None else min(sh_degree, convexes.sh_degree)
    with torch.no_grad():
        every = torch.arange(convexes.count, device=convexes.device)
        splats, sound = _project(convexes, every, camera, degree)
        size = splats.low.new_tensor([camera.width, camera.height])
        visible = (
            sound
            & (splats.depth > max(MIN_DEPTH, camera.near))
            & (splats.depth < camera.far)
            & (splats.opacity >= 1 / 255)
            & (splats.low < size).all(-1)
            & (splats.high > 0).all(-1)
        )
    index = every[visible]
    return _project(convexes.select(index), index, camera, degree)[0]


def _project(convexes: Convexes, index: Tensor, camera: Camera, degree: int) -> tuple[ConvexSplats, Tensor]:
    """All of the given convexes as splats, and which of them have a polygon and came out finite."""
    world_to_cam = camera.world_to_cam.to(convexes.points)
    fx, fy, cx, cy = camera.intrinsics.to(convexes.points).unbind()
    rotation, translation = world_to_cam[:3, :3], world_to_cam[:3, 3]
    centroids = convexes.centroids
    focal, principal = torch.stack([fx, fy]), torch.stack([cx, cy])

    def project(positions: Tensor) -> tuple[Tensor, Tensor]:
        local = positions @ rotation.T + translation
        return local[..., :2] / local[..., 2:] * focal + principal, local[..., 2]

    points2d, depths = project(convexes.points)
    center2d, z = project(centroids)
    center2d, scale = center2d.detach(), z.detach()
    order, edges = hull2d(points2d.detach())
    corners = points2d.gather(1, order[..., None].expand(-1, -1, 2))
    column = torch.arange(corners.shape[1], device=corners.device)
    real = column < edges[:, None]
    following = torch.where(column + 1 < edges[:, None], column + 1, 0)
    step = corners.gather(1, following[..., None].expand(-1, -1, 2)) - corners
    normals = torch.where(real[..., None], torch.stack([step[..., 1], -step[..., 0]], -1), 0.0)

    opacity = convexes.opacities * convexes.masks
    delta, sigma = scale * convexes.deltas, scale * convexes.sigmas
    with torch.no_grad():
        reach = ((255 * opacity - 1).log() / (delta * sigma)).clamp(-1e15, 1e15)
        low, high = _box(corners, normals, real, reach, center2d)
        margin = _hull_margin(points2d, order, corners, normals, real)
        spread = (points2d - center2d[:, None]).norm(dim=-1).amax(-1)
    position = -(rotation.T @ translation)
    offset = centroids - position
    direction = offset / offset.norm(dim=-1, keepdim=True)
    color = sh_color(direction, convexes.sh_dc, convexes.sh_rest, degree)

    splats = ConvexSplats(
        index=index,
        center2d=center2d,
        depth=z,
        opacity=opacity,
        corners=corners,
        normals=normals,
        edges=edges,
        delta=delta,
        sigma=sigma,
        reach=reach,
        low=low,
        high=high,
        rgb=color.clamp_min(0),
        margin=margin,
    )
    parts = [points2d.flatten(1), center2d, color, torch.stack([z, opacity, delta, sigma], -1)]
    finite = torch.cat(parts, -1).isfinite().all(-1)
    return splats, finite & (edges >= 3) & (depths > camera.near).all(-1) & (spread <= MAX_SPREAD)


@torch.no_grad()
def hull2d(points: Tensor) -> tuple[Tensor, Tensor]:
    """The convex hull of each set of points in the plane, by Graham's scan.

    The pivot has the least y, among those the least x. The others are visited by their angle about it, nearer ones
    first where angles are equal; a corner is taken back while the cross product of the last two edges is <= 0. The
    last corners are tested against the pivot likewise. So corners on an edge and points that occur twice drop out.

    Args:
        points: [N, K, 2].

    Returns:
        order [N, K], which points are the corners, in the order of the scan, filled up with the pivot; edges [N],
        how many corners there are: below 3 where all points lie on a line, undefined where one is not finite.
    """
    n, k = points.shape[:2]
    if n == 0:
        return points.new_zeros(0, k, dtype=torch.long), points.new_zeros(0, dtype=torch.long)
    x, y = points.unbind(-1)
    lowest = y == y.amin(-1, keepdim=True)
    pivot = torch.where(lowest, x, torch.inf).argmin(-1, keepdim=True)
    from_pivot = points - points.gather(1, pivot[..., None].expand(-1, -1, 2))
    dx, dy = from_pivot.unbind(-1)
    # Grows with the angle from -1 to 1, and is the same for points in line: quotients are correctly rounded.
    angle = -dx / (dx.abs() + dy)
    angle = torch.where((dx == 0) & (dy == 0), -2.0, angle)
    angle = angle.scatter(1, pivot, -3.0)  # before others at the same place
    by_distance = (dx * dx + dy * dy).sort(dim=-1, stable=True).indices
    order = by_distance.gather(1, angle.gather(1, by_distance).sort(dim=-1, stable=True).indices)

    rows = torch.arange(n, device=points.device)
    stack, size = order[:, :1].repeat(1, k + 1), torch.ones(n, dtype=torch.long, device=points.device)

    def turns_back(candidate: Tensor) -> Tensor:
        last, before = stack[rows, size - 1], stack[rows, (size - 2).clamp_min(0)]
        a, b, c = points[rows, before], points[rows, last], points[rows, candidate]
        u, v = b - a, c - b
        return (size >= 2) & (u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0] <= 0)

    for i in range(1, k + 1):
        candidate = order[:, i % k]  # after the last, the pivot: the polygon closes
        while (back := turns_back(candidate)).any():
            size = size - back.long()
        if i < k:
            stack[rows, size] = candidate
            size = size + 1
    column = torch.arange(k, device=points.device)
    return torch.where(column < size[:, None], stack[:, :k], order[:, :1]), size


def _box(
    corners: Tensor, normals: Tensor, real: Tensor, reach: Tensor, center: Tensor
) -> tuple[Tensor, Tensor]:
    """The box of the polygons {q: normal_j . (q - corner_j) <= reach}, least and greatest corner, [V, 2] each.

    How far a polygon extends along u is, by the duality of linear programs, the least alpha c_i + beta c_j over the
    pairs of edges with u = alpha normal_i + beta normal_j and alpha, beta >= 0, where normal . q <= c are the edges.
    """
    c = (normals * (corners - center[:, None])).sum(-1) + reach[:, None]
    (xi, yi), (xj, yj) = normals[:, :, None].unbind(-1), normals[:, None].unbind(-1)
    det = xi * yj - yi * xj
    pairs = real[:, :, None] & real[:, None] & (det > 0)
    extents = []
    for ux, uy in ((-1, 0), (0, -1), (1, 0), (0, 1)):
        alpha, beta = (ux * yj - uy * xj) / det, (xi * uy - yi * ux) / det
        bound = torch.where(
            pairs & (alpha >= 0) & (beta >= 0), alpha * c[:, :, None] + beta * c[:, None], torch.inf
        )
        extents.append(bound.flatten(1).amin(-1))
    left, top, right, bottom = extents
    return center - torch.stack([left, top], -1), center + torch.stack([right, bottom], -1)


def _hull_margin(points: Tensor, order: Tensor, corners: Tensor, normals: Tensor, real: Tensor) -> Tensor:
    """The least of: distances of other points from the polygon, relative to its longest edge; sines at its corners.

    Where it is 0 the indicator jumps: an edge that a point divides in two is another edge, since edges weigh by their
    lengths.
    """
    length = normals.norm(dim=-1)
    unit = normals / torch.where(real, length, 1.0)[..., None]
    depth = -(unit[:, None] * (points[:, :, None] - corners[:, None])).sum(-1)  # [V, K points, K edges]
    depth = torch.where(real[:, None], depth, torch.inf).amin(-1) / length.amax(-1, keepdim=True)
    is_corner = torch.zeros_like(real).scatter(1, order, real) | torch.zeros_like(real).scatter(
        1, order[:, :1], True
    )
    # Edge j - 1 ends where edge j begins; the last real one stands before the first.
    count = real.sum(-1, keepdim=True)
    column = torch.arange(real.shape[1], device=real.device).expand_as(real)
    previous = torch.where(column == 0, count - 1, column - 1).clamp_min(0)
    before = unit.gather(1, previous[..., None].expand(-1, -1, 2))
    sine = before[..., 0] * unit[..., 1] - before[..., 1] * unit[..., 0]
    parts = [torch.where(is_corner, torch.inf, depth), torch.where(real, sine, torch.inf)]
    return torch.cat(parts, -1).amin(-1)
