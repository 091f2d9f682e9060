"""What a radiance field represents of a capture: a box, or the full scene around its cameras; chosen by the
capture."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch

from luxel.render.fields.capture.occupancy import in_view
from luxel.render.fields.capture.posed_images import Box, PosedImages, box_of, read_view
from luxel.render.fields.radiance_config import RadianceConfig
from luxel.render.geometry.camera import Points, View, near_views
from luxel.render.ops.field.march_rays import Region

FINEST = 2048  # points along the sides of a box that one object fills (Müller et al. 2022, table 1)
CLEAR = 1.1  # half of a contracted inner box, as a multiple of the reach of the cameras
NEAR = 0.05  # without points, where training rays begin, in sides of the inner box
MAX_POINTS = 10_000  # that depths are taken of
GROWTH = 1 / 256  # of steps with the distance in a full scene (Müller et al. 2022, appendix E.1)
DISTORTION, DISTORTION_FINAL = 0.01, 3e-4  # fog goes first, and what is thin is learnt then
# Of an object: errors at its outline count by their squares; a warm-up lets densities grow before colours saturate.
OBJECT_HUBER, OBJECT_DISTORTION, WARM_UP = 0.3, 0.003, 500
MIN_FINEST, MAX_FINEST = 256, 1 << 17  # points along a full scene
CASCADES = 5  # where nothing says how far a scene reaches
MAX_BY_CAPTURE = 9
# Up to 2^a pixels, tables of 2^b entries. Tables that exceed a GPU's caches cost several times as much a step.
ENTRIES = ((25, 19), (27, 20), (28, 21), (30, 22), (32, 23), (math.inf, 24))
APART = 0.5  # reach of the points of an object, of the distance of the nearest camera
INNER, NEARLY_ALL = 80.0, 99.5  # per cent of the points in the innermost box, and in the outermost


def adapted_to(config: RadianceConfig, data: PosedImages | Sequence[View]) -> RadianceConfig:
    """A configuration whose open options are chosen by a capture.

    Images with alpha show an object, in a box, and so do those of `is_object`; others a full scene.
    """
    given = data if isinstance(data, PosedImages) else PosedImages(list(data))
    views = given.views
    if not len(views):
        return config
    transparent = read_view(views[0])[0].shape[1] == 4
    as_object = transparent
    if config.extent == "auto":
        surroundings = config.cascades is not None or config.growth is not None or bool(config.sky)
        as_object = transparent or (not surroundings and is_object(views, given.points))
        config = dataclasses.replace(config, extent="box" if as_object else "cascades")
    if config.extent == "box":
        return _of_object(config) if as_object else config
    if config.cascades is None:
        config = dataclasses.replace(
            config, cascades=cascades_of(views, given.points, config.extent == "contracted")
        )
    pixels = sum(view.camera.width * view.camera.height for view in views)
    if config.finest is None:
        config = dataclasses.replace(config, finest=finest_of(config, views, given.points))
    entries = next(entries for most, entries in ENTRIES if pixels <= 2**most)
    if config.distortion is None:
        end = DISTORTION_FINAL if config.distortion_final is None else config.distortion_final
        config = dataclasses.replace(config, distortion=DISTORTION, distortion_final=end)
    return dataclasses.replace(
        config,
        growth=GROWTH if config.growth is None else config.growth,
        sky=not transparent if config.sky is None else config.sky,
        log2_entries=entries if config.log2_entries is None else config.log2_entries,
    )


def _of_object(config: RadianceConfig) -> RadianceConfig:
    """With what is right for an object alone in a box."""
    return dataclasses.replace(
        config,
        finest=FINEST if config.finest is None else config.finest,
        huber=OBJECT_HUBER if config.huber is None else config.huber,
        distortion=OBJECT_DISTORTION if config.distortion is None else config.distortion,
        warm_up=min(WARM_UP, config.steps // 20) if config.warm_up is None else config.warm_up,
    )


def is_object(views: Sequence[View], points: Points | None) -> bool:
    """Whether images without alpha show an object alone, with nothing behind it.

    Nearly all points are nearer to their middle than `APART` times the distance of the nearest camera.
    """
    if points is None or not len(points.xyz):
        return False
    middle, reach = _reach(points)
    eyes = np.stack([view.camera.position.double().numpy() for view in near_views(views)])
    nearest_eye = float(np.linalg.norm(eyes - middle, axis=1).min())
    return float(np.percentile(reach, NEARLY_ALL)) < APART * nearest_eye


def finest_of(config: RadianceConfig, views: Sequence[View], points: Points | None = None) -> int:
    """Points along a full scene: cells of its finest level are as large as a pixel at the median depth of the points.

    Without points the depth is the distance of the cameras from the middle. Finer cells learn the noise of single
    images, coarser ones lose detail.
    """
    contracted = config.extent == "contracted"
    box = np.asarray(inner_box(views, points, contracted)).reshape(2, 3)
    sides = 2 if contracted else 2 ** (cascades_in(config) - 1)  # of the inner box, along the full scene
    sizes = np.concatenate([np.zeros(0), *(depths / _focal(view) for view, depths in _depths(views, points))])
    if not len(sizes):
        away = [view.camera.position.double().numpy() - box.mean(0) for view in views]
        sizes = np.array([np.linalg.norm(way) / _focal(view) for way, view in zip(away, views, strict=True)])
    pixel = float(np.median(sizes))
    along = sides * float((box[1] - box[0]).max()) / pixel if pixel > 0 else MAX_FINEST
    return round(min(max(along, MIN_FINEST), MAX_FINEST))


def _focal(view: View) -> float:
    return float(view.camera.intrinsics[:2].max())


def inner_box(views: Sequence[View], points: Points | None = None, contracted: bool = False) -> Box:
    """A cube around what a capture of a full scene is about: the median point, and four fifths of the points.

    If ``contracted``, it holds all cameras too: outside of it, what is right in front of a camera shares cells with
    what is far behind it. Without points: `box_of` the cameras.
    """
    box = np.asarray(box_of(views)).reshape(2, 3)
    middle, half = box.mean(0), float((box[1] - box[0]).max()) / 2
    if points is not None and len(points.xyz):
        middle, reach = _reach(points)
        half = max(float(np.percentile(reach, INNER)), 1e-6)
    if contracted:
        half = max(half, CLEAR * _reach_of_cameras(views, middle))
    low, high = (middle - half).tolist(), (middle + half).tolist()
    return (low[0], low[1], low[2], high[0], high[1], high[2])


def cascades_of(views: Sequence[View], points: Points | None = None, contracted: bool = False) -> int:
    """Boxes, each twice as large as the one before, until they hold all cameras and nearly all points, and one more.

    What is behind them is of the colour of its direction.
    """
    box = np.asarray(inner_box(views, points, contracted)).reshape(2, 3)
    middle, half = box.mean(0), float((box[1] - box[0]).max()) / 2
    reach = _reach_of_cameras(views, middle)
    if points is not None and len(points.xyz):
        reach = max(reach, float(np.percentile(_reach(points)[1], NEARLY_ALL)))
    else:
        reach = max(reach, half * 2 ** (CASCADES - 2))
    return min(2 + math.ceil(math.log2(max(reach / half, 1))), MAX_BY_CAPTURE)


def nearest(views: Sequence[View], points: Points | None, side: float) -> float:
    """Where rays of training views begin, so that nothing is learnt right in front of cameras; units of the capture.

    A third of the depth that 1 % of the points in the views are nearer than; without points a small part of the inner
    box, whose side is given.
    """
    known = [depths for _, depths in _depths(views, points)]
    return float(np.percentile(np.concatenate(known), 1)) / 3 if any(map(len, known)) else NEAR * side


def _depths(views: Sequence[View], points: Points | None) -> Iterator[tuple[View, np.ndarray]]:
    """Each view with the depths of the points that it sees, of some of all."""
    if points is None or not len(points.xyz):
        return
    xyz = torch.from_numpy(points.xyz[:: 1 + len(points.xyz) // MAX_POINTS]).float()
    for view in views:
        pose = view.camera.world_to_cam.to(xyz)
        yield view, (xyz @ pose[2, :3] + pose[2, 3])[in_view(xyz, 0.0, view.camera, 0.0)].numpy()


def region_of(config: RadianceConfig, box: Sequence[float], diagonal_samples: int, cells: int) -> Region:
    """Where rays are sampled around a box, and how finely."""
    region = Region.of_box(box, diagonal_samples=diagonal_samples, resolution=cells)
    if not config.full_scene:
        return region
    return region._replace(
        cascades=cascades_in(config), contracted=config.extent == "contracted", growth=config.growth or 0.0
    )


def cascades_in(config: RadianceConfig) -> int:
    """Number of boxes of a configuration."""
    return config.cascades or CASCADES if config.full_scene else 1


def _reach_of_cameras(views: Sequence[View], middle: np.ndarray) -> float:
    """How far the cameras are from a point at most, along the farthest axis; distant ones do not count."""
    eyes = np.stack([view.camera.position.double().numpy() for view in near_views(views)])
    return float(np.abs(eyes - middle).max())


def _reach(points: Points) -> tuple[np.ndarray, np.ndarray]:
    """The median point [3], and how far each is from it along the farthest axis, [N]."""
    xyz = points.xyz.astype(float)
    middle = np.median(xyz, axis=0)
    return middle, np.abs(xyz - middle).max(1)
