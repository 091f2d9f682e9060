"""Which mask file belongs to which image, by folder and name.

Names are those that programs write: COLMAP's NAME.jpg.png, Metashape's NAME_mask.png, RealityScan's NAME.jpg.mask.png,
and the name of the image itself. Upper and lower case are the same.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from luxel.scenes.captures.contents import IMAGE_SUFFIXES
from luxel.scenes.captures.entries import is_file, is_folder

MASK_FOLDERS = ("masks", "mask")  # in upper or lower case
MASK_SUFFIXES = (*IMAGE_SUFFIXES, ".gif", ".pgm", ".pbm", ".ppm")
MARKED = re.compile(r"(?P<before>.+)[._ -]masks?|masks?[._ -](?P<after>.+)", re.IGNORECASE)
MAX_DEPTH = 8  # of folders in a folder of masks
Parts = tuple[str, ...]


@dataclass
class MaskMatches:
    """Which masks belong to which images, all by their row.

    Args:
        of_image: the mask of each image that has one.
        ambiguous: of masks whose name fits several images, the images; such a mask is of none.
        spare: masks of images that have a better fitting one.
        unmatched: masks that fit no image.
    """

    of_image: dict[int, int] = field(default_factory=dict)
    ambiguous: dict[int, list[int]] = field(default_factory=dict)
    spare: list[int] = field(default_factory=list)
    unmatched: list[int] = field(default_factory=list)


def base_names(file: str) -> list[str]:
    """What the image of a mask file may be called, with or without its suffix, in lower case; the surest first."""
    stem = os.path.splitext(file)[0]
    marked = MARKED.fullmatch(stem)
    inner = [(marked["before"] or marked["after"])] if marked else []
    return [name.lower() for name in (file, stem, *inner)]


def match_masks(images: Sequence[Parts], masks: Sequence[Parts]) -> MaskMatches:
    """Assigns masks to images.

    A mask fits an image whose folders end with those of the mask, and that is named as `base_names` says. A mask that
    fits several images is of the only one with the same folders below those that all images share, else of none.

    Args:
        images: paths relative to the folder that holds the folder of masks, in parts.
        masks: paths relative to the folder of masks, in parts.
    """
    shared = _shared_folders(images)
    below = [tuple(part.lower() for part in image[shared:-1]) for image in images]
    # By folders and name: the images, and whether the name is the complete one.
    index: dict[tuple[Parts, str], list[int]] = defaultdict(list)
    for row, image in enumerate(images):
        folders, file = tuple(part.lower() for part in image[:-1]), image[-1].lower()
        for start in range(len(folders) + 1):
            for name in dict.fromkeys((file, os.path.splitext(file)[0])):
                index[folders[start:], name].append(row)
    out, claims = MaskMatches(), defaultdict(list)
    for row, mask in enumerate(masks):
        folders = tuple(part.lower() for part in mask[:-1])
        for rank, name in enumerate(base_names(mask[-1])):
            fitting = index.get((folders, name), [])
            exact = [image for image in fitting if below[image] == folders]
            chosen = exact if len(exact) == 1 else fitting
            if len(chosen) == 1:
                is_exact = below[chosen[0]] == folders
                claims[chosen[0]].append((not is_exact, rank, not mask[-1].lower().endswith(".png"), row))
            elif chosen:
                out.ambiguous[row] = chosen
            if chosen:
                break
        else:
            out.unmatched.append(row)
    for image, rivals in claims.items():
        (*_, out.of_image[image]), *others = sorted(rivals)
        out.spare += [other[-1] for other in others]
    return out


def _shared_folders(images: Sequence[Parts]) -> int:
    """How many folders all images share."""
    folders = [image[:-1] for image in images] or [()]
    first, last = min(folders), max(folders)
    pairs = zip(first, last, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(first), len(last)))


def files_below(folder: Path) -> list[Parts]:
    """Paths of all files below a folder, relative to it, in parts and in order; hidden ones are left out."""
    out: list[Parts] = []

    def visit(path: str, parts: Parts) -> None:
        try:
            entries = sorted(os.scandir(path), key=lambda entry: entry.name)
        except OSError:
            return
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if is_folder(entry):
                if len(parts) < MAX_DEPTH:
                    visit(entry.path, (*parts, entry.name))
            elif is_file(entry):
                out.append((*parts, entry.name))

    visit(str(folder), ())
    return out


def masks_alongside(folder: Path) -> list[str]:
    """Names of the files in a folder that are named as masks, such as NAME_mask.png."""
    try:
        with os.scandir(folder) as entries:
            return sorted(
                entry.name
                for entry in entries
                if MARKED.fullmatch(os.path.splitext(entry.name)[0]) and is_mask_image(entry.name)
            )
    except OSError:
        return []


def is_mask_image(file: str) -> bool:
    """Whether the suffix of a file is one that masks have."""
    return os.path.splitext(file)[1].lower() in MASK_SUFFIXES


def mask_folders(root: Path, images: Sequence[Path]) -> list[Path]:
    """Folders of masks of a capture: in its own folder, and alongside the folders of its images.

    Args:
        root: the capture's folder, or that of its file.
        images: the image files.
    """
    top = os.path.abspath(root)
    bases, parents = {top: None}, {os.path.abspath(parent) for parent in {image.parent for image in images}}
    for parent in sorted(parents):
        above = os.path.dirname(parent)
        if _is_within(parent, top):
            while parent != top and parent != above:
                bases[parent], parent, above = None, above, os.path.dirname(above)
        elif _is_within(top, above):  # the capture was opened by the folder of its model
            bases[above] = None
    out: list[Path] = []
    for base in bases:
        try:
            names = [entry.name for entry in os.scandir(base) if entry.name.lower() in MASK_FOLDERS]
        except OSError:
            continue
        names.sort(key=lambda name: (MASK_FOLDERS.index(name.lower()), name != name.lower(), name))
        folders = [os.path.join(base, name) for name in names]
        out += [
            Path(folder)
            for folder in folders
            if os.path.isdir(folder) and not any(_is_within(parent, folder) for parent in parents)
        ]
    return out


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def parts_below(file: Path, name: str, base: Path) -> Parts:
    """The path of an image relative to a folder, in parts; its name where it lies elsewhere."""
    path, folder = os.path.abspath(file), os.path.abspath(base)
    relative = os.path.relpath(path, folder) if _is_within(path, folder) else name.replace("\\", "/")
    return Path(relative).parts
