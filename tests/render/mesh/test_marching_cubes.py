"""Marching cubes: closed surfaces of known shape, whatever the case of a cell, as a whole or slab by slab."""

from __future__ import annotations

import math

import pytest
import torch
from mesh_shapes import ball, ring

from luxel.render.mesh import marching_cubes as meshing
from luxel.render.mesh.cube_cases import CORNERS, cube_cases
from luxel.render.mesh.marching_cubes import field_surface, marching_cubes
from luxel.render.mesh.triangles import TriangleMesh

D = torch.float64


def euler(mesh: TriangleMesh) -> int:
    """Vertices - edges + faces: 2 for a sphere, 0 for a torus."""
    return len(mesh.vertices) - len(mesh.edges()[0]) + len(mesh.faces)


@pytest.mark.parametrize(
    ("shape", "characteristic", "volume", "area"),
    [
        (ball, 2, 4 / 3 * math.pi * 0.35**3, 4 * math.pi * 0.35**2),
        (ring, 0, 2 * math.pi**2 * 0.3 * 0.01, 4 * math.pi**2 * 0.03),
    ],
)
def test_a_known_shape(device, shape, characteristic, volume, area):
    for resolution, tolerance in ((24, 0.04), (64, 0.006)):
        mesh = field_surface(shape, resolution, device=device)
        assert mesh.vertices.device.type == device.type and mesh.faces.dtype == torch.int32
        assert mesh.is_closed() and euler(mesh) == characteristic
        assert mesh.volume().item() == pytest.approx(volume, rel=tolerance)  # positive: outward
        assert mesh.areas().sum().item() == pytest.approx(area, rel=tolerance)
        assert shape(mesh.vertices).abs().max() < 0.4 / resolution**2 / 0.1
        assert len(torch.unique(mesh.faces)) == len(mesh.vertices)
        at = mesh.vertices.clone().requires_grad_()
        (slope,) = torch.autograd.grad(shape(at).sum(), at)
        assert (slope * mesh.vertex_normals()).sum(1).min() > 0.8


def test_noise_of_every_case(device):
    """All cases of a cell side by side, with ambiguous faces everywhere: closed all the same."""
    generator = torch.Generator().manual_seed(0)
    values = torch.ones(30, 31, 32)
    values[1:-1, 1:-1, 1:-1] = torch.randn(28, 29, 30, generator=generator)
    inside = values < 0
    shifts = [inside[x : 29 + x, y : 30 + y, z : 31 + z] for x, y, z in CORNERS]
    case = sum(
        (shift.long() << bit for bit, shift in enumerate(shifts)), torch.zeros(29, 30, 31, dtype=torch.long)
    )
    assert len(case.unique()) == 256
    mesh = marching_cubes(values.to(device))
    assert mesh.is_closed() and mesh.volume() > 0
    other = marching_cubes(-values.to(device))
    assert other.is_closed() and other.volume() < 0


def test_each_case_cuts_each_edge_once():
    """Vertices of a case are the edges between inside and outside; the triangles are the fewest that join them."""
    triangles, starts = cube_cases()
    assert len(starts) == 257 and (starts[1:] - starts[:-1]).max() <= 5
    for case in (0, 255):
        assert starts[case] == starts[case + 1]
    single = triangles[starts[1] : starts[2]]
    assert len(single) == 1  # one corner inside: one triangle


@pytest.mark.parametrize("points", [1, 400, 1100, 5000])
def test_slabs_join_without_seams(device, points, monkeypatch):
    whole = field_surface(ring, 17, device=device, dtype=torch.float32)
    monkeypatch.setattr(meshing, "MAX_POINTS", points)
    parts = field_surface(ring, 17, device=device, dtype=torch.float32)
    assert parts.is_closed() and torch.equal(parts.vertices, whole.vertices)
    assert {tuple(f) for f in parts.faces.tolist()} == {tuple(f) for f in whole.faces.tolist()}


def test_place_size_and_level():
    values = torch.tensor([2.0, 1.0, -3.0], dtype=D)[:, None, None].expand(3, 2, 2)
    mesh = marching_cubes(values, 0.5, origin=(10, 20, 30), spacing=2.0)
    assert mesh.vertices.dtype == D and len(mesh.faces) == 2
    torch.testing.assert_close(mesh.vertices[:, 0], torch.full((4,), 10 + 2 * (1 + 0.5 / 4), dtype=D))
    assert mesh.vertices[:, 1:].amin(0).tolist() == [20, 30]
    assert mesh.vertices[:, 1:].amax(0).tolist() == [22, 32]
    assert (mesh.face_vectors()[:, 0] < 0).all()  # outside is where values are high
    cube = field_surface(
        lambda x: (x - torch.tensor([3.0, 0, 0])).norm(dim=-1) - 1, 20, low=(1.5, -1.5, -1.5), side=3
    )
    assert cube.is_closed() and cube.volume().item() == pytest.approx(4 / 3 * math.pi, rel=0.03)


def test_nothing_and_what_is_not_finite():
    for value in (1.0, -1.0, math.nan):
        mesh = marching_cubes(torch.full((4, 4, 4), value))
        assert mesh.vertices.shape == (0, 3) and mesh.faces.shape == (0, 3)
        assert not mesh.is_closed()
    values = ball(torch.stack(torch.meshgrid(*[torch.linspace(0, 1, 12)] * 3, indexing="ij"), -1))
    values[6, 6, 6], values[5, 5, 1], values[0, 0, 0] = math.nan, -math.inf, math.inf
    mesh = marching_cubes(values)
    assert mesh.is_closed() and mesh.vertices.isfinite().all()


def test_values_on_the_level_keep_it_closed():
    values = torch.randint(-1, 2, (12, 12, 12), generator=torch.Generator().manual_seed(3)).float()
    values[[0, -1]] = values[:, [0, -1]] = values[:, :, [0, -1]] = 1
    mesh = marching_cubes(values)
    assert mesh.is_closed() and (mesh.areas() > 0).all()


def test_what_is_refused():
    with pytest.raises(ValueError, match=r"values must be \[X, Y, Z\] of 2 or more, got \[4, 1, 4\]"):
        marching_cubes(torch.zeros(4, 1, 4))
    with pytest.raises(ValueError, match="resolution must be 1 or more"):
        field_surface(ball, 0)
