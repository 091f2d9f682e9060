"""PNG files (RFC 2083; W3C 2003) decoded a few rows at a time, in memory that does not grow with the image."""

from __future__ import annotations

import io
import math
import struct
import zlib
from collections.abc import Iterator
from typing import IO

import cv2
import numpy as np
from PIL import Image

from luxel.scenes.files.images.image_files import as_rgb

HEAD = b"\x89PNG\r\n\x1a\n"
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # by type of colours
BAND = 1 << 24  # bytes of decoded rows at a time
RATIO = 1032  # most bytes that a byte of deflate stands for
SLACK = 1 << 12
PIECE = 1 << 18  # bytes that are read at a time
LARGEST_CHUNK = 1 << 16  # of those before the pixels that are retained: palette and transparency


class PngRows:
    """The rows of a PNG file.

    Rows are filtered by their bytes and those of the row before, so that a band with the last decoded row before it
    is a PNG image of its own, which libpng decodes.

    Args:
        file: at its beginning.
        size: of the file, bytes.

    Attributes:
        width, height: pixels.

    Raises:
        ValueError: it is no PNG file, is interlaced, or cannot hold as many pixels as it announces.
    """

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = file
        if file.read(8) != HEAD:
            raise ValueError("not a PNG file")
        kind, length = self._chunk_head()
        header = self._content(kind, length)
        if kind != b"IHDR" or length != 13:
            raise ValueError("its header is missing")
        self.width, self.height, self._bits, self._colours, *_, interlaced = struct.unpack(">2I5B", header)
        if (
            self._colours not in CHANNELS
            or self._bits not in (1, 2, 4, 8, 16)
            or 0 in (self.width, self.height)
        ):
            raise ValueError("its header is damaged")
        if interlaced:
            raise ValueError("it is interlaced, and its rows are not stored one after another")
        bits = self._bits * CHANNELS[self._colours]
        self._line = 1 + math.ceil(self.width * bits / 8)
        self._header = header
        if self._line * self.height > RATIO * size + SLACK:
            raise ValueError(
                f"{self.width}x{self.height} pixels are announced, and {size} bytes cannot hold so many"
            )

    def bands(self) -> Iterator[np.ndarray]:
        """All rows from the top, uint8 [R, width, 3] in sRGB, composited on white.

        Raises:
            ValueError: the file is damaged or ends early.
        """
        chunks_before: list[bytes] = []  # chunks that the colours depend on
        before: bytes | None = None  # the last row, decoded
        rows = max(1, BAND // self._line)
        buffered, done = bytearray(), 0
        for piece in self._decompressed(chunks_before):
            buffered += piece
            while (
                done < self.height and len(buffered) >= (count := min(rows, self.height - done)) * self._line
            ):
                part = bytes(buffered[: count * self._line])
                del buffered[: count * self._line]
                raw = self._unfiltered(part, count, before)
                before, done = raw[-1].tobytes(), done + count
                yield self._as_rgb(raw, chunks_before)
        if done < self.height:
            raise ValueError(f"the file ends after {done} of {self.height} rows")

    def _unfiltered(self, part: bytes, rows: int, before: bytes | None) -> np.ndarray:
        """The bytes of some rows without their filters, [rows, B].

        Filters relate bytes of one distance, so that all are those of an image of 8 bits, or of 16, whose pixels have
        that many bytes.
        """
        distance = max(1, self._bits * CHANNELS[self._colours] // 8)
        colours, bits = {1: (0, 8), 2: (4, 8), 3: (2, 8), 4: (6, 8), 6: (2, 16), 8: (6, 16)}[distance]
        prefix = b"" if before is None else b"\0" + before
        header = ((self._line - 1) // distance, rows + bool(prefix), bits, colours)
        data = _png(header, [], prefix + part)
        if bits == 8:
            image = Image.open(io.BytesIO(data), formats=("PNG",))
            image.load()
            values = np.asarray(image)
        else:
            decoded = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
            if decoded is None:
                raise ValueError("its rows are damaged")
            order = [2, 1, 0, 3][: decoded.shape[2]]
            values = np.ascontiguousarray(decoded[..., order]).astype(">u2").view(np.uint8)
        return values.reshape(len(values), -1)[1 if prefix else 0 :]

    def _as_rgb(self, raw: np.ndarray, chunks_before: list[bytes]) -> np.ndarray:
        """Colours of rows without filters, [R, width, 3]."""
        if self._bits == 8 and self._colours in (0, 2) and not chunks_before:
            pixels = raw.reshape(len(raw), self.width, -1)
            return pixels if self._colours == 2 else np.repeat(pixels, 3, 2)
        filtered = np.concatenate([np.zeros((len(raw), 1), np.uint8), raw], 1)
        header = (self.width, len(raw), self._bits, self._colours)
        return as_rgb(
            Image.open(io.BytesIO(_png(header, chunks_before, filtered.tobytes())), formats=("PNG",))
        )

    def _decompressed(self, chunks_before: list[bytes]) -> Iterator[bytes]:
        """The filtered rows as they come; chunks that the colours depend on are added to ``chunks_before``."""
        inflate = zlib.decompressobj()
        while True:
            kind, length = self._chunk_head()
            if kind == b"IEND":
                return
            if kind in (b"PLTE", b"tRNS"):
                chunks_before.append(_chunk(kind, self._content(kind, length)))
                continue
            if kind != b"IDAT":
                self._file.seek(length + 4, io.SEEK_CUR)
                continue
            checksum, left = zlib.crc32(kind), length
            while left:
                piece = self._read(min(PIECE, left))
                left -= len(piece)
                checksum = zlib.crc32(piece, checksum)
                while piece:
                    yield inflate.decompress(piece, BAND)
                    piece = inflate.unconsumed_tail
            if struct.unpack(">I", self._read(4))[0] != checksum:
                raise ValueError("a chunk has a wrong checksum")

    def _chunk_head(self) -> tuple[bytes, int]:
        length, kind = struct.unpack(">I4s", self._read(8))
        return kind, length

    def _content(self, kind: bytes, length: int) -> bytes:
        if length > LARGEST_CHUNK:
            raise ValueError("a chunk is too long")
        content = self._read(length)
        if struct.unpack(">I", self._read(4))[0] != zlib.crc32(kind + content):
            raise ValueError("a chunk has a wrong checksum")
        return content

    def _read(self, length: int) -> bytes:
        data = self._file.read(length)
        if len(data) < length:
            raise ValueError("the file ends early")
        return data


def _png(header: tuple[int, int, int, int], chunks_before: list[bytes], rows: bytes) -> bytes:
    """A PNG file of filtered rows; width, height, bits and type of colours are its header."""
    head = _chunk(b"IHDR", struct.pack(">2I5B", *header, 0, 0, 0))
    return (
        HEAD + head + b"".join(chunks_before) + _chunk(b"IDAT", zlib.compress(rows, 0)) + _chunk(b"IEND", b"")
    )


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
