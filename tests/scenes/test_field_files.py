"""What fields are trained on, from files: single images, volumes, meshes."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from luxel.scenes.errors import CaptureError
from luxel.scenes.landscape import landscape
from luxel.scenes.mesh import Mesh, save_mesh
from luxel.scenes.mesh_files import read_mesh
from luxel.scenes.pictures import read_picture
from luxel.scenes.volumes import read_volume

XYZ = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], np.float32)
FACES = np.array([[0, 2, 1], [0, 1, 3], [1, 2, 3], [0, 3, 2]], np.int32)


def test_pictures_are_upright_and_opaque(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (6, 9, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    assert np.array_equal(read_picture(tmp_path / "a.png"), pixels)
    assert read_picture(tmp_path / "a.png", max_size=3).shape == (2, 3, 3)
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(pixels).save(tmp_path / "b.png", exif=exif)
    assert np.array_equal(read_picture(tmp_path / "b.png"), np.rot90(pixels, -1))
    clear = np.concatenate([pixels, np.zeros((6, 9, 1), np.uint8)], -1)
    Image.fromarray(clear).save(tmp_path / "c.png")
    assert (read_picture(tmp_path / "c.png") == 255).all()
    deep = (pixels[..., 0].astype(np.uint16) * 257).astype(np.uint16)
    Image.fromarray(deep).save(tmp_path / "d.png")
    assert np.array_equal(read_picture(tmp_path / "d.png")[..., 1], pixels[..., 0])


@pytest.mark.parametrize("content", [None, b"", b"no image", b"\x89PNG\r\n\x1a\n" + bytes(40)])
def test_what_is_no_picture(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "a.png"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CaptureError, match=r"a\.png"):
        read_picture(path)
    with pytest.raises(CaptureError, match="folder"):
        read_picture(tmp_path)


def test_a_picture_that_is_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    Image.fromarray(landscape(64, 64)).save(path)
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(CaptureError, match="cannot be read as an image"):
        read_picture(path)


def test_the_landscape_is_the_same_each_time_and_has_fine_texture() -> None:
    image = landscape(96, 64)
    assert image.shape == (64, 96, 3) and image.dtype == np.uint8
    assert np.array_equal(image, landscape(96, 64)) and not np.array_equal(image, landscape(96, 64, seed=1))
    assert np.abs(np.diff(image.astype(int), axis=1)).mean() > 1.5


def test_volumes(tmp_path: Path) -> None:
    grid = np.random.default_rng(0).random((3, 4, 5))
    np.save(tmp_path / "a.npy", grid)
    np.savez(tmp_path / "b.npz", grid)
    np.savez(tmp_path / "c.npz", density=grid, other=np.zeros(3))
    for name in ("a.npy", "b.npz", "c.npz"):
        found = read_volume(tmp_path / name)
        assert found.dtype == np.float32 and np.allclose(found, grid)


@pytest.mark.parametrize(
    "name, held, wrong",
    [
        ("a.npy", np.zeros((3, 4)), "must be"),
        ("a.npy", np.zeros((3, 4, 5, 3)), "must be"),
        ("a.npy", np.zeros((0, 4, 5)), "must be"),
        ("a.npy", np.array(["x"]), "not numbers"),
        ("a.npy", np.array([{}], object), "cannot be read"),
        ("a.npy", b"\x93NUMPY", "cannot be read"),
        ("a.npz", b"PK\x03\x04", "cannot be read"),
        ("a.vdb", b"x", "no volume that luxel reads"),
        ("a.npy", None, "no such file"),
    ],
)
def test_what_is_no_volume(tmp_path: Path, name: str, held: Any, wrong: str) -> None:
    path = tmp_path / name
    if isinstance(held, bytes):
        path.write_bytes(held)
    elif held is not None:
        np.save(path, held, allow_pickle=True)
    with pytest.raises(CaptureError, match=wrong):
        read_volume(path)


def binary_stl() -> bytes:
    body = b"".join(
        struct.pack("<12fH", 0, 0, 0, *[float(v) for c in face for v in XYZ[c]], 0) for face in FACES
    )
    return bytes(80) + struct.pack("<I", len(FACES)) + body


def text_stl() -> bytes:
    lines = ["solid tetrahedron"]
    for face in FACES:
        lines += ["facet normal 0 0 0", "outer loop"]
        lines += ["vertex " + " ".join(str(v) for v in XYZ[c]) for c in face]
        lines += ["endloop", "endfacet"]
    return "\n".join([*lines, "endsolid"]).encode()


OBJ = b"""# a square and a triangle
v 0 0 0
v 1 0 0
v 1 1 0 0.5 0.5 0.5
v 0 1 0
vn 0 0 1
f 1//1 2//1 3//1 4//1
f -4 -3 -1
"""
PLY = b"""ply
format ascii 1.0
element vertex 4
property double x
property double y
property double z
property uchar red
element material 1
property int id
element face 2
property uchar quality
property list uchar uint vertex_index
end_header
0 0 0 9
1 0 0 9
1 1 0 9
0 1 0 9
7
1 4 0 1 2 3
1 3 0 1 3
"""
SQUARE = [[0, 1, 2], [0, 2, 3], [0, 1, 3]]


@pytest.mark.parametrize("suffix", [".ply", ".obj"])
def test_meshes_come_back(tmp_path: Path, suffix: str) -> None:
    save_mesh(tmp_path / f"a{suffix}", Mesh(XYZ, np.zeros((4, 3), np.uint8), FACES))
    found = read_mesh(tmp_path / f"a{suffix}")
    assert np.array_equal(found.xyz, XYZ) and np.array_equal(found.faces, FACES)
    assert found.rgb.shape == (4, 3)


@pytest.mark.parametrize("content", [binary_stl(), text_stl()], ids=["binary", "text"])
def test_stl_corners_become_vertices(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.stl"
    path.write_bytes(content)
    found = read_mesh(path)
    assert len(found.xyz) == 4
    assert np.array_equal(found.xyz[found.faces], XYZ[FACES])


@pytest.mark.parametrize("name, content", [("a.obj", OBJ), ("a.ply", PLY)])
def test_polygons_are_cut_into_triangles(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    found = read_mesh(tmp_path / name)
    assert found.faces.tolist() == SQUARE and found.xyz[2].tolist() == [1, 1, 0]


def test_binary_ply_of_mixed_polygons_in_either_byte_order(tmp_path: Path) -> None:
    for order, word in (("<", "little"), (">", "big")):
        header = (
            f"ply\nformat binary_{word}_endian 1.0\nelement vertex 4\nproperty float x\nproperty float y\n"
            "property float z\nelement face 2\nproperty list uchar int vertex_indices\nend_header\n"
        )
        square = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], order + "f4").tobytes()
        faces = struct.pack(order + "B4i", 4, 0, 1, 2, 3) + struct.pack(order + "B3i", 3, 0, 1, 3)
        (tmp_path / "a.ply").write_bytes(header.encode() + square + faces)
        assert read_mesh(tmp_path / "a.ply").faces.tolist() == SQUARE


@pytest.mark.parametrize(
    "name, content, wrong",
    [
        ("a.ply", b"", "empty"),
        ("a.ply", b"nothing", "not a PLY"),
        ("a.ply", PLY[: PLY.index(b"0 0 0 9")], "cannot be read"),
        ("a.ply", PLY.replace(b"3 0 1 3", b"3 0 1 9"), "do not exist"),
        ("a.ply", PLY.replace(b"1 1 0 9", b"nan 1 0 9"), "not finite"),
        ("a.obj", b"v 0 0 0\n", "no faces"),
        ("a.obj", OBJ.replace(b"v 1 0 0", b"v 1 x 0"), "cannot be read"),
        ("a.stl", b"half a file", "no STL"),
        ("a.stl", binary_stl()[:-60], "no STL"),
        ("a.fbx", b"x", "no mesh that luxel reads"),
        ("a.obj", None, "cannot be read"),
    ],
)
def test_what_is_no_mesh(tmp_path: Path, name: str, content: bytes | None, wrong: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CaptureError, match=wrong):
        read_mesh(path)
