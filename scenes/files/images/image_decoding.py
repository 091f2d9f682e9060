"""Opening of image files: checks before any pixel is decoded, and complete decoding.

Damage is noticed as far as formats can tell: PNG by its checksums, JPEG by libjpeg's warnings, TIFF by the positions of
its strips, all by the number of pixels that a file of its size can hold.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import logging
import math
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import cv2
import numpy as np
import simplejpeg
from PIL import Image, UnidentifiedImageError

from luxel.scenes.files.exr.channels import is_exr
from luxel.scenes.files.exr.colours import FORMAT as EXR
from luxel.scenes.files.exr.colours import ExrImage, register_exr
from luxel.scenes.files.images.heif import check_items, is_heif, register_heif
from luxel.scenes.files.images.tiff_blocks import tiff_values
from luxel.scenes.files.pixel_limit import check_megapixels, is_above_limit
from luxel.scenes.files.reading import check_file, open_file, read_bytes, reading

FORMATS = ("JPEG", "PNG", "WEBP", "TIFF", "BMP", "GIF", "PPM", "JPEG2000")
HEIF = ("HEIF",)
REMEDY = "Copy the file again, or remove it from the capture; images are PNG, JPEG, WebP, TIFF, BMP, HEIC or EXR files."
# Most bytes of pixels that a byte of a file stands for; formats that are not listed have no such bound.
RATIOS = {"PNG": 1032, "JPEG": 6144, "MPO": 6144, "GIF": 2731, "BMP": 1032, "PPM": 8}
TIFF_RATIOS = {
    "raw": 1,
    "packbits": 64,
    "tiff_lzw": 2731,
    "tiff_deflate": 1032,
    "tiff_adobe_deflate": 1032,
    "jpeg": 6144,
}
WEBP_RATIO = 6144  # lossy: more than a bit for the modes of each 16x16 pixels (RFC 6386, 11.2 and 11.4); lossless: none
BITS = {"1": 1, "L": 8, "P": 8, "LA": 16, "PA": 16, "RGB": 24, "YCbCr": 24, "LAB": 24, "HSV": 24}
PNG_HEAD, PNG_END = b"\x89PNG\r\n\x1a\n", b"\0\0\0\0IEND\xaeB`\x82"
TAIL = 64  # bytes at the end of a file that are looked at
SLACK = 1 << 12  # bytes that any file may stand for
STRIPS = ((273, 279), (324, 325))  # TIFF: tags of positions and lengths of strips, and of tiles

logging.getLogger("PIL").addHandler(logging.NullHandler())
warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")  # what matters becomes an error
with contextlib.suppress(OSError, AttributeError):  # libtiff's lines on stderr would stand between luxel's
    _libtiff = ctypes.CDLL(Image.core.__file__)  # finds it among what Pillow is linked with
    _libtiff.TIFFSetErrorHandler(None)
    _libtiff.TIFFSetWarningHandler(None)
Image.MAX_IMAGE_PIXELS = None  # Pillow's own limit, which would warn at 89 and refuse at 179 megapixels


@contextmanager
def opened_header(path: Path) -> Iterator[Image.Image]:
    """An image file of which only the header is read.

    Raises:
        CaptureError: the file cannot be read, or is no image of a known format.
    """
    check_file(path)
    with (
        reading(path, "an image", REMEDY),
        open_file(path) as file,
        _opened(path, file) as image,
    ):
        yield image


@contextmanager
def opened_image(path: Path, least: int | None = None) -> Iterator[Image.Image]:
    """An image file with all pixels, checked as far as its format allows.

    Args:
        path: of the file.
        least: pixels of the longer side that the caller needs; a JPEG file is decoded at 1/2, 1/4 or 1/8 of its size
            where at least twice as many remain, or, above the limit, as many. None: all.

    Raises:
        CaptureError: the file cannot be read, is damaged or cut short, or has more pixels than the limit.
    """
    with opened_bytes(path, read_bytes(path), least) as image:
        yield image


@contextmanager
def opened_bytes(path: Path, data: bytes, least: int | None = None) -> Iterator[Image.Image]:
    """As `opened_image`, of the bytes of an image file that may lie within another file; the path is for messages."""
    with _checked(path, data, least) as (image, factor):
        pixels = _decoded(image, data, factor)
        yield image if pixels is None else _made(pixels, image)


@contextmanager
def opened_pixels(
    path: Path, least: int | None = None, *, deep: bool = False
) -> Iterator[tuple[Image.Image, np.ndarray | None]]:
    """As `opened_image`, with the pixels by themselves where another library than Pillow decodes them: each copy that
    Pillow makes of them keeps all other threads waiting.

    Args:
        path: of the file.
        least: as of `opened_image`.
        deep: PNG files of 16 bits keep them, where else colours are reduced to 8 bits.

    Returns:
        The image, and its pixels, uint8 (with ``deep`` also uint16) [H, W], [H, W, 3] or [H, W, 4]: grey, RGB or RGBA,
        before any EXIF orientation. The image is then its header alone. None: the image has them.

    Raises:
        CaptureError: as `opened_image`.
    """
    data = read_bytes(path)
    with _checked(path, data, least) as (image, factor):
        if deep and image.format == "PNG" and _is_plain(data, 16):
            pixels = _by_opencv(data)
            if pixels is not None:
                yield image, pixels
                return
        yield image, _decoded(image, data, factor)


@contextmanager
def _checked(path: Path, data: bytes, least: int | None) -> Iterator[tuple[Image.Image, int]]:
    """The header of an image whose content is possible, and the factor by which it is decoded smaller."""
    with (
        reading(path, "an image", REMEDY),
        _opened(path, io.BytesIO(data)) as image,
    ):
        factor = _reduction(image, least)
        _check_size(path, image, factor)
        _check_content(image, data)
        yield image, factor


def has_end(path: Path) -> bool:
    """Whether a JPEG or PNG file has the mark that such files end with, which one that is cut short lacks.

    Only the first and last bytes are read. False for other formats, and where something follows the mark.

    Raises:
        CaptureError: the file cannot be read, or is empty.
    """
    size = check_file(path)
    with reading(path, "an image", REMEDY), open_file(path) as file:
        head = file.read(8)
        file.seek(max(0, size - TAIL))
        tail = file.read(TAIL)
    if head[:2] == b"\xff\xd8":
        return tail.rstrip(b"\0").endswith(b"\xff\xd9")
    return head == PNG_HEAD and tail.endswith(PNG_END)


def _opened(path: Path, file: IO[bytes]) -> Image.Image:
    head, formats = file.read(30), FORMATS
    if is_heif(head):
        register_heif(path)
        check_items(file)
        formats = HEIF
    elif is_exr(head):
        register_exr(path)
        formats = (EXR,)
    size = webp_size(head)
    if size is not None:  # Pillow allocates its decoder's memory before it says how large the image is
        check_megapixels(path, *size)
    file.seek(0)
    try:
        return Image.open(file, formats=formats)
    except UnidentifiedImageError:
        if values := tiff_values(file):
            raise ValueError(f"a TIFF file of {values}, which is not supported") from None
        raise ValueError("not an image file of a known format") from None


def _reduction(image: Image.Image, least: int | None) -> int:
    """The factor by which an image is decoded smaller: 1, 2, 4 or 8."""
    if least is None or image.format not in ("JPEG", "MPO"):
        return 1
    too_large = is_above_limit(image.width * image.height)
    for factor in (8, 4, 2):
        exact = image.width % factor == 0 and image.height % factor == 0
        gap = 1 if too_large else 2
        if (exact or too_large) and max(image.size) // factor >= gap * least:
            return factor
    return 1


def webp_size(head: bytes) -> tuple[int, int] | None:
    """Width and height of a WebP image by the first 30 bytes of its file; None for other files (RFC 9649, 2)."""
    if head[:4] != b"RIFF" or head[8:12] != b"WEBP" or len(head) < 30:
        return None
    if head[12:16] == b"VP8X":
        width, height = (int.from_bytes(head[at : at + 3], "little") + 1 for at in (24, 27))
    elif head[12:16] == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    else:
        width, height = (int.from_bytes(head[at : at + 2], "little") & 0x3FFF for at in (26, 28))
    return width, height


def _check_size(path: Path, image: Image.Image, factor: int) -> None:
    if isinstance(image, ExrImage) and image.exr is not None:
        check_megapixels(path, *image.exr.largest)
    check_megapixels(path, *image.size, factor, image.format in ("JPEG", "MPO"))


def _check_content(image: Image.Image, data: bytes) -> None:
    """Raises ValueError for an image that its file cannot hold, before memory is allocated."""
    kind = image.format or ""
    bits, ratio = BITS.get(image.mode, 32), RATIOS.get(kind, math.inf)
    if image.mode.startswith("I;16"):
        bits = 16
    if kind == "PNG":
        _check_png(data)
        bits = data[24] * {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}.get(data[25], 1)
    elif kind == "BMP":
        bits = min(bits, int.from_bytes(data[28:30], "little") or bits)
    elif kind == "WEBP" and data[12:16] == b"VP8 ":
        ratio = WEBP_RATIO
    elif kind == "TIFF":
        ratio = TIFF_RATIOS.get(str(image.info.get("compression", "raw")), math.inf)
        bits = min(bits, _check_tiff(image, len(data)))
    stored = image.height * math.ceil(image.width * bits / 8)
    if stored > ratio * len(data) + SLACK:
        raise ValueError(
            f"{image.width}x{image.height} pixels are announced, and {len(data)} bytes cannot hold so many"
        )


def _png_chunks(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Name, start and end of each chunk of a PNG file.

    Raises:
        ValueError: the file ends in one of them.
    """
    at, name = 8, b""
    while name != b"IEND":
        end = at + 12 + int.from_bytes(data[at : at + 4], "big")
        if end > len(data):
            raise ValueError(f"the file ends in the chunk at byte {at}")
        name = data[at + 4 : at + 8]
        yield name, at, end
        at = end


def _check_png(data: bytes) -> None:
    """Compares the checksum of every chunk."""
    view = memoryview(data)
    for _, at, end in _png_chunks(data):
        if zlib.crc32(view[at + 4 : end - 4]) != int.from_bytes(view[end - 4 : end], "big"):
            raise ValueError(f"the chunk at byte {at} has a wrong checksum")


def _check_tiff(image: Image.Image, size: int) -> int:
    """Checks that all strips or tiles are in the file; returns the bits of a pixel."""
    tags = getattr(image, "tag_v2", {})
    for where, length in STRIPS:
        if where not in tags:
            continue
        starts, counts = tags[where], tags.get(length)
        if counts is None or len(starts) != len(counts):
            raise ValueError("the lengths of its strips are missing")
        if any(
            start < 0 or count < 0 or start + count > size
            for start, count in zip(starts, counts, strict=True)
        ):
            raise ValueError("a strip is outside of the file")
        break
    else:
        raise ValueError("the positions of its strips are missing")
    if where == 273:
        rows = min(int(tags.get(278, image.height)), image.height)
        planes = int(tags.get(277, 1)) if tags.get(284, 1) == 2 else 1
        if rows < 1 or len(starts) < planes * math.ceil(image.height / rows):
            raise ValueError(f"there are {len(starts)} strips of {rows} rows for {image.height} rows")
    return sum(tags.get(258, (1,))) or 1


def _decoded(image: Image.Image, data: bytes, factor: int) -> np.ndarray | None:
    """The pixels, as in `opened_pixels`; None: Pillow has decoded them into the image.

    JPEG files are decoded by libjpeg-turbo, whose warnings are errors, WebP and plain PNG files by OpenCV.
    """
    if image.format in ("JPEG", "MPO") and image.mode in ("RGB", "L"):
        colours = "RGB" if image.mode == "RGB" else "GRAY"
        height, width = (-(-side // factor) if factor > 1 else 0 for side in (image.height, image.width))
        try:
            pixels = simplejpeg.decode_jpeg(data, colours, min_height=height, min_width=width)
        except ValueError as error:
            if "extraneous" not in str(error):  # of several cameras, harmless
                raise
        else:
            return pixels if colours == "RGB" else np.ascontiguousarray(pixels[..., 0])
    if image.format == "WEBP" and not getattr(
        image, "is_animated", False
    ):  # Pillow takes four times the memory
        decoded = _by_opencv(data)
        if decoded is None:
            raise ValueError("its pixels are damaged or cut short")
        return decoded
    if image.format == "PNG" and _is_plain(data) and (decoded := _by_opencv(data)) is not None:
        return decoded
    if factor > 1:
        image.draft(None, (image.width // factor, image.height // factor))
    image.load()
    return None


def _is_plain(png: bytes, bits: int = 8) -> bool:
    """Whether a PNG file is grey, RGB or RGBA of so many bits, one image that nothing changes, describes or follows.

    OpenCV reads on after an end without pixels, and allocates what a chunk there announces.
    """
    chunks = list(_png_chunks(png))
    names, special = {name for name, *_ in chunks}, {b"tRNS", b"acTL", b"eXIf", b"iTXt"}
    full = b"IDAT" in names and chunks[-1][2] == len(png)
    return full and png[24] == bits and png[25] in (0, 2, 6) and special.isdisjoint(names)


def _by_opencv(data: bytes) -> np.ndarray | None:
    """Pixels in the order of `opened_pixels`; None: OpenCV cannot decode them."""
    decoded = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    if decoded is None or decoded.ndim == 2:
        return decoded
    return cv2.cvtColor(decoded, cv2.COLOR_BGRA2RGBA if decoded.shape[2] == 4 else cv2.COLOR_BGR2RGB, decoded)


def _made(pixels: np.ndarray, image: Image.Image) -> Image.Image:
    """Decoded pixels as an image with the format and the texts of another one."""
    full = Image.fromarray(pixels)
    full.info, full.format = image.info, image.format
    return full
