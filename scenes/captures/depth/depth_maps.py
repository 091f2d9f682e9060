"""Depth maps of captures, as depth cameras, phones with LiDAR and networks have them: reading, and points from them.

The convention is nerfstudio's: ``depth_file_path`` of a frame names a PNG or TIFF file of 16 bits, in millimetres, or a
numpy or OpenEXR file; values are distances along the camera's z axis, 0 where nothing was measured. A folder
``depths`` alongside ``images`` has the maps of other captures.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from luxel.render.geometry.camera import Camera, Points, View
from luxel.scenes.captures.contents import SourceImage
from luxel.scenes.captures.images.images import target_size
from luxel.scenes.captures.lenses.lens import Lens, pinhole_of
from luxel.scenes.captures.lenses.undistortion import undistortion_maps
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.exr.channels import SUFFIX as EXR_SUFFIX
from luxel.scenes.files.exr.values import read_exr_depth
from luxel.scenes.files.images.image_decoding import opened_image
from luxel.scenes.files.reading import read_bytes, reading
from luxel.scenes.files.volumes import read_array_header

MILLIMETRE = 1e-3  # of integers, where the capture states no unit
REMEDY = "Save depth as PNG of 16 bits in millimetres, or as numpy or OpenEXR file of floats in units of the poses."
DEPTH_VALUES = ("z", "ray", "inverse")
FOLDERS = ("depths", "depth")
SUFFIXES = (".png", ".npy", ".tif", ".tiff", EXR_SUFFIX)
POINTS = 200_000  # at most, of all views
AGREE = 0.02  # relative difference of depths of one point in two views
MIN_AGREEING = 0.5  # share of the compared points; with less the depth does not fit the poses
MIN_COMPARED = 200
MAX_VIEWS = 200  # of which points are taken
NEIGHBOURS = 4  # views with which the points of a view are compared


@dataclass(frozen=True)
class DepthReader:
    """Reads the depth map of one view.

    Args:
        path: of the file.
        scale: capture units of a value; None: 0.001 of integers, 1 of floats.
        lens: of the stored image; the map may have fewer pixels.
        width, height: of the result, that of the view's camera.
        values: what the file holds, one of `DEPTH_VALUES`: distance along z, or from the camera's centre, or inverse z.
        channel: of an OpenEXR file, see `luxel.scenes.files.exr.values.read_exr_depth`.
    """

    path: Path
    scale: float | None
    lens: Lens
    width: int
    height: int
    values: str = "z"
    channel: str | None = None

    def __call__(self) -> np.ndarray:
        """Depth along z of the undistorted view, float32 [height, width] in capture units; 0: not known.

        Raises:
            CaptureError: the file cannot be read, or has another aspect ratio than the image.
        """
        stored = read_depth(self.path, self.scale, inverse=self.values == "inverse", channel=self.channel)
        tall, wide = stored.shape
        lens = self.lens
        if abs(wide * lens.height - tall * lens.width) > 0.02 * wide * lens.height:
            raise CaptureError(
                f"{self.path}: the depth map is {wide}x{tall} pixels, its image {lens.width}x{lens.height}.",
                "Save depth maps in the aspect ratio of the images.",
            )
        if lens.distorted:
            across, down, known = undistortion_maps(lens, self.width, self.height)
        else:
            column = (np.arange(self.width) + 0.5) * (lens.width / self.width) - 0.5
            row = (np.arange(self.height) + 0.5) * (lens.height / self.height) - 0.5
            (across, down), known = np.meshgrid(column, row), None
        # Depth is never interpolated: between two surfaces there is none.
        x, y = ((across + 0.5) * (wide / lens.width) - 0.5), ((down + 0.5) * (tall / lens.height) - 0.5)
        out = cv2.remap(stored, x.astype(np.float32), y.astype(np.float32), cv2.INTER_NEAREST)
        if known is not None:
            out = np.where(known > 0, out, np.float32(0))
        return out / self._lengths() if self.values == "ray" else out

    def _lengths(self) -> np.ndarray:
        """Distance from the camera's centre to points of z = 1 at each pixel of the view, float32 [height, width]."""
        pinhole = pinhole_of(self.lens, str(self.path)).resized(self.width, self.height)
        x = (np.arange(self.width) + 0.5 - pinhole.cx) / pinhole.fx
        y = (np.arange(self.height) + 0.5 - pinhole.cy) / pinhole.fy
        return np.sqrt(1 + x * x + (y * y)[:, None]).astype(np.float32)


def depth_readers(
    sources: Sequence[SourceImage], max_size: int | None, values: str, channel: str | None
) -> dict[str, DepthReader]:
    """Readers of the depth maps, by name of the source; arguments as of `luxel.scenes.open`."""
    out = {}
    for source in sources:
        if source.depth is not None:
            size = target_size(source.lens, max_size)
            out[source.name] = DepthReader(
                source.depth, source.depth_scale, source.lens, *size, values, channel
            )
    return out


def find_depths(root: Path, sources: Sequence[SourceImage]) -> None:
    """Assigns the depth map of the same name in a folder ``depths`` to each image without one.

    For images/a/b.jpg these are tried: depths/a/b.png and depths/b.png, likewise the other `SUFFIXES`. Views cut from
    panoramas and frames of films have none.
    """
    for folder in (root / name for name in FOLDERS):
        if not folder.is_dir():
            continue
        for source in sources:
            if source.depth is not None or source.group:
                continue
            name = Path(source.name)
            inner = Path(*name.parts[1:]) if len(name.parts) > 1 else name
            stems = dict.fromkeys(folder / part.with_suffix("") for part in (inner, name, Path(name.name)))
            tried = (Path(f"{stem}{suffix}") for stem in stems for suffix in SUFFIXES)
            source.depth = next((path for path in tried if path.is_file() and path != source.path), None)


def read_depth(
    path: Path, scale: float | None = None, *, inverse: bool = False, channel: str | None = None
) -> np.ndarray:
    """A depth map as it is stored, float32 [H, W]; 0 where it has no positive, finite value.

    Args:
        path: an image of one channel of 16 or 32 bits, a .npy file [H, W] or [H, W, 1], or OpenEXR.
        scale: units of a value; None: 0.001 of integers, 1 of floats.
        inverse: values are inverse depths; without a scale the largest integer of its type is 1. Images of 8 bits are
            read too.
        channel: of an OpenEXR file, see `luxel.scenes.files.exr.values.read_exr_depth`; other files have none.

    Raises:
        CaptureError: the file cannot be read, or is no depth map.
    """
    suffix = path.suffix.lower()
    if suffix == EXR_SUFFIX:
        values = read_exr_depth(path, channel)
    else:
        values = _numpy_values(path) if suffix == ".npy" else _image_values(path, inverse)
    unit = scale if scale is not None else 1.0 if values.dtype.kind == "f" else MILLIMETRE
    if inverse and scale is None and values.dtype.kind != "f":
        unit = 1 / min(int(np.iinfo(values.dtype).max), 65535)  # of 32 bits: Pillow opens PNG of 16 bits so
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        depth = values.astype(np.float64) * unit
        depth = (1 / depth if inverse else depth).astype(np.float32)
    return np.where(np.isfinite(depth) & (depth > 0), depth, np.float32(0))


def _image_values(path: Path, bytes_too: bool) -> np.ndarray:
    with opened_image(path) as image:
        if bytes_too and image.mode == "L":
            return np.asarray(image)
        if image.mode not in ("F", "I") and not image.mode.startswith("I;16"):
            raise CaptureError(f"{path}: an image of mode {image.mode} is no depth map.", REMEDY)
        return np.asarray(image)


def _numpy_values(path: Path) -> np.ndarray:
    with reading(path, "a numpy file of depth", REMEDY):
        data = read_bytes(path)
        stream = io.BytesIO(data)
        shape, fortran, dtype = read_array_header(stream)
        if (
            dtype.kind not in "fiu"
            or len(shape) not in (2, 3)
            or min(shape) < 1
            or shape[2:] not in ((), (1,))
        ):
            raise CaptureError(
                f"{path}: must hold numbers [H, W], got {str(dtype)[:40]} {str(list(shape))[:80]}.", REMEDY
            )
        count = math.prod(map(int, shape))
        if count * dtype.itemsize > len(data) - stream.tell():
            raise CaptureError(f"{path}: cut short: {len(data)} bytes do not hold {count} depths.", REMEDY)
        values = np.frombuffer(data, dtype, count, stream.tell())
        return values.reshape(shape[:2], order="F" if fortran else "C")


def points_from_depth(
    views: Sequence[View], depths: dict[str, DepthReader], warnings: list[str]
) -> Points | None:
    """Points at the depths of views, where two views agree on them.

    Args:
        views: the training views.
        depths: of some of them, by name.
        warnings: gets a sentence where the depths of most points contradict each other.

    Returns:
        At most `POINTS` points; None: there are no depth maps, or they do not fit the poses.
    """
    known = [view for view in views if view.name in depths]
    known = known[:: -(-len(known) // MAX_VIEWS) or 1]
    if len(known) < 2:
        return None
    random = np.random.default_rng(0)
    positions = np.stack([view.camera.position.double().numpy() for view in known])
    each = max(64, POINTS // len(known))
    clouds = [_sampled(view, depths[view.name](), each, random) for view in known]
    agreeing, compared = 0, 0
    retained: list[np.ndarray] = []
    for row, (xyz, _) in enumerate(clouds):
        around = np.argsort(np.linalg.norm(positions - positions[row], axis=1), kind="stable")[
            1 : NEIGHBOURS + 1
        ]
        agree, visible = np.zeros(len(xyz), int), np.zeros(len(xyz), int)
        for other in around:
            ratio = _depth_ratio(xyz, known[other].camera, depths[known[other].name]())
            visible += np.isfinite(ratio)
            agree += np.abs(ratio - 1) < AGREE
        agreeing, compared = agreeing + int((agree > 0).sum()), compared + int((visible > 0).sum())
        retained.append(np.nonzero(agree > 0)[0])
    if compared < MIN_COMPARED or agreeing < MIN_AGREEING * compared:
        warnings.append(
            f"The depth maps are not used: two views agree on {agreeing} of {compared} points within "
            f"{100 * AGREE:.0f} %. Their unit may be another than that of the poses (depth_unit_scale_factor)."
        )
        return None
    xyz = np.concatenate([cloud[0][rows] for cloud, rows in zip(clouds, retained, strict=True)])
    rgb = np.concatenate([cloud[1][rows] for cloud, rows in zip(clouds, retained, strict=True)])
    return Points(xyz.astype(np.float32), rgb)


def _sampled(
    view: View, depth: np.ndarray, count: int, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Some points of a depth map in world coordinates, float64 [P, 3], and their colours, uint8 [P, 3]."""
    pixels = view.read()
    cover = pixels.alpha if pixels.alpha is not None else pixels.weight
    rows, columns = np.nonzero((depth > 0) if cover is None else (depth > 0) & (cover >= 128))
    if len(rows) > count:
        chosen = random.permutation(len(rows))[:count]
        rows, columns = rows[chosen], columns[chosen]
    z = depth[rows, columns].astype(np.float64)
    fx, fy, cx, cy = view.camera.intrinsics.double().tolist()
    local = np.stack([(columns + 0.5 - cx) / fx * z, (rows + 0.5 - cy) / fy * z, z], axis=-1)
    pose = view.camera.cam_to_world.double().numpy()
    return local @ pose[:3, :3].T + pose[:3, 3], pixels.rgb[rows, columns]


def _depth_ratio(xyz: np.ndarray, camera: Camera, depth: np.ndarray) -> np.ndarray:
    """Depth of a map over the depth of points in its camera, [P]; NaN where a point is outside or not measured."""
    world_to_cam = camera.world_to_cam.double().numpy()
    fx, fy, cx, cy = camera.intrinsics.double().tolist()
    x, y, z = (xyz @ world_to_cam[:3, :3].T + world_to_cam[:3, 3]).T
    safe = np.where(z > 1e-9, z, 1.0)
    column, row = fx * x / safe + cx, fy * y / safe + cy
    inside = (z > 1e-9) & (column >= 0) & (row >= 0) & (column < camera.width) & (row < camera.height)
    out = np.full(len(xyz), np.nan)
    stored = depth[row[inside].astype(int), column[inside].astype(int)].astype(np.float64)
    out[inside] = np.where(stored > 0, stored / z[inside], np.nan)
    return out


def against_points(view: View, depth: np.ndarray, xyz: np.ndarray) -> float:
    """Median of the depth of a map over that of the points of a cloud that it does not hide; NaN: it shows too few.

    Args:
        view: of the map.
        depth: as its DepthReader returns it.
        xyz: world coordinates, [P, 3].
    """
    ratio = _depth_ratio(np.asarray(xyz, np.float64), view.camera, depth)
    ratio = ratio[np.isfinite(ratio)]
    return float(np.median(ratio)) if len(ratio) >= 40 else math.nan
