"""Which primitives lie in a region of space or of the screen, or have a property in a range: bool masks [N].

All functions take centres [N, 3] or a property [N] of the primitives and give false for what is not a number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.primitives import Parameters
from luxel.viewer.edit.outlines import within_polygon, within_stroke

Point = Sequence[float]
MAX_CORNERS = 10_000  # of a polygon or a stroke
HALF_COVERED = 0.5  # alpha from which on a pixel hides what lies behind it


def in_box(centres: Tensor, to_world: Tensor, half_sides: Point) -> Tensor:
    """Within a box, its surface included.

    Args:
        centres: [N, 3].
        to_world: axes of the box in the world as columns, unit length, and its centre, [3, 4].
        half_sides: half of its lengths along its axes, capture units, [3].
    """
    frame = to_world.to(centres)
    local = (centres - frame[:, 3]) @ frame[:, :3]
    return (local.abs() <= centres.new_tensor(half_sides)).all(-1)


def in_sphere(centres: Tensor, centre: Point, radius: float) -> Tensor:
    """Within a sphere, its surface included."""
    return (centres - centres.new_tensor(centre)).square().sum(-1) <= radius * radius


def above_plane(centres: Tensor, point: Point, normal: Point) -> Tensor:
    """On the side of a plane through ``point`` to which ``normal`` points."""
    return (centres - centres.new_tensor(point)) @ centres.new_tensor(normal) > 0


def in_range(values: Tensor, least: float, most: float) -> Tensor:
    """With a value [N] of at least ``least`` and at most ``most``."""
    return (values >= least) & (values <= most)


def near_colour(colours: Tensor, rgb: Point, distance: float) -> Tensor:
    """With a colour [N, 3] at a Euclidean distance of at most ``distance`` from ``rgb``, both in [0, 1]."""
    return (colours.clamp(0, 1) - colours.new_tensor(rgb)).square().sum(-1) <= distance * distance


def visible_at(scene: Parameters, point: Point) -> Tensor:
    """The one primitive that is most opaque at a point of the world, as if each were a ball of its size."""
    mask = torch.zeros(scene.count, dtype=torch.bool, device=scene.device)
    if scene.count:
        apart = (scene.centres - scene.centres.new_tensor(point)).square().sum(-1)
        weight = scene.opacities.log() - apart / (2 * scene.sizes.square())
        mask[weight.nan_to_num(-torch.inf, -torch.inf, -torch.inf).argmax()] = True
    return mask


class ScreenPoints:
    """Centres on the screen of one camera.

    Args:
        centres: [N, 3], world coordinates.
        camera: one camera, on their device.
        depth: z of what is visible, [h, w] in any resolution, 0 where nothing is; None: all centres count, hidden ones
            too.
        tolerance: how far behind the depth a centre still counts as seen, as a fraction of the depth.
    """

    def __init__(
        self, centres: Tensor, camera: Camera, depth: Tensor | None = None, tolerance: float = 0.02
    ) -> None:
        pose = camera.world_to_cam.to(centres)
        x, y, z = pose[:3, :3] @ centres.T + pose[:3, 3:4]
        fx, fy, cx, cy = camera.intrinsics.tolist()
        self.x, self.y = x.div_(z).mul_(fx).add_(cx), y.div_(z).mul_(fy).add_(cy)
        self.counts = (z > camera.near) & (z < camera.far)
        if depth is not None:
            self.counts &= self._visible(z, depth, depth.shape[1] / camera.width, tolerance)

    def _visible(self, z: Tensor, depth: Tensor, scale: float, tolerance: float) -> Tensor:
        """Centres that are not behind the depth, whose pixels are 1 / ``scale`` pixels of the camera wide."""
        height, width = depth.shape
        column, row = (
            (scale * v).nan_to_num(-1.0, -1.0, -1.0).clamp(-1, size).floor().long()
            for v, size in ((self.x, width), (self.y, height))
        )
        inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
        front = depth[row.clamp(0, height - 1), column.clamp(0, width - 1)]
        return inside & ((front <= 0) | (z <= front * (1 + tolerance)))

    def in_rectangle(self, left: float, top: float, right: float, bottom: float) -> Tensor:
        """Within a rectangle of the screen, pixels."""
        return self.counts & (self.x >= left) & (self.x <= right) & (self.y >= top) & (self.y <= bottom)

    def in_polygon(self, corners: Sequence[Point]) -> Tensor:
        """Within a closed polygon of the screen, by the even-odd rule.

        Args:
            corners: x, y in pixels, at least three.

        Raises:
            ValueError: there are fewer corners than three, or too many.
        """
        if not 3 <= len(corners) <= MAX_CORNERS:
            raise ValueError(f"corners must be 3 to {MAX_CORNERS}, got {len(corners)}")
        return self._within(corners, 0.0, lambda x, y: within_polygon(x, y, corners))

    def near_stroke(self, points: Sequence[Point], radius: float) -> Tensor:
        """Within ``radius`` pixels of a line through points of the screen.

        Args:
            points: x, y in pixels, at least one.
            radius: pixels.

        Raises:
            ValueError: there are no points, or too many.
        """
        if not 1 <= len(points) <= MAX_CORNERS:
            raise ValueError(f"points must be 1 to {MAX_CORNERS}, got {len(points)}")
        return self._within(points, radius, lambda x, y: within_stroke(x, y, points, radius))

    def _within(
        self, points: Sequence[Point], margin: float, test: Callable[[Tensor, Tensor], Tensor]
    ) -> Tensor:
        """The result of a test of the centres within the bounds of points, bool [N]."""
        columns, lines = [p[0] for p in points], [p[1] for p in points]
        mask = self.in_rectangle(
            min(columns) - margin, min(lines) - margin, max(columns) + margin, max(lines) + margin
        )
        rows = mask.nonzero()[:, 0]
        if len(rows):
            mask[rows] = test(self.x[rows], self.y[rows])
        return mask
