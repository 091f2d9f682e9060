"""The headers that are installed with the package: the maths, the C ABI, and the stages of policies."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from luxel.render.errors import NativeError
from luxel.render.native import native_folder


def include_dir() -> Path:
    """The folder to give a compiler after ``-I``, with ``math``, ``abi``, ``kernels/raster`` and ``device``.

    Raises:
        NativeError: luxel's libraries and headers are not installed.
    """
    folder = native_folder() / "include"
    if not (folder / "math" / "hd.h").is_file():
        raise NativeError(f"{folder} has no math/hd.h.", "Reinstall luxel.")
    return folder


@functools.cache
def digest_of(folder: Path) -> str:
    """SHA-256 of the names and the text of all headers below a folder, as they were when it was first asked for."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        text = path.read_bytes()
        digest.update(f"{path.relative_to(folder)}\0{len(text)}\0".encode() + text)
    return digest.hexdigest()


__all__ = ["digest_of", "include_dir"]
