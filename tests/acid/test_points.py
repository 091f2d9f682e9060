"""A new kind of scene needs new files and a line of LOADERS: coloured points that render, view and export."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from additions import Extended, changed_lines, extended
from PIL import Image

HERE = Path(__file__).resolve().parent / "points"
POINTS = "0 0 0 255 0 0\n0.5 0 0 0 255 0\n0 0.5 0 0 0 255\n0 0 0.5 255 255 255\n"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Extended:
    return extended(HERE, tmp_path_factory.mktemp("points"))


def test_the_patch_is_a_line() -> None:
    assert changed_lines(HERE) == 1


@pytest.mark.slow
def test_points_render_view_and_export(tree: Extended, tmp_path: Path) -> None:
    source, frames, copy = tmp_path / "a.points", tmp_path / "frames", tmp_path / "b.points"
    source.write_text(POINTS)
    said = tree.luxel(
        *("render", source, "--out", frames, "--frames", 2, "--width", 64, "--height", 48, "--transparent"),
        *("--device", "cpu"),
    )
    assert "2 frames of 64x48" in said
    images = [np.array(Image.open(path)) for path in sorted(frames.glob("*.png"))]
    shown = {tuple(pixel[:3]) for image in images for pixel in image.reshape(-1, 4) if pixel[3]}
    assert len(images) == 2 and shown == {(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)}
    page = np.array(Image.open(io.BytesIO(tree.viewed(source)))).astype(int)
    assert page.shape[2] == 3 and (page.max(axis=2) > 40).any()
    assert "4 points" in tree.luxel("export", source, "--out", copy)
    assert np.array_equal(np.loadtxt(copy), np.loadtxt(source))
