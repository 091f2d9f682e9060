"""The channels of OpenEXR files (.exr), by the library of the format's authors.

OpenCV, which is there anyway, reads neither depth (Z) nor layers, and its wheels are built without the format.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from luxel.render.storage.reading import NOT_IN_MEMORY, available_memory
from luxel.scenes.errors import CaptureError

SUFFIX = ".exr"
MAGIC = b"v/1\1"
LIBRARY = "OpenEXR"
# Most bytes of pixels that a byte of a file stands for: runs, deflate, deflate of 24 of 32 bits; others have no bound.
RATIOS = {"NO": 1, "RLE": 64, "ZIPS": 1032, "ZIP": 1032, "PXR24": 1376}
SLACK = 1 << 12  # bytes that any file may stand for
MAX_CHANNELS = 1024
MAX_EMPTY = 1 << 23  # pixels of a display window of which the data cover less than a sixteenth
MAX_TILE = 1 << 22  # pixels of a tile larger than its image, of which the library allocates full tiles
LISTED = 24  # names of channels in a message
MEMORY_SHARE = 0.5  # of the free memory that the pixels of a file may fill: they are copied once
NOISE = ("EXR_ERR_", "Warning: Exception raised reading pixel data")  # what the library prints
SRGB = ((0.64, 0.33), (0.3, 0.6), (0.15, 0.06), (0.3127, 0.329))  # x, y of red, green, blue and white

_one_at_a_time = threading.Lock()


def is_exr(head: bytes) -> bool:
    """Whether the first bytes of a file are those of an OpenEXR file."""
    return head[:4] == MAGIC


def library(path: str | Path) -> Any:
    """The module that reads the format.

    Raises:
        CaptureError: it is not installed; the message names ``path``.
    """
    try:
        return importlib.import_module(LIBRARY)
    except ImportError:
        raise CaptureError(
            f"{path}: OpenEXR images need a library that is not installed.",
            "Install it with: pip install 'luxel[exr]', or convert the file to .npy or .png.",
        ) from None


class ExrFile:
    """An OpenEXR file of which the header is read.

    Channels have the names that the file gives them, ``layer.Z``; those of a file of several parts have the name of
    their part in front. Parts of deep samples are left out.

    Args:
        path: of the file, for messages.
        stream: the file, which stays open as long as this object is used.

    Attributes:
        width, height: of the display window of the first part, pixels.
        largest: width and height of the largest window, of display or data.
        names: of the channels.
        chromaticities: x, y of red, green, blue and white of the first part, [4, 2].

    Raises:
        CaptureError: the library is not installed, or the file has only deep samples, or channels of fewer pixels
            than the image (luminance and chroma).
        ValueError: the header is damaged.
    """

    def __init__(self, path: str | Path, stream: IO[bytes]) -> None:
        self._path, self._stream, self._library = path, stream, library(path)
        headers = self._parts(header_only=True)
        self.width, self.height = _size(headers[0]["displayWindow"])
        self._corner = np.asarray(headers[0]["displayWindow"][0], np.int64)
        sizes, values, possible, sampled = [(self.width, self.height)], 0, 0.0, False
        self._channels: dict[str, tuple[int, str]] = {}
        size = stream.seek(0, io.SEEK_END)
        for number, header in enumerate(headers):
            width, height = _size(header["dataWindow"])
            sizes.append((width, height))
            channels, tiles = header["channels"], header.get("tiles")
            if tiles is not None and tiles.xSize * tiles.ySize > max(MAX_TILE, width * height):
                raise ValueError(f"its tiles have {tiles.xSize}x{tiles.ySize} pixels")
            values += width * height * len(channels)
            ratio = RATIOS.get(header["compression"].name.removesuffix("_COMPRESSION"), np.inf)
            possible = max(possible, ratio * size + SLACK)
            if header["type"].name.startswith("deep"):
                continue
            part = f"{header.get('name', number)}." if len(headers) > 1 else ""
            for channel in channels[:MAX_CHANNELS]:
                sampled |= not channel.xSampling == channel.ySampling == 1
                self._channels[part + channel.name] = number, channel.name
        self.largest = max(sizes, key=lambda side: side[0] * side[1])
        self.names = list(self._channels)
        if sampled or not self.names:
            raise CaptureError(
                f"{path}: the file has only deep samples, or colours of fewer pixels than the image.",
                "Save it with flat channels R, G, B or Z.",
            )
        if 2 * values > possible:  # half floats at least: the library does not say which
            raise ValueError(f"{values} values are announced, and {size} bytes cannot hold so many")
        shown, covered = self.width * self.height, max((w * h for w, h in sizes[1:]), default=0)
        if shown > max(MAX_EMPTY, 16 * covered):
            raise ValueError(f"it shows {self.width}x{self.height} pixels and has data for {covered}")
        self._decoded = 4 * values  # bytes at most
        stated = headers[0].get("chromaticities")
        self.chromaticities = np.reshape(SRGB if stated is None else stated, (4, 2)).astype(np.float64)

    def read(self, names: Sequence[str]) -> list[np.ndarray]:
        """Channels in the display window, [height, width] of float16, float32 or uint32; 0 where there are no data.

        Args:
            names: some of ``self.names``.

        Raises:
            CaptureError: the channels of the file do not fit into memory; all are decoded.
            ValueError: the pixels are damaged or cut short.
        """
        if self._decoded > MEMORY_SHARE * (free := available_memory()):
            raise CaptureError(
                f"{self._path}: its channels have {self._decoded / 1e9:.1f} GB, and {free / 1e9:.1f} GB of memory are "
                "free.",
                NOT_IN_MEMORY,
            )
        parts = self._parts(header_only=False)
        out = []
        for name in names:
            number, channel = self._channels[name]
            header, pixels = parts[number]
            data = pixels.get(channel)
            if data is None or data.shape != _size(header["dataWindow"])[::-1]:
                raise ValueError(f"channel {name[:80]} is incomplete")
            out.append(self._in_display(data, np.asarray(header["dataWindow"][0], np.int64)))
        return out

    def _in_display(self, data: np.ndarray, corner: np.ndarray) -> np.ndarray:
        x, y = (corner - self._corner).tolist()
        if (x, y) == (0, 0) and data.shape == (self.height, self.width):
            return data
        out = np.zeros((self.height, self.width), data.dtype)
        top, left = max(y, 0), max(x, 0)
        bottom, right = min(y + data.shape[0], self.height), min(x + data.shape[1], self.width)
        if top < bottom and left < right:
            out[top:bottom, left:right] = data[top - y : bottom - y, left - x : right - x]
        return out

    def _parts(self, header_only: bool) -> Any:
        """Headers of the parts, or headers with their pixels by channel."""
        self._stream.seek(0)
        said: list[str] = []
        try:
            with _captured(said):
                options = {"separate_channels": True, "header_only": header_only, "num_threads": 0}
                parts = list(self._library.File(self._stream, **options).parts)
                headers = [part.header for part in parts]
        except RuntimeError as error:
            raise ValueError(
                f"its header is damaged or cut short: {said[-1][:80] if said else ''}"
            ) from error
        if header_only:
            if not headers:
                raise ValueError("it has no parts")
            self._count = len(headers)
            return headers
        if len(parts) != self._count:  # the library leaves damaged parts out
            raise ValueError(f"its pixels are damaged or cut short: {said[-1][:80] if said else ''}")
        return [
            (header, {name: channel.pixels for name, channel in part.channels.items()})
            for header, part in zip(headers, parts, strict=True)
        ]


def _size(window: Any) -> tuple[int, int]:
    """Width and height of a window, pixels."""
    (left, top), (right, bottom) = ((int(x) for x in corner) for corner in window)
    if right < left or bottom < top:
        raise ValueError("it has no pixels")
    return right - left + 1, bottom - top + 1


@contextmanager
def _captured(said: list[str]) -> Iterator[None]:
    """Adds what the library prints on stdout and stderr to ``said``, once the block ends; lines of others are printed
    then."""
    printed = io.StringIO()
    with _one_at_a_time, tempfile.TemporaryFile() as retained:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()
        restore = _diverted(retained.fileno())
        try:
            with contextlib.redirect_stdout(printed):
                yield
        finally:
            restore()
            retained.seek(0)
            errors = retained.read().decode(errors="replace").splitlines(keepends=True)
            for lines, out in (
                (printed.getvalue().splitlines(keepends=True), sys.stdout),
                (errors, sys.stderr),
            ):
                said += [
                    re.split(r" - |\(EXR_ERR_\w+\) ", line.strip())[-1] for line in lines if _noise(line)
                ]
                rest = "".join(line for line in lines if not _noise(line))
                if rest:
                    out.write(rest)


def _noise(line: str) -> bool:
    return any(word in line for word in NOISE)


def _diverted(target: int) -> Callable[[], None]:
    """Lets stderr of the process end in another file; returns what undoes it."""
    try:
        saved = os.dup(2)
    except OSError:  # there is none
        return lambda: None
    os.dup2(target, 2)

    def restore() -> None:
        os.dup2(saved, 2)
        os.close(saved)

    return restore


def listed(names: Sequence[str]) -> str:
    """Names of channels for a message."""
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(name[:60] for name in names[:LISTED]) + more
