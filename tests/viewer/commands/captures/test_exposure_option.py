"""`--exposure camera` on the command line: `luxel eval` scores as the training does."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from luxel.viewer.cli import main

QUICK = ["--device", "cpu", "--no-lpips"]


def test_runs_with_a_camera_model_are_scored_through_it(
    toy_capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    options = ["--steps", "60", "--exposure", "camera"]
    assert main(["train", str(toy_capture), "--run", str(folder), *QUICK, *options]) == 0
    trained = json.loads((folder / "eval" / "report.json").read_text())["mean"]
    capsys.readouterr()

    def aligned() -> float:
        assert main(["eval", str(folder), *QUICK, "--json"]) == 0
        return json.loads(capsys.readouterr().out)["mean"]["psnr_aligned"]

    assert aligned() == pytest.approx(trained["psnr_aligned"], abs=1e-3)
    shutil.rmtree(folder / "checkpoints")
    assert main(["eval", str(folder), *QUICK]) == 0
    assert "without the vignetting and response of the cameras" in capsys.readouterr().err


def test_an_exposure_is_restored_from_one_of_its_kind(toy_capture: Path, tmp_path: Path) -> None:
    import torch

    from luxel.render.errors import LuxelError
    from luxel.render.train.views.exposure import Exposure
    from luxel.scenes.captures.open_capture import open as open_capture

    views = open_capture(toy_capture).train
    device = torch.device("cpu")
    camera, gain = (Exposure(model, views, device) for model in ("camera", "gain"))
    with pytest.raises(LuxelError, match="no exposures of model camera"):
        camera.restore(gain.table.tensors())
    with pytest.raises(LuxelError, match="no exposures of model gain"):
        gain.restore(Exposure("gain", views[1:], device).table.tensors())
