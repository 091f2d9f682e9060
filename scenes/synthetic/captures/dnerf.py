"""Scenes of solids written as a D-NeRF data set: images with their own time and pose, and ground truth alongside
them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from luxel.render.geometry.camera import Camera, Points
from luxel.scenes.captures.images.images import for_each
from luxel.scenes.files.ply import save_points
from luxel.scenes.geometry import OPENGL_TO_OPENCV
from luxel.scenes.synthetic.solids.solid_scene import RenderedView, SolidScene
from luxel.scenes.synthetic.toy import as_bytes

FOV_X = 0.6911112070083618  # of the Blender scenes of NeRF and D-NeRF, radians
RADIUS = 4.0  # of their camera hemisphere, world units
DEPTH_UNIT = 1 / 4096  # world units per step of a 16-bit depth PNG: depths below 16
POINT_TIMES = 5
SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class CameraSample:
    """A camera and the time at which it sees the scene, in [0, 1]."""

    camera: Camera
    time: float = 0.0


def hemisphere_camera(
    azimuth: float,
    elevation: float,
    *,
    radius: float = RADIUS,
    fov_x: float = FOV_X,
    width: int = 400,
    height: int = 400,
) -> Camera:
    """A camera on a sphere around the origin, looking at the origin, z up.

    Args:
        azimuth, elevation: radians; elevation below pi / 2.
        radius: of the sphere, world units.
        fov_x: horizontal field of view, radians.
        width, height: pixels.
    """
    level = radius * math.cos(elevation)
    eye = (level * math.cos(azimuth), level * math.sin(azimuth), radius * math.sin(elevation))
    fov_y = 2 * math.atan(math.tan(0.5 * fov_x) * height / width)
    return Camera.look_at(eye, (0, 0, 0), fov_y=fov_y, width=width, height=height)


def monocular_camera_samples(times: Sequence[float], *, seed: int = 0, **lens: float) -> list[CameraSample]:
    """One camera sample per time, each at a random position on the upper hemisphere, as in D-NeRF.

    Args:
        times: in [0, 1].
        seed: of the positions, uniform by area between elevations of 5 and 80 degrees.
        lens: radius, fov_x, width and height of `hemisphere_camera`.
    """
    random = np.random.default_rng([seed, 6])
    low, high = math.sin(math.radians(5)), math.sin(math.radians(80))
    azimuths, heights = random.uniform(0, 2 * math.pi, len(times)), random.uniform(low, high, len(times))
    positions = zip(azimuths, np.arcsin(heights), strict=True)
    return [
        CameraSample(hemisphere_camera(*position, **lens), float(time))  # type: ignore[arg-type]
        for position, time in zip(positions, times, strict=True)
    ]


def rig_camera_samples(
    cameras: int, times: Sequence[float], *, seed: int = 0, **lens: float
) -> list[CameraSample]:
    """Static cameras that all see every time; ordered by time, then by camera."""
    rig = monocular_camera_samples([0.0] * cameras, seed=seed, **lens)
    return [CameraSample(sample.camera, float(time)) for time in times for sample in rig]


def default_camera_samples(
    train: int = 150, val: int = 20, test: int = 20, *, static: bool = False, seed: int = 0, **lens: float
) -> dict[str, list[CameraSample]]:
    """Camera samples of the splits of a D-NeRF scene: training times evenly from 0 to 1, other times between them.

    Args:
        train, val, test: numbers of views.
        static: whether all views are at time 0.
        seed: of the camera positions, which differ between splits.
        lens: radius, fov_x, width and height of `hemisphere_camera`.
    """
    times = {
        "train": np.linspace(0, 1, train),
        "val": (np.arange(val) + 0.25) / max(val, 1),
        "test": (np.arange(test) + 0.5) / max(test, 1),
    }
    return {
        part: monocular_camera_samples(
            [0.0 if static else float(t) for t in times[part]], seed=10 * seed + index, **lens
        )
        for index, part in enumerate(SPLITS)
    }


def save_dnerf(
    scene: SolidScene,
    folder: str | Path,
    camera_samples: dict[str, list[CameraSample]] | None = None,
    *,
    samples: int = 2,
    ground_truth: bool = True,
    points: int = 20_000,
    point_times: Sequence[float] | None = None,
    seed: int = 0,
    on_progress: Callable[[float], None] | None = None,
) -> Path:
    """Writes a scene as a D-NeRF data set that `luxel.scenes.open` reads.

    For each split P in train, val, test: transforms_P.json with camera_angle_x, and frames of file_path, time and
    transform_matrix (camera to world, OpenGL axes); P/r_000.png, RGBA with straight colours. Alongside them, named in
    the frames as depth_path, normals_path and ids_path:

    * P/r_000_depth.png, 16 bits: z along the camera's axis is value x depth_unit (in the JSON); 0: no surface;
    * P/r_000_normals.png: world axes, rgb / 127.5 - 1; black: no surface;
    * P/r_000_ids.png, 8 bits: number of the solid from 1, in the order of ``solids`` in the JSON; 0: no surface.

    points3D.ply has x y z, colour, time (float) and id (uchar) of points on the surfaces.

    Args:
        scene: the solids.
        folder: created if it does not exist.
        camera_samples: of each split; None: `default_camera_samples`. All cameras of a split must have one image size,
            one field of view, square pixels and a centred principal point, as the format requires.
        samples: see `SolidScene.render`.
        ground_truth: whether depth, normals and ids are written.
        points: number of points, divided evenly between the times; 0: no file.
        point_times: times of the points; None: five of the training times.
        seed: of the points.
        on_progress: called with the fraction done in [0, 1].

    Returns:
        The folder.

    Raises:
        ValueError: an unknown split, cameras that the format cannot store, times outside [0, 1], or depths of 16 or
            more.
    """
    folder, camera_samples = (
        Path(folder),
        default_camera_samples() if camera_samples is None else camera_samples,
    )
    if unknown := set(camera_samples) - set(SPLITS):
        raise ValueError(
            f"camera_samples must be of the splits {', '.join(SPLITS)}, got {', '.join(sorted(unknown))}"
        )
    listed = [
        (part, index, sample) for part, group in camera_samples.items() for index, sample in enumerate(group)
    ]
    angles = {
        part: _one_angle([sample.camera for sample in group])
        for part, group in camera_samples.items()
        if group
    }
    for part in angles:
        (folder / part).mkdir(parents=True, exist_ok=True)

    def work(number: int) -> None:
        part, index, sample = listed[number]
        view = scene.render(sample.camera, sample.time, samples=samples)
        _write_images(folder / _stem(part, index), view, ground_truth)

    for_each(work, len(listed), on_progress)
    for part, angle in angles.items():
        frames = [
            _frame(part, index, sample, ground_truth) for index, sample in enumerate(camera_samples[part])
        ]
        document = {
            "camera_angle_x": angle,
            "solids": [solid.name for solid in scene.solids],
            "frames": frames,
        }
        if ground_truth:
            document["depth_unit"] = DEPTH_UNIT
        (folder / f"transforms_{part}.json").write_text(json.dumps(document, indent=1))
    if points:
        known = sorted({sample.time for sample in camera_samples.get("train", [])} or {0.0})
        few = [known[i] for i in np.unique(np.linspace(0, len(known) - 1, POINT_TIMES).round().astype(int))]
        times = few if point_times is None else point_times
        save_timed_points(folder / "points3D.ply", scene, points, times, seed=seed)
    return folder


def save_timed_points(
    path: str | Path, scene: SolidScene, count: int, times: Sequence[float], *, seed: int = 0
) -> None:
    """Writes points of `SolidScene.sample_points`, divided evenly between times, with the properties time and id.

    Raises:
        ValueError: a time is outside [0, 1].
    """
    shares = np.diff(np.linspace(0, count, len(times) + 1).round().astype(int))
    clouds = [
        scene.sample_points(int(n), t, seed=seed + i)
        for i, (n, t) in enumerate(zip(shares, times, strict=True))
    ]
    xyz = np.concatenate([cloud.xyz for cloud, _ in clouds])
    rgb = np.concatenate([cloud.rgb for cloud, _ in clouds])
    stamps = np.concatenate([np.full(len(ids), t) for (_, ids), t in zip(clouds, times, strict=True)])
    save_points(path, Points(xyz, rgb), {"time": stamps, "id": np.concatenate([ids for _, ids in clouds])})


def _stem(part: str, index: int) -> str:
    return f"{part}/r_{index:03d}"


def _frame(part: str, index: int, sample: CameraSample, ground_truth: bool) -> dict[str, object]:
    pose = sample.camera.cam_to_world.double().numpy() @ OPENGL_TO_OPENCV
    stem = _stem(part, index)
    frame = {"file_path": f"./{stem}", "time": sample.time, "transform_matrix": pose.tolist()}
    if ground_truth:
        frame.update({f"{kind}_path": f"./{stem}_{kind}.png" for kind in ("depth", "normals", "ids")})
    return frame


def _one_angle(cameras: Sequence[Camera]) -> float:
    """The horizontal field of view that all cameras share, radians."""
    angles = []
    for camera in cameras:
        fx, fy, cx, cy = camera.intrinsics.double().tolist()
        middle = abs(cx - 0.5 * camera.width) + abs(cy - 0.5 * camera.height)
        if not (abs(fx - fy) < 1e-3 * fx and middle < 1e-3):
            raise ValueError(
                "cameras must have square pixels and a centred principal point, "
                f"got fx, fy, cx, cy {[fx, fy, cx, cy]}"
            )
        angles.append(2 * math.atan(0.5 * camera.width / fx))
    if np.ptp(angles) > 1e-6 or len({(c.width, c.height) for c in cameras}) > 1:
        raise ValueError("cameras of a split must have one image size and one field of view, got several")
    return angles[0]


def _write_images(stem: Path, view: RenderedView, ground_truth: bool) -> None:
    rgba = np.concatenate([view.rgb, view.alpha[..., None]], axis=-1)
    images = {"": as_bytes(rgba)}
    if ground_truth:
        steps = np.round(view.depth / DEPTH_UNIT)
        if steps.max() > 65535:
            raise ValueError(f"depths must be below {65536 * DEPTH_UNIT:g}, got {view.depth.max():g}")
        visible = (view.ids > 0)[..., None]
        normals = np.where(visible, np.round((view.normals + 1) * 127.5), 0)
        images.update(_depth=steps.astype(np.uint16), _normals=normals.astype(np.uint8), _ids=view.ids)
    for kind, pixels in images.items():
        Image.fromarray(pixels).save(stem.with_name(f"{stem.name}{kind}.png"), compress_level=4)
