"""A generated capture of moving solids by fixed, synchronised cameras, with pairs of camera and time held out."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from luxel.render.geometry.camera import Camera
from luxel.scenes.captures.images.images import for_each
from luxel.scenes.synthetic.captures.dnerf import FOV_X, hemisphere_camera, save_timed_points
from luxel.scenes.synthetic.captures.static_capture import frame_entry
from luxel.scenes.synthetic.example_scenes import dynamic_scene
from luxel.scenes.synthetic.toy import as_bytes

HELD_OUT = ("pairs", "camera")
ELEVATIONS = math.radians(18), math.radians(48)  # of neighbouring cameras, in turn
STRIDE = 3  # cameras from one time to the next by which the held-out one moves on
POINT_TIMES = 5


def rig_cameras(count: int, width: int, height: int) -> list[Camera]:
    """Cameras all around, evenly by azimuth, looking at the origin; neighbours are at two heights in turn."""
    fov_x = FOV_X * max(1.0, width / height)  # the scene fills the height of wide images
    return [
        hemisphere_camera(
            2 * math.pi * index / count, ELEVATIONS[index % 2], fov_x=fov_x, width=width, height=height
        )
        for index in range(count)
    ]


def is_held_out(camera: int, time: int, cameras: int, hold_out: str) -> bool:
    """Whether a pair of camera and time, each by its number, is held out.

    Of "pairs" that is one camera of each time, from time to time another, so that each camera has views just before and
    after; the first time is trained on whole. Of "camera" it is the last camera at all times.
    """
    if hold_out == "camera":
        return camera == cameras - 1
    return time > 0 and camera == STRIDE * time % cameras


def write_rig_capture(
    out: str | Path,
    *,
    cameras: int = 8,
    times: int = 60,
    width: int = 640,
    height: int = 480,
    seconds: float = 2.0,
    hold_out: str = "pairs",
    pace: float = 1.0,
    seed: int = 0,
    points: int = 20_000,
    samples: int = 2,
    on_progress: Callable[[float], None] | None = None,
) -> Path:
    """Writes a capture that `luxel.scenes.open` reads: cam0/000.png ..., transforms.json with times, points3D.ply.

    The scene is `dynamic_scene`. Images have straight alpha. Points are those of five times.

    Args:
        out: folder, created if it does not exist.
        cameras, times: numbers of them; every camera sees every time.
        width, height: of the images, pixels.
        seconds: from the first time to the last.
        hold_out: "pairs" or "camera", see `is_held_out`.
        pace: of the motion, see `dynamic_scene`.
        seed: of the scene and the points.
        points: number of points.
        samples: see `SolidScene.render`.
        on_progress: called with the fraction done in [0, 1].

    Returns:
        The folder.

    Raises:
        ValueError: fewer than 3 cameras or 2 times, a duration of 0 or less, or another ``hold_out``.
    """
    if cameras < 3 or times < 2 or not 0 < seconds < math.inf or hold_out not in HELD_OUT:
        raise ValueError(
            f"cameras must be at least 3, times 2, seconds above 0 and hold_out one of {', '.join(HELD_OUT)}, "
            f"got {cameras}, {times}, {seconds}, {hold_out}"
        )
    folder, scene = Path(out), dynamic_scene(seed, pace)
    rig = rig_cameras(cameras, width, height)
    pairs = [(camera, time) for camera in range(cameras) for time in range(times)]
    for camera in range(cameras):
        (folder / f"cam{camera}").mkdir(parents=True, exist_ok=True)

    def name(camera: int, time: int) -> str:
        return f"cam{camera}/{time:03d}.png"

    def work(number: int) -> None:
        camera, time = pairs[number]
        view = scene.render(rig[camera], time / (times - 1), samples=samples)
        pixels = as_bytes(np.concatenate([view.rgb, view.alpha[..., None]], axis=-1))
        Image.fromarray(pixels).save(folder / name(camera, time), compress_level=4)

    for_each(work, len(pairs), on_progress)
    frames = [
        {**frame_entry(name(camera, time), rig[camera]), "time": seconds * time / (times - 1)}
        for camera, time in pairs
    ]
    split: dict[bool, list[str]] = {False: [], True: []}
    for camera, time in pairs:
        split[is_held_out(camera, time, cameras, hold_out)].append(name(camera, time))
    document = {"frames": frames, "train_filenames": split[False], "test_filenames": split[True]}
    (folder / "transforms.json").write_text(json.dumps(document, indent=1))
    save_timed_points(
        folder / "points3D.ply", scene, points, np.linspace(0, 1, POINT_TIMES).tolist(), seed=seed
    )
    return folder
