"""HEIF images, as phones save photographs (.heic): read where pi-heif or pillow-heif is installed."""

from __future__ import annotations

import importlib
from pathlib import Path

from luxel.scenes.errors import CaptureError

SUFFIXES = (".heic", ".heif")
BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")  # ISO 23008-12, 10
LIBRARIES = ("pi_heif", "pillow_heif")


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
        f"{path}: HEIC photographs need a library that is not installed.",
        "Install it with: pip install 'luxel[heic]', or convert the photographs to JPEG.",
    )
