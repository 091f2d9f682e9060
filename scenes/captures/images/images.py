"""Images of captures: decoding, EXIF orientation, undistortion, resizing, and caching in memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import numpy as np
from PIL import Image, ImageOps

from luxel.render.geometry.camera import Pixels
from luxel.render.storage.reading import available_memory as free_memory
from luxel.scenes.captures.exposure_data import Exposure, exposure_of
from luxel.scenes.captures.lenses.lens import Lens, pinhole_of
from luxel.scenes.captures.lenses.stored_lenses import counted_pixels, image_circle, sampled
from luxel.scenes.captures.lenses.undistortion import DETAIL, is_smaller, undistorted_at, undistortion_maps
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.images.image_decoding import has_end, opened_header, opened_image, opened_pixels
from luxel.scenes.files.images.image_values import grey_bytes, is_deep

ORIENTATION_TAG = 0x0112
DECODED = 256  # images of a capture that are decoded to check them where they do not fit into memory
SIDEWAYS = (5, 6, 7, 8)  # EXIF orientations that swap width and height
MEMORY_FRACTION = 0.4  # of free memory that decoded images may fill


@dataclass(frozen=True)
class ImageHeader:
    """The header of an image file: stored size in pixels, EXIF orientation (1: upright), alpha, and EXIF exposure."""

    width: int
    height: int
    orientation: int
    has_alpha: bool
    exposure: Exposure | None = None

    def size(self, oriented: bool) -> tuple[int, int]:
        """Width and height, with or without the EXIF orientation applied."""
        swap = oriented and self.orientation in SIDEWAYS
        return (self.height, self.width) if swap else (self.width, self.height)


def read_header(path: Path) -> ImageHeader:
    """Size, orientation and exposure of an image file without decoding it.

    Raises:
        CaptureError: the file is missing, empty, or no image.
    """
    with opened_header(path) as image:
        # Reading EXIF data behind the pixels of a PNG would decode all of it.
        turned = image.format != "PNG" or "exif" in image.info
        exif = image.getexif() if turned else Image.Exif()
        orientation = int(exif.get(ORIENTATION_TAG, 1) or 1)
        exposure = exposure_of(exif)
        return ImageHeader(image.width, image.height, orientation, _has_alpha(image), exposure)


def _has_alpha(image: Image.Image) -> bool:
    return image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info


def decode(path: Path, *, oriented: bool = False, least: int | None = None) -> np.ndarray:
    """All pixels of an image file, uint8 [H, W, 3] or, where it has alpha, [H, W, 4].

    Args:
        path: any file that Pillow reads; greys of 16 bits and of floats are reduced to 8 bits, see `grey_bytes`.
        oriented: applies the EXIF orientation.
        least: pixels of the longer side that suffice, see `opened_image`. None: full size.

    Raises:
        CaptureError: the file cannot be read, is damaged or cut short, no image, above the limit on pixels, or its
            values are not those of images.
    """
    with opened_pixels(path, least) as (opened, pixels):
        if pixels is not None:
            if pixels.ndim == 2:
                pixels = cv2.cvtColor(pixels, cv2.COLOR_GRAY2RGB)
            return _turned(pixels, opened.getexif().get(ORIENTATION_TAG, 1)) if oriented else pixels
        image = ImageOps.exif_transpose(opened) if oriented else opened
        if is_deep(image.mode):
            return cv2.cvtColor(grey_bytes(path, np.asarray(image)), cv2.COLOR_GRAY2RGB)
        return np.asarray(image.convert("RGBA" if _has_alpha(image) else "RGB"))


def _turned(pixels: np.ndarray, orientation: object) -> np.ndarray:
    """Pixels as an EXIF orientation, 1 to 8, says that they are to be shown."""
    if orientation in (5, 7):
        pixels = cv2.transpose(pixels)
    if orientation in (3, 7):
        return cv2.rotate(pixels, cv2.ROTATE_180)
    if orientation in (2, 4):
        return cv2.flip(pixels, 1 if orientation == 2 else 0)
    if orientation in (6, 8):
        return cv2.rotate(
            pixels, cv2.ROTATE_90_CLOCKWISE if orientation == 6 else cv2.ROTATE_90_COUNTERCLOCKWISE
        )
    return pixels


def check_decodes(path: Path) -> None:
    """Reads a full image at the lowest resolution its format allows, to detect truncated files.

    Raises:
        CaptureError: the file cannot be read, is damaged or cut short, no image, or above the limit on pixels.
    """
    with opened_image(path, 1):
        pass


def check_images(paths: Sequence[Path], on_done: Callable[[float], None] | None = None) -> None:
    """Checks images that are not retained, to find damaged files before training.

    Up to DECODED of them, evenly spread, are read whole. Of the others only the end is read, which a file that is cut
    short lacks; those that cannot be judged by it are read whole as well.

    Args:
        paths: of the images.
        on_done: see `for_each`.

    Raises:
        CaptureError: a file cannot be read, is damaged or cut short, no image, or above the limit on pixels.
    """
    full = set(np.linspace(0, len(paths) - 1, DECODED).round().astype(int).tolist())

    def work(index: int) -> None:
        if index in full or not has_end(paths[index]):
            check_decodes(paths[index])

    for_each(work, len(paths), on_done)


def resize(pixels: np.ndarray, width: int, height: int) -> np.ndarray:
    """Pixels resized to height x width by area averaging (or linear interpolation upwards), [H, W] or [H, W, C]."""
    if pixels.shape[1] == width and pixels.shape[0] == height:
        return pixels
    smaller = width <= pixels.shape[1] and height <= pixels.shape[0]
    return cv2.resize(pixels, (width, height), interpolation=cv2.INTER_AREA if smaller else cv2.INTER_LINEAR)


def _covered(rgb: np.ndarray, coverage: np.ndarray) -> np.ndarray:
    """Straight colours times their alpha, and that alpha, float32 [H, W, 4]: resampled, transparent pixels do not bleed
    in."""
    return np.concatenate([rgb * (coverage[..., None] / np.float32(255)), coverage[..., None]], -1).astype(
        np.float32
    )


def _uncovered(covered: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Straight colours and alpha, uint8, of what `_covered` returned."""
    alpha = covered[..., 3]
    colour = covered[..., :3] * (255 / np.maximum(alpha, 1e-3))[..., None]
    return np.clip(colour + 0.5, 0, 255).astype(np.uint8), np.clip(alpha + 0.5, 0, 255).astype(np.uint8)


def _kept(coverage: np.ndarray) -> np.ndarray:
    """1 where a mask keeps a pixel, else 0, float32."""
    return np.where(coverage >= 128, np.float32(1), np.float32(0))


@dataclass
class ImageReader:
    """Reads the pixels of one view; the ``read`` of a View.

    Args:
        path: image file.
        lens: of the stored image, after its EXIF orientation where that is applied.
        width, height: size of the result (that of the undistorted camera), pixels.
        oriented: whether the EXIF orientation is applied.
        mask: reads the mask as uint8 [lens.height, lens.width], 255 = keep; None: there is no mask.
        use: how alpha and mask are used: "cutout" (coverage), "ignore" (weight 0 outside) or "none".
        retain_lens: the image is not undistorted; pixels that show nothing have weight 0.
        circle: radius of the image circle in focal lengths, with ``retain_lens``; None: not known.
        keep: whether the pixels stay in memory after the first call.
        cached: these pixels.
    """

    path: Path
    lens: Lens
    width: int
    height: int
    oriented: bool = False
    mask: Callable[[], np.ndarray] | None = None
    use: str = "none"
    retain_lens: bool = False
    circle: float | None = None
    keep: bool = True
    cached: Pixels | None = None

    def __call__(self) -> Pixels:
        """The pixels, undistorted unless ``retain_lens``.

        Raises:
            CaptureError: the file cannot be read, or has changed its size.
        """
        if self.cached is not None:
            return self.cached
        pixels = self._read()
        if self.keep:
            self.cached = pixels
        return pixels

    def _read(self) -> Pixels:
        size = (self.lens.width, self.lens.height)
        least = self._least()
        actual = None if least is None else read_header(self.path).size(self.oriented)
        stored = decode(self.path, oriented=self.oriented, least=least)
        actual = actual or (stored.shape[1], stored.shape[0])
        if actual != size:
            raise CaptureError(
                f"{self.path}: the image is {actual[0]}x{actual[1]} pixels, "
                f"but was {self.lens.width}x{self.lens.height} when the capture was opened.",
                "Open the capture again.",
            )
        rgb = cv2.cvtColor(stored, cv2.COLOR_RGBA2RGB) if stored.shape[-1] == 4 else stored
        keep = None if self.use == "none" else self._coverage(stored)
        if self.remapped and is_smaller(self.lens, self.width, self.height):
            return self._undistorted(rgb, keep)
        known = self._known()
        if keep is not None and self.use == "cutout":
            colour, alpha = rgb, keep
            if self.remapped or rgb.shape[:2] != (self.height, self.width):
                colour, alpha = _uncovered(self._move(_covered(rgb, keep)))
            return Pixels(colour, alpha, self._weight(known))
        weight = self._weight(known)
        if keep is not None:
            # Weights are 0 or 1: resampled pixels that mix kept and masked colours are left out.
            kept = (self._move(_kept(keep)) > 0.99).astype(np.uint8)
            weight = kept * 255 if weight is None else np.minimum(weight, kept * 255)
        return Pixels(self._move(rgb), None, weight)

    def _least(self) -> int | None:
        """Pixels of the longer side at which the image is decoded, see `decode`."""
        if self.mask is not None or (self.width, self.height) == (self.lens.width, self.lens.height):
            return None
        if not self.remapped:
            return max(self.width, self.height)
        return (
            DETAIL * max(self.width, self.height) if is_smaller(self.lens, self.width, self.height) else None
        )

    def _undistorted(self, rgb: np.ndarray, keep: np.ndarray | None) -> Pixels:
        """The pixels, undistorted at a smaller size than the stored ones'."""
        stored = (rgb.shape[1], rgb.shape[0])

        def rows(begin: int, end: int) -> list[np.ndarray]:
            if keep is None:
                return [rgb[begin:end]]
            if self.use == "cutout":
                return [_covered(rgb[begin:end], keep[begin:end])]
            return [rgb[begin:end], _kept(keep[begin:end])]

        planes, known = undistorted_at(self.lens, self.width, self.height, stored, rows)
        weight = None if known is None else np.where(known, np.uint8(255), np.uint8(0))
        if keep is not None and self.use == "cutout":
            return Pixels(*_uncovered(planes[0]), weight)
        if keep is not None:
            kept = np.where(planes[1] > 0.99, np.uint8(255), np.uint8(0))
            weight = kept if weight is None else np.minimum(weight, kept)
        return Pixels(planes[0], None, weight)

    @property
    def remapped(self) -> bool:
        """Whether the image is undistorted."""
        return self.lens.distorted and not self.retain_lens

    @property
    def lens_retained(self) -> bool:
        """Whether the image is that of a distorted lens and stays so."""
        return self.lens.distorted and self.retain_lens

    def _known(self) -> np.ndarray | None:
        """Which pixels of the result, at the size of the stored image, show something, uint8 [H, W]; None: all."""
        if self.remapped:
            return undistortion_maps(self.lens)[2]
        counted = counted_pixels(self.lens, self.circle) if self.lens.distorted else None
        return None if counted is None else counted.astype(np.uint8)

    def _coverage(self, stored: np.ndarray) -> np.ndarray | None:
        alpha = cv2.extractChannel(stored, 3) if stored.shape[-1] == 4 else None
        if alpha is not None and int(alpha.max(initial=0)) == 1:
            alpha = alpha * np.uint8(255)  # written as 0 and 1
        if self.mask is None:
            return alpha
        mask = self.mask()
        return mask if alpha is None else np.minimum(mask, alpha)

    def _move(self, pixels: np.ndarray) -> np.ndarray:
        if self.remapped:
            across, down, _ = undistortion_maps(self.lens)
            pixels = cv2.remap(pixels, across, down, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        return resize(pixels, self.width, self.height)

    def _weight(self, known: np.ndarray | None) -> np.ndarray | None:
        if known is None:
            return None
        return np.where(resize(known * np.uint8(255), self.width, self.height) == 255, 255, 0).astype(
            np.uint8
        )


def set_image_circles(readers: Sequence[ImageReader]) -> None:
    """Finds the image circles of the fisheyes that are retained."""
    by_lens: dict[Lens, list[ImageReader]] = {}
    for reader in readers:
        if reader.lens_retained and reader.lens.fisheye:
            by_lens.setdefault(reader.lens, []).append(reader)
    for lens, same in by_lens.items():
        oriented = {reader.path: reader.oriented for reader in same}
        paths = sampled(list(oriented))
        circle = image_circle(lens, [decode(path, oriented=oriented[path])[..., :3] for path in paths])
        for reader in same:
            reader.circle = circle


def undistorted_reader(reader: ImageReader) -> ImageReader:
    """A reader of the undistorted image, which does not keep it where it is not the same."""
    return replace(reader, retain_lens=False, keep=False, cached=None) if reader.lens_retained else reader


def target_size(lens: Lens, max_size: int | None) -> tuple[int, int]:
    """Width and height after limiting the longer side to ``max_size`` pixels."""
    factor = min(1.0, max_size / max(lens.width, lens.height)) if max_size else 1.0
    return max(1, round(lens.width * factor)), max(1, round(lens.height * factor))


def target_lens(lens: Lens, max_size: int | None, where: str, *, keep: bool = False) -> Lens:
    """The lens of the pixels that an ImageReader returns: a pinhole, or with ``keep`` that of the stored image."""
    return (lens if keep else pinhole_of(lens, where)).resized(*target_size(lens, max_size))


def fits_in_memory(readers: Sequence[ImageReader]) -> bool:
    """Whether the pixels of all images fit into `MEMORY_FRACTION` of the free memory."""
    planes = sum(r.width * r.height * (3 + (r.use != "none") + r.lens.distorted) for r in readers)
    return planes < MEMORY_FRACTION * free_memory()


def for_each(
    work: Callable[[int], object],
    count: int,
    on_done: Callable[[float], None] | None = None,
    workers: int | None = None,
) -> None:
    """Calls work(0) .. work(count - 1) on a pool of threads; raises the first error in order.

    Args:
        work: a function that mostly releases the GIL, such as decoding.
        count: number of calls.
        on_done: called with the fraction done in [0, 1], from the calling thread; an exception of it ends the calls.
        workers: threads; 1: the calling thread; None: as many as there are processors, at most 16.
    """
    if workers == 1:
        for index in range(count):
            work(index)
            if on_done:
                on_done((index + 1) / count)
        return
    with ThreadPoolExecutor(max_workers=workers or min(16, os.cpu_count() or 1)) as pool:
        futures = [pool.submit(work, index) for index in range(count)]
        try:
            for index, future in enumerate(futures):
                future.result()
                if on_done:
                    on_done((index + 1) / count)
        except BaseException:
            for future in futures:
                future.cancel()
            raise
