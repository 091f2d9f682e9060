"""Closing of holes: small openings are closed, large ones stay."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from luxel.render.mesh import holes
from luxel.render.mesh.depth_fusion import FusedSurface
from luxel.render.mesh.holes import boundary_loops, fill_holes
from luxel.render.mesh.triangles import TriangleMesh, merged


def globe(rings: int = 16, sides: int = 24) -> TriangleMesh:
    """A closed sphere of radius 1 whose corners run anticlockwise seen from outside."""
    places, rows = [], []
    for i in range(rings + 1):
        polar = math.pi * i / rings
        for j in range(sides):
            angle = 2 * math.pi * j / sides
            places.append(
                (math.sin(polar) * math.cos(angle), math.sin(polar) * math.sin(angle), math.cos(polar))
            )
    for i in range(rings):
        for j in range(sides):
            a, b = i * sides + j, i * sides + (j + 1) % sides
            c, d = a + sides, b + sides
            rows += [(a, c, b), (b, c, d)]
    mesh = merged(TriangleMesh(torch.tensor(places).double().round(decimals=9), torch.tensor(rows)))
    faces = mesh.faces
    proper = (faces != faces.roll(1, 1)).all(1)
    return TriangleMesh(mesh.vertices, faces[proper])


def coloured(mesh: TriangleMesh) -> FusedSurface:
    return FusedSurface(mesh, (0.5 + 0.5 * mesh.vertices).float())


def without(mesh: TriangleMesh, cut: torch.Tensor) -> TriangleMesh:
    return TriangleMesh(mesh.vertices, mesh.faces[~cut])


@pytest.mark.parametrize("polygon", [holes.LONGEST_POLYGON, 3])
def test_a_sphere_with_holes_becomes_closed(polygon: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holes, "LONGEST_POLYGON", polygon)
    whole = globe()
    centres = whole.corners().mean(1)
    open_mesh = without(whole, (centres[:, 2] > 0.9) | (centres[:, 0] < -0.95))
    assert whole.is_closed() and not open_mesh.is_closed() and len(boundary_loops(open_mesh)) == 2
    filled, closed, left = fill_holes(coloured(open_mesh), 10.0)
    assert (closed, left) == (2, 0) and filled.mesh.is_closed()
    assert filled.mesh.faces.dtype == open_mesh.faces.dtype
    assert 0.9 * float(whole.volume()) < float(filled.mesh.volume()) < float(whole.volume())
    assert len(filled.colours) == len(filled.mesh.vertices)
    assert (filled.mesh.vertices.norm(dim=1) < 1 + 1e-6).all()
    added = len(filled.mesh.vertices) - len(open_mesh.vertices)
    assert added == (2 if polygon == 3 else 0)
    if added:  # the centre of the upper hole has the mean of the colours around it
        top = filled.mesh.vertices[-2:, 2].argmax() + len(open_mesh.vertices)
        ring = open_mesh.vertices[
            max(boundary_loops(open_mesh), key=lambda r: open_mesh.vertices[r, 2].sum())
        ]
        assert torch.allclose(filled.colours[top], (0.5 + 0.5 * ring.mean(0)).float(), atol=1e-5)


def test_an_open_floor_stays_open() -> None:
    side = torch.arange(9.0)
    places = torch.cartesian_prod(side, side, torch.zeros(1)).double()
    corners = (torch.arange(8)[:, None] * 9 + torch.arange(8)).flatten()
    faces = torch.cat(
        [
            torch.stack([corners, corners + 9, corners + 1], 1),
            torch.stack([corners + 1, corners + 9, corners + 10], 1),
        ]
    )
    floor = TriangleMesh(places, faces)
    (around,) = boundary_loops(floor)
    assert len(around) == 32
    kept = fill_holes(coloured(floor), 31.9)
    assert (kept.closed, kept.left) == (0, 1) and kept.surface.mesh.faces is floor.faces
    pierced = without(floor, (floor.corners().mean(1)[:, :2] - 4.4).norm(dim=1) < 0.8)
    filled, closed, left = fill_holes(coloured(pierced), 10.0)
    assert (closed, left) == (1, 1) and len(boundary_loops(filled.mesh)) == 1
    # The floor has the area and the direction it had.
    assert torch.allclose(filled.mesh.face_vectors().sum(0), floor.face_vectors().sum(0))
    assert (filled.mesh.face_vectors()[:, 2] >= -1e-9).all()


def test_openings_that_touch_are_rings_of_their_own() -> None:
    whole = globe()
    order = whole.vertices[:, 0].argsort()
    vertex = int(order[len(order) // 2])
    around = (whole.faces == vertex).any(1).nonzero()[:, 0]
    other = [int(v) for v in whole.faces[around[0]] if int(v) != vertex]
    opposite = next(f for f in around.tolist() if not set(whole.faces[f].tolist()) & set(other))
    cut = torch.zeros(len(whole.faces), dtype=torch.bool)
    cut[[int(around[0]), opposite]] = True
    open_mesh = without(whole, cut)
    assert sorted(map(len, boundary_loops(open_mesh))) == [3, 3]
    filled, closed, _ = fill_holes(coloured(open_mesh), 10.0)
    assert closed == 2 and filled.mesh.is_closed()


def test_new_sides_are_not_sides_of_the_mesh() -> None:
    # A ring of four whose one diagonal is a side beyond it: the fill takes the other, or a centre.
    places = torch.tensor([[0, 0, 0], [1, 0, 0], [1, 1, 0.2], [0, 1, 0], [0.5, 0.5, -1]]).double()
    walls = [(1, 0, 4), (2, 1, 4), (3, 2, 4), (0, 3, 4)]
    flap = [(0, 2, 4), (2, 0, 4)]
    mesh = TriangleMesh(places, torch.tensor([*walls, *flap]))
    filled, closed, _ = fill_holes(coloured(mesh), 10.0)
    new = filled.mesh.faces[len(mesh.faces) :]
    pairs = {tuple(sorted((int(a), int(b)))) for t in new for a, b in zip(t, t.roll(1), strict=True)}
    assert closed == 1 and (1, 3) in pairs and (0, 2) not in pairs


def test_a_polygon_whose_diagonals_are_all_taken_gets_a_centre() -> None:
    ring = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], float)
    blocked = np.zeros((4, 4), bool)
    assert holes._smallest_area(ring, blocked) is not None
    blocked[0, 2] = blocked[1, 3] = True
    assert holes._smallest_area(ring, blocked) is None
