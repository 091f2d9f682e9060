"""Animated WebP: frames by imageio, the container by the format's specification (RFC 9649)."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import pack, unpack_from

import imageio.v3 as imageio
import numpy as np

from luxel.viewer.films.film_format import QUALITY, FilmOptions

ALPHA, ANIMATION = 0x10, 0x02  # flags of the file
REPLACE = 0x02  # flag of a frame: it is not blended with the one before
MAX_LOOPS = 65535
MAX_BYTES = 2**32 - 2  # of the file, after its first 8


@contextmanager
def encode_webp(
    path: Path, size: tuple[int, int], options: FilmOptions
) -> Iterator[Callable[[np.ndarray], None]]:
    """Each frame is a key frame; a quality of 100 is lossless."""
    width, height = size
    quality = QUALITY if options.quality is None else options.quality
    flags = ANIMATION | (ALPHA if options.alpha else 0)
    shown = 0  # milliseconds of the frames so far
    count = 0
    with open(path, "wb") as file:
        file.write(b"RIFF\0\0\0\0WEBP")
        file.write(_chunk(b"VP8X", pack("<I", flags) + _24(width - 1) + _24(height - 1)))
        file.write(_chunk(b"ANIM", pack("<IH", 0, options.loop or 0)))

        def write(frame: np.ndarray) -> None:
            nonlocal shown, count
            image = imageio.imwrite(
                "<bytes>", frame, plugin="pillow", extension=".webp", quality=quality, lossless=quality == 100
            )
            count += 1
            until = round(1000 * count / options.fps)
            place = _24(0) + _24(0) + _24(width - 1) + _24(height - 1)
            file.write(_chunk(b"ANMF", place + _24(until - shown) + bytes([REPLACE]) + _pixels(image)))
            shown = until
            if file.tell() - 8 > MAX_BYTES:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))

        yield write
        total = file.tell() - 8
        file.seek(4)
        file.write(pack("<I", total))


def _24(number: int) -> bytes:
    return pack("<I", number)[:3]


def _chunk(name: bytes, content: bytes) -> bytes:
    return name + pack("<I", len(content)) + content + b"\0" * (len(content) % 2)


def _pixels(image: bytes) -> bytes:
    """The chunks of a WebP file that hold its pixels and their alpha."""
    place, chunks = 12, []
    while place < len(image):
        (length,) = unpack_from("<I", image, place + 4)
        end = place + 8 + length + length % 2
        if image[place : place + 4] in (b"ALPH", b"VP8 ", b"VP8L"):
            chunks.append(image[place:end])
        place = end
    return b"".join(chunks)
