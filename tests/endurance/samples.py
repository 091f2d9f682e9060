"""One small valid file of every format that luxel reads, with the function that reads it: the table of the fuzzers.

Formats come from the registries; `formats_without_sample` names those for which there is none here.
"""

from __future__ import annotations

import gzip
import io
import json
import struct
import tempfile
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from luxel.render.fields.application import make_application
from luxel.render.fields.config import FieldConfig
from luxel.render.fields.files import load_field, save_field
from luxel.render.geometry.camera import Points
from luxel.render.primitives import PRIMITIVES
from luxel.scenes import SceneFormat, load_points, load_primitives, read_mesh, save_points, save_scene
from luxel.scenes.captures.contents import IMAGE_SUFFIXES
from luxel.scenes.captures.images.images import check_decodes, decode, read_header
from luxel.scenes.captures.images.masks import read_mask
from luxel.scenes.captures.registry import CAPTURE_FORMATS
from luxel.scenes.files.exr.channels import SUFFIX as EXR_SUFFIX
from luxel.scenes.files.exr.values import read_exr
from luxel.scenes.files.images.heif import SUFFIXES as HEIF_SUFFIXES
from luxel.scenes.files.images.image_files import read_image
from luxel.scenes.files.images.tiff_blocks import write_tiff
from luxel.scenes.files.large.radiance_hdr import read_hdr
from luxel.scenes.files.large.tiled_images import CACHE, open_tiled
from luxel.scenes.files.meshes.mesh import Mesh, Texture
from luxel.scenes.files.meshes.mesh_files import MESH_FORMATS
from luxel.scenes.files.meshes.mesh_glb import mesh_glb_chunks
from luxel.scenes.files.registry import SCENE_FORMATS
from luxel.scenes.files.scene_files import load_facts
from luxel.scenes.files.scene_format import SceneFacts
from luxel.scenes.files.volumes import SUFFIXES as VOLUME_SUFFIXES
from luxel.scenes.files.volumes import read_volume
from luxel.scenes.paths import load_path, save_path
from luxel.scenes.synthetic.toy import ring_cameras, torus_knot

try:
    from .capture_samples import capture_samples
    from .sample import Sample, written
except ImportError:  # the tests import this file by itself
    from capture_samples import capture_samples
    from sample import Sample, written

EXR = ("colours", "layers")  # names of files with colours
DATA = Path(__file__).resolve().parents[1] / "scenes" / "data"


@cache
def samples() -> list[Sample]:
    """All samples, each of whose ``read`` succeeds on its unchanged bytes."""
    return [
        *_scenes(),
        *_meshes(),
        *_volumes(),
        *_images(),
        *_images_by_parts(),
        *_points_and_paths(),
        *_field(),
        *capture_samples(),
    ]


def formats_without_sample() -> list[str]:
    """Formats of the registries that no sample covers: add one to this module for each."""
    names = [sample.name for sample in samples()]
    registered = [f"scene {known.suffix}" for known in SCENE_FORMATS if known.load]
    registered += [f"mesh {known.suffix}" for known in MESH_FORMATS if known.read]
    registered += [f"volume {suffix}" for suffix in VOLUME_SUFFIXES]
    registered += [f"image {suffix}" for suffix in IMAGE_SUFFIXES]
    registered += [f"capture {known.name}" for known in CAPTURE_FORMATS]
    return [name for name in registered if not any(n.startswith(f"{name}:") for n in names)]


def _scenes() -> list[Sample]:
    """Every primitive in every format that stores it."""
    out = []
    for known in SCENE_FORMATS:
        if not (known.load and known.save):
            continue
        for primitive, spec in PRIMITIVES.items():
            if known.primitives is None or spec.engine.parameters in known.primitives:
                parameters: Any = spec.engine.parameters
                scene = parameters.empty(sh_degree=1).map(lambda t: torch.full((4, *t.shape[1:]), 0.25))
                data = written(f"scene{known.suffix}", partial(save_scene, scene=scene))
                out.append(Sample(f"scene {known.suffix}: {primitive}", known.suffix, data, load_primitives))
        if known.read_facts:
            out.append(_facts(known))
    out += _compressed_scenes()
    text = b"ply\nformat ascii 1.0\nelement vertex 2\n"
    names = ("x", "y", "z", "f_dc_0", "f_dc_1", "f_dc_2", "opacity", *(f"scale_{i}" for i in range(3)))
    names += tuple(f"rot_{i}" for i in range(4))
    text += b"".join(f"property float {name}\n".encode() for name in names) + b"end_header\n"
    text += (" ".join(["0.5"] * len(names)) + "\n").encode() * 2
    return [*out, Sample("scene .ply: text", ".ply", text, load_primitives)]


def _facts(known: SceneFormat) -> Sample:
    """What a file says beside its primitives."""
    scene = torus_knot(3, sh_degree=1)
    facts = SceneFacts(antialiased=True, up=(0.0, -1.0, 0.0), metres=0.5)
    data = written(f"scene{known.suffix}", partial(save_scene, scene=scene, facts=facts))
    return Sample(f"scene {known.suffix}: facts", known.suffix, data, load_facts)


def _compressed_scenes() -> list[Sample]:
    """Formats that are only read, versions that are not the default, and files of other programs."""
    data = Path(__file__).parents[1] / "scenes" / "data"
    names = [f"knot64-c{level}.ksplat" for level in range(3)]
    names += ["edge16-v3.spz", "edge16-v4.spz", "knot2k-sparkraw-v2.spz", "edge16.compressed.ply"]
    out = []
    for name in names:
        suffix = name[name.index(".") :]
        out.append(Sample(f"scene {suffix}: {name}", suffix, (data / name).read_bytes(), load_primitives))
    plain = gzip.decompress((data / "edge16-v3.spz").read_bytes())  # damage reaches what is inside
    out.append(Sample("scene .spz: not compressed", ".spz", plain, load_primitives))
    shapes = {
        "means": (4, 3),
        "scales": (4, 3),
        "quats": (4, 4),
        "opacities": (4,),
        "sh0": (4, 1, 3),
        "shN": (4, 3, 3),
    }
    splats = {name: torch.ones(shape) for name, shape in shapes.items()}
    checkpoint = written("ckpt.pt", partial(torch.save, {"step": 9, "splats": splats}))
    out.append(Sample("scene .pt: gsplat", ".pt", checkpoint, load_primitives))
    leaf = {"lods": {"0": {"file": 0, "offset": 0, "count": 4}}}
    index = {"version": 1, "lodLevels": 1, "filenames": ["part.sog"], "tree": leaf}
    return [
        *out,
        Sample("scene lod-meta.json: one part", ".json", json.dumps(index).encode(), _read_streamed),
    ]


@cache
def _part() -> bytes:
    """The file of a streamed scene."""
    scene = torus_knot(4)
    return written("part.sog", partial(save_scene, scene=scene))


def _read_streamed(path: Path) -> object:
    """A streamed scene with the index of a path and one unchanged part."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "part.sog").write_bytes(_part())
        (Path(folder) / "lod-meta.json").write_bytes(path.read_bytes())
        return load_primitives(folder)


def _meshes() -> list[Sample]:
    xyz = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], np.float32)
    faces = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]], np.int32)
    mesh = Mesh(xyz, np.full((4, 3), 90, np.uint8), faces)
    out = []
    for known in MESH_FORMATS:
        if known.read and known.chunks:
            data = b"".join(known.chunks(mesh, Path(f"mesh{known.suffix}")))
            out.append(Sample(f"mesh {known.suffix}: written", known.suffix, data, read_mesh))
    uv, image = xyz[:, :2].copy(), np.full((4, 4, 3), 90, np.uint8)
    textured = b"".join(map(bytes, mesh_glb_chunks(replace(mesh, texture=Texture(uv, image)), Path("a.glb"))))
    out.append(Sample("mesh .glb: textured", ".glb", textured, read_mesh))
    head = "ply\nformat {} 1.0\nelement vertex 4\nproperty float x\nproperty float y\nproperty float z\n"
    head += "element face 2\nproperty list uchar int vertex_indices\nend_header\n"
    body = "0 0 0\n1 0 0\n0 1 0\n0 0 1\n3 0 1 2\n4 0 1 2 3\n"
    out.append(Sample("mesh .ply: text", ".ply", (head.format("ascii") + body).encode(), read_mesh))
    lists = struct.pack(">B3iB4i", 3, 0, 1, 2, 4, 0, 1, 2, 3)
    data = head.format("binary_big_endian").encode() + xyz.astype(">f4").tobytes() + lists
    out.append(Sample("mesh .ply: unequal polygons", ".ply", data, read_mesh))
    obj = b"v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nvt 0 0\nf 1/1 2/1 3/1\nf -1 -2 -3 -4\n"
    out.append(Sample("mesh .obj: text", ".obj", obj, read_mesh))
    coloured = b"v 0 0 0 1 0 0\nv 1 0 0 0 1 0\nv 0 1 0 0 0 1\nf 1//1 2//2 3//3\n"
    out.append(Sample("mesh .obj: colours", ".obj", coloured, read_mesh))
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
        (suffix, "RGB", rgb, Image.registered_extensions()[suffix], {})
        for suffix in IMAGE_SUFFIXES
        if suffix not in (*HEIF_SUFFIXES, EXR_SUFFIX)
    ]
    variants += [
        (".png", "RGBA", rgba, "PNG", {}),
        (".png", "palette", rgb.convert("P"), "PNG", {"transparency": 3}),
        (".png", "16 bits", Image.fromarray(ramp[..., 0].astype(np.uint16) * 257), "PNG", {}),
        (".jpg", "turned", rgb, "JPEG", {"exif": exif.tobytes()}),
        (".jpg", "progressive", rgb, "JPEG", {"progressive": True}),
        (".tif", "LZW", rgb, "TIFF", {"compression": "tiff_lzw"}),
        (".tif", "float", Image.fromarray(ramp[..., 0].astype(np.float32) / 255), "TIFF", {}),
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
    heic = (DATA / "ramp.heic").read_bytes()
    out += [Sample(f"image {suffix}: of a phone", suffix, heic, read_any_image) for suffix in HEIF_SUFFIXES]
    for name in EXR:
        out.append(Sample(f"image .exr: {name}", ".exr", (DATA / f"{name}.exr").read_bytes(), read_any_image))
    mask = io.BytesIO()
    Image.fromarray(ramp[..., 0]).save(mask, "PNG")
    return [*out, Sample("mask .png: grey", ".png", mask.getvalue(), _read_mask)]


def _images_by_parts() -> list[Sample]:
    """Images that are read by parts, and those of linear colours."""
    ramp = np.arange(12 * 16 * 3, dtype=np.uint8).reshape(12, 16, 3)
    array, grey, png, deep = (io.BytesIO() for _ in range(4))
    np.save(array, ramp)
    np.save(grey, np.linspace(0, 1, 192, dtype=">f4").reshape(12, 16))
    Image.fromarray(ramp).save(png, "PNG")
    Image.fromarray(np.arange(192, dtype=np.uint16).reshape(12, 16) * 300).save(deep, "PNG")
    tiff = written("a.tif", lambda p: write_tiff(p, 16, 12, [ramp]))
    row = bytes([2, 2, 0, 16, *([128 + 16, 90] * 2), 16, *range(16), 128 + 16, 129])
    runs = b"#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n\n-Y 3 +X 16\n" + row * 3
    plain = b"#?RGBE\n\n-Y 3 +X 4\n" + bytes(range(90, 138))
    return [
        Sample("tiled image .npy: bytes", ".npy", array.getvalue(), _read_parts),
        Sample("tiled image .npy: floats", ".npy", grey.getvalue(), _read_parts),
        Sample("tiled image .png: RGB", ".png", png.getvalue(), _read_parts),
        Sample("tiled image .png: 16 bits", ".png", deep.getvalue(), _read_parts),
        Sample("tiled image .tif: a strip", ".tif", tiff, _read_parts),
        Sample("tiled image .tif: BigTIFF of tiles", ".tif", _big_tiff(), _read_parts),
        Sample("hdr image .hdr: runs", ".hdr", runs, read_hdr),
        Sample("hdr image .hdr: plain", ".hdr", plain, read_hdr),
        *(Sample(f"hdr image .exr: {n}", ".exr", (DATA / f"{n}.exr").read_bytes(), read_exr) for n in EXR),
    ]


def _big_tiff() -> bytes:
    """An image of 20 x 12 pixels with alpha, of 16 bits in big-endian order, in two tiles of 16 x 16."""
    tile = np.arange(16 * 16 * 4, dtype=">u2").tobytes()
    bits_at = 16 + 8 + 20 * 10 + 8
    first = bits_at + 8 + 16
    tags = [(256, 3, 1, 20), (257, 3, 1, 12), (258, 3, 4, 16), (259, 3, 1, 1), (262, 3, 1, 2), (277, 3, 1, 4)]
    tags += [(322, 3, 1, 16), (323, 3, 1, 16), (324, 16, 2, bits_at + 8), (325, 4, 2, len(tile))]
    out = struct.pack(">2sHHHQQ", b"MM", 43, 8, 0, 16, len(tags))
    for tag, kind, count, value in tags:
        form = {3: "H", 4: "I", 16: "Q"}[kind]
        stored = struct.pack(f">{1 if kind == 16 else count}{form}", *[value] * (1 if kind == 16 else count))
        out += struct.pack(">HHQ", tag, kind, count) + stored.ljust(8, b"\0")
    out += bytes(8) + struct.pack(">4H2Q", *[16] * 4, first, first + len(tile))
    return out + tile * 2


def _read_parts(path: Path) -> object:
    """The corners of an image that is read by parts."""
    copy = path.parent / CACHE
    try:
        image = open_tiled(path, path.parent)
        height, width = min(image.height, 8), min(image.width, 8)
        image.read(0, 0, height, width)
        return image.read(image.height - height, image.width - width, height, width)
    finally:
        copy.unlink(missing_ok=True)


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
            "points .ply: binary", ".ply", written("a.ply", lambda p: save_points(p, points)), load_points
        ),
        Sample("camera path .json", ".json", written("a.json", lambda p: save_path(p, cameras)), load_path),
    ]


def _field() -> list[Sample]:
    config = FieldConfig(log2_entries=3, finest=16, width=16, hidden=0)
    data = written("field.safetensors", lambda p: save_field(p, make_application(config)))
    return [Sample("field .safetensors: image", ".safetensors", data, load_field)]
