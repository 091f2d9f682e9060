"""A capture in other units trains to the same quality."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import luxel.scenes
from luxel.render.geometry.camera import Points
from luxel.render.train import Trainer
from luxel.render.train.presets import preset
from luxel.scenes.files.ply import load_points, save_points

SOURCE = Path(luxel.scenes.__file__).parent / "data" / "tankard-tiny"
STEPS = 160


def scaled_copy(folder: Path, unit: float) -> Path:
    """The tankard with poses and points times ``unit``, images included."""
    shutil.copytree(SOURCE, folder)
    text = json.loads((folder / "transforms.json").read_text())
    for frame in text["frames"]:
        matrix = np.array(frame["transform_matrix"])
        matrix[:3, 3] *= unit
        frame["transform_matrix"] = matrix.tolist()
    (folder / "transforms.json").write_text(json.dumps(text))
    points = load_points(folder / "points3D.ply")
    (folder / "points3D.ply").unlink()
    save_points(folder / "points3D.ply", Points(points.xyz * unit, points.rgb))
    return folder


def held_out_psnr(folder: Path, strategy: str) -> float:
    capture = luxel.scenes.open(folder, max_size=96)
    values = preset().to_dict() | {"steps": STEPS, "lpips": False, "save_renders": 0, "eval_every": 0}
    values["strategy"] = {"kind": strategy, "cap_max": 4500}
    values["init"]["max_points"] = 3000
    config = type(preset()).from_dict(values)
    trainer = Trainer(config, capture.train, capture.test, capture.points, folder / "run", say=lambda _: None)
    result = trainer.run(progress=False)
    assert result.evaluation is not None
    assert result.count > 3200  # it did split or grow
    return result.evaluation.mean.psnr


@pytest.mark.parametrize("strategy", ["split", "mcmc"])
def test_the_unit_of_a_capture_changes_nothing(strategy: str, tmp_path: Path) -> None:
    scores = [
        held_out_psnr(scaled_copy(tmp_path / f"{unit:g}", unit), strategy) for unit in (0.01, 1.0, 100.0)
    ]
    assert scores[1] > 18
    assert max(scores) - min(scores) < 0.05, scores
