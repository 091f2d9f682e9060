"""Undistortion: against OpenCV, against the model itself, and on a synthetic image."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from luxel.scenes.captures.images.images import ImageReader, target_lens
from luxel.scenes.captures.lenses.lens import (
    Lens,
    distort_points,
    pinhole_of,
    undistort_points,
)
from luxel.scenes.captures.lenses.undistortion import undistortion_maps
from luxel.scenes.errors import CaptureError

PLANAR = Lens(120, 90, 130.0, 128.0, 61.5, 43.0, (0.06, -0.08, -0.001, 0.0015))
BARREL = Lens(120, 90, 100.0, 100.0, 60.0, 45.0, (-0.25, 0.05))
RATIONAL = Lens(120, 90, 130.0, 128.0, 61.5, 43.0, (0.06, -0.08, -0.001, 0.0015, 0.01, 0.02, 0.01, 0.0))
FISHEYE = Lens(120, 90, 60.0, 60.0, 60.0, 45.0, (0.02, -0.01, 0.002, 0.0), fisheye=True)
LENSES = {"planar": PLANAR, "barrel": BARREL, "rational": RATIONAL, "fisheye": FISHEYE}


@pytest.mark.parametrize("name", LENSES)
def test_distortion_equals_opencv(name: str) -> None:
    lens = LENSES[name]
    random = np.random.default_rng(0)
    directions = random.uniform(-0.4, 0.4, (200, 2))
    rays = np.concatenate([directions, np.ones((200, 1))], axis=1)[:, None]
    coefficients, zero = np.array(lens.distortion), np.zeros(3)
    project = cv2.fisheye.projectPoints if lens.fisheye else cv2.projectPoints
    if lens.fisheye:
        expected = project(rays, zero, zero, lens.matrix(), coefficients)[0]
    else:
        padded = np.zeros(8)
        padded[: len(coefficients)] = coefficients
        expected = project(rays, zero, zero, lens.matrix(), padded)[0]
    assert np.allclose(distort_points(lens, directions), expected.reshape(-1, 2), atol=1e-7)


@pytest.mark.parametrize("name", LENSES)
def test_undistortion_inverts_distortion(name: str) -> None:
    lens = LENSES[name]
    pixels = np.random.default_rng(1).uniform([0, 0], [119, 89], (300, 2))
    assert np.abs(distort_points(lens, undistort_points(lens, pixels)) - pixels).max() < 1e-3


def test_pinhole_camera_agrees_with_opencv() -> None:
    """Undistorted pixels of the pinhole camera agree with cv2.undistortPoints."""
    target = pinhole_of(PLANAR)
    pixels = np.random.default_rng(2).uniform([0, 0], [119, 89], (300, 1, 2))
    coefficients = np.array(PLANAR.distortion)
    expected = cv2.undistortPoints(pixels, PLANAR.matrix(), coefficients, P=target.matrix()).reshape(-1, 2)
    ours = undistort_points(PLANAR, pixels) * [target.fx, target.fy] + [target.cx - 0.5, target.cy - 0.5]
    assert np.abs(ours - expected).max() < 0.02  # OpenCV stops after five iterations by default


@pytest.mark.parametrize("name", LENSES)
def test_pinhole_view_is_defined_and_large(name: str) -> None:
    lens = LENSES[name]
    across, down, known = undistortion_maps(lens)
    assert known is None
    assert -0.02 <= across.min() < 1.5 and 117.5 < across.max() <= 119.02
    assert -0.02 <= down.min() < 1.5 and 87.5 < down.max() <= 89.02


def paint(directions: np.ndarray) -> np.ndarray:
    """A smooth image of viewing directions, uint8 [..., 3]."""
    x, y = directions[..., 0], directions[..., 1]
    waves = np.stack([np.sin(9 * x), np.cos(7 * y), np.sin(5 * x + 8 * y)], axis=-1)
    return np.round(127.5 + 120 * waves).astype(np.uint8)


@pytest.mark.parametrize("max_size", [None, 60])
@pytest.mark.parametrize("name", LENSES)
def test_undistorted_image_is_what_a_pinhole_sees(tmp_path: Path, name: str, max_size: int | None) -> None:
    lens = LENSES[name]
    columns, rows = np.meshgrid(np.arange(lens.width), np.arange(lens.height))
    seen = undistort_points(lens, np.stack([columns, rows], -1).reshape(-1, 2).astype(float))
    image = paint(seen.reshape(lens.height, lens.width, 2))
    Image.fromarray(image).save(tmp_path / "image.png")
    target = target_lens(lens, max_size, name)
    reader = ImageReader(tmp_path / "image.png", lens, target.width, target.height)
    x = (np.arange(target.width) + 0.5 - target.cx) / target.fx
    y = (np.arange(target.height) + 0.5 - target.cy) / target.fy
    expected = paint(np.stack(np.meshgrid(x, y), axis=-1)).astype(float)
    error = np.abs(reader().rgb - expected)
    assert error.mean() < 1.0 and error.max() < 8, (error.mean(), error.max())


def test_folding_distortion_is_refused() -> None:
    with pytest.raises(CaptureError, match="cannot be inverted"):
        pinhole_of(Lens(120, 90, 100.0, 100.0, 60.0, 45.0, (-3.0,)))


@pytest.mark.parametrize("bad", [(0, 5.0), (5, 0.0), (5, float("nan")), (1 << 40, 5.0)])
def test_invalid_lenses_are_refused(bad: tuple[int, float]) -> None:
    with pytest.raises(CaptureError, match="camera 3"):
        Lens.create(bad[0], 5, (bad[1], 5.0), (2.5, 2.5), {}, where="camera 3")
