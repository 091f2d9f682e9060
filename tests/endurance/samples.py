"""One small valid file of every format that luxel reads, with the function that reads it: the table of the fuzzers.

Formats come from the registries; `formats_without_sample` names those for which there is none here.
"""

from __future__ import annotations

import atexit
import io
import json
import os
import shutil
import struct
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image

from luxel.render.camera import Points
from luxel.render.fields.application import make_application
from luxel.render.fields.config import FieldConfig
from luxel.render.fields.files import load_field, save_field
from luxel.render.primitives import PRIMITIVES
from luxel.scenes import load_points, load_primitives, read_mesh, save_points
from luxel.scenes.captures.capture_format import ReadOptions
from luxel.scenes.captures.contents import IMAGE_SUFFIXES, image_files
from luxel.scenes.captures.formats import CAPTURE_FORMATS
from luxel.scenes.captures.images import check_decodes, decode, read_header
from luxel.scenes.captures.masks import read_mask
from luxel.scenes.captures.open_capture import read_contents
from luxel.scenes.files.formats import SCENE_FORMATS
from luxel.scenes.files.image_files import read_image
from luxel.scenes.files.mesh import Mesh
from luxel.scenes.files.mesh_files import MESH_FORMATS
from luxel.scenes.files.volumes import SUFFIXES as VOLUME_SUFFIXES
from luxel.scenes.files.volumes import read_volume
from luxel.scenes.paths import load_path, save_path
from luxel.scenes.synthetic.toy import ring_cameras


class Sample(NamedTuple):
    """A valid file.

    Args:
        name: unique, "format: variant".
        suffix: of the file name, with the dot.
        data: its bytes, at most a few kB.
        read: called with the path of a file of any bytes; returns or raises LuxelError.
    """

    name: str
    suffix: str
    data: bytes
    read: Callable[[Path], object]


@cache
def samples() -> list[Sample]:
    """All samples, each of whose ``read`` succeeds on its unchanged bytes."""
    return [*_scenes(), *_meshes(), *_volumes(), *_images(), *_points_and_paths(), *_field(), *_captures()]


def formats_without_sample() -> list[str]:
    """Formats of the registries that no sample covers: add one to this module for each."""
    names = [sample.name for sample in samples()]
    registered = [f"scene {known.suffix}" for known in SCENE_FORMATS if known.load]
    registered += [f"mesh {known.suffix}" for known in MESH_FORMATS if known.read]
    registered += [f"volume {suffix}" for suffix in VOLUME_SUFFIXES]
    registered += [f"image {suffix}" for suffix in IMAGE_SUFFIXES]
    registered += [f"capture {known.name}" for known in CAPTURE_FORMATS]
    return [name for name in registered if not any(n.startswith(f"{name}:") for n in names)]


def _written(name: str, write: Callable[[Path], object]) -> bytes:
    """The bytes that a function writes to a path of this name."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / name)
        return (Path(folder) / name).read_bytes()


def _scenes() -> list[Sample]:
    """Every primitive in every format that stores it."""
    from luxel.scenes import save_scene

    out = []
    for known in SCENE_FORMATS:
        if not (known.load and known.save):
            continue
        for primitive, spec in PRIMITIVES.items():
            if known.primitives is None or spec.parameters in known.primitives:
                scene = spec.parameters.empty(
                    sh_degree=1
                ).map(  # type: ignore[attr-defined]
                    lambda t: torch.full((4, *t.shape[1:]), 0.25)
                )
                data = _written(f"scene{known.suffix}", partial(save_scene, scene=scene))
                out.append(Sample(f"scene {known.suffix}: {primitive}", known.suffix, data, load_primitives))
    text = b"ply\nformat ascii 1.0\nelement vertex 2\n"
    names = ("x", "y", "z", "f_dc_0", "f_dc_1", "f_dc_2", "opacity", *(f"scale_{i}" for i in range(3)))
    names += tuple(f"rot_{i}" for i in range(4))
    text += b"".join(f"property float {name}\n".encode() for name in names) + b"end_header\n"
    text += (" ".join(["0.5"] * len(names)) + "\n").encode() * 2
    return [*out, Sample("scene .ply: text", ".ply", text, load_primitives)]


def _meshes() -> list[Sample]:
    xyz = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], np.float32)
    faces = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]], np.int32)
    mesh = Mesh(xyz, np.full((4, 3), 90, np.uint8), faces)
    out = []
    for known in MESH_FORMATS:
        if known.read and known.chunks:
            data = b"".join(known.chunks(mesh))
            out.append(Sample(f"mesh {known.suffix}: written", known.suffix, data, read_mesh))
    head = "ply\nformat {} 1.0\nelement vertex 4\nproperty float x\nproperty float y\nproperty float z\n"
    head += "element face 2\nproperty list uchar int vertex_indices\nend_header\n"
    body = "0 0 0\n1 0 0\n0 1 0\n0 0 1\n3 0 1 2\n4 0 1 2 3\n"
    out.append(Sample("mesh .ply: text", ".ply", (head.format("ascii") + body).encode(), read_mesh))
    lists = struct.pack(">B3iB4i", 3, 0, 1, 2, 4, 0, 1, 2, 3)
    data = head.format("binary_big_endian").encode() + xyz.astype(">f4").tobytes() + lists
    out.append(Sample("mesh .ply: unequal polygons", ".ply", data, read_mesh))
    obj = b"v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nvt 0 0\nf 1/1 2/1 3/1\nf -1 -2 -3 -4\n"
    out.append(Sample("mesh .obj: text", ".obj", obj, read_mesh))
    triangles = b"".join(
        struct.pack("<12fH", 0, 0, 1, *xyz[face].astype(np.float32).ravel().tolist(), 0) for face in faces
    )
    out.append(Sample("mesh .stl: binary", ".stl", bytes(80) + struct.pack("<I", 4) + triangles, read_mesh))
    corners = "".join(f"vertex {x} {y} {z}\n" for x, y, z in xyz[:3].tolist())
    stl = f"solid a\nfacet normal 0 0 1\nouter loop\n{corners}endloop\nendfacet\nendsolid a\n"
    return [*out, Sample("mesh .stl: text", ".stl", stl.encode(), read_mesh)]


def _volumes() -> list[Sample]:
    grid = np.linspace(0, 1, 24, dtype=np.float32).reshape(2, 3, 4)
    single, coloured, packed, plain = (io.BytesIO() for _ in range(4))
    np.save(single, grid)
    np.save(coloured, np.asfortranarray(np.stack([grid] * 4, -1).astype(np.uint8)))
    np.savez_compressed(packed, density=grid, other=grid)
    np.savez(plain, grid)
    variants = (
        (".npy", "float", single),
        (".npy", "coloured", coloured),
        (".npz", "compressed", packed),
        (".npz", "stored", plain),
    )
    return [
        Sample(f"volume {suffix}: {name}", suffix, file.getvalue(), read_volume)
        for suffix, name, file in variants
    ]


def _images() -> list[Sample]:
    """Every suffix, and what other programs save under it: 16 bits, palettes, alpha, EXIF data, another format."""
    ramp = np.arange(12 * 16 * 4, dtype=np.uint8).reshape(12, 16, 4)
    rgb, rgba = Image.fromarray(ramp[..., :3].copy()), Image.fromarray(ramp)
    exif = Image.Exif()
    exif[0x0112] = 6
    variants: list[tuple[str, str, Image.Image, str, dict]] = [
        (suffix, "RGB", rgb, Image.registered_extensions()[suffix], {}) for suffix in IMAGE_SUFFIXES
    ]
    variants += [
        (".png", "RGBA", rgba, "PNG", {}),
        (".png", "palette", rgb.convert("P"), "PNG", {"transparency": 3}),
        (".png", "16 bits", Image.fromarray(ramp[..., 0].astype(np.uint16) * 257), "PNG", {}),
        (".jpg", "turned", rgb, "JPEG", {"exif": exif.tobytes()}),
        (".jpg", "progressive", rgb, "JPEG", {"progressive": True}),
        (".tif", "LZW", rgb, "TIFF", {"compression": "tiff_lzw"}),
        (".tif", "float", Image.fromarray(ramp[..., 0].astype(np.float32)), "TIFF", {}),
        (".webp", "lossless alpha", rgba, "WEBP", {"lossless": True}),
        (".png", "GIF inside", rgb.convert("P"), "GIF", {}),
        (".png", "JPEG 2000 inside", rgb, "JPEG2000", {}),
        (".png", "PPM inside", rgb, "PPM", {}),
    ]
    out = []
    for suffix, variant, image, form, options in variants:
        file = io.BytesIO()
        image.save(file, form, **options)
        out.append(Sample(f"image {suffix}: {variant}", suffix, file.getvalue(), read_any_image))
    mask = io.BytesIO()
    Image.fromarray(ramp[..., 0]).save(mask, "PNG")
    return [*out, Sample("mask .png: grey", ".png", mask.getvalue(), _read_mask)]


def read_any_image(path: Path) -> object:
    """An image by every function that reads images."""
    from luxel.render.errors import LuxelError

    errors, result = [], None
    for read in (read_image, partial(read_image, max_size=8), read_header, decode, check_decodes):
        try:
            result = read(path)
        except LuxelError as error:
            errors.append(error)
    if errors:
        raise errors[0]
    return result


def _read_mask(path: Path) -> object:
    return read_mask(path, 16, 12)


def _points_and_paths() -> list[Sample]:
    points = Points(np.ones((4, 3), np.float32), np.zeros((4, 3), np.uint8))
    cameras = ring_cameras(2)
    return [
        Sample(
            "points .ply: binary", ".ply", _written("a.ply", lambda p: save_points(p, points)), load_points
        ),
        Sample("camera path .json", ".json", _written("a.json", lambda p: save_path(p, cameras)), load_path),
    ]


def _field() -> list[Sample]:
    config = FieldConfig(log2_entries=3, finest=16, width=16, hidden=0)
    data = _written("field.safetensors", lambda p: save_field(p, make_application(config)))
    return [Sample("field .safetensors: image", ".safetensors", data, load_field)]


def _captures() -> list[Sample]:
    """Each file of each capture format; the others of its capture are unchanged."""
    out = [_in_capture("capture transforms.json: nerfstudio", "transforms.json", _transforms())]
    out += [_in_capture("capture transforms.json: Blender", "transforms_train.json", _blender())]
    for suffix, variant in ((".bin", "binary"), (".txt", "text")):
        model = _colmap(text=suffix == ".txt")
        out += [
            _in_capture(f"capture COLMAP model: {variant} {name}", name, model)
            for name in model
            if suffix in name
        ]
    photographs = {f"{index}.png": _png() for index in range(3)}
    file = Sample("capture photographs: one image", ".png", _png(), partial(_check_photograph, photographs))
    return [*out, file]


def _in_capture(name: str, file: str, files: dict[str, bytes]) -> Sample:
    return Sample(name, Path(file).suffix, files[file], partial(_read_capture, file, files))


@cache
def _capture_folder(process: int, names: tuple[str, ...]) -> Path:
    """A folder for the files of one capture, of this process alone."""
    folder = Path(tempfile.mkdtemp(prefix="luxel-capture-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _filled(files: dict[str, bytes]) -> Path:
    folder = _capture_folder(os.getpid(), tuple(files))
    for name, data in files.items():
        if not (folder / name).exists():
            (folder / name).write_bytes(data)
    return folder


def _read_capture(file: str, files: dict[str, bytes], path: Path) -> object:
    """A capture in which the file of a path takes the place of one of its files."""
    folder = _filled(files)
    shutil.copyfile(path, folder / file)
    try:
        return read_contents(folder, ReadOptions())
    finally:
        (folder / file).write_bytes(files[file])


def _check_photograph(files: dict[str, bytes], path: Path) -> object:
    """What structure from motion reads of a photograph before it begins."""
    folder = _filled(files)
    shutil.copyfile(path, folder / "1.png")
    return [(read_header(file), decode(file, oriented=True)) for file in image_files(folder)]


def _png() -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.arange(48 * 64 * 3, dtype=np.uint8).reshape(48, 64, 3)).save(file, "PNG")
    return file.getvalue()


def _transforms() -> dict[str, bytes]:
    frames = [
        {"file_path": f"{index}.png", "transform_matrix": pose.tolist(), "time": 0.5 * index}
        for index, pose in enumerate(_poses())
    ]
    lens = {"w": 64, "h": 48, "fl_x": 60.0, "fl_y": 61.0, "cx": 32.0, "cy": 24.0, "k1": 0.01, "p1": 0.0}
    points = Points(np.ones((4, 3), np.float32), np.zeros((4, 3), np.uint8))
    document = {
        **lens,
        "ply_file_path": "points.ply",
        "frames": frames,
        "train_filenames": ["0.png", "1.png"],
    }
    document |= {"camera_model": "OPENCV", "test_filenames": ["2.png"]}
    return {
        "transforms.json": json.dumps(document).encode(),
        "points.ply": _written("points.ply", lambda p: save_points(p, points)),
        **{f"{index}.png": _png() for index in range(3)},
    }


def _blender() -> dict[str, bytes]:
    frames = [
        {"file_path": f"./{i}", "rotation": 0.1, "transform_matrix": p.tolist()}
        for i, p in enumerate(_poses())
    ]
    document = json.dumps({"camera_angle_x": 0.7, "frames": frames}).encode()
    return {"transforms_train.json": document, **{f"{index}.png": _png() for index in range(3)}}


def _poses() -> list[np.ndarray]:
    return [camera.cam_to_world.double().numpy() @ np.diag([1.0, -1, -1, 1]) for camera in ring_cameras(3)]


def _colmap(text: bool) -> dict[str, bytes]:
    images = {f"{index}.png": _png() for index in (1, 2)}
    if text:
        return {
            "cameras.txt": b"# cameras\n1 OPENCV 64 48 60 61 32 24 0.01 0 0 0\n",
            "images.txt": b"1 1 0 0 0 0 0 3 1 1.png\n1 2 -1\n2 1 0 0.1 0 0 0 3 1 2.png\n\n",
            "points3D.txt": b"1 0 0 1 10 20 30 0.5 1 0 2 0\n2 0 1 1 10 20 30 0.5 1 0 2 0\n",
            **images,
        }
    rows = b"".join(
        struct.pack("<i7di", i, 1, 0, 0, 0, 0, 0, 3, 1)
        + f"{i}.png\0".encode()
        + struct.pack("<Qddq", 1, 5, 6, -1)
        for i in (1, 2)
    )
    points = b"".join(struct.pack("<Q3d3BdQ4i", i, 1, 2, 3, 9, 9, 9, 0.5, 2, 1, 0, 2, 0) for i in (1, 2))
    return {
        "cameras.bin": struct.pack("<QiiQQ8d", 1, 1, 4, 64, 48, 60, 61, 32, 24, 0.01, 0, 0, 0),
        "images.bin": struct.pack("<Q", 2) + rows,
        "points3D.bin": struct.pack("<Q", 2) + points,
        **images,
    }
