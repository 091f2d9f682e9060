"""`luxel train --depth`: few photographs of a room, of which the depth of some pixels is known."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import luxel.scenes as scenes
from luxel.render.geometry.camera import Camera, Points
from luxel.viewer.cli import main

sys.path.insert(0, str(Path(__file__).parents[3] / "scenes"))
import textured_room as room

SIZE, FOCAL, COUNT = (48, 36), 34.0, 12
SHORT = ["--device", "cpu", "--no-lpips", "--no-check-capture", "--save-renders", "0", "--strategy", "fixed"]
ROUGH = ["--init.sh-degree", "0", "--init.opacity", "0.3", "--resolution.halvings", "0"]


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """Twelve photographs with the exact depth of a twelfth of their pixels, and points anywhere in the room."""
    folder, frames = tmp_path / "room", []
    (folder / "images").mkdir(parents=True)
    (folder / "depths").mkdir()
    random = np.random.default_rng(0)
    columns, rows = np.meshgrid(np.arange(SIZE[0]) + 0.5, np.arange(SIZE[1]) + 0.5)
    local = np.stack([(columns - 24) / FOCAL, (rows - 18) / FOCAL, np.ones_like(rows)], -1)
    for index in range(COUNT):
        angle = 2 * np.pi * index / COUNT
        eye = (1.2 * np.cos(angle), 0.3 * np.sin(3 * angle), 1.2 * np.sin(angle))
        target = (-2.5 * np.cos(angle + 0.3), 0.2, -2.0 * np.sin(angle + 0.3))
        pose = Camera.look_at(eye, target, (0.0, -1.0, 0.0)).cam_to_world.double().numpy()
        rays = local @ pose[:3, :3].T
        Image.fromarray(room.colours(pose[:3, 3], rays)).save(folder / "images" / f"{index:02}.png")
        depth = 1000 * room.reach(pose[:3, 3], rays).min(-1)
        if index % 4:  # of held-out views all is known
            depth = np.where(random.random(depth.shape) < 1 / 12, depth, 0)
        Image.fromarray(np.round(depth).astype(np.uint16)).save(folder / "depths" / f"{index:02}.png")
        matrix = (pose @ np.diag([1.0, -1, -1, 1])).tolist()
        frames.append({"file_path": f"images/{index:02}.png", "transform_matrix": matrix})
    xyz = (0.95 * room.HALF * random.uniform(-1, 1, (900, 3))).astype(np.float32)
    grey = random.integers(90, 160, (900, 1)).repeat(3, 1).astype(np.uint8)
    scenes.save_points(folder / "points3D.ply", Points(xyz, grey))
    document = {"fl_x": FOCAL, "w": SIZE[0], "h": SIZE[1], "ply_file_path": "points3D.ply", "frames": frames}
    (folder / "transforms.json").write_text(json.dumps(document))
    return folder


def train(capture: Path, run: Path, *options: str) -> dict[str, float]:
    """Trains and returns the mean scores of the held-out views."""
    given = ["train", str(capture), "--run", str(run), "--holdout-every", "4", *SHORT, *ROUGH, *options]
    assert main(given) == 0
    return json.loads((run / "eval" / "report.json").read_text())["mean"]


@pytest.mark.slow
def test_depth_falls_and_the_image_gains(
    capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    plain = train(capture, tmp_path / "plain", "--steps", "200")
    assert "depth maps: of 12 images, not used; --depth maps" in capsys.readouterr().out
    assert "depth_mean" not in plain
    blind = train(capture, tmp_path / "blind", "--steps", "200", "--depth", "maps", "--depth-weight", "0")
    assert blind["psnr"] == pytest.approx(plain["psnr"], abs=0.3)
    with_depth = train(capture, tmp_path / "depth", "--steps", "200", "--depth", "maps")
    said = capsys.readouterr().out
    assert "depth error" in said and "depth rel." in said
    assert with_depth["depth_mean"] < 0.6 * blind["depth_mean"], (with_depth, blind)
    assert with_depth["depth_relative"] < 0.6 * blind["depth_relative"]
    assert with_depth["depth_median"] < 0.6 * blind["depth_median"]
    assert with_depth["psnr"] > plain["psnr"] + 0.2, (with_depth, plain)
    assert main(["eval", str(tmp_path / "depth"), "--device", "cpu", "--no-lpips", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["mean"]["depth_mean"] == pytest.approx(with_depth["depth_mean"], rel=1e-4)
    assert len(again["views"]) == 3 and all("depth_median" in view for view in again["views"])


@pytest.mark.slow
def test_inverse_depth_of_unknown_scale(capture: Path, tmp_path: Path) -> None:
    """Every map has its own scale and shift, as networks give it, in 16 bits; points are roughly at the walls."""
    random = np.random.default_rng(3)
    rays = random.normal(size=(600, 3))
    far = room.reach(np.zeros(3), rays).min(-1) * (1 + 0.2 * random.normal(size=600).clip(-2, 2))
    grey = random.integers(90, 160, (600, 1)).repeat(3, 1).astype(np.uint8)
    scenes.save_points(capture / "points3D.ply", Points((rays * far[:, None]).astype(np.float32), grey))
    for path in sorted((capture / "depths").iterdir()):
        depth = np.asarray(Image.open(path)) / 1000
        inverse = np.where(
            depth > 0, random.uniform(0.2, 0.5) / np.maximum(depth, 1e-3) + random.uniform(0.02, 0.1), 0
        )
        Image.fromarray(np.round(65535 * np.minimum(inverse, 1)).astype(np.uint16)).save(path)
    options = ("--depth-values", "inverse", "--depth", "maps", "--depth-scale", "align")
    blind = train(capture, tmp_path / "blind", "--steps", "200", *options, "--depth-weight", "0")
    fitted = train(capture, tmp_path / "fitted", "--steps", "200", *options)
    assert fitted["depth_relative"] < 0.9 * blind["depth_relative"], (fitted, blind)
    assert fitted["psnr"] > blind["psnr"] - 0.5


def test_a_run_is_resumed_with_its_depth(capture: Path, tmp_path: Path) -> None:
    """Also where the file of points is another one than at the start of the run."""
    scan = tmp_path / "scan.ply"
    scenes.save_points(scan, scenes.open(capture).points)
    options = ("--depth", "all", "--depth-points", str(scan), "--depth-values", "ray")
    train(capture, tmp_path / "run", "--steps", "4", *options)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["capture"]["depth_points"] == str(scan) and config["capture"]["depth_values"] == "ray"
    assert config["config"]["depth"] == "all" and config["config"]["depth_scale"] == "metric"
    assert main(["train", "--resume", str(tmp_path / "run"), "--steps", "6", "--device", "cpu"]) == 0
    without = ["--depth", "none", "--device", "cpu"]
    assert main(["train", "--resume", str(tmp_path / "run"), "--steps", "8", *without]) == 0


def test_what_is_missing_is_said(capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    for path in (capture / "depths").iterdir():
        path.unlink()
    assert main(["train", str(capture), "--run", str(tmp_path / "run"), *SHORT, "--depth", "maps"]) == 2
    error = capsys.readouterr().err
    assert "there are no depth maps" in error and "depths/" in error and not (tmp_path / "run").exists()
    (capture / "depths" / "03.png").write_bytes(b"no image")
    assert main(["train", str(capture), "--run", str(tmp_path / "run"), *SHORT, "--depth", "maps"]) == 2
    assert "03.png" in capsys.readouterr().err
    given = ["--depth", "maps", "--depth-points", "scan.ply"]
    assert main(["train", str(capture), "--run", str(tmp_path / "run"), *SHORT, *given]) == 2
    assert "--depth-points needs --depth points or all" in capsys.readouterr().err
