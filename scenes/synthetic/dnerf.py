"""Scenes of solids written as a D-NeRF data set: each image with its own time, pose and answers."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from luxel.render.camera import Camera, Points
from luxel.scenes.captures.geometry import OPENGL_TO_OPENCV
from luxel.scenes.captures.images import for_each
from luxel.scenes.files.ply import save_points
from luxel.scenes.synthetic.solid_scene import Picture, Scene
from luxel.scenes.synthetic.toy import as_bytes

FOV_X = 0.6911112070083618  # of the Blender scenes of NeRF and D-NeRF, radians
RADIUS = 4.0  # of their hemisphere
DEPTH_UNIT = 1 / 4096  # world units per step of a depth PNG, which so reaches 16
POINT_TIMES = 5
SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class Shot:
    """A camera and the time at which it looks, within [0, 1]."""

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
    """A camera on a sphere around the origin that looks at its centre, z up.

    Args:
        azimuth, elevation: radians; the elevation less than pi / 2.
        radius: world units.
        fov_x: horizontal field of view, radians.
        width, height: pixels.
    """
    level = radius * math.cos(elevation)
    eye = (level * math.cos(azimuth), level * math.sin(azimuth), radius * math.sin(elevation))
    fov_y = 2 * math.atan(math.tan(0.5 * fov_x) * height / width)
    return Camera.look_at(eye, (0, 0, 0), fov_y=fov_y, width=width, height=height)


def monocular_shots(times: Sequence[float], *, seed: int = 0, **lens: float) -> list[Shot]:
    """One shot a time, each from its own random place on the upper hemisphere, as D-NeRF has it.

    Args:
        times: within [0, 1].
        seed: of the places, even by area from 5 to 80 degrees above the ground.
        lens: radius, fov_x, width and height of `hemisphere_camera`.
    """
    random = np.random.default_rng([seed, 6])
    low, high = math.sin(math.radians(5)), math.sin(math.radians(80))
    azimuths, heights = random.uniform(0, 2 * math.pi, len(times)), random.uniform(low, high, len(times))
    places = zip(azimuths, np.arcsin(heights), strict=True)
    return [
        Shot(hemisphere_camera(*place, **lens), float(time))  # type: ignore[arg-type]
        for place, time in zip(places, times, strict=True)
    ]


def rig_shots(cameras: int, times: Sequence[float], *, seed: int = 0, **lens: float) -> list[Shot]:
    """Cameras that stay where they are, each seeing every time: all cameras of the first time come first."""
    rig = monocular_shots([0.0] * cameras, seed=seed, **lens)
    return [Shot(shot.camera, float(time)) for time in times for shot in rig]


def default_shots(
    train: int = 150, val: int = 20, test: int = 20, *, static: bool = False, seed: int = 0, **lens: float
) -> dict[str, list[Shot]]:
    """The splits of a D-NeRF scene: training times from 0 to 1 in even steps, the others between them.

    Args:
        train, val, test: how many views.
        static: all at time 0.
        seed: of the cameras, which differ between the splits.
        lens: radius, fov_x, width and height of `hemisphere_camera`.
    """
    times = {
        "train": np.linspace(0, 1, train),
        "val": (np.arange(val) + 0.25) / max(val, 1),
        "test": (np.arange(test) + 0.5) / max(test, 1),
    }
    return {
        part: monocular_shots(
            [0.0 if static else float(t) for t in times[part]], seed=10 * seed + index, **lens
        )
        for index, part in enumerate(SPLITS)
    }


def save_dnerf(
    scene: Scene,
    folder: str | Path,
    shots: dict[str, list[Shot]] | None = None,
    *,
    samples: int = 2,
    answers: bool = True,
    points: int = 20_000,
    point_times: Sequence[float] | None = None,
    seed: int = 0,
    on_progress: Callable[[float], None] | None = None,
) -> Path:
    """Writes a scene as a D-NeRF data set that `luxel.scenes.open` reads.

    For each split P in train, val, test: transforms_P.json with camera_angle_x, and frames of file_path, time and
    transform_matrix (camera to world, OpenGL axes); P/r_000.png, RGBA with straight colours. Beside them, named in
    the frames as depth_path, normals_path and ids_path:

    * P/r_000_depth.png, 16 bits: z along the camera's axis is value x depth_unit (in the JSON), 0: nothing there;
    * P/r_000_normals.png: world axes, rgb / 127.5 - 1; black: nothing there;
    * P/r_000_ids.png, 8 bits: the number of the solid, whose names the JSON lists as solids; 0: nothing there.

    points3D.ply has x y z, colour, time (float) and id (uchar) of points on the surfaces.

    Args:
        scene: the solids.
        folder: made if it is not there.
        shots: of each split; by default `default_shots`. All cameras have one horizontal field of view, square
            pixels and a centred principal point, since the format has but one number for them.
        samples: see `Scene.render`.
        answers: whether depth, normals and ids are written.
        points: how many, evenly over their times; 0 writes no file.
        point_times: by default five of the training times.
        seed: of the points.
        on_progress: told the share that is done, 0..1.

    Returns:
        The folder.

    Raises:
        ValueError: an unknown split, cameras that the format cannot hold, times outside of [0, 1], or depths of 16
            and more.
    """
    folder, shots = Path(folder), default_shots() if shots is None else shots
    if unknown := set(shots) - set(SPLITS):
        raise ValueError(f"splits are {', '.join(SPLITS)}, got {', '.join(sorted(unknown))}")
    listed = [(part, index, shot) for part, group in shots.items() for index, shot in enumerate(group)]
    angles = {part: _one_angle([shot.camera for shot in group]) for part, group in shots.items() if group}
    for part in angles:
        (folder / part).mkdir(parents=True, exist_ok=True)

    def work(number: int) -> None:
        part, index, shot = listed[number]
        picture = scene.render(shot.camera, shot.time, samples=samples)
        _write_images(folder / _stem(part, index), picture, answers)

    for_each(work, len(listed), on_progress)
    for part, angle in angles.items():
        frames = [_frame(part, index, shot, answers) for index, shot in enumerate(shots[part])]
        document = {
            "camera_angle_x": angle,
            "solids": [solid.name for solid in scene.solids],
            "frames": frames,
        }
        if answers:
            document["depth_unit"] = DEPTH_UNIT
        (folder / f"transforms_{part}.json").write_text(json.dumps(document, indent=1))
    if points:
        known = sorted({shot.time for shot in shots.get("train", [])} or {0.0})
        few = [known[i] for i in np.unique(np.linspace(0, len(known) - 1, POINT_TIMES).round().astype(int))]
        times = few if point_times is None else point_times
        save_timed_points(folder / "points3D.ply", scene, points, times, seed=seed)
    return folder


def save_timed_points(
    path: str | Path, scene: Scene, count: int, times: Sequence[float], *, seed: int = 0
) -> None:
    """Writes count points of `Scene.sample`, evenly over the times, with the properties time and id.

    Raises:
        ValueError: a time lies outside of [0, 1].
    """
    shares = np.diff(np.linspace(0, count, len(times) + 1).round().astype(int))
    clouds = [
        scene.sample(int(n), t, seed=seed + i) for i, (n, t) in enumerate(zip(shares, times, strict=True))
    ]
    xyz = np.concatenate([cloud.xyz for cloud, _ in clouds])
    rgb = np.concatenate([cloud.rgb for cloud, _ in clouds])
    when = np.concatenate([np.full(len(ids), t) for (_, ids), t in zip(clouds, times, strict=True)])
    save_points(path, Points(xyz, rgb), {"time": when, "id": np.concatenate([ids for _, ids in clouds])})


def _stem(part: str, index: int) -> str:
    return f"{part}/r_{index:03d}"


def _frame(part: str, index: int, shot: Shot, answers: bool) -> dict[str, object]:
    pose = shot.camera.cam_to_world.double().numpy() @ OPENGL_TO_OPENCV
    stem = _stem(part, index)
    frame = {"file_path": f"./{stem}", "time": shot.time, "transform_matrix": pose.tolist()}
    if answers:
        frame.update({f"{kind}_path": f"./{stem}_{kind}.png" for kind in ("depth", "normals", "ids")})
    return frame


def _one_angle(cameras: Sequence[Camera]) -> float:
    """The horizontal field of view that all cameras share, radians."""
    angles = []
    for camera in cameras:
        fx, fy, cx, cy = camera.intrinsics.double().tolist()
        middle = abs(cx - 0.5 * camera.width) + abs(cy - 0.5 * camera.height)
        if not (abs(fx - fy) < 1e-3 * fx and middle < 1e-3):
            raise ValueError(f"D-NeRF's format has square pixels and a centred image, got {[fx, fy, cx, cy]}")
        angles.append(2 * math.atan(0.5 * camera.width / fx))
    if np.ptp(angles) > 1e-6 or len({(c.width, c.height) for c in cameras}) > 1:
        raise ValueError("D-NeRF's format has one image size and one field of view for all views of a split")
    return angles[0]


def _write_images(stem: Path, picture: Picture, answers: bool) -> None:
    rgba = np.concatenate([picture.rgb, picture.alpha[..., None]], axis=-1)
    images = {"": as_bytes(rgba)}
    if answers:
        steps = np.round(picture.depth / DEPTH_UNIT)
        if steps.max() > 65535:
            raise ValueError(f"depths must be below {65536 * DEPTH_UNIT:g}, got {picture.depth.max():g}")
        seen = (picture.ids > 0)[..., None]
        normals = np.where(seen, np.round((picture.normals + 1) * 127.5), 0)
        images.update(_depth=steps.astype(np.uint16), _normals=normals.astype(np.uint8), _ids=picture.ids)
    for kind, pixels in images.items():
        Image.fromarray(pixels).save(stem.with_name(f"{stem.name}{kind}.png"), compress_level=4)
