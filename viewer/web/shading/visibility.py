"""How many training views see the surface point behind each pixel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera
from luxel.render.geometry.lens import project_points
from luxel.viewer.web.shading.legend import Caption, Legend, false_colour, spread

TOLERANCE = 0.02  # relative depth by which a point may lie behind what a view sees and still be visible
PAIRS_CPU = 2_000_000  # (pixel, view) pairs of an image, at most; of more, every Nth pixel is counted
PAIRS_GPU = 200_000_000
COUNTS = np.array(
    [[215, 40, 50], [245, 150, 50], [240, 220, 110], [90, 190, 140], [60, 140, 230]], np.float32
)


@dataclass(frozen=True)
class DepthMap:
    """What a training view sees.

    Args:
        camera: of the map, on its device.
        farthest: largest depth of the four pixels around each corner of pixels, infinite where a pixel is empty,
            [H + 1, W + 1], capture units.
    """

    camera: Camera
    farthest: Tensor

    @staticmethod
    def of(camera: Camera, depth: Tensor) -> DepthMap:
        """The map of a rendered depth [H, W], 0 where a pixel is empty."""
        filled = torch.where(depth > 0, depth, torch.inf)
        pooled = torch.nn.functional.max_pool2d(filled[None, None], 2, 1, padding=1)[0, 0]
        return DepthMap(camera.to(depth.device), pooled)


@dataclass(frozen=True)
class VisibilityCount:
    """Numbers of views.

    Args:
        counts: views that see a point, int32 [P].
        views: views that were counted.
        expected: views that there are; more than ``views`` while depth maps are being rendered.
    """

    counts: Tensor
    views: int
    expected: int


class VisibilityCounter(Protocol):
    """Counts the training views that see points; see `luxel.viewer.web.inspection.coverage.Coverage`."""

    @property
    def views(self) -> int:
        """How many views are counted."""
        ...

    def count(self, points: Tensor) -> VisibilityCount:
        """The views that see points, [P, 3] in world coordinates."""
        ...


@dataclass(frozen=True)
class VisibilityFrame:
    """A frame with the views that see its pixels.

    Args:
        rgb, alpha, depth: of the frame.
        seen: number of views, float [H, W]; NaN where the pixel has no surface.
        views, expected: as in `VisibilityCount`.
    """

    rgb: Tensor
    alpha: Tensor
    depth: Tensor
    seen: Tensor
    views: int
    expected: int


def count_views(points: Tensor, maps: list[DepthMap]) -> Tensor:
    """How many of the views see points: within the image, in front, and not behind what the view sees.

    Args:
        points: world coordinates, [P, 3].
        maps: of the views.

    Returns:
        int32 [P].
    """
    counts = torch.zeros(len(points), dtype=torch.int32, device=points.device)
    for each in maps:
        camera = each.camera
        pixels, depth, imaged = project_points(camera, points)
        u, v = pixels.unbind(-1)
        inside = imaged & (u >= 0) & (u < camera.width) & (v >= 0) & (v < camera.height)
        column = (u + 0.5).nan_to_num(0.0).clamp(0, camera.width).long()
        row = (v + 0.5).nan_to_num(0.0).clamp(0, camera.height).long()
        counts += inside & (depth <= (1 + TOLERANCE) * each.farthest[row, column])
    return counts


def surface_depth(frame: Any) -> Tensor:
    """Depth of the surface behind each pixel, [H, W], capture units; 0 where a pixel is emptier than one half."""
    median = getattr(frame, "median_depth", None)
    depth = frame.depth if median is None else median
    return depth * (frame.alpha >= 0.5)


def unproject(depth: Tensor, camera: Camera, step: int) -> Tensor:
    """World coordinates of every Nth pixel of a depth image [H, W], [h, w, 3].

    Args:
        depth: along the optical axis, capture units.
        camera: of the image.
        step: N; the pixel in the middle of each block of N x N is taken.
    """
    fx, fy, cx, cy = camera.intrinsics.to(depth).unbind()
    rows = torch.arange(step // 2, depth.shape[0], step, device=depth.device)
    columns = torch.arange(step // 2, depth.shape[1], step, device=depth.device)
    z = depth[rows][:, columns]
    x = (columns + 0.5 - cx) / fx * z
    y = ((rows + 0.5 - cy) / fy)[:, None] * z
    pose = camera.cam_to_world.to(depth)
    return torch.stack([x, y, z], -1) @ pose[:3, :3].T + pose[:3, 3]


def count_visible(frame: Any, camera: Camera, counter: VisibilityCounter | None) -> VisibilityFrame:
    """A frame with the number of training views that see each pixel; of large images in blocks of pixels.

    Raises:
        LuxelError: there are no training cameras.
    """
    if counter is None or counter.views == 0:
        raise LuxelError("this scene has no training cameras.", "Give its capture with --capture.")
    depth = surface_depth(frame)
    height, width = depth.shape
    pairs = PAIRS_GPU if depth.is_cuda else PAIRS_CPU
    step = max(1, int(np.ceil((height * width * counter.views / pairs) ** 0.5)))
    step = min(step, height, width)
    points = unproject(depth, camera, step)
    result = counter.count(points.reshape(-1, 3))
    seen = result.counts.reshape(points.shape[:2]).float()
    rows = (torch.arange(height, device=depth.device) // step).clamp_max(len(seen) - 1)
    columns = (torch.arange(width, device=depth.device) // step).clamp_max(seen.shape[1] - 1)
    seen = torch.where(depth > 0, seen[rows][:, columns], torch.nan)
    return VisibilityFrame(frame.rgb, frame.alpha, frame.depth, seen, result.views, result.expected)


def shade_visibility(frame: VisibilityFrame, background: Tensor) -> tuple[Tensor, str]:
    """Colours of the numbers of views, red for none, and a colour bar up to the 98th percentile."""
    high = max(1.0, round(spread(frame.seen)[1]))
    colour = false_colour(frame.seen / high, COUNTS)
    rgb = torch.where(torch.isnan(frame.seen)[..., None], background.expand_as(colour), colour)
    if frame.views < frame.expected:
        text = f"depth maps of {frame.views} of {frame.expected} training views so far"
    else:
        text = f"0 to {high:.0f} of {frame.expected} training views"
    return rgb, Caption(text, Legend("no view", f"{high:.0f} or more views", COUNTS))
