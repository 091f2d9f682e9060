"""Where a run starts: the first primitives, and the size of the scene."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Points, View, near_views
from luxel.render.geometry.lens import require_pinhole
from luxel.render.primitives import PRIMITIVES
from luxel.render.primitives.parameters import Parameters
from luxel.render.primitives.spec import Start
from luxel.render.train.background_points import background_points
from luxel.render.train.config import TrainConfig

BEHIND = {"auto": 0, "black": 0, "white": 255, "random": None}  # grey value behind images without alpha
FEWEST_BEHIND = 1000  # points behind the scene at least, where images show enough of it


def first_primitives(
    points: Points | Parameters | None,
    config: TrainConfig,
    views: Sequence[View],
    device: torch.device,
    say: Callable[[str], None] = print,
) -> Parameters:
    """Primitives at the points of a capture, or those of a scene; a random part of them where the configuration sets
    a limit.

    Args:
        points: of the capture, or the primitives of a scene in the units and axes of the capture.
        say: receives a message about points whose coordinates are not finite, which are left out.

    Raises:
        LuxelError: there are no points with finite coordinates, or the scene has other primitives.
    """
    if isinstance(points, Parameters):
        return _continued(points, config, device)
    if points is None or len(points.xyz) == 0:
        raise LuxelError("There are no points to start from.", "The capture needs a point cloud.")
    xyz, rgb = np.asarray(points.xyz, np.float32), np.asarray(points.rgb)
    chosen = np.flatnonzero(np.isfinite(xyz).all(1))
    if not len(chosen):
        raise LuxelError("No point of the capture has finite coordinates.", "Check its point cloud.")
    if len(chosen) < len(xyz):
        left_out = f"{len(xyz) - len(chosen):,} of {len(xyz):,}"
        say(f"{left_out} points of the capture have coordinates that are not finite; they are left out.")
    limit = min(config.init.max_points or len(chosen), config.max_gaussians or len(chosen))
    behind = _behind(Points(xyz[chosen], rgb[chosen]), min(len(chosen), limit), config, views)
    if config.max_gaussians:
        limit = min(limit, config.max_gaussians - len(behind.xyz))
    if len(chosen) > limit:
        chosen = np.sort(np.random.default_rng(config.seed).choice(chosen, limit, replace=False))
    if len(behind.xyz):
        say(
            f"{len(behind.xyz):,} points are added behind the scene, where images show what no point is near."
        )
    first = Points(np.concatenate([xyz[chosen], behind.xyz]), np.concatenate([rgb[chosen], behind.rgb]))
    opacity = config.strategy.first_opacity if config.init.opacity is None else config.init.opacity
    start = Start(config.init, opacity, views, config.seed, device)
    return PRIMITIVES[config.primitive].engine.initialise(first, start)


def _behind(points: Points, used: int, config: TrainConfig, views: Sequence[View]) -> Points:
    """Points behind the scene, see `Init.background_share`.

    Args:
        points: of the capture.
        used: how many of them training starts from.
    """
    share = config.init.background_share
    if not share:
        return Points(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.uint8))
    count = max(FEWEST_BEHIND, round(share * used))
    if config.max_gaussians:
        count = min(count, config.max_gaussians // 5)
    return background_points(points, views, count, config.seed, BEHIND[config.background])


def require_lenses(config: TrainConfig, views: Sequence[View]) -> None:
    """Refuses views with a lens that the primitive, the rasterizer backend or the losses of a run cannot use.

    Raises:
        LuxelError: naming it.
    """
    if config.loss.geometry_at(1.0):
        for view in views:
            require_pinhole(view.camera, "The losses of the geometry")
    projection = PRIMITIVES[config.primitive].engine.projection
    if config.backend == "luxel" and (projection is None or projection.lenses):
        return
    noun = PRIMITIVES[config.primitive].engine.parameters.noun.capitalize()
    what = noun if config.backend == "luxel" else f"The {config.backend} backend"
    for view in views:
        require_pinhole(view.camera, what)


def _continued(scene: Parameters, config: TrainConfig, device: torch.device) -> Parameters:
    """The primitives of a scene as the first ones of a run, with as many SH coefficients as it trains."""
    expected = PRIMITIVES[config.primitive].engine.parameters
    if not isinstance(scene, expected) or not scene.count:
        raise LuxelError(
            f"The scene to start from has {scene.count:,} {scene.noun}, and the run trains {expected.noun}.",
            f"Give a scene of {expected.noun}.",
        )
    limit = config.max_gaussians or scene.count
    if scene.count > limit:
        rows = np.sort(np.random.default_rng(config.seed).choice(scene.count, limit, replace=False))
        scene = scene.select(torch.from_numpy(rows).to(scene.device))
    tensors = {name: tensor.detach().to(device, torch.float32) for name, tensor in scene.tensors().items()}
    rest, rows = tensors["sh_rest"], (config.init.sh_degree + 1) ** 2 - 1
    padding = rest.new_zeros(len(rest), max(0, rows - rest.shape[1]), 3)
    tensors["sh_rest"] = torch.cat([rest[:, :rows], padding], dim=1)
    return expected(**{name: tensor.contiguous() for name, tensor in tensors.items()})


def scene_extent(views: Sequence[View]) -> float:
    """1.1 times the largest distance of a camera from their mean, in capture units; 1 where that is 0. Distant cameras
    do not count."""
    positions = torch.stack([view.camera.position.double() for view in near_views(views)])
    extent = 1.1 * float((positions - positions.mean(0)).norm(dim=-1).max())
    return extent if extent > 1e-9 else 1.0
