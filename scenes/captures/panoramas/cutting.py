"""The views that are cut from the panoramas of a capture: written once into the cache, then read as any image."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path, PurePosixPath

import cv2
import numpy as np
from PIL import Image

from luxel.render.storage.reading import available_memory
from luxel.scenes.captures.caching.capture_cache import CaptureCache, content_key
from luxel.scenes.captures.capture_format import ReadOptions
from luxel.scenes.captures.contents import CaptureContents, SourceImage
from luxel.scenes.captures.images.images import check_images, decode
from luxel.scenes.captures.images.masks import find_masks, read_mask
from luxel.scenes.captures.lenses.lens import Lens
from luxel.scenes.captures.lenses.lens_models import EQUIRECTANGULAR
from luxel.scenes.captures.panorama_options import PanoramaOptions
from luxel.scenes.captures.panoramas.layout import turns
from luxel.scenes.captures.panoramas.projection import Panorama, view_directions

VERSION = 1  # increased when a change invalidates cached views
QUALITY = 97  # of the JPEG files
BYTES_PER_PIXEL = 24  # of a panorama while it is cut
MAX_THREADS = 4


def cut_panoramas(path: Path, contents: CaptureContents, options: ReadOptions) -> None:
    """Replaces the panoramas among the images of a capture by the views that are cut from them.

    The views of a panorama are a group. They have the resolution that the panorama has at its horizon. Masks and
    transparency of the panorama are cut as well; pixels below ``options.panorama.nadir`` are masked out.

    Args:
        path: the capture's folder or file.
        contents: as its format read it.
        options: of reading; ``masks`` "none" leaves out all masks, that of the nadir too.

    Raises:
        CaptureError: a panorama or a mask cannot be read.
    """
    panoramas = [source for source in contents.images if source.lens.model == EQUIRECTANGULAR]
    if not panoramas:
        return
    root = path if path.is_dir() else path.parent
    if options.masks != "none":
        find_masks(root, panoramas)
    contents.used_files |= {file for s in panoramas for file in (s.path, s.mask) if file is not None}
    cache = CaptureCache(root, options.cache_dir)
    views: dict[str, list[SourceImage]] = {}

    def work(index: int) -> None:
        source = panoramas[index]
        views[source.name] = cut_views(source, options.panorama, cache, masked=options.masks != "none")

    _for_each_panorama(work, panoramas, lambda share: options.on_progress("cutting panoramas", share))
    images = [view for source in contents.images for view in views.get(source.name, [source])]
    contents.images[:] = images
    contents.unused_names = _of_views(contents.unused_names, views)
    if contents.test_names is not None:
        contents.test_names = _of_views(contents.test_names, views)


def _of_views(names: set[str], views: dict[str, list[SourceImage]]) -> set[str]:
    return {view for name in names for view in ([v.name for v in views[name]] if name in views else [name])}


def _for_each_panorama(
    work: Callable[[int], None], panoramas: Sequence[SourceImage], on_done: Callable[[float], None]
) -> None:
    """Calls work(0), work(1) ... on as many threads as panoramas fit into a part of the free memory."""
    largest = max(source.lens.width * source.lens.height for source in panoramas)
    capacity = int(0.4 * available_memory() // (BYTES_PER_PIXEL * largest))
    threads = max(1, min(MAX_THREADS, os.cpu_count() or 1, capacity))
    with ThreadPoolExecutor(max_workers=threads) as pool:
        futures = [pool.submit(work, index) for index in range(len(panoramas))]
        try:
            for index, future in enumerate(futures):
                future.result()
                on_done((index + 1) / len(panoramas))
        except BaseException:
            for future in futures:
                future.cancel()
            raise


def view_size(width: int, fov: float) -> tuple[int, float]:
    """Pixels of a side, and focal length in pixels, of a view with the resolution of a panorama at its horizon.

    Args:
        width: of the panorama, pixels.
        fov: of the view, degrees.
    """
    half = np.tan(np.radians(0.5 * fov))
    size = max(8, round(width / np.pi * half))
    return size, 0.5 * size / float(half)


def cut_views(
    source: SourceImage, options: PanoramaOptions, cache: CaptureCache, *, masked: bool = True
) -> list[SourceImage]:
    """The views of one panorama as images in the cache; they are written where they are not there yet.

    Args:
        source: with an equirectangular lens and its pose.
        options: which views.
        cache: of the capture, among whose results the views are.
        masked: whether views get masks.

    Raises:
        CaptureError: the panorama or its mask cannot be read, or it has changed its size.
    """
    status, mask = source.path.stat(), source.mask.stat() if source.mask and masked else None
    stamp = [
        (s.st_size, s.st_mtime_ns) if s else None for s in (status, mask)
    ]  # large files are not read twice
    layout = (options.views, options.fov, options.pitch, options.nadir)
    name = str(source.path.resolve())
    key = content_key(["views", VERSION, name, *stamp, *layout, source.oriented, masked])
    size, focal = view_size(source.lens.width, options.fov)

    def read(folder: Path) -> Path:
        if not all((folder / f"view-{index:02d}.jpg").is_file() for index in range(options.views)):
            raise ValueError(f"{folder} does not have all views")
        return folder

    folder = cache.result(
        f"panoramas/{key}",
        read,
        lambda target: _write_views(source, options, target, size, focal, masked=masked),
        check=lambda entry: check_images(sorted(entry.iterdir())),
    )
    lens = Lens(size, size, focal, focal, 0.5 * size, 0.5 * size)
    out = []
    for index, turn in enumerate(turns(options.views, options.pitch)):
        pose = np.eye(4)
        pose[:3, :3] = turn.T
        cut_mask = folder / f"mask-{index:02d}.png"
        out.append(
            replace(
                source,
                name=f"{PurePosixPath(source.name).with_suffix('')}-view{index:02d}.jpg",
                path=folder / f"view-{index:02d}.jpg",
                lens=lens,
                world_to_cam=pose @ source.world_to_cam,
                mask=cut_mask if cut_mask.is_file() else None,
                oriented=False,
                depth=None,
                group=source.name,
            )
        )
    return out


def _write_views(
    source: SourceImage, options: PanoramaOptions, folder: Path, size: int, focal: float, *, masked: bool
) -> None:
    stored = decode(source.path, oriented=source.oriented)
    keep = stored[..., 3] if stored.shape[-1] == 4 else None
    if source.mask is not None and masked:
        mask = read_mask(source.mask, stored.shape[1], stored.shape[0])
        keep = mask if keep is None else np.minimum(mask, keep)
    image = Panorama(np.ascontiguousarray(stored[..., :3]))
    coverage = None if keep is None or not masked else Panorama(np.ascontiguousarray(keep))
    del stored, keep
    for index, turn in enumerate(turns(options.views, options.pitch)):
        pixels = image.view(turn, focal, size)
        Image.fromarray(pixels).save(folder / f"view-{index:02d}.jpg", quality=QUALITY, subsampling=0)
        retained = above(turn, focal, size, options.nadir) if masked else None
        if coverage is not None:
            cut = coverage.view(turn, focal, size)
            retained = cut if retained is None else np.minimum(cut, retained)
        if retained is not None:
            Image.fromarray(retained).save(folder / f"mask-{index:02d}.png", compress_level=1)


def above(turn: np.ndarray, focal: float, size: int, nadir: float) -> np.ndarray | None:
    """A mask of the pixels of a view that look no lower than ``nadir`` degrees below the horizon, uint8 [size, size].

    None: all of them do.
    """
    rays = view_directions(turn, focal, size)
    low = np.degrees(np.arctan2(rays[..., 1], np.hypot(rays[..., 0], rays[..., 2])))
    retained = np.where(low <= nadir, 255, 0).astype(np.uint8)
    return None if retained.all() else retained


def small_view(pixels: np.ndarray, turn: np.ndarray, size: int, focal: float) -> np.ndarray:
    """A view from the pixels of a panorama that is first averaged down to the resolution of the view.

    Args:
        pixels: uint8 [H, W] or [H, W, C].
        turn, focal, size: as in `luxel.scenes.captures.panoramas.projection.view_directions`.
    """
    width = round(2 * np.pi * focal)
    if width < pixels.shape[1]:
        height = max(1, round(pixels.shape[0] * width / pixels.shape[1]))
        pixels = cv2.resize(pixels, (width, height), interpolation=cv2.INTER_AREA)
    return Panorama(np.ascontiguousarray(pixels)).view(turn, focal, size)
