"""The first examples, as a person runs them."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_render_a_scene(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "render_a_scene.py"))["main"](tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {"knot.png", "depth.png", "knot.ply"}
    assert "gradient by the centres: [2000, 3]" in capsys.readouterr().out


def test_train_a_scene(tmp_path: Path) -> None:
    psnr = runpy.run_path(str(EXAMPLES / "train_a_scene.py"))["main"](tmp_path, 60)
    assert psnr > 20  # 80 steps; 300 reach 38 dB


def test_fit_an_image(tmp_path: Path) -> None:
    psnr = runpy.run_path(str(EXAMPLES / "fit_an_image.py"))["main"](tmp_path, 50)
    assert psnr > 24  # 50 steps; 200 reach 38 dB
    assert (tmp_path / "field.png").exists()
