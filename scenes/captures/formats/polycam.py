"""Raw exports of Polycam: images, poses and depth maps of a phone with ARKit, in ``keyframes``.

A frame is a number of several files: cameras/N.json with fx, fy, cx, cy, width, height in pixels and the rows t_00 to
t_23 of camera to world with OpenGL axes, images/N.jpg, depth/N.png in millimetres, and confidence/N.png. What the app
optimised after the capture is in corrected_cameras and corrected_images (Polycam, Polyform, 2022).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from luxel.scenes.captures.capture_format import CaptureFormat, ReadOptions
from luxel.scenes.captures.contents import IMAGE_SUFFIXES, CaptureContents, SourceImage, natural_key
from luxel.scenes.captures.images.images import ImageHeader, for_each, read_header
from luxel.scenes.captures.lenses.lens import Lens, fit_to_file
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.reading import read_bytes, reading
from luxel.scenes.geometry import OPENGL_TO_OPENCV, invert_rigid, rigid_from_matrix

KEYFRAMES = "keyframes"
# Folders of poses and their images; the optimised ones first.
PAIRS = (("corrected_cameras", "corrected_images"), ("cameras", "images"))
DEPTH, CONFIDENCE = "depth", "confidence"
ROWS = [[f"t_{row}{column}" for column in range(4)] for row in range(3)]
REMEDY = "Export the raw data again."


def _frames(path: Path) -> tuple[Path, Path] | None:
    """The folder of poses and that of images in an export, or in its ``keyframes``; None: there are none."""
    for folder in (path / KEYFRAMES, path):
        for cameras, images in PAIRS:
            if (folder / images).is_dir() and any(map(_is_camera, (folder / cameras).glob("*.json"))):
                return folder / cameras, folder / images
    return None


def _is_camera(file: Path) -> bool:
    """Whether a file has the keys of a frame."""
    try:
        document = json.loads(read_bytes(file))
    except (CaptureError, OSError, ValueError, RecursionError):
        return False
    return isinstance(document, dict) and {"fx", *ROWS[0]} <= set(document)


def polycam_mismatch(path: Path) -> str | None:
    """None for an export and for its folder ``keyframes``, otherwise the reason."""
    if path.is_file():
        return "it is not a folder"
    return None if _frames(path) else f"there are no {KEYFRAMES}/cameras and {KEYFRAMES}/images"


def read_polycam(path: Path, options: ReadOptions) -> CaptureContents:
    """The frames with their poses, and depth maps where there are some.

    Args:
        path: the export, or its folder ``keyframes``.
        options: not used.

    Raises:
        CaptureError: an image is missing, or a frame is invalid; the message names it.
    """
    pair = _frames(path)
    assert pair is not None
    cameras, images = pair
    files = sorted(cameras.glob("*.json"), key=lambda file: natural_key(file.name))
    present = {image.stem: image for image in images.iterdir() if image.suffix.lower() in IMAGE_SUFFIXES}
    missing = next((file for file in files if file.stem not in present), None)
    if missing is not None:
        raise CaptureError(
            f"{missing}: there is no image {missing.stem} in {images}.", "Put it there, or remove the file."
        )
    headers: dict[int, ImageHeader] = {}
    for_each(lambda i: headers.__setitem__(i, read_header(present[files[i].stem])), len(files))
    sources = []
    for row, file in enumerate(files):
        image = present[file.stem]
        name = f"{images.name}/{image.name}"
        source = _source(name, file, image, headers[row])
        depth = cameras.parent / DEPTH / f"{file.stem}.png"
        source.depth = depth if depth.is_file() else None
        sources.append(source)
    used = {cameras.parent / name for pair in PAIRS for name in pair} | {cameras.parent / CONFIDENCE}
    used |= {folder / "mesh_info.json" for folder in (path, cameras.parent.parent)}
    return CaptureContents("Polycam raw export", sources, used_files=used)


def _source(name: str, file: Path, image: Path, header: ImageHeader) -> SourceImage:
    where = str(file)
    with reading(file, "JSON", REMEDY):
        document = json.loads(read_bytes(file))
    if not isinstance(document, dict):
        raise CaptureError(f"{file}: the file must hold a JSON object.", REMEDY)
    width, height, fx, fy, cx, cy = (
        _number(document, key, where) for key in ("width", "height", "fx", "fy", "cx", "cy")
    )
    lens = Lens.create(round(width), round(height), (fx, fy), (cx, cy), {}, where=where)
    pose = rigid_from_matrix([[_number(document, key, where) for key in row] for row in ROWS], where)
    lens = fit_to_file(lens, header.size(False), where)
    world_to_cam = invert_rigid(pose @ OPENGL_TO_OPENCV)
    return SourceImage(name, image, lens, world_to_cam, exposure=header.exposure)


def _number(document: dict[str, Any], key: str, where: str) -> float:
    value = document.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not np.isfinite(value):
        raise CaptureError(f"{where}: {key} must be a finite number, got {value!r}.", REMEDY)
    return float(value)


POLYCAM = CaptureFormat("Polycam raw export", polycam_mismatch, read_polycam)
