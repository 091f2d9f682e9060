"""Distances to triangle meshes: against all pairs at once, known shapes, open meshes, and what is refused."""

from __future__ import annotations

import math

import pytest
import torch
from mesh_shapes import SHAPES, shape_mesh, wedge
from torch import Tensor

from luxel.render.mesh.tree import MeshTree
from luxel.render.mesh.triangles import SurfaceSampler, TriangleMesh, pseudonormals, without_degenerate
from luxel.render.ops.mesh.mesh_distance import Sign, mesh_distance, nearest_on_mesh
from luxel.render.reference.mesh.mesh_distance import mesh_distance_reference

D = torch.float64


def scattered(mesh: TriangleMesh, n: int, seed: int = 0) -> Tensor:
    """Points around the mesh's box, on its surface, and near it; in double."""
    generator = torch.Generator().manual_seed(seed)
    low, high = mesh.vertices.amin(0).double(), mesh.vertices.amax(0).double()
    box = low + (1.6 * torch.rand(n, 3, generator=generator, dtype=D) - 0.3) * (high - low)
    on = SurfaceSampler(mesh.to(D)).draw(n, generator)
    near = on + 0.03 * (high - low).norm() * torch.randn(n, 3, generator=generator, dtype=D)
    return torch.cat([box, on, near])


def soup(n: int, seed: int = 0) -> TriangleMesh:
    """Random triangles, most of which cut others."""
    generator = torch.Generator().manual_seed(seed)
    corners = torch.rand(n, 1, 3, generator=generator) + 0.2 * torch.rand(n, 3, 3, generator=generator)
    return TriangleMesh(corners.view(-1, 3), torch.arange(3 * n, dtype=torch.int32).view(-1, 3))


@pytest.mark.parametrize("name", [*SHAPES, "wedge"])
@pytest.mark.parametrize("sign", ["pseudonormal", "parity", pytest.param("none", marks=pytest.mark.slow)])
def test_it_is_the_reference(precision, name, sign: Sign):
    mesh = wedge() if name == "wedge" else shape_mesh(name, 10, D)
    mesh = mesh.to(precision["dtype"])
    points = scattered(mesh, 400).to(precision["dtype"])
    expected, _ = mesh_distance_reference(points.double(), mesh.vertices.double(), mesh.faces, sign != "none")
    tree = MeshTree.build(mesh).to(precision["device"])
    actual, nearest = nearest_on_mesh(points.to(precision["device"]), tree, sign)
    assert actual.dtype == precision["dtype"] and actual.device.type == precision["device"].type
    actual, nearest = actual.cpu().double(), nearest.cpu().double()
    tolerance = 1e-6 if precision["dtype"] == torch.float32 else 1e-13
    torch.testing.assert_close(actual.abs(), expected.abs(), rtol=0, atol=tolerance)
    clear = expected.abs() > 10 * tolerance
    assert torch.equal(actual[clear] < 0, expected[clear] < 0)
    away = (points.double() - nearest).norm(dim=1)
    torch.testing.assert_close(away, actual.abs(), rtol=0, atol=tolerance)


def test_boxes_may_lie_anywhere(device):
    """The kernels read them four numbers at a time."""
    mesh = soup(50)
    tree = MeshTree.build(mesh.to(device))
    held = (tree.boxes, tree.triangles, tree.pseudonormals)
    assert all(t.storage_offset() == 0 and t.data_ptr() % 16 == 0 for t in held)
    points = scattered(mesh, 100).float().to(device)
    room = torch.cat([tree.boxes.new_zeros(6), tree.boxes.flatten()])
    odd = MeshTree(room[6:].view(tree.boxes.shape), tree.triangles, tree.pseudonormals, tree.numbers)
    assert odd.boxes.data_ptr() % 16 and odd.boxes.is_contiguous()
    assert torch.equal(mesh_distance(points, odd, "none"), mesh_distance(points, tree, "none"))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 17, 300])
def test_any_number_of_triangles(device, count):
    mesh = soup(count)
    points = scattered(mesh, 100).float()
    expected, _ = mesh_distance_reference(points.double(), mesh.vertices.double(), mesh.faces, signed=False)
    actual = mesh_distance(points.to(device), MeshTree.build(mesh).to(device), "none")
    torch.testing.assert_close(actual.cpu().double(), expected, rtol=0, atol=1e-6)


def test_the_tree_is_the_same_on_every_device(device):
    mesh = shape_mesh("ring", 12)
    here, there = MeshTree.build(mesh), MeshTree.build(mesh.to(device))
    assert torch.equal(here.boxes, there.boxes.cpu())
    torch.testing.assert_close(here.triangles, there.triangles.cpu(), rtol=0, atol=0, equal_nan=True)
    slots = here.triangles[~here.triangles.isnan().any(-1).any(-1)]
    assert len(slots) == len(mesh.faces)  # each once
    inner = len(here.boxes)
    for node in range(1, inner):
        parent = here.boxes[(node - 1) // 2, (node - 1) % 2]
        assert (here.boxes[node, :, :3] >= parent[:3]).all() and (here.boxes[node, :, 3:] <= parent[3:]).all()


def test_parity_of_a_mesh_with_a_hole(device):
    mesh = shape_mesh("ball", 16)
    middle = mesh.corners().mean(1)
    open_mesh = TriangleMesh(mesh.vertices, mesh.faces[middle[:, 2] < 0.82])
    assert mesh.is_closed() and not open_mesh.is_closed()
    points = torch.rand(2000, 3, generator=torch.Generator().manual_seed(1))
    radius = (points - 0.5).norm(dim=1)
    points = points[((radius < 0.28) | (radius > 0.4)) & (points[:, 2] < 0.7)]
    tree = MeshTree.build(open_mesh).to(device)
    actual = mesh_distance(points.to(device), tree, "parity").cpu() < 0
    assert (actual == ((points - 0.5).norm(dim=1) < 0.3)).double().mean() > 0.99


def test_points_that_are_not_finite(device):
    tree = MeshTree.build(shape_mesh("ball", 8)).to(device)
    points = torch.tensor(
        [[0.5, 0.5, 0.5], [math.nan, 0, 0], [0, math.inf, 0], [0, 0, -math.inf], [1e30, 0, 0]]
    )
    for sign in ("pseudonormal", "parity"):
        actual, nearest = nearest_on_mesh(points.to(device), tree, sign)
        assert actual.isfinite().tolist()[:4] == [True, False, False, False]
        assert nearest.isnan().all(1).tolist()[:4] == [False, True, True, True]
    assert mesh_distance(points[:0].to(device), tree).shape == (0,)


def test_degenerate_triangles_change_nothing():
    mesh = shape_mesh("ring", 10, D)
    a, b = mesh.faces[:40, :2].unbind(1)
    slivers = torch.cat([torch.stack([a, b, a], 1), torch.stack([a, a, a], 1)])
    worse = TriangleMesh(mesh.vertices, torch.cat([mesh.faces, slivers]))
    assert torch.equal(without_degenerate(worse).corners(), without_degenerate(mesh).corners())
    points = scattered(mesh, 200)
    expected = mesh_distance(points, MeshTree.build(mesh))
    torch.testing.assert_close(mesh_distance(points, MeshTree.build(worse)), expected, rtol=0, atol=1e-14)


def test_pseudonormals_by_hand():
    """A cube's: of a corner along the diagonal, whatever the triangles; of an edge between its faces."""
    vertices = torch.tensor([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], dtype=D)
    faces = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]
    triangles = torch.tensor([t for a, b, c, d in faces for t in ([a, b, c], [a, c, d])], dtype=torch.int32)
    cube = TriangleMesh(vertices, triangles)
    assert cube.is_closed() and cube.volume() == pytest.approx(1)
    normals = pseudonormals(cube)
    outward = torch.nn.functional.normalize(vertices - 0.5, dim=-1)
    torch.testing.assert_close(normals[:, 4:], outward[triangles.long()])
    assert (normals[:, :1] * normals[:, 1:4]).sum(-1).amin() == pytest.approx(math.sqrt(0.5))


def test_area_volume_and_points_of_a_ring():
    mesh = shape_mesh("ring", 48, D)
    assert mesh.is_closed()
    assert mesh.volume().item() == pytest.approx(2 * math.pi**2 * 0.3 * 0.01, rel=0.01)
    assert mesh.areas().sum().item() == pytest.approx(4 * math.pi**2 * 0.3 * 0.1, rel=0.01)
    generator = torch.Generator().manual_seed(0)
    points = SurfaceSampler(mesh).draw(50_000, generator)
    assert SHAPES["ring"](points).abs().max() < 2e-3  # triangles cut corners
    # The outer half has more than half of the area: pi r (pi R + 2 r) of 4 pi^2 R r, twice.
    outer = ((points[:, :2] - 0.5).norm(dim=1) > 0.3).double().mean().item()
    assert outer == pytest.approx(0.5 + 0.1 / (0.3 * math.pi), abs=0.01)
    assert (mesh.vertex_normals() * (mesh.vertices - 0.5)).sum(1).mean() > 0
    assert mesh.flipped().volume().item() == pytest.approx(-mesh.volume().item(), rel=1e-12)


def test_opcheck(device):
    tree = MeshTree.build(shape_mesh("ball", 6)).to(device)
    given = torch.rand(20, 3, device=device), tree.boxes, tree.triangles, tree.pseudonormals
    for sign, nearest in ((0, False), (1, True), (2, True)):
        torch.library.opcheck(torch.ops.luxel.mesh_distance.default, (*given, sign, nearest))


def test_what_is_refused(device):
    tree = MeshTree.build(shape_mesh("ball", 6)).to(device)
    points = torch.rand(20, 3, device=device)
    with pytest.raises(ValueError, match=r"points must be \[20, 3\]"):
        mesh_distance(points[:, :2], tree)
    with pytest.raises(ValueError, match=r"points must be \[N, 3\], got \[20, 3, 1\]"):
        mesh_distance(points[..., None], tree)
    with pytest.raises(ValueError, match="sign must be 0 to 2, got 3"):
        torch.ops.luxel.mesh_distance(points, tree.boxes, tree.triangles, tree.pseudonormals, 3, False)
    with pytest.raises(ValueError, match="points must be float32 or float64"):
        mesh_distance(points.half(), tree)
    with pytest.raises(ValueError, match=r"sign must be one of .* got 'winding'"):
        mesh_distance(points, tree, "winding")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"tree must be of MeshTree.build"):
        mesh_distance(points, MeshTree(tree.boxes, tree.triangles[:2], tree.pseudonormals, tree.numbers))
    with pytest.raises(ValueError, match="mesh must have triangles"):
        MeshTree.build(TriangleMesh(torch.zeros(3, 3), torch.zeros(0, 3, dtype=torch.int32)))
    with pytest.raises(ValueError, match="mesh must have an area above 0"):
        SurfaceSampler(TriangleMesh(torch.zeros(3, 3), torch.tensor([[0, 1, 2]])))
