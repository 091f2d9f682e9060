"""Scene files: PLY points, Gaussians in the INRIA layout, .splat."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest
import torch

import luxel.scenes as scenes
from luxel.render.geometry.camera import Points
from luxel.render.primitives.gaussians import Gaussians
from luxel.scenes.files.ply import read_vertices
from luxel.scenes.synthetic.toy import torus_knot

XYZ = np.array([[1, 2, 3], [-4, 5.5, 0.25], [0, -1e-3, 7]], np.float32)
RGB = np.array([[0, 128, 255], [1, 2, 3], [250, 251, 252]], np.uint8)


def write_points(path: Path, kind: str, colour: str = "uchar", extra: str = "") -> Path:
    order = ">" if kind == "binary_big_endian" else "<"
    scale = {"uchar": ("u1", 1), "ushort": ("u2", 257), "float": ("f4", 1 / 255)}[colour]
    layout = [(n, order + "f8") for n in "xyz"] + [(n, order + scale[0]) for n in ("red", "green", "blue")]
    table = np.empty(3, layout)
    for i, name in enumerate(("x", "y", "z")):
        table[name] = XYZ[:, i]
    for i, name in enumerate(("red", "green", "blue")):
        table[name] = RGB[:, i].astype(int) * scale[1]
    lines = ["ply", f"format {kind} 1.0", "comment synthetic", "element vertex 3"]
    lines += [f"property double {n}" for n in "xyz"] + [
        f"property {colour} {n}" for n in ("red", "green", "blue")
    ]
    head = "\n".join([*lines, *([extra] if extra else []), "end_header\n"]).encode()
    if kind == "ascii":
        path.write_bytes(
            head + "".join(" ".join(map(repr, map(float, row))) + "\n" for row in table.tolist()).encode()
        )
    else:
        path.write_bytes(head + table.tobytes())
    return path


@pytest.mark.parametrize("colour", ["uchar", "ushort", "float"])
@pytest.mark.parametrize("kind", ["ascii", "binary_little_endian", "binary_big_endian"])
def test_points_in_every_format(tmp_path: Path, kind: str, colour: str) -> None:
    faces = "element face 0\nproperty list uchar int vertex_indices"
    points = scenes.load_points(write_points(tmp_path / "a.ply", kind, colour, faces))
    assert np.array_equal(points.xyz, XYZ) and np.array_equal(points.rgb, RGB)
    assert points.xyz.dtype == np.float32 and points.rgb.dtype == np.uint8


def test_points_that_are_not_finite_are_left_out(tmp_path: Path) -> None:
    xyz = np.concatenate([XYZ, [[np.nan, 0, 0], [np.inf, 0, 0]]]).astype(np.float32)
    scenes.save_points(tmp_path / "a.ply", Points(xyz, np.zeros((5, 3), np.uint8)))
    assert np.array_equal(scenes.load_points(tmp_path / "a.ply").xyz, XYZ)


@pytest.mark.parametrize("kind", ["ascii", "binary_little_endian", "binary_big_endian"])
def test_truncated_points(tmp_path: Path, kind: str) -> None:
    path = write_points(tmp_path / "a.ply", kind)
    whole = path.read_bytes()
    body = whole.index(b"end_header\n") + 11
    for size in [0, 1, 3, 30, body - 1, body, body + 5, len(whole) - 8]:
        path.write_bytes(whole[:size])
        with pytest.raises(scenes.CaptureError, match=r"a\.ply"):
            scenes.load_points(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "ply\nformat ascii 1.0\nelement vertex 99999999999\nproperty float x\nend_header\n1 2",
            "99999999999 vert",
        ),
        ("ply\nformat ascii 1.0\nelement vertex -3\nproperty float x\nend_header\n", "no usable vertices"),
        (
            "ply\nformat ascii 1.0\nelement vertex many\nproperty float x\nend_header\n",
            "header cannot be read",
        ),
        ("ply\nformat ascii 1.0\nelement vertex 1\nproperty quad x\nend_header\n1", "header cannot be read"),
        ("ply\nformat ascii 1.0\nelement vertex 1\nproperty list uchar int x\nend_header\n1 1", "lists"),
        (
            "ply\nformat zip 1.0\nelement vertex 1\nproperty float x\nend_header\n1",
            "unknown PLY format 'zip'",
        ),
        (
            "ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nend_header\n1",
            "need the properties y, z",
        ),
        ("solid cube\nend_header\n", "not a PLY file"),
        (
            "ply\nformat ascii 1.0\nelement dot 1\nproperty int i\nelement vertex 1\nend_header\n1",
            r"a\.ply: .*elements before the vertices",
        ),
    ],
)
def test_invalid_headers(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.ply").write_text(text)
    with pytest.raises(scenes.CaptureError, match=message):
        scenes.load_points(tmp_path / "a.ply")


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
def test_gaussians_round_trip(tmp_path: Path, degree: int) -> None:
    original = torus_knot(37, sh_degree=degree)
    scenes.save_primitive_ply(tmp_path / "deep/er/scene.ply", original)
    loaded = scenes.load_scene(tmp_path / "deep/er")
    for name, tensor in original.tensors().items():
        assert torch.equal(loaded.tensors()[name], tensor), name


def test_coefficients_are_stored_channel_by_channel(tmp_path: Path) -> None:
    original = torus_knot(5, sh_degree=3)
    scenes.save_primitive_ply(tmp_path / "a.ply", original)
    vertices = read_vertices(tmp_path / "a.ply")
    assert vertices["f_rest_16"][2] == original.sh_rest[2, 1, 1]  # 15 of red, then green from its second
    assert vertices["nx"].tolist() == [0.0] * 5 and len(vertices.dtype.names or ()) == 62


def test_empty_gaussians(tmp_path: Path) -> None:
    scenes.save_primitive_ply(tmp_path / "a.ply", Gaussians.empty(2))
    loaded = scenes.load_gaussians(tmp_path / "a.ply")
    assert loaded.count == 0 and loaded.sh_degree == 2


def test_dog_round_trip(shared: Path, tmp_path: Path) -> None:
    source = shared / "splats/dog-sh3.ply"
    dog = scenes.load_scene(source)
    assert (dog.count, dog.sh_degree) == (15105, 3)
    scenes.save_primitive_ply(tmp_path / "dog.ply", dog)
    before, after = read_vertices(source), read_vertices(tmp_path / "dog.ply")
    assert before.dtype.names == after.dtype.names
    for name in before.dtype.names or ():
        if name not in ("nx", "ny", "nz"):
            assert np.array_equal(before[name], after[name]), name


def test_points_are_not_gaussians(tmp_path: Path) -> None:
    scenes.save_points(tmp_path / "a.ply", Points(XYZ, RGB))
    with pytest.raises(scenes.CaptureError, match=r"a\.ply: Gaussians need the properties f_dc_0"):
        scenes.load_scene(tmp_path / "a.ply")


def test_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenes.save_primitive_ply(tmp_path / "a.ply", torus_knot(5))
    before = (tmp_path / "a.ply").read_bytes()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(scenes.CaptureError, match=r"a\.ply: .*No space left.*unchanged"):
        scenes.save_primitive_ply(tmp_path / "a.ply", torus_knot(50))
    assert (tmp_path / "a.ply").read_bytes() == before and os.listdir(tmp_path) == ["a.ply"]


def test_folder_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(scenes.CaptureError, match="cannot be written"):
        scenes.save_primitive_ply(tmp_path / "file/scene.ply", torus_knot(2))


def test_splat_record(tmp_path: Path) -> None:
    record = np.array([1, 2, 3, 0.5, 0.25, 2], "<f4").tobytes() + bytes([255, 0, 128, 128, 255, 128, 128, 1])
    (tmp_path / "a.splat").write_bytes(record * 3)
    loaded = scenes.load_scene(tmp_path / "a.splat")
    assert loaded.count == 3 and loaded.means[1].tolist() == [1, 2, 3]
    assert torch.allclose(loaded.scales[0], torch.tensor([0.5, 0.25, 2]))
    assert abs(float(loaded.opacities[0]) - 128 / 255) < 1e-6
    assert torch.allclose(0.5 + 0.28209479 * loaded.sh_dc[0], torch.tensor([1, 0, 128 / 255]), atol=1e-6)
    assert loaded.quats[0].tolist() == [127 / 128, 0, 0, -127 / 128]


def test_truncated_splat(tmp_path: Path) -> None:
    (tmp_path / "a.splat").write_bytes(bytes(33))
    with pytest.raises(scenes.CaptureError, match="33 bytes are not a multiple of 32"):
        scenes.load_scene(tmp_path / "a.splat")


def test_bonsai(shared: Path) -> None:
    room = scenes.load_scene(shared / "splats/bonsai-7k.splat")
    assert room.count == 1_157_141 and all(bool(t.isfinite().all()) for t in room.tensors().values())
    assert 0.9 < float(room.quats.norm(dim=1).median()) < 1.1


def test_unknown_formats(tmp_path: Path) -> None:
    (tmp_path / "a.usdz").write_bytes(b"PK")
    with pytest.raises(scenes.CaptureError, match=r"not a scene format that luxel reads .*\.ply, .*\.splat"):
        scenes.load_scene(tmp_path / "a.usdz")


MINIMAL = ["minimal.splat", "minimal.ksplat", *(f"minimal-{name}.spz" for name in ("raw", "v2", "v3", "v4"))]


@pytest.mark.parametrize("name", MINIMAL)
def test_minimal_files(shared: Path, name: str) -> None:
    assert scenes.load_scene(shared / "fixtures/splat-transform/splat" / name).count == 4
    with pytest.raises(scenes.CaptureError, match="cannot be read"):
        scenes.load_scene(shared / "nothing.ply")
