"""The capture format of plain images: a folder of images whose poses structure from motion estimates."""

from __future__ import annotations

import os
from pathlib import Path

from luxel.scenes.captures.capture_format import CaptureFormat, ReadOptions
from luxel.scenes.captures.contents import CaptureContents, image_files, is_image_name
from luxel.scenes.captures.file_roles import UNREAD_IMAGES, mask_folder_of, suffix_of
from luxel.scenes.captures.folder_listing import Parts, list_files
from luxel.scenes.captures.panoramas.recognition import are_panoramas
from luxel.scenes.captures.unposed.estimation import estimated
from luxel.scenes.errors import CaptureError

SUBFOLDERS = ("images", "input")
FEWEST = 3  # images, with which poses can be estimated


def image_folder(path: Path) -> Path | None:
    """The capture's folder itself, or the one of `SUBFOLDERS` in it, that holds image files.

    The first one with enough images for poses; where none has, the first one with any.
    """
    folders = [folder for folder in (path, *(path / name for name in SUBFOLDERS)) if folder.is_dir()]
    counts = {folder: len(image_files(folder)) for folder in folders}
    return next((folder for limit in (FEWEST, 1) for folder in folders if counts[folder] >= limit), None)


def images_mismatch(path: Path) -> str | None:
    """None where there are image files, otherwise the reason, with the folder or the type of those elsewhere."""
    if path.is_file():
        return "it is not a folder"
    if image_folder(path) is not None:
        return None
    return f"there are no .jpg or .png files, neither in it nor in {' or '.join(SUBFOLDERS)}{_others(path)}"


def _others(path: Path, used: Path | None = None) -> str:
    """What other image files there are besides those in a folder, a clause; empty: none."""
    inside: dict[Parts, list[str]] = {}
    unread: dict[Parts, list[str]] = {}
    for folders, names in list_files(path, ()).files.items():
        if mask_folder_of(folders) is None and path.joinpath(*folders) != used:
            inside[folders] = [name for name in names if folders and is_image_name(name)]
            unread[folders] = [name for name in names if suffix_of(name) in UNREAD_IMAGES]
    folder = max(inside, key=lambda key: len(inside[key]), default=())
    if folder and inside[folder]:
        return f", but {len(inside[folder])} in {os.path.join(*folder)}, which can be given instead"
    folder = max(unread, key=lambda key: len(unread[key]), default=())
    if unread.get(folder):
        example = os.path.join(*folder, unread[folder][0])
        return f", but {len(unread[folder])} such as {example}, a type that luxel does not read"
    return ""


def read_images(path: Path, options: ReadOptions) -> CaptureContents:
    """Poses, intrinsics and points by structure from motion.

    Raises:
        CaptureError: too few images could be placed, or panoramas and others are mixed.
    """
    folder = image_folder(path)
    assert folder is not None
    files = image_files(folder)
    others = _others(path, folder) if len(files) < FEWEST else ""
    if others:
        raise CaptureError(
            f"{folder}: {len(files)} images are too few, at least {FEWEST} are needed{others}.",
            "Put all photographs into one folder, as JPEG or PNG, and give that.",
        )
    return estimated(path, folder, options, panoramas=are_panoramas(files, options.panorama))


IMAGE_LIST = CaptureFormat("photographs", images_mismatch, read_images)
