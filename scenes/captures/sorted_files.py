"""The files of a capture that are not used, sorted by what they are."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath

from luxel.scenes.captures.contents import CaptureContents, is_image_name
from luxel.scenes.captures.file_roles import (
    FILM,
    IMAGE,
    POSES,
    UNREAD_IMAGE,
    VERSIONS,
    mask_folder_of,
    role_of,
    suffix_of,
)
from luxel.scenes.captures.folder_listing import Listing, Parts
from luxel.scenes.captures.formats.colmap import image_names
from luxel.scenes.captures.images.companions import DEPTH, companions, is_deep_grey
from luxel.scenes.errors import CaptureError
from luxel.scenes.unused import OTHER, Unused

VERSION = "another version of an image"
MAX_MODEL = 1 << 26  # bytes of the list of images of another COLMAP model
SHOWN_SUFFIXES = 4
SIDECAR, SIDECAR_HEAD, SIDECAR_MARK = ".xmp", 1 << 14, b"xcr:"  # of RealityCapture: a pose


class SortedFiles:
    """The unused files of a capture.

    Args:
        listing: of the capture's folder.
        contents: of the capture.

    Attributes:
        by_role: the files of each role, see `role_of` and `companions`; `VERSION` has other versions of used images.
        models: COLMAP models that are not used, by their folder: the images that only they have.
        estimated: whether luxel estimated the poses.
    """

    def __init__(self, listing: Listing, contents: CaptureContents) -> None:
        self.listing, self.contents = listing, contents
        self.estimated = "structure from motion" in contents.format
        self.by_role: dict[str, list[Parts]] = defaultdict(list)
        self._companions: dict[Parts, dict[str, str]] = {}
        self.models = self._other_models()
        for file in listing.unused():
            self.by_role[self._role(file)].append(file)

    @cached_property
    def _image_ends(self) -> set[str]:
        """Paths of the used images without some, or all, of their folders, in lower case."""
        ends = set()
        for path in self.listing.used:
            if is_image_name(os.path.basename(path)):
                parts = path.lower().split(os.sep)
                ends |= {"/".join(parts[-count:]) for count in range(1, min(len(parts), 5))}
        return ends

    @cached_property
    def image_stems(self) -> set[str]:
        """Names of the used images without folders and suffix, in lower case."""
        return {stem_of(end) for end in self._image_ends if "/" not in end}

    def _role(self, file: Parts) -> str:
        folders, name = file[:-1], file[-1]
        role = role_of(folders, name)
        if role == IMAGE:
            role = self._companions_in(folders, file).get(name, IMAGE)
        if role in (IMAGE, UNREAD_IMAGE, FILM) and stem_of(name) in self.image_stems:
            alongside = self.listing.files[folders]
            if any(other != name and stem_of(other) == stem_of(name) for other in alongside):
                return VERSION
            if any(VERSIONS.fullmatch(folder) for folder in folders):
                return VERSION
        if suffix_of(name) == SIDECAR and self._has_pose(file):
            return POSES
        return role

    def _companions_in(self, folders: Parts, file: Parts) -> dict[str, str]:
        """What the images of a folder are where they are not photographs; depth maps where one file is one."""
        if folders not in self._companions:
            names = [name for name in self.listing.files[folders] if is_image_name(name)]
            out = companions(self.listing.path(folders), names)
            if not out and is_deep_grey(self.listing.path(file)):
                out = dict.fromkeys(names, DEPTH)
            self._companions[folders] = out
        return self._companions[folders]

    def _has_pose(self, file: Parts) -> bool:
        try:
            with self.listing.path(file).open("rb") as sidecar:
                return SIDECAR_MARK in sidecar.read(SIDECAR_HEAD)
        except OSError:
            return False

    def _other_models(self) -> dict[Parts, list[str]]:
        out = {}
        for folders, names in self.listing.files.items():
            kinds = [s for s in (".bin", ".txt") if {f"cameras{s}", f"images{s}"} <= set(names)]
            folder = self.listing.path(folders)
            if not kinds or any(str(folder / f"images{s}") in self.listing.used for s in (".bin", ".txt")):
                continue
            try:
                if (folder / f"images{kinds[0]}").stat().st_size > MAX_MODEL:
                    continue
                present = [name.replace("\\", "/") for name in image_names(folder)]
            except (CaptureError, OSError):
                continue
            out[folders] = [name for name in present if name.lower() not in self._image_ends]
        return out

    def images_below(self, base: Parts) -> list[tuple[Parts, str]]:
        """All images of the capture, used ones first: their paths relative to a folder in it, and absolute.

        Where the folder has no used ones, all are taken, by their names.
        """
        folder = os.path.join(self.listing.root, *base)
        used = [
            (Path(os.path.relpath(path, folder)).parts, path)
            for path in sorted(self.listing.used)
            if is_image_name(os.path.basename(path)) and path.startswith(folder + os.sep)
        ]
        used = [image for image in used if mask_folder_of(image[0][:-1]) is None]
        used = used or [
            (PurePosixPath(source.name).parts, os.path.abspath(source.path))
            for source in self.contents.images
        ]
        others = [file for file in self.by_role[IMAGE] if file[: len(base)] == base]
        return used + [(file[len(base) :], str(self.listing.path(file))) for file in others]

    def entry(
        self, files: Sequence[Parts], kind: str, thing: str, why: str, remedy: str = "", harm: int = OTHER
    ) -> list[Unused]:
        """An entry about files, none where there are none.

        Args:
            files: of the kind, the first is the example.
            kind: see `Unused`.
            thing: what one of them is called.
            why: the rest of the sentence after "3 masks are"; the example follows.
            remedy, harm: see `Unused`.
        """
        if not files:
            return []
        number, example = len(files), "/".join(files[0])
        are = f"1 {thing} is" if number == 1 else f"{number} {thing}s are"
        return [Unused(kind, number, example, f"{are} {why} ({example}).", remedy, harm)]


def stem_of(name: str) -> str:
    """The name of a file without folders and suffix, in lower case."""
    return os.path.splitext(os.path.basename(name))[0].lower()


def suffixes_of(files: Sequence[Parts]) -> str:
    """The commonest suffixes of files, for a sentence."""
    counts = Counter(suffix_of(file[-1]) or "no suffix" for file in files).most_common()
    shown = ", ".join(suffix for suffix, _ in counts[:SHOWN_SUFFIXES])
    return shown + (", ..." if len(counts) > SHOWN_SUFFIXES else "")
