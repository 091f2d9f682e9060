"""`--refine-poses`: what a run learnt of its cameras is what the viewer shows and what is exported and evaluated."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera, View
from luxel.render.runs.checkpoints.checkpoint import load_newest
from luxel.render.runs.folder.run_folder import RunFolder
from luxel.scenes import Capture
from luxel.scenes.captures.formats.colmap import read_model
from luxel.scenes.synthetic.captures.film_capture import write_film_capture
from luxel.viewer.cli import main
from luxel.viewer.exports import mesh_export
from luxel.viewer.reports import scoring
from luxel.viewer.scene_loading.capture_options import load_origin
from luxel.viewer.scene_loading.learned_views import refined_views
from luxel.viewer.web.opening import open_session

QUICK = ["--device", "cpu", "--no-lpips", "--no-check-capture"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("refined")
    capture = write_film_capture(folder / "walk", readout=0.0, views=10, width=48, height=36, points=400)
    words = ["train", str(capture), "--run", str(folder / "run"), "--steps", "40", "--refine-poses", *QUICK]
    assert main(words) == 0
    return folder / "run"


@pytest.fixture
def capture(run: Path) -> Capture:
    return load_origin(run).open()


def poses(views: list[View]) -> Tensor:
    return torch.stack([view.camera.world_to_cam for view in views])


def test_training_views_have_the_poses_of_the_newest_checkpoint(run: Path, capture: Capture) -> None:
    refined = refined_views(run, capture)
    assert [view.name for view in refined] == [view.name for view in capture.train]
    moved = (poses(refined) - poses(capture.train)).abs().amax((1, 2))
    assert moved.min() > 1e-5 and moved.max() < 0.2
    learnt = load_newest(run / "checkpoints", print, RunFolder.read_body(run)).tensors["poses.values"]
    turns = poses(refined)[:, :3, :3] @ poses(capture.train)[:, :3, :3].mT
    angles = torch.acos(((turns.diagonal(dim1=1, dim2=2).sum(1) - 1) / 2).clamp(-1, 1))
    torch.testing.assert_close(angles, learnt[:, :3].norm(dim=1), atol=5e-4, rtol=0)


def test_the_viewer_shows_refined_cameras(run: Path, capture: Capture) -> None:
    session = open_session(run, torch.device("cpu"))
    shown = list(session.views)
    assert torch.equal(poses(shown[: len(capture.train)]), poses(refined_views(run, capture)))
    assert torch.equal(poses(shown[len(capture.train) :]), poses(capture.test))
    other = open_session(run, torch.device("cpu"), capture=Path(load_origin(run).path))
    assert torch.equal(poses(list(other.views)[: len(capture.train)]), poses(capture.train))


def test_exported_cameras_are_refined(
    run: Path, capture: Capture, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(run), "--out", str(tmp_path / "model"), "--cameras"]) == 0
    assert f"{len(capture.views)} cameras with refined poses and" in capsys.readouterr().out
    images = read_model(tmp_path / "model").images
    written = {Path(name).name: torch.from_numpy(pose).float() for name, _, pose in images}
    for view in (*refined_views(run, capture), *capture.test):
        torch.testing.assert_close(written[view.name], view.camera.world_to_cam, atol=1e-5, rtol=0)


class Reached(Exception):
    """Raised in place of the work itself, once its cameras were looked at."""


def test_training_views_are_scored_from_refined_poses(
    run: Path, capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(_scene: Any, views: list[View], *_rest: Any, **_options: Any) -> None:
        assert torch.equal(poses(views), poses(refined_views(run, capture)))
        raise Reached

    monkeypatch.setattr(scoring, "score", look)
    with pytest.raises(Reached):
        main(["eval", str(run), "--split", "train", "--device", "cpu", "--no-lpips"])


def test_meshes_are_fused_from_refined_poses(
    run: Path, capture: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(_scene: Any, cameras: list[Camera], *_rest: Any, **_options: Any) -> None:
        expected = poses([*refined_views(run, capture), *capture.test])
        assert torch.equal(torch.stack([camera.world_to_cam for camera in cameras]), expected)
        raise Reached

    monkeypatch.setattr(mesh_export, "finished_surface", look)
    with pytest.raises(Reached):
        main(["export", str(run), "--out", str(tmp_path / "a.ply"), "--mesh", "--device", "cpu"])


def test_without_a_checkpoint_of_these_views_the_poses_are_those_given(
    run: Path, capture: Capture, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = shutil.copytree(run, tmp_path / "copy")
    fewer = Capture(**{**vars(capture), "train": capture.train[:-1]})
    assert torch.equal(poses(refined_views(copy, fewer)), poses(fewer.train))
    assert "has no poses of these views. Cameras have the poses that were given." in capsys.readouterr().err
    shutil.rmtree(copy / "checkpoints")
    assert torch.equal(poses(refined_views(copy, capture)), poses(capture.train))
    assert "there is no checkpoint. Cameras have the poses that were given." in capsys.readouterr().err
