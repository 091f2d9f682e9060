"""HEIF images, as phones save photographs (.heic): read where pi-heif or pillow-heif is installed."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from luxel.scenes.errors import CaptureError

SUFFIXES = (".heic", ".heif")
BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")  # ISO 23008-12, 10
LIBRARIES = ("pi_heif", "pillow_heif")
LONGEST_META = 1 << 26  # bytes of the box of metadata; those of phones have some kB


def is_heif(head: bytes) -> bool:
    """Whether the first 12 bytes of a file are those of a HEIF file."""
    return head[4:8] == b"ftyp" and head[8:12] in BRANDS


def register_heif(path: Path) -> None:
    """Lets Pillow open HEIF files, which then are upright.

    Raises:
        CaptureError: no library for them is installed; the message names ``path``.
    """
    for name in LIBRARIES:
        try:
            library = importlib.import_module(name)
        except ImportError:
            continue
        library.register_heif_opener()
        return
    raise CaptureError(
        f"{path}: HEIC images need a library that is not installed.",
        "Install it with: pip install 'luxel[heic]', or convert the images to JPEG.",
    )


def check_items(file: IO[bytes]) -> None:
    """Checks the names of item types, for which the libraries above end the process where they are no text.

    Args:
        file: of a HEIF file, whose position changes.

    Raises:
        ValueError: a type is not text.
    """
    for meta in _meta_boxes(file):
        at = meta.find(b"infe")
        while (
            at >= 0
        ):  # item_ID, item_protection_index, item_type, item_name, content_type: ISO 14496-12, 8.11.6
            version = meta[at + 4 : at + 5]
            names = at + 8 + (6 if version == b"\3" else 4)
            kind = meta[names : names + 4] if version >= b"\2" else b"mime"
            if not (kind.isascii() and kind.decode("ascii").isprintable()):
                raise ValueError(f"the item type {kind!r} is not text")
            if kind == b"mime":
                rest = meta[names + (4 if version >= b"\2" else 0) :].split(b"\0", 2)
                (rest[1] if len(rest) > 1 else b"").decode()
            at = meta.find(b"infe", at + 4)


def _meta_boxes(file: IO[bytes]) -> Iterator[bytes]:
    """What the boxes of metadata of a file hold (ISO 14496-12, 4.2), as far as their sizes can be followed."""
    end = file.seek(0, 2)
    at = 0
    while at + 8 <= end:
        file.seek(at)
        head = file.read(16)
        size = int.from_bytes(head[:4], "big")
        if size == 1:
            size = int.from_bytes(head[8:16], "big")
        elif size == 0:
            size = end - at
        if head[4:8] == b"meta":
            file.seek(at + 8)
            yield file.read(min(max(size - 8, 0), LONGEST_META))
        if size < 8:
            return
        at += size
