"""Bundles and folders of SOG: bounded reading of their files, and writing."""

from __future__ import annotations

import io
import itertools
import json
import os
import re
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from luxel.render.storage.folder import OutputFolder
from luxel.render.storage.reading import available_memory
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.images.image_decoding import webp_size
from luxel.scenes.files.ply import writable
from luxel.scenes.files.reading import check_file, read_bytes

META, INDEX = (
    "meta.json",
    "lod-meta.json",
)  # of a scene, and of one in parts, see `luxel.scenes.files.sog.streamed`
IMAGES = (
    *("means_l.webp", "means_u.webp", "scales.webp", "quats.webp", "sh0.webp"),
    *("shN_centroids.webp", "shN_labels.webp"),
)
IMAGE = re.compile(
    f"({'|'.join(Path(name).stem for name in IMAGES)})(-[0-9]+)?\\.webp"
)  # names that luxel gives
LARGEST_META = 1 << 22  # bytes; real ones have some 20 kB
MAX_FILES = 1000  # of an archive; real ones have 6 or 8
PER_BYTE = 1  # Gaussians that a byte of a file may stand for; real ones take 8 bytes and more each
SLACK = 1 << 16  # Gaussians that any file may stand for
MEMORY = 300  # bytes of a Gaussian in memory
EXPORT_AGAIN = "Copy or export the scene again."

Files = Callable[[str], bytes]


def damaged(path: Path, reason: str) -> CaptureError:
    """The error for a scene that contradicts the specification."""
    return CaptureError(f"{path}: damaged, or not a SOG scene: {reason}.", EXPORT_AGAIN)


def is_folder(path: Path) -> bool:
    """Whether a path is the meta.json of a SOG scene, or the folder of one."""
    if path.name.lower().endswith(META):
        return path.is_file() and path.name.lower() != INDEX
    file = path / META
    with suppress(OSError, ValueError, RecursionError):
        if path.is_dir() and file.is_file() and file.stat().st_size <= LARGEST_META:
            meta = json.loads(file.read_bytes())
            return isinstance(meta, dict) and {"means", "scales", "quats", "sh0"} <= meta.keys()
    return False


def open_scene(path: Path) -> tuple[dict[str, Any], Files, int]:
    """What meta.json of a bundle or folder says, the function that reads one of its files, and their size in bytes.

    Raises:
        CaptureError: it cannot be read, or meta.json is no JSON object.
    """
    if is_folder(path):
        file = path / META if path.is_dir() else path
        files: Files = partial(_companion, path, file.parent)
        raw = read_bytes(file) if check_file(file) <= LARGEST_META else b""
        size = sum(image.stat().st_size for image in file.parent.glob("*.webp"))
    else:
        data = read_bytes(path)
        size = len(data)
        if data.count(b"PK\x01\x02") > MAX_FILES:  # each takes twenty times its bytes in memory
            raise damaged(path, f"the archive has more than {MAX_FILES} files")
        files = partial(_entry, path, zipfile.ZipFile(io.BytesIO(data)), size)
        raw = files(META)
    meta = json.loads(raw) if 0 < len(raw) <= LARGEST_META else None
    if not isinstance(meta, dict):
        raise damaged(path, f"{META} holds no JSON object of at most {LARGEST_META >> 20} MiB")
    return meta, files, size


def _companion(path: Path, folder: Path, name: str) -> bytes:
    """A file of a folder; a path instead of its name could lead anywhere."""
    if name in ("", ".", "..") or "/" in name or "\\" in name:
        raise damaged(path, f"{META} names the file {name[:80]!r}, which is outside of the scene")
    return read_bytes(folder / name)


def _entry(path: Path, archive: zipfile.ZipFile, size: int, name: str) -> bytes:
    """A file of an archive. Images do not shrink further, so that none is larger than the archive."""
    if name not in archive.NameToInfo:
        raise damaged(path, f"the archive has no file {name[:80]!r}")
    info = archive.getinfo(name)
    if info.file_size > size + LARGEST_META:
        raise damaged(path, f"{name[:80]!r} would have {info.file_size:,} bytes")
    with archive.open(info) as file:
        return file.read(info.file_size)


def other_entries(path: Path, meta: dict[str, Any]) -> list[str]:
    """Names of the files of a bundle that its meta.json does not name; of a folder none.

    Raises:
        CaptureError: the archive cannot be read.
    """
    if is_folder(path):
        return []
    sections = [section.get("files") for section in meta.values() if isinstance(section, dict)]
    named = {str(name) for files in sections if isinstance(files, list) for name in files}
    with zipfile.ZipFile(path) as archive:
        return [
            name for name in archive.namelist() if name != META and name not in named and name[-1:] != "/"
        ]


def check_count(path: Path, count: Any, size: int) -> int:
    """The number of Gaussians, checked before anything is allocated.

    Raises:
        CaptureError: it is no number, more than a file of ``size`` bytes can hold, or more than memory holds.
    """
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= PER_BYTE * size + SLACK:
        raise damaged(path, f"{str(count)[:40]} Gaussians are announced, and there are {size:,} bytes")
    if count * MEMORY > available_memory():
        raise MemoryError
    return count


def read_pixels(path: Path, files: Files, name: str, least: int, width: int | None = None) -> np.ndarray:
    """An image as rows of a table, uint8 RGBA [H W, 4], row by row from the top left.

    Args:
        path: of the scene.
        files: of the scene.
        name: of the image.
        least: pixels that are needed; an image with many more is refused before it is decoded.
        width: that it must have; None: any.

    Raises:
        CaptureError: it is no WebP image, or of a wrong size.
    """
    data = files(name)
    size = webp_size(data[:30])
    if size is None:
        raise damaged(path, f"{name[:80]!r} is no WebP image")
    pixels = size[0] * size[1]
    if not least <= pixels <= 2 * least + SLACK or (width is not None and size[0] != width):
        raise damaged(path, f"{name[:80]!r} has {size[0]}x{size[1]} pixels for {least:,} entries")
    image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    if image is None or image.shape[:2] != (size[1], size[0]) or image.ndim != 3:
        raise damaged(path, f"the pixels of {name[:80]!r} are damaged or cut short")
    code = cv2.COLOR_BGRA2RGBA if image.shape[2] == 4 else cv2.COLOR_BGR2RGBA
    return cv2.cvtColor(image, code).reshape(-1, 4)


def write_bundle(files: Mapping[str, bytes]) -> bytes:
    """A ZIP archive of files, not compressed further."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data)  # of 1980: equal scenes are equal files
    return out.getvalue()


def write_folder(path: Path, meta: dict[str, Any], images: Mapping[str, bytes]) -> None:
    """Writes a scene as files next to ``path``, its meta.json.

    The images of an earlier scene there stay, and the new ones get other names, until the new meta.json is written.
    Those that luxel wrote are deleted then; files of the user stay, ``path`` itself is replaced.

    Raises:
        CaptureError: a file cannot be written.
    """
    images_output, output = OutputFolder(path.parent), OutputFolder(path.parent, force=True)
    earlier = _images_of(path) if output.is_own(path.name) else set()
    names = _unused_names(path.parent)
    renamed = {
        key: value | {"files": [names[name] for name in value["files"]]}
        if isinstance(value, dict) and "files" in value
        else value
        for key, value in meta.items()
    }
    with writable(path):
        with images_output.batch() as batch:
            for name, data in images.items():
                batch.write(names[name], data)
        output.write(path.name, meta_bytes(renamed))
    output.delete(name for name in earlier if IMAGE.fullmatch(name))


def _unused_names(folder: Path) -> dict[str, str]:
    """A name for each of `IMAGES` that nothing in a folder has: the name itself, or its stem with -2, -3, ..."""
    for number in itertools.count(1):
        end = "" if number == 1 else f"-{number}"
        names = {name: f"{Path(name).stem}{end}.webp" for name in IMAGES}
        if not any(os.path.lexists(folder / name) for name in names.values()):
            return names
    raise AssertionError


def meta_bytes(meta: dict[str, Any]) -> bytes:
    """The content of meta.json."""
    return json.dumps(meta, separators=(",", ":"), allow_nan=False).encode()


def _images_of(path: Path) -> set[str]:
    """The images that the meta.json of an earlier scene names; none where there is none."""
    with suppress(OSError, ValueError, RecursionError):
        if is_folder(path) and path.stat().st_size <= LARGEST_META:
            meta = json.loads(path.read_bytes())
            sections = [section for section in meta.values() if isinstance(section, dict)]
            return {str(name) for section in sections for name in section.get("files", ())}
    return set()
