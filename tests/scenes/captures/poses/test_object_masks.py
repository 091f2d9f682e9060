"""The object in the middle of photographs is masked consistently."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import luxel.scenes as scenes
from luxel.render.segment.segmenter import MaskChoice
from luxel.scenes.captures.caching.capture_cache import CaptureCache
from luxel.scenes.captures.capture_format import ignore_progress
from luxel.scenes.captures.contents import SourceImage
from luxel.scenes.captures.lenses.lens import Lens
from luxel.scenes.captures.poses import object_masks
from luxel.scenes.captures.poses.object_masks import mask_object
from luxel.scenes.errors import CaptureError

SIZE = (64, 48)


def disc(radius: float, x: float = 32, y: float = 24) -> np.ndarray:
    rows, columns = np.mgrid[: SIZE[1], : SIZE[0]]
    return (columns - x) ** 2 + (rows - y) ** 2 < radius**2


class Proposals:
    """A segmenter that proposes a part, the object, and a background with a hole; it is surest of any of them."""

    def __init__(self, masks: list[list[np.ndarray]], surest: list[int]) -> None:
        self.masks_of, self.surest, self.calls = masks, surest, 0

    def embed(self, image: np.ndarray) -> int:
        self.calls += 1
        return int(image[0, 0, 0])

    def masks(self, embedding: int, points: Any, box: Any = None) -> MaskChoice:
        some = torch.from_numpy(np.stack(self.masks_of[embedding]))
        sure = torch.full((len(some),), 0.8)
        sure[self.surest[embedding]] = 0.95
        return MaskChoice(some, some.float() - 0.5, sure)


def photographs(folder: Path, count: int) -> list[SourceImage]:
    out = []
    for index in range(count):
        path = folder / f"{index}.png"
        Image.new("RGB", SIZE, (index, 0, 0)).save(path)
        out.append(
            SourceImage(path.name, path, Lens(*SIZE, 50.0, 50.0, 32.0, 24.0), np.eye(4), oriented=True)
        )
    return out


def test_the_mask_that_fits_the_other_photographs_is_chosen(tmp_path: Path) -> None:
    sources = photographs(tmp_path, 6)
    masks = [[disc(5), disc(15), ~disc(20)] for _ in sources]
    segmenter = Proposals(masks, surest=[1, 1, 0, 1, 2, 1])
    mask_object(sources, CaptureCache(tmp_path), ignore_progress, segmenter)
    for source in sources:
        assert source.mask is not None
        assert np.array_equal(np.asarray(Image.open(source.mask)) > 0, disc(15))
    again = photographs(tmp_path, 6)
    mask_object(again, CaptureCache(tmp_path), ignore_progress, segmenter)
    assert segmenter.calls == 6 and again[3].mask == sources[3].mask  # from the cache
    for file in sources[3].mask.parent.iterdir():  # type: ignore[union-attr]
        file.unlink()
    mask_object(again := photographs(tmp_path, 6), CaptureCache(tmp_path), ignore_progress, segmenter)
    assert segmenter.calls == 12 and again[3].mask.is_file()  # type: ignore[union-attr]
    given = tmp_path / "given.png"
    again[0].mask = given
    mask_object(again[:1], CaptureCache(tmp_path), ignore_progress, segmenter)
    assert again[0].mask == given


def test_the_whole_that_moves_is_preferred_to_a_part(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    sources = photographs(tmp_path, 6)
    backdrop = random.integers(0, 256, (SIZE[1], SIZE[0], 3))
    for index, source in enumerate(sources):
        object_ = random.integers(0, 256, backdrop.shape)
        pixels = np.where(disc(15)[..., None], object_, backdrop).astype(np.uint8)
        pixels[0, 0] = index  # by which the segmenter knows the photograph
        Image.fromarray(pixels).save(source.path)
    masks = [[disc(5), disc(15)] for _ in sources]
    mask_object(sources, CaptureCache(tmp_path), ignore_progress, Proposals(masks, surest=[0] * 6))
    for source in sources:
        assert source.mask is not None
        assert np.array_equal(np.asarray(Image.open(source.mask)) > 0, disc(15))


def test_holes_and_islands(tmp_path: Path) -> None:
    sources = photographs(tmp_path, 3)
    speckled = disc(15) & ~disc(1.2, 36, 24) & ~disc(5, 28, 24) | disc(2, 60, 6)
    mask_object(sources, CaptureCache(tmp_path), ignore_progress, Proposals([[speckled]] * 3, [0] * 3))
    assert sources[0].mask is not None
    mask = np.asarray(Image.open(sources[0].mask)) > 0
    assert mask[24, 36] and not mask[24, 28] and not mask[6, 60]


def test_a_photograph_without_the_object_shows_nothing(tmp_path: Path) -> None:
    sources = photographs(tmp_path, 5)
    masks = [[disc(12)]] * 4 + [[disc(6, 8, 8)]]
    mask_object(sources, CaptureCache(tmp_path), ignore_progress, Proposals(masks, [0] * 5))
    assert sources[4].mask is not None and not np.asarray(Image.open(sources[4].mask)).any()


def test_no_object_in_the_middle(tmp_path: Path) -> None:
    sources = photographs(tmp_path, 4)
    with pytest.raises(CaptureError, match="no object in the middle looks alike"):
        mask_object(sources, CaptureCache(tmp_path), ignore_progress, Proposals([[~disc(20)]] * 4, [0] * 4))
    assert not [entry for entry in tmp_path.iterdir() if entry.is_dir()]


def test_a_capture_with_poses_says_that_nothing_is_masked(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_masks, "mobile_sam", None)  # would be called
    capture = scenes.open(toy, cut_object=True)
    assert any("not masked" in warning for warning in capture.warnings)
