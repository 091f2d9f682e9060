"""Masks: cut-outs, ignored pixels, and masks that do not fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import luxel.scenes as scenes


def write_masks(folder: Path, kind: str, name: str = "{stem}.png", count: int = 16) -> None:
    (folder / "masks").mkdir(exist_ok=True)
    mask = np.zeros((48, 64), np.uint8)
    if kind == "object":
        mask[10:40, 20:50] = 255
    elif kind == "passer-by":
        mask[:] = 255
        mask[20:40, 5:15] = 0
    for file in sorted((folder / "images").iterdir())[:count]:
        Image.fromarray(mask).save(folder / "masks" / name.format(stem=file.stem, name=file.name))


@pytest.mark.parametrize("name", ["{stem}.png", "{name}.png"])
def test_object_masks_make_a_cutout(toy: Path, name: str) -> None:
    write_masks(toy, "object", name)
    capture = scenes.open(toy)
    pixels = capture.train[0].read()
    assert capture.cutout and capture.background == (1.0, 1.0, 1.0)
    assert pixels.alpha is not None and pixels.alpha.sum() == 255 * 30 * 30 and pixels.weight is None


def test_masks_of_passers_by_are_ignored_pixels(toy: Path) -> None:
    write_masks(toy, "passer-by")
    capture = scenes.open(toy)
    pixels = capture.train[0].read()
    assert not capture.cutout and capture.background is None and pixels.alpha is None
    assert pixels.weight is not None and (pixels.weight == 0).sum() == 200 and pixels.weight.max() == 255


@pytest.mark.parametrize(
    ("masks", "alpha", "weight"), [("cutout", True, False), ("ignore", False, True), ("none", False, False)]
)
def test_use_of_masks_can_be_chosen(toy: Path, masks: str, alpha: bool, weight: bool) -> None:
    write_masks(toy, "object")
    capture = scenes.open(toy, masks=masks)
    pixels = capture.test[0].read()
    assert (pixels.alpha is not None, pixels.weight is not None, capture.cutout) == (alpha, weight, alpha)


def test_mask_path_of_a_frame(toy: Path, edit_json) -> None:
    write_masks(toy, "object")
    (toy / "masks").rename(toy / "elsewhere")

    def change(document: dict) -> None:
        for frame in document["frames"]:
            frame["mask_path"] = frame["file_path"].replace("images", "elsewhere")

    edit_json(toy / "transforms.json", change)
    assert scenes.open(toy).cutout


def test_alpha_and_its_absence(cutout_toy: Path, toy: Path) -> None:
    assert scenes.open(cutout_toy).cutout
    assert not scenes.open(cutout_toy, masks="none").cutout
    assert scenes.open(cutout_toy, masks="ignore").train[0].read().weight is not None
    capture = scenes.open(toy, masks="cutout")
    assert not capture.cutout and "no masks" in capture.warnings[0]


def test_masks_of_zeros_and_ones(toy: Path) -> None:
    write_masks(toy, "object")
    for file in (toy / "masks").iterdir():
        Image.fromarray((np.asarray(Image.open(file)) > 0).astype(np.uint8)).save(file)
    alpha = scenes.open(toy).train[0].read().alpha
    assert alpha is not None and alpha.max() == 255


def test_some_masks_missing(toy: Path) -> None:
    write_masks(toy, "object", count=10)
    with pytest.raises(scenes.CaptureError, match=r"6 of 16 images have no mask.*0010\.png.*masks='ignore'"):
        scenes.open(toy)
    capture = scenes.open(toy, masks="ignore")
    assert "6 of 16" in capture.warnings[0] and capture.views[15].read().weight is None


def test_mask_of_another_shape(toy: Path) -> None:
    write_masks(toy, "object")
    Image.new("L", (30, 30), 255).save(toy / "masks/0004.png")
    with pytest.raises(scenes.CaptureError, match=r"0004\.png: the mask is 30x30.*64x48"):
        scenes.open(toy, masks="cutout")


def test_errors_name_damaged_masks(toy: Path) -> None:
    write_masks(toy, "object")
    (toy / "masks/0004.png").write_bytes(b"")
    with pytest.raises(scenes.CaptureError, match=r"masks/0004\.png.*zero bytes"):
        scenes.open(toy)


def test_unknown_use(toy: Path) -> None:
    with pytest.raises(scenes.CaptureError, match=r"'sometimes' is invalid.*cutout"):
        scenes.open(toy, masks="sometimes")
