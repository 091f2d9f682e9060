"""Compressed PLY: a file of another program, what is lost when writing, recognition, and damaged files."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from knot_scene import DATA, assert_within, edge, knot, losses, turns

from luxel.render.primitives import Gaussians
from luxel.scenes import CaptureError, load_points, load_primitives, save_scene
from luxel.scenes.files.quantised.compressed_ply import CHUNK, is_compressed_ply
from luxel.scenes.files.quantised.quantisation import morton_order

KNOT, EDGE = (DATA / f"{name}.compressed.ply" for name in ("knot2k", "edge16"))
LIMITS = {
    "position": 5.5e-4,
    "log scale": 9.1e-4,
    "rotation": 0.196,
    "alpha": 2e-3,
    "dc": 6.2e-3,
    "rest": 9.3e-3,
}


def load(path: Path) -> Gaussians:
    scene = load_primitives(path)
    assert isinstance(scene, Gaussians)
    return scene


def test_a_file_of_another_program(tmp_path: Path) -> None:
    read = load(KNOT)
    assert (read.count, read.sh_degree) == (2000, 3)
    assert_within(losses(knot(), read), LIMITS)
    (tmp_path / "plain name.PLY").write_bytes(KNOT.read_bytes())
    assert torch.equal(load(tmp_path / "plain name.PLY").means, read.means)


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
def test_what_is_written_is_read(tmp_path: Path, degree: int) -> None:
    source = replace(knot(), sh_rest=knot().sh_rest[:, : (degree + 1) ** 2 - 1])
    path = tmp_path / "a.compressed.ply"
    save_scene(path, source)
    read = load(path)
    assert (read.count, read.sh_degree) == (2000, degree)
    assert_within(losses(source, read), LIMITS)
    coefficients = 3 * ((degree + 1) ** 2 - 1)
    header = path.read_bytes().index(b"end_header\n") + 11
    assert path.stat().st_size - header == 8 * 18 * 4 + 2000 * (16 + coefficients)


@pytest.mark.parametrize("own", [False, True])
def test_extreme_values(tmp_path: Path, own: bool) -> None:
    path, source = EDGE, edge()
    if own:
        path = tmp_path / "a.compressed.ply"
        save_scene(path, source)
    read = load(path)
    order = read.means[:, 0].argsort()
    read = read.select(order)
    # One chunk for everything: steps of 300 / 1023 along y, of 22 / 2047 for scales, of 3.4 / 255 for red.
    steps = torch.tensor([2 / 2047, 300 / 1023, 1 / 2047])
    assert bool(((read.means - source.means).abs() <= 0.51 * steps + 1e-6).all())
    expected = source.log_scales.clamp(-20, 20)
    torch.testing.assert_close(read.log_scales, expected, atol=0.0055, rtol=0)
    torch.testing.assert_close(
        read.opacity_logits.sigmoid(), source.opacity_logits.sigmoid(), atol=2e-3, rtol=0
    )
    torch.testing.assert_close(read.sh_dc, source.sh_dc, atol=0.024, rtol=0)
    torch.testing.assert_close(read.sh_rest, source.sh_rest, atol=0.0157, rtol=0)
    assert float(turns(source.quats, read.quats).max()) < 0.19
    assert all(bool(tensor.isfinite().all()) for tensor in read.tensors().values())


def test_a_file_without_bounds_of_colours(tmp_path: Path) -> None:
    """As the first tools wrote it: colours from 0 to 1 in all chunks, no element sh."""
    data = EDGE.read_bytes()
    head, body = data.split(b"end_header\n", 1)
    lines = [line for line in head.splitlines() if line[-2:] not in (b"_r", b"_g", b"_b")]
    lines = lines[: next(i for i, line in enumerate(lines) if line.startswith(b"element sh"))]
    bounds, vertices = body[:72], np.frombuffer(body[72 : 72 + 256], "<u4").reshape(16, 4).copy()
    vertices[:, 3] = 0xFF800040
    path = tmp_path / "a.ply"
    path.write_bytes(b"\n".join([*lines, b"end_header\n"]) + bounds[:48] + vertices.tobytes())
    read, other = load(path), load(EDGE)
    assert read.sh_degree == 0 and torch.equal(read.means, other.means)
    expected = (torch.tensor([255, 128, 0]) / 255 - 0.5) / 0.28209479
    torch.testing.assert_close(read.sh_dc, expected.expand(16, 3), atol=1e-6, rtol=1e-6)
    assert abs(float(read.opacity_logits[0].sigmoid()) - 64 / 255) < 1e-6


def test_files_in_the_other_byte_order(tmp_path: Path) -> None:
    head, body = EDGE.read_bytes().split(b"end_header\n", 1)
    words = np.frombuffer(body[: 72 + 256], "<u4").byteswap().tobytes()
    path = tmp_path / "a.compressed.ply"
    path.write_bytes(head.replace(b"little", b"big") + b"end_header\n" + words + body[72 + 256 :])
    for name, tensor in load(EDGE).tensors().items():
        assert torch.equal(getattr(load(path), name), tensor), name


def test_the_content_decides(tmp_path: Path) -> None:
    assert is_compressed_ply(KNOT) and not is_compressed_ply(tmp_path)
    save_scene(tmp_path / "a.ply", edge())
    assert not is_compressed_ply(tmp_path / "a.ply")
    (tmp_path / "a.splat").write_bytes(EDGE.read_bytes())
    assert not is_compressed_ply(tmp_path / "a.splat") and not is_compressed_ply(tmp_path / "none.ply")
    os.mkfifo(tmp_path / "pipe.ply")
    assert not is_compressed_ply(tmp_path / "pipe.ply")
    (tmp_path / "b.ply").write_bytes(b"ply\nelement\nelement vertex 1\ncomment element chunk\nend_header\n")
    assert not is_compressed_ply(tmp_path / "b.ply")


def test_no_points_are_read_from_it() -> None:
    with pytest.raises(CaptureError, match="this is compressed PLY, a scene of Gaussians"):
        load_points(EDGE)


def test_scenes_that_are_empty_or_not_finite(tmp_path: Path) -> None:
    path = tmp_path / "a.compressed.ply"
    save_scene(path, Gaussians.empty(1))
    assert (load(path).count, load(path).sh_degree) == (0, 1)
    broken = edge().map(lambda t: torch.full_like(t, float("nan")))
    broken.means[1:3, 0] = torch.tensor([float("inf"), -float("inf")])
    broken.sh_dc[2], broken.sh_rest[2] = 3e38, 3e38
    save_scene(path, broken)
    read = load(path)
    assert read.count == 16 and all(bool(tensor.isfinite().all()) for tensor in read.tensors().values())


def test_a_stray_leaves_the_chunks_of_others_small(tmp_path: Path) -> None:
    scene = knot()
    scene.means[77] = torch.tensor([1e7, -1e7, 1e7])
    path = tmp_path / "a.compressed.ply"
    save_scene(path, scene)
    rows = torch.cdist(load(path).means, scene.means).amin(dim=1)
    assert int((rows > 6e-4).sum()) < CHUNK


def test_the_order_follows_the_z_curve() -> None:
    corners = np.array([[x, y, z] for z in (0, 1) for y in (0, 1) for x in (0, 1)], np.float32)
    shuffled = np.random.default_rng(0).permutation(8)
    assert (corners[shuffled][morton_order(corners[shuffled])] == corners).all()
    assert morton_order(np.zeros((3, 3), np.float32)).tolist() == [0, 1, 2]


def changed(old: bytes, new: bytes, data: bytes = EDGE.read_bytes()) -> bytes:
    assert old in data
    return data.replace(old, new, 1)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"plain" * 9, "this is not a PLY file"),
        (b"ply\nelement chunk 1\nend_header", "this is not a PLY file, or its header does not end"),
        (changed(b"binary_little_endian", b"ascii"), "format ascii 1.0 is not of compressed PLY"),
        (changed(b"float min_x", b"list uchar float min_x"), "property list uchar float min_x is not of"),
        (changed(b"float min_x", b"quad min_x"), "cannot be read as a compressed PLY file"),
        (changed(b"float min_x", b"float min_y"), "cannot be read as a compressed PLY file"),
        (changed(b"float min_x", b"float minimum"), "cannot be read as a compressed PLY file"),
        (changed(b"chunk 1", b"chunk x"), "cannot be read as a compressed PLY file"),
        (
            changed(b"element vertex 16", b"element point 16"),
            "needs the elements chunk, and vertex with packed",
        ),
        (changed(b"packed_scale", b"packed_other"), "needs the elements chunk, and vertex with packed"),
        (changed(b"chunk 1", b"chunk 2") + bytes(72), "16 Gaussians are 1 chunks of 256, but the file has 2"),
        (changed(b"vertex 16", b"vertex 1600000000000"), "cut short: 1600000000000 x vertex in the header"),
        (changed(b"vertex 16", b"vertex -1"), "cut short: -1 x vertex in the header"),
        (EDGE.read_bytes()[:-1], "cut short: 16 x sh in the header, but only 719 bytes follow"),
        (changed(b"element sh 16", b"element sh 15"), "15 x sh with 45 properties fit no SH degree of 16"),
        (changed(b"f_rest_44", b"f_rest_45"), "16 x sh with 45 properties fit no SH degree of 16"),
        (changed(b"property uchar f_rest_44\n", b""), "16 x sh with 44 properties fit no SH degree of 16"),
    ],
)
def test_damaged_files(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "a.compressed.ply").write_bytes(data)
    with pytest.raises(CaptureError, match=rf"a\.compressed\.ply: .*{message}") as refused:
        load(tmp_path / "a.compressed.ply")
    assert refused.value.remedy
