"""Uncompressed TIFF files (TIFF 6.0, 1992; BigTIFF): where their pixels are, and how such a file is written."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import IO

import numpy as np

from luxel.scenes.errors import CaptureError

SIZES = {1: 1, 3: 2, 4: 4, 16: 8}  # bytes of the types of values that are read: BYTE, SHORT, LONG, LONG8
MAX_TAGS = 4096
(WIDTH, HEIGHT, BITS, COMPRESSION, PHOTOMETRIC, STRIPS, ORIENTATION, CHANNELS, STRIP_ROWS, STRIP_BYTES) = (
    256, 257, 258, 259, 262, 273, 274, 277, 278, 279)  # fmt: skip
PLANES, TILE_WIDTH, TILE_HEIGHT, TILES, TILE_BYTES, FORMAT = 284, 322, 323, 324, 325, 339
CONVERT = "Save it as an uncompressed TIFF file of 8 or 16 bits (vips tiffsave, or gdal_translate)."
VALUE_KINDS = {1: "u", 3: "f"}  # of values, by the tag FORMAT


def read_blocks(
    path: Path, file: IO[bytes], size: int
) -> tuple[int, int, int, np.dtype, int, int, np.ndarray]:
    """Width, height, channels, type, and rows, columns and offsets of the blocks of a TIFF file's first image.

    Args:
        path: of the file, for messages.
        file: at its beginning.
        size: of the file, bytes.

    Raises:
        CaptureError: its pixels are compressed, or of a type that is not supported.
        ValueError: it is damaged.
    """
    tags, order = _tags(file, size)
    width, height, channels = _one(tags, WIDTH), _one(tags, HEIGHT), _one(tags, CHANNELS, 1)
    if min(width, height, channels) < 1:
        raise ValueError("it has no pixels")
    dtype = _dtype(path, tags, channels, order)
    tiled = TILES in tags
    columns = _one(tags, TILE_WIDTH) if tiled else width
    rows = _one(tags, TILE_HEIGHT) if tiled else min(_one(tags, STRIP_ROWS, height), height)
    if min(columns, rows) < 1:
        raise ValueError("its blocks have no pixels")
    shape = -(-height // rows), -(-width // columns)
    name = TILES if tiled else STRIPS
    if name not in tags or len(tags[name]) != math.prod(shape):
        raise ValueError(f"there are {len(tags.get(name, ()))} blocks for {shape[0]} x {shape[1]}")
    offsets = tags[name].astype(np.int64).reshape(shape)
    line = columns * channels * dtype.itemsize
    lengths = np.full(shape, rows * line, np.int64)
    if not tiled:
        lengths[-1] = (height - (shape[0] - 1) * rows) * line
    if (offsets < 8).any() or (offsets + lengths > size).any() or int(lengths.sum()) > size:
        raise ValueError(f"{width}x{height} pixels are announced, and its {size} bytes do not hold them")
    if not tiled and (np.diff(offsets[:, 0]) == lengths[:-1, 0]).all():  # one block is read faster
        offsets, rows = offsets[:1], height
    return width, height, channels, dtype, rows, columns, offsets


def _dtype(path: Path, tags: dict[int, np.ndarray], channels: int, order: str) -> np.dtype:
    """The type of a value."""
    bits = set(tags[BITS].tolist()) if BITS in tags else {1}
    kinds = set(tags[FORMAT].tolist()) if FORMAT in tags else {1}
    photometric = _one(tags, PHOTOMETRIC, 2)
    problems = [
        (_one(tags, COMPRESSION, 1) != 1, "its pixels are compressed"),
        (_one(tags, PLANES, 1) != 1 and channels > 1, "its channels are stored separately"),
        (_one(tags, ORIENTATION, 1) != 1, "it is turned or mirrored"),
        (channels not in (1, 3, 4), f"it has {channels} channels"),
        (photometric != (1 if channels == 1 else 2), "its colours are neither grey nor RGB"),
        (
            not (bits in ({8}, {16}) and kinds == {1}) and not (bits in ({32}, {64}) and kinds == {3}),
            f"its values have {'/'.join(map(str, sorted(bits)))[:40]} bits",
        ),
    ]
    for wrong, what in problems:
        if wrong:
            raise CaptureError(f"{path}: {what}, so that it cannot be read by parts.", CONVERT)
    return np.dtype(f"{order}{VALUE_KINDS[kinds.pop()]}{bits.pop() // 8}")


def tiff_values(file: IO[bytes]) -> str:
    """The channels and values of a TIFF file in words; empty for other files.

    Args:
        file: of any content.
    """
    try:
        size = file.seek(0, 2)
        file.seek(0)
        tags, _ = _tags(file, size)
    except (ValueError, struct.error):
        return ""
    kinds = {1: "integers", 2: "signed integers", 3: "floats"}
    bits = "/".join(map(str, sorted(set(tags[BITS].tolist()) if BITS in tags else {1})))[:40]
    kind = kinds.get(_one(tags, FORMAT, 1), "values")
    channels = _one(tags, CHANNELS, 1)
    return f"{channels} channel{'s' * (channels != 1)} of {bits}-bit {kind}"


def _one(tags: dict[int, np.ndarray], tag: int, default: int | None = None) -> int:
    if tag not in tags and default is None:
        raise ValueError(f"tag {tag} is missing")
    values = tags.get(tag)
    return int(default or 0) if values is None or not len(values) else int(values[0])


def _tags(file: IO[bytes], size: int) -> tuple[dict[int, np.ndarray], str]:
    """Integers in the tags of the first image, and the order of bytes as numpy writes it."""
    head = file.read(16)
    order = {b"II": "<", b"MM": ">"}.get(head[:2])
    version = struct.unpack_from(f"{order or '<'}H", head, 2)[0] if len(head) == 16 else 0
    if order is None or version not in (42, 43):
        raise ValueError("not a TIFF file")
    big = version == 43
    start = struct.unpack_from(f"{order}Q" if big else f"{order}I", head, 8 if big else 4)[0]
    count = struct.unpack(f"{order}Q" if big else f"{order}H", _at(file, size, start, 8 if big else 2))[0]
    length = 20 if big else 12
    if count > MAX_TAGS:
        raise ValueError(f"it has {count} tags")
    entries = _at(file, size, start + (8 if big else 2), count * length)
    tags: dict[int, np.ndarray] = {}
    for at in range(0, len(entries), length):
        tag, kind, number = struct.unpack_from(f"{order}HHQ" if big else f"{order}HHI", entries, at)
        if kind not in SIZES:
            continue
        needed, inline = number * SIZES[kind], 8 if big else 4
        value = entries[at + length - inline : at + length]
        if needed > inline:
            where = struct.unpack(f"{order}Q" if big else f"{order}I", value)[0]
            value = _at(file, size, where, needed)
        tags[tag] = np.frombuffer(value, f"{order}u{SIZES[kind]}", number)
    return tags, order


def _at(file: IO[bytes], size: int, start: int, length: int) -> bytes:
    if start + length > size:
        raise ValueError(f"the file ends at byte {size}, before its tags do")
    file.seek(start)
    return file.read(length)


def write_tiff(path: Path, width: int, height: int, bands: Iterable[np.ndarray]) -> None:
    """Writes an uncompressed TIFF file in one strip, as BigTIFF where 4 GB do not suffice.

    Args:
        path: of the file.
        width, height: of the image, pixels.
        bands: its rows from the top, uint8 [R, width, 3] each, R in all ``height``.

    Raises:
        ValueError: there are more or fewer rows.
        OSError: it cannot be written.
    """
    total = 3 * width * height
    big = total > 2**32 - 4096
    values = [
        (WIDTH, 4, width),
        (HEIGHT, 4, height),
        (BITS, 3, 8),
        (COMPRESSION, 3, 1),
        (PHOTOMETRIC, 3, 2),
        (STRIPS, 16 if big else 4, 0),
        (CHANNELS, 3, 3),
        (STRIP_ROWS, 4, height),
        (STRIP_BYTES, 16 if big else 4, total),
        (PLANES, 3, 1),
    ]
    head = struct.pack("<2sHHHQ", b"II", 43, 8, 0, 16) if big else struct.pack("<2sHI", b"II", 42, 8)
    entry, inline = (20, 8) if big else (12, 4)
    bits_at = len(head) + (8 if big else 2) + len(values) * entry + inline  # 8, 8, 8 after the tags
    first = bits_at + 8
    directory = struct.pack("<Q" if big else "<H", len(values))
    for tag, kind, value in values:
        count = 3 if tag == BITS else 1
        if tag == BITS:
            stored = struct.pack("<3H", 8, 8, 8) if big else struct.pack("<I", bits_at)
        else:
            stored = struct.pack({3: "<H", 4: "<I", 16: "<Q"}[kind], first if tag == STRIPS else value)
        directory += struct.pack("<HHQ" if big else "<HHI", tag, kind, count) + stored.ljust(inline, b"\0")
    rows = 0
    with path.open("wb") as file:
        file.write(head + directory + bytes(inline) + struct.pack("<4H", 8, 8, 8, 0))
        for band in bands:
            rows += len(band)
            if band.shape[1:] != (width, 3) or band.dtype != np.uint8 or rows > height:
                break
            file.write(np.ascontiguousarray(band).data)
        else:
            if rows == height:
                return
    raise ValueError(f"write_tiff: bands must be uint8 [R, {width}, 3] of {height} rows in all")
