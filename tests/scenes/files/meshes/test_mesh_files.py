"""Mesh files: round trips in every format, and damaged files."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from cube_mesh import CORNERS, QUADS, as_tensors, cube, is_cube

from luxel.scenes.errors import CaptureError
from luxel.scenes.files.meshes.mesh import Mesh
from luxel.scenes.files.meshes.mesh_files import read_mesh, save_mesh
from luxel.scenes.synthetic.knot_mesh import ridged_knot


def binary_stl(mesh: Mesh) -> bytes:
    rows = np.zeros(len(mesh.faces), [("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
    rows["corners"] = mesh.xyz[mesh.faces]
    return b"solid that is binary".ljust(80) + struct.pack("<I", len(rows)) + rows.tobytes()


def text_stl(mesh: Mesh) -> bytes:
    lines = ["solid cube"]
    for corners in mesh.xyz[mesh.faces]:
        lines += ["facet normal 0 0 0", " outer loop"]
        lines += [f"  vertex {x:g} {y:g} {-z if z == 0 else z:g}" for x, y, z in corners]
        lines += [" endloop", "endfacet"]
    return "\n".join([*lines, "endsolid cube", ""]).encode()


def ply(kind: str, *, mixed: bool = False, extra: bool = False) -> bytes:
    """The cube of quadrilaterals, or with two of the sides as triangles; with additional properties."""
    polygons = [list(q) for q in QUADS]
    if mixed:
        polygons = [[0, 1, 3], [0, 3, 2], *polygons[1:]]
    header = ["ply", f"format {kind} 1.0", "comment made by a test"]
    header += ["element material 2", "property uchar shade"] if extra else []
    header += ["element vertex 8", *(f"property double {axis}" for axis in "xyz")]
    header += ["property uchar red", "property uchar green", "property uchar blue"]
    header += [f"element face {len(polygons)}"] + (["property float quality"] if extra else [])
    header += ["property list uchar uint vertex_index"] + (["property list uchar float uv"] if extra else [])
    text = "\n".join([*header, "end_header", ""]).encode()
    order = ">" if "big" in kind else "<"
    rows: list[tuple[str, list]] = [("B", [7]), ("B", [9])] if extra else []
    rows += [("ddd", list(map(float, c))) for c in CORNERS]
    body = b""
    colours = cube().rgb
    rows = [*rows[: 2 * extra]]
    for corner, colour in zip(CORNERS, colours, strict=True):
        rows.append(("dddBBB", [*map(float, corner), *map(int, colour)]))
    for polygon in polygons:
        n = len(polygon)
        form = ("f" if extra else "") + f"B{n}I" + ("B2f" if extra else "")
        rows.append(
            (form, [*([0.5] if extra else []), n, *map(int, polygon), *([2, 0.25, 0.75] if extra else [])])
        )
    for form, values in rows:
        body += (
            " ".join(map(str, values)).encode() + b"\n"
            if kind == "ascii"
            else struct.pack(order + form, *values)
        )
    return text + body


def write(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("suffix", [".ply", ".obj"])
def test_round_trip(tmp_path, suffix):
    save_mesh(tmp_path / f"cube{suffix}", cube())
    loaded = read_mesh(tmp_path / f"cube{suffix}")
    assert is_cube(loaded) and loaded.xyz.dtype == np.float32 and loaded.faces.dtype == np.int32
    assert np.array_equal(loaded.xyz, cube().xyz) and np.array_equal(loaded.faces, cube().faces)
    assert np.abs(loaded.rgb.astype(int) - cube().rgb).max() <= 1


@pytest.mark.parametrize("make", [binary_stl, text_stl])
def test_stl(tmp_path, make):
    assert is_cube(read_mesh(write(tmp_path, "cube.STL", make(cube()))))


@pytest.mark.parametrize("kind", ["ascii", "binary_little_endian", "binary_big_endian"])
@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("extra", [False, True])
def test_ply_variants(tmp_path, kind, mixed, extra):
    loaded = read_mesh(write(tmp_path, "cube.ply", ply(kind, mixed=mixed, extra=extra)))
    assert is_cube(loaded) and len(loaded.faces) == 12
    assert np.array_equal(loaded.rgb, cube().rgb)


def test_obj_of_polygons_and_textures(tmp_path):
    lines = [
        "# a cube",
        "mtllib x.mtl",
        "o one",
        *("v {:g} {:g} {:g}".format(*c) for c in CORNERS),
        "vt 0 0",
        "vn 0 0 1",
    ]
    lines += [f"f {a + 1}/1/1 {b + 1}//1 {c + 1}/1 {d + 1}" for a, b, c, d in QUADS[:3]]
    lines += ["g two"] + [f"f {a - 8} {b - 8} \\\n {c - 8} {d - 8}" for a, b, c, d in QUADS[3:]]
    assert is_cube(read_mesh(write(tmp_path, "cube.obj", "\n".join(lines).encode())))
    assert is_cube(
        read_mesh(write(tmp_path, "crlf.obj", "\r\n".join(lines).replace("\\\n", "\\\r\n").encode()))
    )


def test_unused_vertices_are_left_out(tmp_path):
    mesh = cube()
    lines = [*("v {:g} {:g} {:g}".format(*c) for c in mesh.xyz), "v nan 7 7", "v 9 9 9"]
    lines += ["f {} {} {}".format(*(f + 1)) for f in mesh.faces] + ["f 1 2 1", "f 3 3 3"]
    loaded = read_mesh(write(tmp_path, "cube.obj", "\n".join(lines).encode()))
    assert is_cube(loaded) and (loaded.rgb == loaded.rgb[0, 0]).all()


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.off", b"OFF", r"\.off is not a mesh format"),
        ("a.obj", b"", "is empty"),
        ("a.obj", b"v 0 0 0\nv 1 0 0\nv 0 1 0\n", "no triangles"),
        ("a.obj", b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 4\n", "vertex 3, and there are 3"),
        ("a.obj", b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 0\n", "line 4 is not a face"),
        ("a.obj", b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2\n", "line 4 is not a face"),
        ("a.obj", b"v 0 0 0\nv 1 x 0\nv 0 1 0\nf 1 2 3\n", "does not have three numbers"),
        ("a.obj", b"v 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n", "does not have three numbers"),
        ("a.obj", b"v 0 0 0\nv 1 0 0\nv 0 inf 0\nf 1 2 3\n", "vertex 2 is not finite"),
        ("a.obj", b"v 0 0 0\nv 1 0 0\nv 0 1e60 0\nf 1 2 3\n", "vertex 2 is not finite"),
        ("a.stl", binary_stl(cube())[:-7], "cut short: the header counts 12 triangles"),
        ("a.stl", b"nothing of the kind", "not an STL file"),
        ("a.stl", text_stl(cube())[:150], "cut short"),
        ("a.stl", b"solid empty\nendsolid", "no triangles"),
        ("a.ply", b"not it", "not a PLY"),
        (
            "a.ply",
            ply("ascii").replace(b"vertex 8", b"vertex 9223372036854775807"),
            "cut short or damaged among 9",
        ),
        (
            "a.ply",
            b"ply\nformat ascii 1.0\nelement dot 9223372036854775807\nend_header\n",
            "without properties",
        ),
        ("a.ply", ply("ascii").replace(b"vertex 8", b"vertex -8"), "a negative count, or a repeated name"),
        ("a.ply", ply("ascii")[:-12], "cut short or damaged among 6 x face"),
        ("a.ply", ply("binary_little_endian")[:-3], "cut short or damaged among 6 x face"),
        ("a.ply", ply("binary_big_endian", mixed=True)[:-30], "cut short or damaged among 7 x face"),
        ("a.ply", ply("binary_little_endian")[:400], "cut short or damaged among 8 x vertex"),
        ("a.ply", ply("ascii").replace(b"ascii", b"morse"), "unknown PLY format 'morse'"),
        ("a.ply", ply("ascii").replace(b"element face 6", b"element face x"), "header cannot be read"),
        ("a.ply", ply("ascii").replace(b"property double x", b"property double w"), "lack x, y or z"),
    ],
)
def test_errors_name_the_damage(tmp_path, name, data, message):
    with pytest.raises(CaptureError, match=message):
        read_mesh(write(tmp_path, name, data))


def test_missing_file(tmp_path):
    with pytest.raises(CaptureError, match="cannot be read"):
        read_mesh(tmp_path / "none.ply")


def test_truncated_files(tmp_path):
    """A file truncated at any byte gives a mesh or a CaptureError."""
    for name, data in {
        "a.ply": ply("binary_little_endian", mixed=True),
        "b.ply": ply("ascii"),
        "a.stl": binary_stl(cube()),
    }.items():
        for end in range(1, len(data), 17):
            try:
                read_mesh(write(tmp_path, name, data[:end]))
            except CaptureError:
                continue


def test_knot_is_closed_and_faces_outward():
    knot = ridged_knot(600, 12)
    mesh = as_tensors(knot)
    assert len(knot.faces) == 14_400 and mesh.is_closed()
    assert mesh.volume().item() == pytest.approx(1.4, rel=0.1)
    assert ridged_knot(120, 8, ridges=0).xyz.shape == (960, 3)
