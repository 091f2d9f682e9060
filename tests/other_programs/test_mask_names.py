"""Masks as programs name them: used for the right image, or named where they fit none, or several."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from ray_cast_capture import (
    cast,
    colmap_capture,
    pinhole_rays,
    ring,
    transforms,
    write_colmap,
    write_images,
    write_ply_points,
)

from luxel import scenes
from luxel.scenes.unused import LOST, OTHER, WRONG

Naming = Callable[[int], str]
COUNT = 8


def flat(row: int) -> str:
    """Names of images in one folder, as cameras give them."""
    return f"DSC_{row}.JPG"


def nested(row: int) -> str:
    """Names of the images of two cameras, which number theirs alike."""
    return f"cam{row // 4 + 1}/{row % 4:04d}.jpg"


def ball_masks(count: int = COUNT) -> list[np.ndarray]:
    """Where each camera sees the ball, bool [H, W]; they differ."""
    return [cast(pose, pinhole_rays())[1] for pose in ring(count)]


def write_masks(folder: Path, name: Naming, count: int = COUNT) -> None:
    for row, mask in enumerate(ball_masks()[:count]):
        file = folder / name(row)
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(mask.astype(np.uint8) * 255).save(file)


def write_capture(folder: Path, images: Naming, masks: Naming | None, root: str = "images") -> Path:
    poses = ring(COUNT)
    names = write_images(folder / root, poses, images)
    write_colmap(folder / "sparse" / "0", names, poses)
    if masks is not None:
        write_masks(folder, masks)
    return folder


def rows_of(capture: scenes.Capture, images: Naming) -> list[int]:
    """The row of each view by the end of its path."""
    ends = {images(row): row for row in range(COUNT)}
    return [
        next(row for end, row in ends.items() if str(view.path).endswith(f"/{end}")) for view in capture.views
    ]


def check_used(capture: scenes.Capture, images: Naming) -> None:
    """Each view has the mask of its own image, and nothing is said."""
    assert capture.cutout and capture.warnings == [] and capture.unused == []
    expected, rows = ball_masks(), rows_of(capture, images)
    assert sorted(rows) == list(range(COUNT))
    for view, row in zip(capture.views, rows, strict=True):
        alpha = view.read().alpha
        assert alpha is not None
        np.testing.assert_array_equal(alpha > 127, expected[row])


@pytest.mark.parametrize(
    "masks",
    [
        lambda row: f"masks/{nested(row)}",
        lambda row: f"masks/cam{row // 4 + 1}/{row % 4:04d}.png",
        lambda row: f"masks/cam{row // 4 + 1}/{row % 4:04d}.BMP",
        lambda row: f"masks/CAM{row // 4 + 1}/{row % 4:04d}.tif",
        lambda row: f"masks/images/{nested(row)}.png",
        lambda row: f"masks/cam{row // 4 + 1}/{row % 4:04d}_mask.png",
        lambda row: f"images/cam{row // 4 + 1}/masks/{row % 4:04d}.png",
    ],
)
def test_masks_in_the_folders_of_their_images(masks: Naming, tmp_path: Path) -> None:
    check_used(scenes.open(write_capture(tmp_path, nested, masks)), nested)


@pytest.mark.parametrize(
    "name",
    [
        "DSC_{}_mask.png",
        "DSC_{}.mask.png",
        "DSC_{}.JPG.mask.png",
        "DSC_{}.JPG.png",
        "DSC_{}.gif",
        "DSC_{}-Mask.tiff",
        "mask_DSC_{}.png",
        "dsc_{}.PNG",
        "DSC_{}.pgm",
    ],
)
def test_masks_as_programs_name_them(name: str, tmp_path: Path) -> None:
    check_used(scenes.open(write_capture(tmp_path, flat, lambda row: f"masks/{name.format(row)}")), flat)


@pytest.mark.parametrize("folder", ["Masks", "MASKS", "mask", "Mask"])
def test_the_folder_of_masks_in_any_case(folder: str, tmp_path: Path) -> None:
    check_used(scenes.open(write_capture(tmp_path, flat, lambda row: f"{folder}/DSC_{row}.png")), flat)


@pytest.mark.parametrize("root", ["scan/images", "a/b/photos"])
def test_masks_next_to_a_folder_of_images_deeper_in_the_capture(root: str, tmp_path: Path) -> None:
    poses = ring(COUNT)
    names = [f"{root}/{name}" for name in write_images(tmp_path / root, poses, flat)]
    (tmp_path / "transforms.json").write_text(json.dumps(transforms(names, poses)))
    write_masks(tmp_path, lambda row: f"{Path(root).parent}/masks/DSC_{row}.bmp")
    capture = scenes.open(tmp_path)
    assert capture.unused == [] and capture.cutout
    for view, row in zip(capture.views, rows_of(capture, flat), strict=True):
        alpha = view.read().alpha
        assert alpha is not None
        np.testing.assert_array_equal(alpha > 127, ball_masks()[row])


def test_masks_of_a_capture_that_is_opened_by_the_folder_of_its_model(tmp_path: Path) -> None:
    write_capture(tmp_path, flat, lambda row: f"masks/DSC_{row}.png")
    check_used(scenes.open(tmp_path / "sparse" / "0"), flat)


@pytest.mark.parametrize("name", ["DSC_{}_mask.png", "DSC_{}.JPG.mask.png", "DSC_{}.mask.jpg"])
def test_grey_masks_next_to_their_images(name: str, tmp_path: Path) -> None:
    check_used(scenes.open(write_capture(tmp_path, flat, lambda row: f"images/{name.format(row)}")), flat)


def test_coloured_images_that_are_named_as_masks_are_none(tmp_path: Path) -> None:
    write_capture(tmp_path, flat, None)
    for row in range(COUNT):
        darker = np.asarray(Image.open(tmp_path / "images" / flat(row))) // 2
        Image.fromarray(darker).save(tmp_path / "images" / f"DSC_{row}_mask.png")
    capture = scenes.open(tmp_path)
    (entry,) = capture.unused
    assert not capture.cutout and (entry.count, entry.harm) == (COUNT, LOST)
    assert entry.example == "images/DSC_0_mask.png" and "masks/" in entry.remedy


@pytest.mark.parametrize("separator", ["\\", "/"])
def test_a_model_made_on_windows(separator: str, tmp_path: Path) -> None:
    write_capture(tmp_path, nested, lambda row: f"masks/{nested(row)}")
    file = tmp_path / "sparse" / "0" / "images.txt"
    file.write_text(file.read_text().replace("/", separator))
    capture = scenes.open(tmp_path)
    check_used(capture, nested)
    assert [view.name for view in capture.views] == [nested(row) for row in range(COUNT)]


@pytest.mark.parametrize("key", ["masks\\cam{}\\{:04d}.png", "masks/cam{}/{:04d}.png"])
def test_masks_that_frames_name(key: str, tmp_path: Path) -> None:
    poses = ring(COUNT)
    names = [f"images/{name}" for name in write_images(tmp_path / "images", poses, nested)]
    document = transforms(names, poses)
    for row, frame in enumerate(document["frames"]):
        frame["mask_path"] = key.format(row // 4 + 1, row % 4)
    (tmp_path / "transforms.json").write_text(json.dumps(document))
    write_ply_points(tmp_path / "points3D.ply")
    write_masks(tmp_path, lambda row: f"masks/cam{row // 4 + 1}/{row % 4:04d}.png")
    check_used(scenes.open(tmp_path), nested)


def two_cameras(row: int) -> str:
    return f"{'front' if row < 4 else 'back'}/{row % 4:06d}.jpg"


@pytest.mark.parametrize(
    ("masks", "example"),
    [
        (lambda row: f"masks/{row % 4:06d}.png", "masks/000000.png"),
        (lambda row: f"Mask/{row % 4:06d}_mask.png", "Mask/000000_mask.png"),
        (lambda row: f"masks/{row % 4:06d}.jpg.png", "masks/000000.jpg.png"),
    ],
)
def test_masks_that_fit_images_of_several_cameras_are_of_none(
    masks: Naming, example: str, tmp_path: Path
) -> None:
    write_capture(tmp_path, two_cameras, None)
    write_masks(tmp_path, masks, 4)
    capture = scenes.open(tmp_path)
    assert not capture.cutout
    assert all(view.read().alpha is None and view.read().weight is None for view in capture.views)
    (entry,) = capture.unused
    assert (entry.count, entry.example, entry.harm) == (4, example, WRONG)
    assert "images/back/000000.jpg and images/front/000000.jpg" in entry.problem
    assert capture.warnings == [entry.sentence()]


def test_a_mask_in_no_folder_is_of_the_image_in_no_folder(tmp_path: Path) -> None:
    def images(row: int) -> str:
        return f"{row}.png" if row < 4 else f"close/{row - 4}.png"

    write_capture(tmp_path, images, None)
    write_masks(tmp_path / "masks", images, 4)
    capture = scenes.open(tmp_path, masks="ignore")
    masked = {view.name for view in capture.views if view.read().weight is not None}
    assert masked == {"0.png", "1.png", "2.png", "3.png"} and capture.unused == []


@pytest.mark.parametrize(
    ("masks", "kind"),
    [
        (lambda row: f"masks/m{row}.png", "masks"),
        (lambda row: f"masks/left/DSC_{row}.png", "masks"),
        (lambda row: f"MASK/DSC_{row + 100}_mask.jpg", "masks"),
    ],
)
def test_masks_that_fit_no_image_are_named(masks: Naming, kind: str, tmp_path: Path) -> None:
    capture = scenes.open(write_capture(tmp_path, flat, masks))
    (entry,) = capture.unused
    assert (entry.kind, entry.count, entry.example, entry.harm) == (kind, COUNT, masks(0), WRONG)
    assert "masks/DSC_0.png for images/DSC_0.JPG" in entry.remedy


@pytest.mark.parametrize("name", ["DSC_0.npy", "DSC_0.json", "DSC_0.svg", "DSC_0.psd"])
def test_masks_of_a_type_that_is_not_read_are_named(name: str, tmp_path: Path) -> None:
    write_capture(tmp_path, flat, None)
    (tmp_path / "masks").mkdir()
    (tmp_path / "masks" / name).write_bytes(b"mask")
    (entry,) = scenes.open(tmp_path).unused
    assert (entry.kind, entry.count, entry.harm) == ("masks of another type", 1, WRONG)


def test_masks_too_many_are_harmless_and_second_ones_are_named(tmp_path: Path) -> None:
    write_capture(tmp_path, flat, lambda row: f"masks/DSC_{row}.png")
    write_masks(tmp_path, lambda row: f"masks/removed{row}.png", 2)
    write_masks(tmp_path, lambda row: f"masks/DSC_{row}_mask.png", 3)
    capture = scenes.open(tmp_path)
    kinds = {entry.kind: (entry.count, entry.harm) for entry in capture.unused}
    assert capture.cutout and kinds == {"masks": (2, OTHER), "further masks": (3, OTHER)}


@pytest.mark.parametrize("folder", ["silhouettes", "segmentation", "object_masks", "Matte"])
def test_folders_that_may_be_masks_are_named(folder: str, tmp_path: Path) -> None:
    capture = scenes.open(write_capture(tmp_path, flat, lambda row: f"{folder}/DSC_{row}.png"))
    (entry,) = capture.unused
    assert (entry.count, entry.example, entry.harm) == (COUNT, f"{folder}/DSC_0.png", LOST)
    assert not capture.cutout


def test_masks_far_from_the_images_are_named(tmp_path: Path) -> None:
    capture = scenes.open(write_capture(tmp_path, flat, lambda row: f"work/masks/DSC_{row}.png"))
    (entry,) = capture.unused
    assert (entry.kind, entry.count, entry.harm) == ("masks elsewhere", COUNT, WRONG)


def test_nothing_is_said_of_masks_that_are_not_to_be_used(tmp_path: Path) -> None:
    capture = scenes.open(write_capture(tmp_path, flat, lambda row: f"masks/DSC_{row + 1}.png"), masks="none")
    assert capture.warnings == [] and capture.unused == [] and not capture.cutout


def test_masks_of_images_without_a_pose_are_not_named(tmp_path: Path) -> None:
    colmap_capture(tmp_path)
    for folder, image in (("images", Image.new("RGB", (48, 36))), ("masks", Image.new("L", (48, 36), 255))):
        (tmp_path / folder).mkdir(exist_ok=True)
        image.save(tmp_path / folder / "late.png")
    assert [entry.kind for entry in scenes.open(tmp_path).unused] == ["images without a pose"]
