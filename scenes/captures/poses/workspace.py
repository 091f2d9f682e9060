"""The folder in which structure from motion works: upright images, masks, COLMAP's database."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image

from luxel.render.errors import LuxelError
from luxel.render.runs.folder.owner import Ownership, own
from luxel.render.storage.descriptors import opened_folder
from luxel.render.storage.journal import scratch_folder
from luxel.scenes.captures.caching.capture_cache import content_key, user_cache
from luxel.scenes.captures.contents import JPEG_SUFFIXES, SourceImage
from luxel.scenes.captures.images.images import ORIENTATION_TAG, ImageHeader, decode, for_each
from luxel.scenes.captures.images.masks import read_mask
from luxel.scenes.files.exr.channels import SUFFIX as EXR_SUFFIX
from luxel.scenes.files.images.heif import SUFFIXES as HEIF_SUFFIXES
from luxel.scenes.files.images.image_decoding import opened_header

COPIED = (*HEIF_SUFFIXES, EXR_SUFFIX)  # formats that COLMAP does not know
EXIF_FOLDER = 0x8769
WORKING = "working"  # folder in the cache of the user
MAKE, MODEL, FOCAL, FOCAL_35MM = 0x010F, 0x0110, 0x920A, 0xA405


# What luxel and COLMAP write into it.
ENTRIES = re.compile(
    r"images|masks|(database|affine|fewer-pairs|moving|neighbours|turntable)\.db(-wal|-shm|-journal)?|pairs\.txt|incremental|global|loose|again|finished"
    r"|neighbours|triangulated"
    r"|(request|result)\.npz|\.owner.*"
)


@contextmanager
def working_folder(capture: Path, key: str) -> Iterator[Path]:
    """The folder of the work on a capture, in the cache of the user: what an interrupted process left in it is there
    again.

    Removed on exit, also after an error, but not after an interruption. Where another process works in it, or something
    is there that luxel did not make, an empty one that is always removed.

    Args:
        capture: folder of the images.
        key: of the inputs and options.
    """
    cache = user_cache()
    folder = cache / WORKING / f"sfm-{content_key([str(capture.resolve()), key])}"
    owner = _owned(cache, folder)
    if owner is None:
        with scratch_folder(cache) as scratch:
            yield scratch
        return
    with owner:
        try:
            yield folder
        except Exception:
            _removed(folder)
            raise
        _removed(folder)


def _owned(cache: Path, folder: Path) -> Ownership | None:
    """The ownership of a working folder, made if it is missing; None: it cannot be used."""
    try:
        with opened_folder(cache, folder.relative_to(cache).parts, make=True):
            if any(
                not ENTRIES.fullmatch(entry.name)
                or (entry.is_symlink() and not entry.name.startswith(".owner"))
                for entry in os.scandir(folder)
            ):
                return None
        return own(folder)
    except (LuxelError, OSError):
        return None


def _removed(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):  # the last one
        folder.parent.rmdir()


@dataclass
class Workspace:
    """Inputs of structure from motion as COLMAP reads them.

    Args:
        folder: see `working_folder`.
        sources: the images.
        headers: of their files, in the same order.
        names: of the files that COLMAP reads, in the same order.
    """

    folder: Path
    sources: Sequence[SourceImage]
    headers: Sequence[ImageHeader]
    names: list[str] = field(init=False)

    def __post_init__(self) -> None:
        # COLMAP splits its list of pairs at blanks, so files have plain names here.
        self.names = [f"{i:06d}{suffix_for(source.path)}" for i, source in enumerate(self.sources)]
        self.images.mkdir(exist_ok=True)
        self.masks.mkdir(exist_ok=True)

    @property
    def images(self) -> Path:
        """Folder of the images."""
        return self.folder / "images"

    @property
    def masks(self) -> Path:
        """Folder of the masks."""
        return self.folder / "masks"

    def prepare(self) -> None:
        """Writes images and masks that are not there yet.

        Raises:
            CaptureError: a file is damaged, or a mask does not fit.
        """

        def one(index: int) -> None:
            target = self.images / self.names[index]
            if not target.exists():
                prepare(self.sources[index], self.headers[index], target, self.masks)

        for_each(one, len(self.sources))

    def lenses(self) -> list[list[str]]:
        """Names of the images that one lens took: of the same size, and the same focal length where EXIF gives it."""
        groups: dict[tuple[object, ...], list[str]] = {}
        for name, source in zip(self.names, self.sources, strict=True):
            lens = (source.lens.width, source.lens.height, *focal_facts(source.path))
            groups.setdefault(lens, []).append(name)
        return list(groups.values())


def focal_facts(path: Path) -> tuple[object, ...]:
    """Camera and focal length from the EXIF data of a file, as far as they are there."""
    with opened_header(path) as image:
        if image.format == "PNG" and "exif" not in image.info:
            return ()
        exif = image.getexif()
        inner = exif.get_ifd(EXIF_FOLDER)
    facts = (exif.get(MAKE), exif.get(MODEL), inner.get(FOCAL), inner.get(FOCAL_35MM))
    return tuple(str(fact) for fact in facts)


def suffix_for(path: Path) -> str:
    """That of the file which COLMAP reads: it knows neither HEIC nor OpenEXR, nor all suffixes of JPEG."""
    suffix = path.suffix.lower()
    return ".jpg" if suffix in (*COPIED, *JPEG_SUFFIXES) else suffix


def prepare(source: SourceImage, header: ImageHeader, target: Path, masks: Path) -> None:
    """Writes an upright, opaque image to ``target``, after its mask under the name that COLMAP expects.

    Raises:
        CaptureError: the file is damaged, or its mask does not fit.
    """
    plain = header.orientation == 1 and not header.has_alpha and source.path.suffix.lower() not in COPIED
    pixels = decode(source.path, oriented=not plain)  # raises for a file that COLMAP would silently leave out
    if source.mask is not None:
        mask = read_mask(source.mask, source.lens.width, source.lens.height)
        Image.fromarray(mask).save(masks / f"{target.name}.png", compress_level=1)
    elif pixels.shape[-1] == 4:
        Image.fromarray(pixels[..., 3]).save(masks / f"{target.name}.png", compress_level=1)
    partial = target.with_name(f"part-{target.name}")
    if plain:
        partial.unlink(missing_ok=True)
        try:
            partial.symlink_to(source.path.resolve())
        except OSError:
            shutil.copyfile(source.path, partial)
    else:
        image = Image.fromarray(pixels[..., :3])
        with Image.open(source.path) as original:
            exif = original.getexif()  # COLMAP reads the focal length from it
        exif[ORIENTATION_TAG] = 1
        jpeg = target.suffix in (".jpg", ".jpeg")
        options: dict[str, Any] = {"quality": 97, "subsampling": 0} if jpeg else {}
        image.save(partial, exif=exif.tobytes(), **options)
    os.replace(partial, target)
