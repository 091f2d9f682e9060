"""Convexes as meshes: hulls that enclose their points, faces that face outward, and mesh files."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import torch

import luxel.scenes as scenes
from luxel.render.primitives.convexes import Convexes
from luxel.render.primitives.gaussians import SH_C0
from luxel.scenes.files.meshes.mesh import Mesh


def convexes(points: np.ndarray) -> Convexes:
    """Opaque convexes of these points, [N, K, 3], each of its own colour."""
    n = len(points)
    shades = torch.linspace(0.1, 0.9, n)[:, None].expand(n, 3)
    return Convexes(
        points=torch.tensor(points, dtype=torch.float32),
        log_delta=torch.zeros(n),
        log_sigma=torch.zeros(n),
        opacity_logits=torch.full((n,), 3.0),
        sh_dc=(shades - 0.5) / SH_C0,
        sh_rest=torch.zeros(n, 0, 3),
        mask_logits=torch.ones(n),
    )


CUBE = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))


def volume(mesh: Mesh) -> float:
    """Enclosed by faces that look outwards (divergence theorem)."""
    a, b, c = (mesh.xyz[mesh.faces[:, i]].astype(np.float64) for i in range(3))
    return float((a * np.cross(b, c)).sum() / 6)


def read_obj(path: Path) -> Mesh:
    words = [line.split() for line in path.read_text().splitlines()]
    vertices = np.array([w[1:] for w in words if w[0] == "v"], float).reshape(-1, 6)
    faces = np.array([w[1:] for w in words if w[0] == "f"], int).reshape(-1, 3) - 1
    return Mesh(vertices[:, :3].astype(np.float32), np.rint(255 * vertices[:, 3:]).astype(np.uint8), faces)


def test_cube() -> None:
    result = scenes.convex_hulls(convexes(CUBE[None] * [1, 2, 3] + 10))
    assert (result.hulls, result.degenerate, result.faint) == (1, 0, 0)
    assert len(result.mesh.xyz) == 8 and len(result.mesh.faces) == 12
    assert volume(result.mesh) == pytest.approx(48, rel=1e-5)
    edges = {tuple(sorted(e)) for f in result.mesh.faces for e in itertools.combinations(f.tolist(), 2)}
    assert 8 - len(edges) + 12 == 2, "closed (Euler)"


@pytest.mark.parametrize("k", [4, 5, 6, 8])
def test_hulls_enclose_points_and_face_outward(k: int) -> None:
    points = np.random.default_rng(k).standard_normal((40, k, 3)) + np.arange(40)[:, None, None] * 20
    scene = convexes(points)
    result = scenes.convex_hulls(scene)
    mesh = result.mesh
    assert result.hulls == 40 and mesh.faces.min() == 0 and mesh.faces.max() == len(mesh.xyz) - 1
    held = scene.points.numpy()
    owner = np.rint(mesh.xyz.mean(axis=1) / 20).astype(int)  # they lie 20 apart along (1, 1, 1)
    for number in range(40):
        faces = mesh.faces[owner[mesh.faces[:, 0]] == number]
        a, b, c = (mesh.xyz[faces[:, i]] for i in range(3))
        normal = np.cross(b - a, c - a)
        normal /= np.linalg.norm(normal, axis=1, keepdims=True)
        heights = ((held[number][None] - a[:, None]) * normal[:, None]).sum(-1)
        assert heights.max() < 1e-4, "no point of a convex lies outside of its faces"
        assert {tuple(v) for v in mesh.xyz[owner == number]} <= {tuple(v) for v in held[number]}
    colours = np.rint(255 * np.linspace(0.1, 0.9, 40))
    assert np.abs(mesh.rgb - colours[owner][:, None]).max() <= 1


def test_inner_points_are_not_vertices() -> None:
    inner = np.concatenate([CUBE[:7] * 0.1, [[5, 0, 0]]])[None]
    outer = np.concatenate([CUBE[[0, 3, 5, 6]], np.zeros((2, 3))])[
        None
    ]  # a tetrahedron and its middle, twice
    assert len(scenes.convex_hulls(convexes(outer)).mesh.xyz) == 4
    assert volume(scenes.convex_hulls(convexes(inner)).mesh) > 0


def test_small_distant_hulls_are_kept() -> None:
    result = scenes.convex_hulls(convexes(CUBE[None] * 1e-3 + 1000.0))
    assert result.hulls == 1 and volume(result.mesh) > 0


def test_degenerate_convexes_are_counted() -> None:
    flat = CUBE * [1, 1, 0]
    line, point, sound = CUBE * [1, 0, 0], CUBE * 0, CUBE * 2
    bad = CUBE.copy()
    bad[3, 1] = math.nan
    huge = CUBE * math.inf
    slight = CUBE * [1, 1, 1e-9]
    result = scenes.convex_hulls(convexes(np.stack([flat, line, sound, point, bad, huge, slight])))
    assert (result.hulls, result.degenerate, result.faint) == (1, 6, 0)
    assert volume(result.mesh) == pytest.approx(64, rel=1e-5)
    assert np.isfinite(result.mesh.xyz).all()


def test_faint_and_masked_convexes_are_left_out() -> None:
    scene = convexes(np.stack([CUBE * (i + 1) for i in range(5)]))
    scene.opacity_logits[0], scene.mask_logits[1] = -3.0, -9.0
    scene.opacity_logits[2], scene.mask_logits[3] = math.nan, math.nan
    result = scenes.convex_hulls(scene)
    assert (result.hulls, result.degenerate, result.faint) == (1, 0, 4)
    scene.opacity_logits[0] = -3.0
    assert scenes.convex_hulls(scene, min_opacity=0.01).hulls == 2
    for bad in (-0.1, 1.0, math.nan):
        with pytest.raises(ValueError, match="min_opacity"):
            scenes.convex_hulls(scene, min_opacity=bad)


@pytest.mark.parametrize("name", ["a.ply", "a.obj"])
def test_empty_scene(tmp_path: Path, name: str) -> None:
    result = scenes.convex_hulls(Convexes.empty())
    assert (result.hulls, len(result.mesh.xyz), result.mesh.faces.shape) == (0, 0, (0, 3))
    scenes.save_mesh(tmp_path / name, result.mesh)
    assert (tmp_path / name).stat().st_size > 10


def test_mesh_files(tmp_path: Path) -> None:
    points = np.random.default_rng(3).standard_normal((50, 6, 3)) * 1e-3 + 7
    mesh = scenes.convex_hulls(convexes(points)).mesh
    scenes.save_mesh(tmp_path / "deep/a.ply", mesh)
    vertices = scenes.load_points(tmp_path / "deep/a.ply")
    assert np.array_equal(vertices.xyz, mesh.xyz) and np.array_equal(vertices.rgb, mesh.rgb)
    data = (tmp_path / "deep/a.ply").read_bytes()
    assert f"element face {len(mesh.faces)}\nproperty list uchar int vertex_indices\n".encode() in data
    faces = np.frombuffer(data[-13 * len(mesh.faces) :], [("corners", "u1"), ("index", "<i4", 3)])
    assert (faces["corners"] == 3).all() and np.array_equal(faces["index"], mesh.faces)
    scenes.save_mesh(tmp_path / "a.obj", mesh)
    again = read_obj(tmp_path / "a.obj")
    for field in ("xyz", "rgb", "faces"):
        assert np.array_equal(getattr(again, field), getattr(mesh, field)), field


def test_files_of_several_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("luxel.scenes.files.meshes.mesh_obj.LINES_PER_CHUNK", 7)
    mesh = scenes.convex_hulls(convexes(np.random.default_rng(1).standard_normal((9, 5, 3)))).mesh
    scenes.save_mesh(tmp_path / "a.obj", mesh)
    assert np.array_equal(read_obj(tmp_path / "a.obj").faces, mesh.faces)


@pytest.mark.parametrize("name", ["a.stl", "a"])
def test_other_formats_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(scenes.CaptureError, match="a mesh cannot be written as"):
        scenes.save_mesh(tmp_path / name, scenes.convex_hulls(convexes(CUBE[None])).mesh)


def test_mesh_file_is_refused_as_scene(tmp_path: Path) -> None:
    scenes.save_mesh(tmp_path / "a.ply", scenes.convex_hulls(convexes(CUBE[None])).mesh)
    with pytest.raises(scenes.CaptureError, match="Gaussians need the properties f_dc_0"):
        scenes.load_primitives(tmp_path / "a.ply")
