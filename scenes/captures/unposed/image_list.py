"""The capture format of plain images: a folder of images whose poses structure from motion estimates."""

from __future__ import annotations

from pathlib import Path

from luxel.scenes.captures.capture_format import CaptureFormat, ReadOptions
from luxel.scenes.captures.contents import CaptureContents, image_files
from luxel.scenes.captures.panoramas.recognition import are_panoramas
from luxel.scenes.captures.unposed.estimation import estimated

SUBFOLDERS = ("images", "input")


def image_folder(path: Path) -> Path | None:
    """The capture's folder itself, or the one of `SUBFOLDERS` in it, that holds image files."""
    folders = (path, *(path / name for name in SUBFOLDERS))
    return next((folder for folder in folders if folder.is_dir() and image_files(folder)), None)


def images_mismatch(path: Path) -> str | None:
    """None where there are image files, otherwise the reason."""
    if path.is_file():
        return "it is not a folder"
    if image_folder(path) is None:
        return f"there are no .jpg or .png files, neither in it nor in {' or '.join(SUBFOLDERS)}"
    return None


def read_images(path: Path, options: ReadOptions) -> CaptureContents:
    """Poses, intrinsics and points by structure from motion.

    Raises:
        CaptureError: too few images could be placed, or panoramas and others are mixed.
    """
    folder = image_folder(path)
    assert folder is not None
    return estimated(path, folder, options, panoramas=are_panoramas(image_files(folder), options.panorama))


IMAGE_LIST = CaptureFormat("photographs", images_mismatch, read_images)
