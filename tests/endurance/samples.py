"""A tiny valid file for every format that luxel reads, and the reader it belongs to.

The table is checked against the registries: `without_sample` lists what is registered and missing here. A sample is
written once, its files are damaged as `Sample.damageable` names them, and `Sample.read` is called as the program calls
it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from luxel.render.camera import Points
from luxel.render.fields.application import make_application
from luxel.render.fields.applications import APPLICATIONS, application_types
from luxel.render.fields.files import load_field, save_field
from luxel.render.primitives import Convexes, Gaussians4d, Parameters
from luxel.scenes.captures.contents import IMAGE_SUFFIXES
from luxel.scenes.captures.formats import CAPTURE_FORMATS
from luxel.scenes.files.formats import SCENE_FORMATS
from luxel.scenes.files.mesh_files import MESH_FORMATS, read_mesh, save_mesh
from luxel.scenes.files.ply import load_points, save_points
from luxel.scenes.files.scene_files import load_primitives, save_scene
from luxel.scenes.files.volumes import SUFFIXES as VOLUME_SUFFIXES
from luxel.scenes.files.volumes import read_volume
from luxel.scenes.paths import load_path, save_path
from luxel.scenes.synthetic.knot_mesh import ridged_knot
from luxel.scenes.synthetic.toy import ring_cameras, torus_knot

from .image_samples import captures, images, masks
from .sample import Sample, single

# Scenes


def _others(empty: Parameters) -> Parameters:
    return empty.to(torch.float32).map(lambda t: torch.ones(3, *t.shape[1:], dtype=t.dtype))


def _scenes() -> list[Sample]:
    knot = torus_knot(6)
    kinds = {
        "gaussians": knot,
        "convexes": _others(Convexes.empty(4, 1)),
        "moving": _others(Gaussians4d.empty(1)),
    }
    out = []
    for suffix in (".ply", ".safetensors", ".splat"):
        for kind, scene in kinds.items() if suffix != ".splat" else [("gaussians", knot)]:
            file = f"{kind}{suffix}"
            out.append(
                single("scene", file, lambda path, scene=scene: save_scene(path, scene), load_primitives)
            )
    return out


# Meshes, points, volumes

_TEXT_PLY = b"""ply
format ascii 1.0
element vertex 4
property float x
property float y
property float z
property uchar red
property uchar green
property uchar blue
element face 3
property list uchar int vertex_indices
end_header
0 0 0 10 20 30
1 0 0 10 20 30
0 1 0 10 20 30
0 0 1 10 20 30
3 0 1 2
4 0 1 2 3
3 1 2 3
"""
_OBJ = b"""# a tetrahedron
v 0 0 0 0.1 0.2 0.3
v 1 0 0 0.1 0.2 0.3
v 0 1 0 0.1 0.2 0.3
v 0 0 1 0.1 0.2 0.3
vt 0 0
f 1/1 2/1 3/1
f 1 2 3 4
f -1 -2 -3
"""
_TEXT_STL = b"""solid one
facet normal 0 0 0
 outer loop
  vertex 0 0 0
  vertex 1 0 0
  vertex 0 1 0
 endloop
endfacet
endsolid one
"""


def _binary_stl(path: Path) -> None:
    rows = np.zeros(2, [("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
    rows["corners"] = np.random.default_rng(0).random((2, 3, 3))
    path.write_bytes(b"binary".ljust(80) + struct.pack("<I", 2) + rows.tobytes())


def _bytes(data: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(data)


def _mixed_ply(path: Path) -> None:
    """Polygons of different numbers of corners, big-endian."""
    header = _TEXT_PLY[: _TEXT_PLY.index(b"end_header\n") + 11].replace(b"ascii", b"binary_big_endian")
    vertices = b"".join(struct.pack(">3f3B", x, y, z, 9, 9, 9) for x, y, z in np.eye(4, 3))
    faces = (
        struct.pack(">B3i", 3, 0, 1, 2) + struct.pack(">B4i", 4, 0, 1, 2, 3) + struct.pack(">B3i", 3, 1, 2, 3)
    )
    path.write_bytes(header + vertices + faces)


def _meshes() -> list[Sample]:
    knot = ridged_knot(12, 6)
    return [
        single("mesh", "binary.ply", lambda path: save_mesh(path, knot), read_mesh),
        single("mesh", "mixed.ply", _mixed_ply, read_mesh),
        single("mesh", "text.ply", _bytes(_TEXT_PLY), read_mesh),
        single("mesh", "written.obj", lambda path: save_mesh(path, knot), read_mesh),
        single("mesh", "corners.obj", _bytes(_OBJ), read_mesh),
        single("mesh", "binary.stl", _binary_stl, read_mesh),
        single("mesh", "text.stl", _bytes(_TEXT_STL), read_mesh),
    ]


def _points() -> list[Sample]:
    points = Points(np.ones((4, 3), np.float32), np.full((4, 3), 9, np.uint8))
    text = _TEXT_PLY[: _TEXT_PLY.index(b"3 0 1 2\n")].replace(
        b"element face 3\nproperty list uchar int vertex_indices\n", b""
    )
    return [
        single("points", "points3D.ply", lambda path: save_points(path, points), load_points),
        single("points", "text.ply", _bytes(text), load_points),
    ]


def _volumes() -> list[Sample]:
    density = np.random.default_rng(0).random((3, 4, 5)).astype(np.float32)
    coloured = np.random.default_rng(0).random((2, 3, 4, 4))
    return [
        single("volume", "density.npy", lambda path: np.save(path, density), read_volume),
        single(
            "volume", "coloured.npy", lambda path: np.save(path, np.asfortranarray(coloured)), read_volume
        ),
        single(
            "volume", "stored.npz", lambda path: np.savez(path, density=density, other=coloured), read_volume
        ),
        single("volume", "packed.npz", lambda path: np.savez_compressed(path, density), read_volume),
    ]


# Camera paths and fields


def _fields() -> list[Sample]:
    out = []
    for kind, application in application_types():
        config = application.config_type(field=kind, log2_entries=4, finest=16, width=16, hidden=1)
        sample = single(
            "field",
            f"{kind}.safetensors",
            lambda path, config=config: save_field(path, make_application(config)),
            load_field,
        )
        out.append(replace(sample, registered=kind))
    return out


def _paths() -> list[Sample]:
    return [single("path", "path.json", lambda path: save_path(path, ring_cameras(2)), load_path)]


SAMPLES: list[Sample] = [
    *_scenes(),
    *_meshes(),
    *_points(),
    *_volumes(),
    *images(),
    *masks(),
    *captures(),
    *_fields(),
    *_paths(),
]


def without_sample() -> list[str]:
    """Formats of the registries that the table lacks, as "group: format"."""
    expected = {
        "scene": {known.suffix for known in SCENE_FORMATS if known.load},
        "mesh": {known.suffix for known in MESH_FORMATS if known.read},
        "capture": {known.name for known in CAPTURE_FORMATS},
        "image": set(IMAGE_SUFFIXES),
        "volume": set(VOLUME_SUFFIXES),
        "field": set(APPLICATIONS),
    }
    present: dict[str, set[str]] = {}
    for sample in SAMPLES:
        present.setdefault(sample.group, set()).add(sample.registered)
    return [
        f"{group}: {key}"
        for group, keys in expected.items()
        for key in sorted(keys - present.get(group, set()))
    ]
