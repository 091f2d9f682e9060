"""Images of which any part can be read without the rest: uncompressed TIFF, .npy, and PNG through a copy on disk."""

from __future__ import annotations

import io
import itertools
import mmap
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from luxel.render.fields.data.tiled_image import TiledImage
from luxel.render.storage.folder import OutputFolder
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.images.tiff_blocks import read_blocks
from luxel.scenes.files.large.png_rows import PngRows
from luxel.scenes.files.reading import check_file, open_file, reading
from luxel.scenes.files.volumes import read_array_header

SUFFIXES = (".tif", ".tiff", ".npy", ".png")
CACHE = "image-rows.npy"  # in a run folder
MAX_SIDE = 1 << 20  # pixels along a side
REMEDY = "Copy or export the file again."


@dataclass(frozen=True)
class Blocks:
    """Where the pixels of an uncompressed image are in its file.

    Args:
        width, height, channels: of the image; 1 grey, 3 red, green, blue, 4 with straight alpha.
        dtype: of a value: integers of 8 or 16 bits, or floats in [0, 1].
        rows, columns: of a block, pixels; they may reach beyond the image.
        offsets: first byte of each block, int64 [rows of blocks, blocks in a row].
    """

    width: int
    height: int
    channels: int
    dtype: np.dtype
    rows: int
    columns: int
    offsets: np.ndarray


class BlockImage(TiledImage):
    """An image of uncompressed blocks in a file, of which a part is mapped to memory while it is read.

    Args:
        path: of the file.
        blocks: where its pixels are; all lie within the file.
    """

    def __init__(self, path: Path, blocks: Blocks) -> None:
        self.path, self.name, self.blocks = path, str(path), blocks
        self.width, self.height = blocks.width, blocks.height

    def read(self, top: int, left: int, height: int, width: int) -> np.ndarray:
        """As `TiledImage.read`: alpha is composited on white, values of 16 bits and floats are rounded to 8 bits."""
        blocks = self.blocks
        out = np.empty((height, width, blocks.channels), blocks.dtype)
        with reading(self.path, "an image", REMEDY), open_file(self.path) as file:
            for row in range(top // blocks.rows, -(-(top + height) // blocks.rows)):
                for column in range(left // blocks.columns, -(-(left + width) // blocks.columns)):
                    y, x = row * blocks.rows, column * blocks.columns
                    y0, y1 = max(top, y), min(top + height, y + blocks.rows)
                    x0, x1 = max(left, x), min(left + width, x + blocks.columns)
                    part = out[y0 - top : y1 - top, x0 - left : x1 - left]
                    _copy(file.fileno(), blocks, int(blocks.offsets[row, column]), y0 - y, x0 - x, part)
        return self._as_bytes(out)

    def _as_bytes(self, values: np.ndarray) -> np.ndarray:
        if values.dtype.kind == "f":
            if not np.isfinite(values).all():
                raise CaptureError(
                    f"{self.path}: the image has values that are not finite.",
                    "Replace its NaNs and infinities.",
                )
            values = (values.astype(np.float32).clip(0, 1) * 255).round().astype(np.uint8)
        elif values.dtype.itemsize == 2:
            values = ((values.astype(np.uint32) * 255 + 32767) // 65535).astype(np.uint8)
        if values.shape[2] == 4:
            alpha = values[..., 3:].astype(np.uint16)
            over = values[..., :3] * alpha + 255 * (255 - alpha)
            return ((over + 127) // 255).astype(np.uint8)
        return np.repeat(values, 3, 2) if values.shape[2] == 1 else values


def _copy(descriptor: int, blocks: Blocks, offset: int, row: int, column: int, out: np.ndarray) -> None:
    """Copies a part of a block that begins at a row and column of it; only that part of the file is mapped."""
    pixel = blocks.channels * blocks.dtype.itemsize
    line = blocks.columns * pixel
    first = offset + row * line + column * pixel
    size = (len(out) - 1) * line + out.shape[1] * pixel
    start = first // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
    with mmap.mmap(descriptor, first - start + size, access=mmap.ACCESS_READ, offset=start) as mapped:
        strides = (line, pixel, blocks.dtype.itemsize)
        view = np.ndarray(out.shape, blocks.dtype, mapped, first - start, strides)
        out[...] = view
        del view  # a mapping in use cannot be closed


def open_tiled(
    path: str | Path,
    cache: Path | None = None,
    say: Callable[[str], None] | None = None,
) -> TiledImage:
    """Opens an image for reading by parts; orientation and colour profile of the file are not applied.

    Uncompressed TIFF and .npy files are read in place. The rows of a PNG file are decoded once into `CACHE` in the
    folder ``cache``, 3 bytes a pixel, which is used again while it is newer than the PNG file.

    Args:
        path: of the file.
        cache: folder for the pixels of a PNG file; None: PNG files are refused.
        say: receives the size of that copy before it is written.

    Raises:
        CaptureError: the file is missing, damaged or of a format that cannot be read by parts, or the disk is full.
    """
    path = Path(path)
    size = check_file(path)
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES or (suffix == ".png" and cache is None):
        raise CaptureError(
            f"{path}: {suffix or 'a file without suffix'} cannot be read by parts.",
            "Save the image as an uncompressed TIFF, .npy or PNG file, or train without --stream.",
        )
    if suffix == ".png":
        assert cache is not None
        return _open_array(_decoded_rows(path, cache, say))
    if suffix == ".npy":
        return _open_array(path)
    with reading(path, "a TIFF file", REMEDY), open_file(path) as file:
        image = BlockImage(path, Blocks(*read_blocks(path, file, size)))
    return _checked(image)


def _open_array(path: Path) -> TiledImage:
    size = check_file(path)
    with reading(path, "a numpy file", "Save the image again, with numpy.save."), open_file(path) as file:
        shape, fortran, dtype = read_array_header(file)
        offset = file.tell()
    grey = len(shape) == 2
    if len(shape) not in (2, 3) or min(shape) < 1 or (not grey and shape[2] not in (1, 3, 4)):
        raise CaptureError(
            f"{path}: an image must be [H, W], [H, W, 3] or [H, W, 4], got {str(list(shape))[:120]}.",
            "Save such an array.",
        )
    floats = dtype.kind == "f" and dtype.itemsize <= 8
    if fortran or not (floats or (dtype.kind == "u" and dtype.itemsize <= 2)):
        raise CaptureError(
            f"{path}: an image must be of uint8, uint16 or floats in [0, 1], in C order, got {str(dtype)[:40]}"
            f"{' in Fortran order' if fortran else ''}.",
            "Save numpy.ascontiguousarray(image) of such a type.",
        )
    height, width, channels = int(shape[0]), int(shape[1]), 1 if grey else int(shape[2])
    needed = height * width * channels * dtype.itemsize
    if needed > size - offset:
        raise CaptureError(
            f"{path}: cut short: the header announces {height}x{width} pixels, {needed} bytes, and {size - offset} "
            "follow.",
            "Copy or save the image again.",
        )
    blocks = Blocks(width, height, channels, dtype, height, width, np.array([[offset]], np.int64))
    return _checked(BlockImage(path, blocks))


def _decoded_rows(path: Path, folder: Path, say: Callable[[str], None] | None) -> Path:
    """The copy of a PNG file's pixels on disk; written unless it is there."""
    copy = folder / CACHE
    with reading(path, "a PNG file", REMEDY), open_file(path) as file:
        rows = PngRows(file, check_file(path))
        _check_sides(path, rows.width, rows.height)
        if not (copy.is_file() and copy.stat().st_mtime_ns >= path.stat().st_mtime_ns):
            write_rows(str(path), copy, rows.width, rows.height, rows.bands(), say)
    return copy


def write_rows(
    name: str,
    path: Path,
    width: int,
    height: int,
    bands: Iterable[np.ndarray],
    say: Callable[[str], None] | None = None,
) -> None:
    """Writes the rows of an image into a .npy file, under a temporary name until it is complete.

    Args:
        name: of the image, for messages.
        path: of the file.
        width, height: of the image, pixels.
        bands: its rows from the top, uint8 [R, width, 3] each.
        say: receives the size of the file before it is written.

    Raises:
        CaptureError: the disk has too little space.
        ForeignFileError: luxel did not write the file that is there.
        OSError: it cannot be written.
    """
    needed, free = 3 * width * height, shutil.disk_usage(path.parent).free
    if needed > free:
        raise CaptureError(
            f"{name}: its {width}x{height} pixels take {needed / 1e9:.1f} GB in {path.parent}, where "
            f"{free / 1e9:.1f} GB are free.",
            "Free some space, or choose another folder with --run.",
        )
    if say is not None:
        say(f"writing {width}x{height} pixels to {path}, {needed / 1e9:.2f} GB")
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        head, {"descr": "|u1", "fortran_order": False, "shape": (height, width, 3)}
    )
    rows = (np.ascontiguousarray(band).data.cast("B") for band in bands)
    OutputFolder(path.parent).write(path.name, itertools.chain([head.getvalue()], rows))


def _checked(image: TiledImage) -> TiledImage:
    _check_sides(Path(image.name), image.width, image.height)
    return image


def _check_sides(path: Path, width: int, height: int) -> None:
    if max(width, height) > MAX_SIDE:
        raise CaptureError(
            f"{path}: the image has {width}x{height} pixels; images have at most {MAX_SIDE:,} along a side.",
            "Cut it into smaller images.",
        )
