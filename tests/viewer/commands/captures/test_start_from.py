"""`luxel train --start-from`: a run begins with the primitives of a scene."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from bad_input import Refused

from luxel.render.primitives import Convexes, Gaussians
from luxel.render.train.config import TrainConfig
from luxel.render.train.start import first_primitives
from luxel.scenes import load_primitives, save_scene
from luxel.viewer.cli import main

SHORT = ["--device", "cpu", "--no-lpips", "--save-renders", "0", "--resolution.halvings", "0"]


def psnr(text: str) -> float:
    matched = re.search(r"held-out PSNR: ([\d.]+) dB", text)
    assert matched, text
    return float(matched[1])


@pytest.mark.parametrize("suffix", [".ply", ".spz"])
def test_a_run_goes_on_from_the_scene_of_another(
    toy_capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str
) -> None:
    first, scene = tmp_path / "first", tmp_path / f"scene{suffix}"
    assert main(["train", str(toy_capture), "--run", str(first), "--steps", "150", *SHORT]) == 0
    before = psnr(capsys.readouterr().out)
    assert main(["export", str(first), "--out", str(scene)]) == 0
    short = ["train", str(toy_capture), "--steps", "2", *SHORT]
    assert main([*short, "--run", str(tmp_path / "second"), "--start-from", str(scene)]) == 0
    after = psnr(capsys.readouterr().out)
    assert main([*short, "--run", str(tmp_path / "third")]) == 0
    assert after > before - 1.5 and after > psnr(capsys.readouterr().out) + 3
    assert load_primitives(tmp_path / "second").count == load_primitives(first).count


def test_coefficients_and_number_follow_the_configuration() -> None:
    shapes = ((3,), (4,), (3,), (), (3,), (3, 3))
    scene = Gaussians(*(torch.rand(50, *shape) for shape in shapes))
    config = TrainConfig(max_gaussians=20)
    out = first_primitives(scene, config, [], torch.device("cpu"))
    assert out.count == 20 and out.sh_rest.shape == (20, 15, 3)
    assert not out.sh_rest[:, 3:].any() and bool(out.sh_rest[:, :3].any())
    rows = (out.means[:, None] == scene.means[None]).all(-1).float().argmax(1)
    assert len(rows.unique()) == 20 and torch.equal(out.quats, scene.quats[rows])


def test_what_cannot_be_started_from_is_refused(
    toy_capture: Path, run: Path, tmp_path: Path, refused: Refused
) -> None:
    shapes = {"points": (6, 3), "sh_dc": (3,), "sh_rest": (0, 3)}
    names = ("log_delta", "log_sigma", "opacity_logits", "mask_logits")
    tensors = {name: torch.rand(4, *shape) for name, shape in shapes.items()}
    save_scene(tmp_path / "c.ply", Convexes(**tensors, **{name: torch.rand(4) for name in names}))
    said = refused("train", toy_capture, "--start-from", tmp_path / "c.ply", names="4 convexes")
    assert "Give a scene of Gaussians" in said
    refused("train", toy_capture, "--start-from", tmp_path / "absent.ply", names="absent.ply")
    refused("train", "--resume", run, "--start-from", tmp_path / "c.ply", names="--start-from")
