"""`luxel train --lens keep`: the choice is part of the run, and what follows uses it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from luxel.scenes.synthetic.fisheye_capture import write_fisheye_capture
from luxel.viewer.cli import main
from luxel.viewer.commands.render import Render
from luxel.viewer.origin import Origin, load_origin

QUICK = ["--device", "cpu", "--no-lpips", "--no-check-capture"]


@pytest.fixture(scope="module")
def fisheye(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small capture of a fisheye."""
    return write_fisheye_capture(tmp_path_factory.mktemp("lens") / "room", views=8, side=40, points=400)


@pytest.fixture(scope="module")
def run(fisheye: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on its photographs as they are."""
    folder = tmp_path_factory.mktemp("lens-run") / "run"
    assert main(["train", str(fisheye), "--run", str(folder), "--lens", "keep", "--steps", "4", *QUICK]) == 0
    return folder


def test_the_choice_is_kept_in_the_run(run: Path) -> None:
    origin = load_origin(run)
    assert origin.lens == "keep"
    opened = origin.open()
    assert all(view.camera.lens is not None for view in opened.views)
    older = json.loads((run / "config.json").read_text())["capture"]
    del older["lens"]
    assert Origin(older["path"]).lens == "undistort"


def test_evaluation_and_resuming_use_it(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", str(run), "--device", "cpu", "--no-lpips", "--json", "--out", str(tmp_path)]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["views"][0]["width"] == scores["views"][0]["height"] == 40
    assert main(["train", "--resume", str(run), "--steps", "6", *QUICK]) == 0
    assert load_origin(run).lens == "keep"


def test_films_are_those_of_pinhole_cameras(run: Path, tmp_path: Path) -> None:
    cameras = Render(run)._capture.views
    assert all(view.camera.lens is None for view in cameras)
    frames = ["--frames", "2", "--width", "32", "--height", "24", "--device", "cpu"]
    assert main(["render", str(run), "--out", str(tmp_path / "frames"), *frames]) == 0
    assert len(list((tmp_path / "frames").glob("*.png"))) == 2


def test_convexes_refuse_it(fisheye: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", str(fisheye), "--primitive", "convexes", "--lens", "keep", "--steps", "4", *QUICK]
    assert main([*words, "--run", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert "Convexes cannot use cameras with a fisheye" in error and "--lens undistort" in error
    assert not (tmp_path / "run").exists()


def test_counts_of_views_that_see_a_point_know_the_lens(run: Path) -> None:
    from luxel.viewer.web.inspection.seen import DepthMap, count_views

    view = load_origin(run).open().train[0]
    far = torch.full((view.camera.height + 1, view.camera.width + 1), 100.0)
    matrix = view.camera.world_to_cam
    ahead, beside, behind = (torch.tensor(p) for p in ([0.0, 0, 1], [1.0, 0, 0.05], [0.0, 0.1, -1]))
    points = torch.stack([(p - matrix[:3, 3]) @ matrix[:3, :3] for p in (ahead, beside, behind)])
    assert count_views(points, [DepthMap(view.camera, far)]).tolist() == [1, 1, 0]
