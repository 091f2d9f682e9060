"""Samples of images, masks and captures."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from luxel.render.camera import Points
from luxel.scenes.captures.capture_format import ReadOptions
from luxel.scenes.captures.contents import IMAGE_SUFFIXES
from luxel.scenes.captures.images import check_decodes, decode, read_header
from luxel.scenes.captures.masks import read_mask
from luxel.scenes.captures.open_capture import read_contents
from luxel.scenes.files.image_files import read_image
from luxel.scenes.files.ply import save_points
from luxel.scenes.synthetic.toy import ring_cameras

from .sample import HEIGHT, WIDTH, Sample, pixels, single


def _read_all(path: Path) -> list[object]:
    """Every reader of images, as each is called on its own."""
    return [read_header(path), check_decodes(path), decode(path), read_image(path)]


def images() -> list[Sample]:
    variants = {
        "grey.png": ("L", {}), "palette.png": ("P", {}), "alpha.png": ("RGBA", {}), "deep.png": ("I;16", {}),
        "progressive.jpg": ("RGB", {"progressive": True}), "cmyk.jpg": ("CMYK", {}),
        "lossless.webp": ("RGB", {"lossless": True}),
        "lzw.tif": ("RGB", {"compression": "tiff_lzw"}), "deflate.tiff": ("RGB", {"compression": "tiff_adobe_deflate"}),
        "jpeg.tif": ("RGB", {"compression": "jpeg"}), "fax.tif": ("1", {"compression": "group4"}),
    }  # fmt: skip
    for suffix in IMAGE_SUFFIXES:
        variants[f"plain{suffix}"] = ("RGB", {})

    def write(path: Path, mode: str, options: dict[str, object]) -> None:
        if mode == "I;16":
            image = Image.fromarray(pixels(1)[..., 0].astype(np.uint16) * 200)
        else:
            image = Image.fromarray(pixels(4 if mode == "RGBA" else 3)).convert(mode)
        image.save(path, **options)

    return [
        single("image", file, lambda path, given=given: write(path, *given), _read_all)
        for file, given in variants.items()
    ]


def masks() -> list[Sample]:
    mask = (pixels(1)[..., 0] > 100).astype(np.uint8) * 255
    return [
        single(
            "mask",
            "mask.png",
            lambda path: Image.fromarray(mask).save(path),
            lambda path: read_mask(path, 2 * WIDTH, 2 * HEIGHT),
        )
    ]


# Captures

_VIEWS = 3


def _write_images(folder: Path) -> list[str]:
    names = [f"images/{index}.png" for index in range(_VIEWS)]
    (folder / "images").mkdir(parents=True, exist_ok=True)
    for name in names:
        Image.fromarray(pixels()).save(folder / name)
    return names


def _write_transforms(folder: Path, document: dict[str, object] | None = None) -> None:
    frames = []
    for name, camera in zip(_write_images(folder), ring_cameras(_VIEWS), strict=True):
        frames.append(
            {"file_path": name, "time": 0.5, "transform_matrix": camera.cam_to_world.double().tolist()}
        )
    shared = document or {
        "w": WIDTH,
        "h": HEIGHT,
        "fl_x": 30.0,
        "fl_y": 31.0,
        "cx": 12.0,
        "cy": 8.0,
        "k1": 0.01,
    }
    points = Points(np.ones((4, 3), np.float32), np.full((4, 3), 9, np.uint8))
    save_points(folder / "points3D.ply", points)
    body = {"camera_model": "OPENCV", "ply_file_path": "points3D.ply", **shared, "frames": frames}
    (folder / "transforms.json").write_text(json.dumps(body))


def _write_colmap(folder: Path, text: bool) -> None:
    names = [Path(name).name for name in _write_images(folder)]
    model = folder / "sparse/0"
    model.mkdir(parents=True, exist_ok=True)
    if text:
        (model / "cameras.txt").write_text(f"# id\n1 OPENCV {WIDTH} {HEIGHT} 30 31 12 8 0.01 0 0 0\n")
        lines = [f"{i} 1 0 0 0 0 0 3 1 {name}\n1 2 -1" for i, name in enumerate(names, 1)]
        (model / "images.txt").write_text("\n".join([*lines, ""]))
        (model / "points3D.txt").write_text("1 0 0 1 10 20 30 0.5 1 0 2 0\n2 0 1 1 10 20 30 0.5 1 0 2 0\n")
        return
    camera = struct.pack("<QiiQQ8d", 1, 1, 4, WIDTH, HEIGHT, 30, 31, 12, 8, 0.01, 0, 0, 0)
    (model / "cameras.bin").write_bytes(camera)
    images = b"".join(
        struct.pack("<i7di", i, 1, 0, 0, 0, 0, 0, 3, 1)
        + name.encode()
        + b"\0"
        + struct.pack("<Qddq", 1, 5, 6, -1)
        for i, name in enumerate(names, 1)
    )
    (model / "images.bin").write_bytes(struct.pack("<Q", len(names)) + images)
    points = b"".join(struct.pack("<Q3d3BdQ4i", i, 1, 2, 3, 9, 9, 9, 0.5, 2, 1, 0, 2, 0) for i in (1, 2))
    (model / "points3D.bin").write_bytes(struct.pack("<Q", 2) + points)


def _read_capture(folder: Path) -> object:
    return read_contents(folder, ReadOptions(masks="none", cache_dir=folder / "cache"))


def captures() -> list[Sample]:
    images = tuple(f"images/{index}.png" for index in range(_VIEWS))
    transforms = Sample(
        "capture",
        "transforms",
        "transforms.json",
        ("transforms.json", "points3D.ply", images[0]),
        _write_transforms,
        _read_capture,
    )
    binary = Sample(
        "capture",
        "colmap-binary",
        "COLMAP model",
        tuple(f"sparse/0/{name}.bin" for name in ("cameras", "images", "points3D")),
        lambda folder: _write_colmap(folder, False),
        _read_capture,
    )
    return [
        transforms,
        replace(
            transforms,
            name="blender",
            files=("transforms.json",),
            write=lambda folder: _write_transforms(folder, {"camera_angle_x": 0.7}),
        ),
        binary,
        replace(
            binary,
            name="colmap-text",
            files=tuple(f"sparse/0/{name}.txt" for name in ("cameras", "images", "points3D")),
            write=lambda folder: _write_colmap(folder, True),
        ),
        # Three equal images have no poses: reading ends in an error, after structure from motion.
        Sample(
            "capture",
            "photographs",
            "photographs",
            images,
            _write_images,
            _read_capture,
            slow=True,
            valid=False,
        ),
    ]
