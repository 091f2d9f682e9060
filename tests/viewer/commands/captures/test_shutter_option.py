"""`luxel train --rolling-shutter` on a generated film: the choice is part of the run, and evaluation uses it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from luxel.render.train.resume import read_config
from luxel.scenes import open as open_capture
from luxel.scenes.captures.unposed.video import frame_interval
from luxel.scenes.synthetic.captures.film_capture import write_film_capture
from luxel.viewer.cli import main
from luxel.viewer.scene_loading.capture_options import load_origin
from luxel.viewer.scene_loading.learned_views import shutters_of_run

QUICK = ["--device", "cpu", "--no-lpips", "--no-check-capture"]


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short film."""
    folder = tmp_path_factory.mktemp("film") / "walk"
    return write_film_capture(folder, views=10, width=48, height=36, rows=6, points=400)


def test_evaluation_uses_what_was_learnt(
    film: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    words = ["train", str(film), "--run", str(run), "--steps", "12", "--rolling-shutter", "--readout", "0.5"]
    assert main([*words, "--readout-direction", "up", *QUICK]) == 0
    printed = capsys.readouterr().out
    config, capture = read_config(run)[0], load_origin(run).open()
    assert (config.rolling_shutter, config.readout, config.readout_direction) == (True, 0.5, "up")
    assert (
        main(["eval", str(run), "--device", "cpu", "--no-lpips", "--json", "--out", str(tmp_path / "a")]) == 0
    )
    psnr = json.loads(capsys.readouterr().out)["mean"]["psnr"]
    assert f"held-out PSNR: {psnr:.2f} dB" in printed
    views = capture.train, capture.test
    learnt = shutters_of_run(run, config, *views, torch.device("cpu"))
    assert learnt.table.values.any()
    seen = learnt.evaluation_views(capture.test)[0].camera.shutter
    assert seen is not None and seen[6:].tolist() == [0, -1] and seen[:6].abs().max() > 1e-3
    shutil.rmtree(run / "checkpoints")
    start = shutters_of_run(run, config, *views, torch.device("cpu"))
    assert not start.table.values.any()
    assert "the readout that the run began with" in capsys.readouterr().err


def test_frames_of_a_film_are_read_row_by_row(film: Path, tmp_path: Path) -> None:
    still = write_film_capture(tmp_path / "still", readout=0.0, views=10, width=48, height=36, points=400)
    rolling, exact = (open_capture(folder).views for folder in (film, still))
    assert [view.time for view in rolling] == pytest.approx([k / 30 for k in range(10)])
    for a, b in zip(rolling, exact, strict=True):
        assert torch.equal(a.camera.world_to_cam, b.camera.world_to_cam)
        rows = abs(a.read().rgb.astype(float) - b.read().rgb).mean((1, 2))
        assert rows[[0, 1, -2, -1]].mean() > rows[15:21].mean()
    with pytest.raises(ValueError, match="readout in"):
        write_film_capture(tmp_path / "wrong", readout=2.0)


def test_the_interval_between_frames_is_that_of_the_film(film: Path) -> None:
    assert frame_interval({"frame-000010.jpg": 0.0, "frame-000025.jpg": 0.5}) == pytest.approx(1 / 30)
    assert frame_interval({"frame-000010.jpg": 0.0}) is None
    view = open_capture(film).views[0]
    assert view.frame_interval is None and replace(view, frame_interval=0.1).frame_interval == 0.1
