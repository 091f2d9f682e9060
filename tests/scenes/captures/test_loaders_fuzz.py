"""Loaders return a valid result or raise CaptureError for files of any bytes."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import luxel.scenes as scenes
from luxel.render.geometry.camera import Points
from luxel.render.primitives import Convexes, Gaussians4d
from luxel.render.primitives.parameters import Parameters
from luxel.scenes.captures.formats.colmap import read_model
from luxel.scenes.paths import load_path, save_path
from luxel.scenes.synthetic.toy import ring_cameras, torus_knot

SEARCH = int(os.environ.get("LUXEL_FUZZ", "0"))  # examples to search at random; 0: the same 150 in every run
FUZZ = settings(
    max_examples=SEARCH or 150,
    derandomize=not SEARCH,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
WORDS = [
    b"",
    b"\0" * 8,
    b"\xff" * 8,
    struct.pack("<Q", 2**62),
    struct.pack("<d", float("nan")),
    b"nan",
    b"1e999",
    b"-1",
]


@st.composite
def damage(draw: st.DrawFn) -> Callable[[bytes], bytes]:
    """A few cuts, flips and insertions at positions relative to the length."""
    edits = draw(
        st.lists(
            st.tuples(
                st.sampled_from(["cut", "flip", "insert", "remove"]),
                st.floats(0, 1),
                st.one_of(st.sampled_from(WORDS), st.binary(min_size=1, max_size=8)),
            ),
            min_size=1,
            max_size=4,
        )
    )

    def apply(data: bytes) -> bytes:
        for kind, position, word in edits:
            at = int(position * len(data))
            if kind == "cut":
                data = data[:at]
            elif kind == "flip":
                data = data[:at] + word + data[at + len(word) :]
            elif kind == "insert":
                data = data[:at] + word + data[at:]
            else:
                data = data[:at] + data[at + len(word) :]
        return data

    return apply


def original(path: Path, write: Callable[[Path], object]) -> bytes:
    """The bytes that ``write`` writes to a path, written once per test."""
    kept = path.parent / "original" / path.name
    if not kept.exists():
        kept.parent.mkdir(exist_ok=True)
        write(kept)
    return kept.read_bytes()


def write_model(folder: Path, text: bool) -> None:
    if text:
        (folder / "cameras.txt").write_text("1 OPENCV 64 48 60 61 32 24 0.01 0 0 0\n")
        (folder / "images.txt").write_text("1 1 0 0 0 0 0 3 1 a.png\n1 2 -1\n2 1 0 0.1 0 0 0 3 1 b.png\n\n")
        (folder / "points3D.txt").write_text("1 0 0 1 10 20 30 0.5 1 0 2 0\n2 0 1 1 10 20 30 0.5 1 0 2 0\n")
        return
    camera = struct.pack("<QiiQQ8d", 1, 1, 4, 64, 48, 60, 61, 32, 24, 0.01, 0, 0, 0)
    (folder / "cameras.bin").write_bytes(camera)
    images = b"".join(
        struct.pack("<i7di", i, 1, 0, 0, 0, 0, 0, 3, 1) + b"a.png\0" + struct.pack("<Qddq", 1, 5, 6, -1)
        for i in (1, 2)
    )
    (folder / "images.bin").write_bytes(struct.pack("<Q", 2) + images)
    points = b"".join(struct.pack("<Q3d3BdQ4i", i, 1, 2, 3, 9, 9, 9, 0.5, 2, 1, 0, 2, 0) for i in (1, 2))
    (folder / "points3D.bin").write_bytes(struct.pack("<Q", 2) + points)


@pytest.mark.parametrize("text", [False, True])
@FUZZ
@given(change=damage(), file=st.sampled_from(["cameras", "images", "points3D"]))
def test_colmap(tmp_path: Path, text: bool, change: Callable[[bytes], bytes], file: str) -> None:
    write_model(tmp_path, text)
    path = tmp_path / f"{file}.{'txt' if text else 'bin'}"
    path.write_bytes(change(path.read_bytes()))
    try:
        model = read_model(tmp_path)
    except scenes.CaptureError as error:
        assert file in str(error) or "images" in str(error)
        return
    assert all(np.isfinite(pose).all() for _, _, pose in model.images)
    assert all(lens.fx > 0 and 0 < lens.width < 1 << 20 for lens in model.lenses.values())
    assert np.isfinite(model.points.xyz).all() and len(model.points.rgb) == len(model.points.xyz)


@pytest.mark.parametrize("kind", ["ascii", "binary"])
@FUZZ
@given(change=damage())
def test_ply_points(tmp_path: Path, kind: str, change: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "points.ply"
    if kind == "binary":
        points = Points(np.ones((4, 3), np.float32), np.zeros((4, 3), np.uint8))
        data = original(path, lambda kept: scenes.save_points(kept, points))
    else:
        properties = b"property float x\nproperty float y\nproperty float z\n"
        head = b"ply\nformat ascii 1.0\nelement vertex 2\n" + properties
        data = head + b"end_header\n1 2 3\n4 5 6\n"
    path.write_bytes(change(data))
    try:
        points = scenes.load_points(path)
    except scenes.CaptureError as error:
        assert "points.ply" in str(error)
        return
    assert len(points.xyz) > 0 and np.isfinite(points.xyz).all() and points.rgb.shape == points.xyz.shape


@pytest.mark.parametrize("suffix", [".ply", ".splat"])
@FUZZ
@given(change=damage())
def test_scene_files(tmp_path: Path, suffix: str, change: Callable[[bytes], bytes]) -> None:
    path = tmp_path / f"scene{suffix}"
    data = bytes(range(128))
    if suffix == ".ply":
        data = original(path, lambda kept: scenes.save_primitive_ply(kept, torus_knot(4)))
    path.write_bytes(change(data))
    try:
        loaded = scenes.load_scene(path)
    except scenes.CaptureError as error:
        assert path.name in str(error)
        return
    assert loaded.sh_degree in (0, 1, 2, 3)


@pytest.mark.parametrize(
    "name", ["scene.ply", "scene.safetensors", pytest.param("half.safetensors", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("empty", [Convexes.empty(4, 1), Gaussians4d.empty(1)], ids=lambda e: e.primitive)
@FUZZ
@given(change=damage())
def test_files_of_other_primitives(
    tmp_path: Path, name: str, empty: Parameters, change: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / name
    ones = empty.to(torch.float64).map(lambda t: torch.ones(3, *t.shape[1:], dtype=t.dtype))
    half = name.startswith("half")
    path.write_bytes(change(original(path, lambda kept: scenes.save_scene(kept, ones, half=half))))
    try:
        loaded = scenes.load_primitives(path)
    except scenes.CaptureError as error:
        assert name in str(error)
        return
    assert loaded.sh_degree in (0, 1, 2, 3)


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.floats(),
    st.text(max_size=8),
    st.lists(st.floats(), max_size=5),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)
KEYS = [
    "camera_model", "w", "h", "fl_x", "fl_y", "cx", "cy", "k1", "p1", "camera_angle_x", "is_fisheye", "frames",
    "ply_file_path", "train_filenames", "test_filenames", "file_path", "transform_matrix", "mask_path", "time",
]  # fmt: skip


@FUZZ
@given(changes=st.lists(st.tuples(st.sampled_from(KEYS), VALUES, st.booleans()), min_size=1, max_size=3))
def test_transforms_of_any_types(toy_original: Path, tmp_path: Path, changes: list) -> None:
    check_transforms(toy_original, tmp_path, lambda document: _edited(document, changes))


def _edited(document: dict, changes: list) -> bytes:
    for key, value, in_frame in changes:
        frames = document["frames"]
        if in_frame and isinstance(frames, list) and len(frames) > 1 and isinstance(frames[1], dict):
            frames[1][key] = value
        else:
            document[key] = value
    return json.dumps(document).encode()


@FUZZ
@given(change=damage())
def test_transforms_of_any_bytes(
    toy_original: Path, tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    check_transforms(toy_original, tmp_path, lambda document: change(json.dumps(document).encode()))


def check_transforms(original: Path, tmp_path: Path, write: Callable[[dict], bytes]) -> None:
    folder = tmp_path / "knot"
    if not folder.exists():
        shutil.copytree(original, folder)
    document = json.loads((original / "transforms.json").read_text())
    document["frames"] = document["frames"][:4]
    (folder / "transforms.json").write_bytes(write(document))
    try:
        capture = scenes.open(folder, masks="none")
    except scenes.CaptureError as error:
        assert str(error)
        return
    assert len(capture.views) >= 3
    for view in capture.views:
        assert bool(view.camera.world_to_cam.isfinite().all()) and bool(
            view.camera.intrinsics.isfinite().all()
        )
        assert view.read().rgb.shape == (view.camera.height, view.camera.width, 3)


@FUZZ
@given(change=damage())
def test_camera_paths(tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "path.json"
    path.write_bytes(change(original(path, lambda kept: save_path(kept, ring_cameras(2)))))
    try:
        loaded = load_path(path)
    except scenes.CaptureError as error:
        assert "path.json" in str(error)
        return
    assert loaded.cameras and all(bool(c.world_to_cam.isfinite().all()) for c in loaded.cameras)
