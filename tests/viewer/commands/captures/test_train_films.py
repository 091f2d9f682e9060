"""`luxel train` on films of made-up scenes: from the frames alone to a scene that shows what was held out."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import luxel.scenes as scenes
from luxel.render.geometry.camera import Camera, View
from luxel.render.primitives import Gaussians4d
from luxel.render.raster.rasterize import rasterize
from luxel.scenes.captures.colmap_process import features
from luxel.scenes.synthetic.captures.pose_captures import film as film_views
from luxel.scenes.synthetic.rays.ray_caster import StaticScene, StaticSolid
from luxel.scenes.synthetic.rays.ray_shapes import ELLIPSOID
from luxel.scenes.synthetic.rays.ray_textures import PRINT, Surface
from luxel.scenes.synthetic.toy import as_bytes
from luxel.viewer.cli import main
from luxel.viewer.films.film import write_film

pytestmark = pytest.mark.slow
WIDTH, HEIGHT, FRAMES, RATE = 256, 192, 18, 6
BALL = 0.4  # radius
SHORT = ["--device", "cpu", "--no-lpips", "--no-check-capture", "--save-renders", "1"]


def place(share: float) -> tuple[float, float, float]:
    """The middle of the ball at this share of its circle."""
    angle = 2 * math.pi * share
    return 0.5 * math.sin(angle), -1.0, 0.9 + 0.4 * math.cos(angle)


def camera_at(side: float, rise: float) -> Camera:
    """A camera before the row of objects; ``side`` in [-1, 1]."""
    eye = (1.4 * side, -3.4 + 0.3 * side * side, 1.25 + 0.2 * rise)
    fov_y = 2 * math.atan(math.tan(math.radians(29)) * HEIGHT / WIDTH)
    return Camera.look_at(
        list(eye), [0.3 * side, 0.6, 0.6], (0.0, 0.0, 1.0), fov_y=fov_y, width=WIDTH, height=HEIGHT
    )


def walk(count: int = FRAMES) -> list[Camera]:
    return [camera_at(s, math.sin(4 * s)) for s in np.linspace(-1, 1, count).tolist()]


def images_used(cameras: list[Camera], shares: list[float] | None = None) -> list[np.ndarray]:
    """What cameras see, uint8 [H, W, 3] each; with the ball at a share of its motion, where these are given."""
    solids = film_views(3, WIDTH, HEIGHT, 0)[0].solids
    look = Surface(PRINT, 0.3, ((0.9, 0.15, 0.1), (0.95, 0.85, 0.2), (0.1, 0.1, 0.3)), gloss=0.0, grain=0.1)
    out = []
    for index, camera in enumerate(cameras):
        if shares is not None:
            ball = StaticSolid(ELLIPSOID, (BALL, BALL, BALL), place(shares[index]), look)
            scene = StaticScene((*solids, ball), 0, torch.device("cpu"), shadow_radius=8.0, shadow_side=256)
        elif index == 0:
            scene = StaticScene(solids, 0, torch.device("cpu"), shadow_radius=8.0, shadow_side=256)
        out.append(as_bytes(scene.render(camera, samples=1).rgb.numpy()))
    return out


def train(capture: Path, run: Path, *options: str) -> None:
    assert main(["train", str(capture), "--run", str(run), *SHORT, *options]) == 0


def held_out_psnr(said: str) -> float:
    matched = re.search(r"held-out PSNR: ([\d.]+) dB", said)
    assert matched, said
    return float(matched[1])


@pytest.fixture
def few_features(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Structure from motion is quick, and keeps nothing in the user's cache."""
    pytest.importorskip("pycolmap", reason="pycolmap is not installed: structure from motion was not tested")
    monkeypatch.setattr(features, "FEATURES", 1536)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.usefixtures("few_features")
def test_a_film_trains_with_one_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    film, run = tmp_path / "walk.mp4", tmp_path / "run"
    write_film(film, images_used(walk()), RATE)
    train(film, run, "--steps", "200")
    said = capsys.readouterr()
    assert f"{FRAMES} of {FRAMES} images have a pose" in said.out + said.err
    assert held_out_psnr(said.out) > 19
    assert (run / "eval" / "index.html").is_file() and scenes.load_primitives(run).count > 1000


def of_the_ball(camera: Camera, share: float) -> np.ndarray:
    """Which pixels show the ball, bool [H, W]."""
    x, y, z = (camera.world_to_cam.double().numpy() @ [*place(share), 1.0])[:3]
    fx, fy, cx, cy = camera.intrinsics.tolist()
    rows, columns = np.mgrid[: camera.height, : camera.width] + 0.5
    return np.hypot(columns - cx - fx * x / z, rows - cy - fy * y / z) < 0.9 * fx * BALL / z


def ball_psnr(scene: Gaussians4d, views: list[View], masks: list[np.ndarray], times: list[float]) -> float:
    """PSNR in dB of the pixels of the ball, in views that are rendered at some times."""
    errors = []
    for view, mask, time in zip(views, masks, times, strict=True):
        rendered = rasterize(scene.at(time), view.camera).rgb.clamp(0, 1).numpy()
        errors.append(((rendered - view.read().rgb / 255)[mask] ** 2).mean())
    return -10 * math.log10(float(np.mean(errors)))


def assert_it_moves(run: Path, views: list[View], masks: list[np.ndarray]) -> None:
    """The ball of held-out views is better at their times than at any time for all."""
    scene = scenes.load_primitives(run)
    assert isinstance(scene, Gaussians4d) and len(views) >= 3 and min(mask.sum() for mask in masks) > 200
    times = [view.time for view in views]
    frozen = [ball_psnr(scene, views, masks, [time] * len(times)) for time in sorted(set(times))]
    moving = ball_psnr(scene, views, masks, times)
    assert moving > 15 and moving > max(frozen) + 2


@pytest.mark.usefixtures("few_features")
def test_a_film_of_what_moves_trains_with_one_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    film, run = tmp_path / "ball.mp4", tmp_path / "run"
    shares = np.linspace(0, 0.5, FRAMES).tolist()
    write_film(film, images_used(walk(), shares), RATE)
    options = ["--primitive", "gaussians4d", "--preset", "clip", "--batch", "1", "--max-gaussians", "9000"]
    options += ["--holdout-every", "4"]
    train(film, run, *options, "--steps", "500")
    assert held_out_psnr(capsys.readouterr().out) > 18
    capture = scenes.open(film, holdout_every=4)
    frames = [round(view.time * RATE) for view in capture.test]
    assert [view.time for view in capture.test] == pytest.approx([frame / RATE for frame in frames])
    masks = [of_the_ball(walk()[i], shares[i]) for i in frames]
    assert_it_moves(run, list(capture.test)[1:], masks[1:])  # nothing was before the first frame


def calibrated(folder: Path, cameras: list[Camera]) -> None:
    """transforms.json of films of these names."""
    frames = [
        {
            "file_path": f"cam{index:02d}.mp4",
            "transform_matrix": (camera.cam_to_world.double().numpy() @ np.diag([1.0, -1, -1, 1])).tolist(),
        }
        for index, camera in enumerate(cameras)
    ]
    lens = {"w": WIDTH, "h": HEIGHT, "fl_x": float(cameras[0].intrinsics[0])}
    (folder / "transforms.json").write_text(json.dumps({**lens, "frames": frames}))


@pytest.mark.usefixtures("few_features")
def test_films_of_several_cameras_train_with_one_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sides = [0.0, -0.55, -0.3, -0.1, 0.12, 0.35]  # the first one is held out
    cameras = [camera_at(side, (-1) ** index) for index, side in enumerate(sides)]
    shares = np.linspace(0, 0.7, 6).tolist()
    for index, camera in enumerate(cameras):
        write_film(tmp_path / f"cam{index:02d}.mp4", images_used([camera] * len(shares), shares), RATE)
    calibrated(tmp_path, cameras)
    options = ["--primitive", "gaussians4d", "--preset", "video", "--batch", "1", "--max-gaussians", "9000"]
    options += ["--init.time-scale", "0.5", "--steps", "600"]
    train(tmp_path, tmp_path / "run", *options)
    assert held_out_psnr(capsys.readouterr().out) > 18
    capture = scenes.open(tmp_path)
    assert {view.name[:5] for view in capture.test} == {"cam00"}
    masks = [of_the_ball(cameras[0], shares[round(view.time * RATE)]) for view in capture.test]
    assert_it_moves(tmp_path / "run", list(capture.test), masks)
