"""Radiance HDR images (.hdr; Ward 1991, "Real Pixels"): colours of three mantissas and a common exponent."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from luxel.scenes.errors import CaptureError
from luxel.scenes.files.pixel_limit import check_megapixels
from luxel.scenes.files.reading import read_bytes, reading

LONGEST_HEADER = 1 << 16
ENCODED = range(8, 0x8000)  # widths whose rows are encoded by runs
REMEDY = "Export it again as a Radiance HDR image."


def read_hdr(path: str | Path) -> np.ndarray:
    """Reads a Radiance HDR image.

    Args:
        path: of the file, whose rows are stored from the top and from the left, in RGBE.

    Returns:
        Linear colours, float32 [H, W, 3], 0 or more.

    Raises:
        CaptureError: the file is missing, damaged, cut short, above the limit of megapixels, or has other axes or
            colours.
    """
    path = Path(path)
    data = read_bytes(path)
    with reading(path, "a Radiance HDR image", REMEDY):
        width, height, at = _header(data)
        check_megapixels(path, width, height)
        if len(data) - at < height * (4 if width not in ENCODED else 4 + 4 * -(-width // 127) * 2):
            raise ValueError(
                f"{width}x{height} pixels are announced, and {len(data)} bytes cannot hold so many"
            )
        rows = np.empty((height, width, 4), np.uint8)
        view = memoryview(data)
        for row in rows:
            at = _row(view, at, width, row)
        exponent = rows[..., 3:].astype(np.int32)
        scale = np.where(exponent > 0, np.ldexp(np.float32(1), exponent - 136), np.float32(0))
        return ((rows[..., :3] + np.float32(0.5)) * scale).astype(np.float32)


def _header(data: bytes) -> tuple[int, int, int]:
    """Width, height and the first byte of the pixels."""
    head = data[:LONGEST_HEADER]
    if not head.startswith(b"#?"):
        raise ValueError("not a Radiance file")
    end = head.find(b"\n\n")
    stated = re.search(rb"^FORMAT=(\S+)", head[: max(end, 0)], re.MULTILINE)
    if end < 0 or (stated is not None and stated[1] != b"32-bit_rle_rgbe"):
        raise CaptureError("its colours are not RGBE, or its header does not end.", REMEDY)
    line_end = head.find(b"\n", end + 2)
    size = re.fullmatch(rb"-Y (\d{1,7}) \+X (\d{1,7})", head[end + 2 : max(line_end, 0)])
    if size is None or 0 in (int(size[1]), int(size[2])):
        raise ValueError("its size is missing, or its rows are not stored from the top and the left")
    return int(size[2]), int(size[1]), line_end + 1


def _row(data: memoryview, at: int, width: int, out: np.ndarray) -> int:
    """Decodes a row into [width, 4]; returns the byte behind it."""
    if width not in ENCODED or bytes(data[at : at + 2]) != b"\2\2" or data[at + 2] & 0x80:
        pixels = np.frombuffer(data[at : at + 4 * width], np.uint8)
        if len(pixels) < 4 * width:
            raise ValueError("the file ends early")
        out[...] = pixels.reshape(width, 4)
        if ((out[:, :3] == 1).all(1)).any():
            raise ValueError("its rows are encoded in an old manner")
        return at + 4 * width
    if int.from_bytes(data[at + 2 : at + 4], "big") != width:
        raise ValueError("a row has another width")
    at += 4
    for channel in range(4):
        done = 0
        while done < width:
            count = data[at]
            run = count > 128
            count = count - 128 if run else count
            values = data[at + 1 : at + 2 + (0 if run else count - 1)]
            if not 0 < count <= width - done or not len(values) == (1 if run else count):
                raise ValueError("a run is longer than its row")
            out[done : done + count, channel] = np.frombuffer(values, np.uint8)
            done, at = done + count, at + 1 + len(values)
    return at
