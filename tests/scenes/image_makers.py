"""Image files for the tests of reading."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image


def one_bit_png(path: Path, side: int) -> None:
    """A valid PNG of zeros."""
    packer, row = zlib.compressobj(9), bytes(1 + side // 8)
    body = b"".join(packer.compress(row) for _ in range(side)) + packer.flush()

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    ends = chunk(b"IHDR", header), chunk(b"IDAT", body), chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(ends))


def gradient(width: int, height: int) -> Image.Image:
    y, x = np.mgrid[:height, :width]
    return Image.fromarray(
        np.stack([x * 255 // width, y * 255 // height, (x + y) % 256], -1).astype(np.uint8)
    )


def retag(path: Path, values: dict[int, int | None]) -> None:
    """Gives tags of a TIFF file one number each; None takes a tag away."""
    data = bytearray(path.read_bytes())
    start = struct.unpack_from("<I", data, 4)[0]
    for entry in range(struct.unpack_from("<H", data, start)[0]):
        at = start + 2 + 12 * entry
        tag = struct.unpack_from("<H", data, at)[0]
        if values.get(tag, 0) is None:
            struct.pack_into("<H", data, at, 60000 + tag % 1000)
        elif tag in values:
            struct.pack_into("<HII", data, at + 2, 4, 1, values[tag])
    path.write_bytes(data)
