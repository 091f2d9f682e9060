"""The area in which photographs of a still camera differ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from luxel.scenes.captures.contents import SourceImage
from luxel.scenes.captures.lenses.lens import Lens
from luxel.scenes.captures.poses.moving_area import area_of, moving_area

SIDE, VIEWS = 96, 12


def backdrop() -> np.ndarray:
    return np.random.default_rng(5).uniform(40, 200, (SIDE, SIDE, 3)).astype(np.float32)


def turning() -> tuple[np.ndarray, np.ndarray]:
    """Photographs of a spot that circles before a backdrop, and where it is at some time."""
    rows, columns = np.mgrid[:SIDE, :SIDE]
    images, swept = [], np.zeros((SIDE, SIDE), bool)
    for angle in np.linspace(0, 2 * np.pi, VIEWS, endpoint=False):
        x, y = 48 + 12 * np.cos(angle), 50 + 6 * np.sin(angle)
        spot = (columns - x) ** 2 + (rows - y) ** 2 < 14**2
        images.append(np.where(spot[..., None], np.array([250, 20, 20]), backdrop()))
        swept |= spot
    return np.stack(images).astype(np.float32), swept


def test_the_area_that_an_object_sweeps() -> None:
    images, swept = turning()
    exposure = np.linspace(0.8, 1.0, VIEWS, dtype=np.float32)[:, None, None, None]
    for some in (images, images * exposure):
        area = area_of(some)
        assert area is not None
        assert (area & swept).sum() > 0.9 * (area | swept).sum()


def test_a_camera_that_moves_has_no_such_area() -> None:
    images, _ = turning()
    assert area_of(np.stack([np.roll(image, 3 * row, axis=1) for row, image in enumerate(images)])) is None


def test_nothing_moves() -> None:
    assert area_of(np.stack([backdrop()] * VIEWS)) is None


def test_photographs_of_different_sizes_are_not_compared(tmp_path: Path) -> None:
    images, _ = turning()
    sources = []
    for index, image in enumerate(images):
        path = tmp_path / f"{index}.png"
        Image.fromarray(image.astype(np.uint8)).save(path)
        sources.append(SourceImage(path.name, path, Lens(SIDE, SIDE, 90.0, 90.0, 48.0, 48.0), np.eye(4)))
    assert moving_area(sources) is not None
    sources[3].lens = Lens(SIDE, SIDE + 2, 90.0, 90.0, 48.0, 49.0)
    assert moving_area(sources) is None
    assert moving_area(sources[:2]) is None
