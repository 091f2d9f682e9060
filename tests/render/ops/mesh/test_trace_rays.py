"""Rays against triangle meshes: as all pairs say, watertight, both sides, cameras, and what is refused."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from mesh_shapes import SHAPES, icosphere, shape_mesh
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.geometry.lens import fisheye_lens
from luxel.render.mesh.tree import MeshTree
from luxel.render.mesh.triangles import TriangleMesh
from luxel.render.ops.mesh.trace_rays import Hits, trace_camera, trace_rays
from luxel.render.reference.mesh.trace_rays import trace_rays_reference

D = torch.float64


def scattered_rays(mesh: TriangleMesh, n: int, seed: int = 0) -> Tensor:
    """From around the mesh towards its box, of various lengths, some along axes; in double."""
    generator = torch.Generator().manual_seed(seed)
    low, high = mesh.vertices.amin(0).double(), mesh.vertices.amax(0).double()
    origin, target = (
        low + ((1 + 2 * m) * torch.rand(n, 3, generator=generator, dtype=D) - m) * (high - low)
        for m in (1.0, 0.1)
    )
    directions = (target - origin) * (0.2 + 3 * torch.rand(n, 1, generator=generator, dtype=D))
    directions[: n // 10, :2] = 0
    return torch.cat([origin, directions], 1)


def soup(n: int) -> TriangleMesh:
    """Random triangles."""
    generator = torch.Generator().manual_seed(3)
    corners = torch.rand(n, 1, 3, generator=generator, dtype=D) + 0.3 * torch.rand(
        n, 3, 3, generator=generator, dtype=D
    )
    return TriangleMesh(corners.view(-1, 3), torch.arange(3 * n, dtype=torch.int32).view(-1, 3))


def assert_as_reference(hits: Hits, mesh: TriangleMesh, rays: Tensor, tolerance: float) -> None:
    """The same triangles, except where rounding may decide: within ``tolerance`` of an edge or of a second triangle."""
    face, weights, t, front = trace_rays_reference(rays.double(), mesh.vertices.double(), mesh.faces)
    actual = hits.face.cpu().long()
    same = actual == face
    met = same & (face >= 0)
    assert same.double().mean() > 0.995 and met.double().mean() > 0.2
    shares = torch.cat([1 - weights.sum(1, keepdim=True), weights], 1)
    both = ~same & (actual >= 0) & (face >= 0)
    assert ((hits.t.cpu().double() - t)[both].abs() < tolerance).all()  # neighbours at their edge
    lost = ~same & ~both & (face >= 0)
    assert (shares[lost].amin(1) < tolerance).all()
    torch.testing.assert_close(hits.t.cpu().double()[met], t[met], rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(hits.weights.cpu().double()[met], weights[met], rtol=0, atol=300 * tolerance)
    assert torch.equal(hits.front.cpu()[met], front[met])
    none = actual < 0
    assert (
        not hits.t.cpu()[none].any()
        and not hits.weights.cpu()[none].any()
        and not hits.front.cpu()[none].any()
    )


@pytest.mark.parametrize("name", [*SHAPES, "soup"])
def test_it_is_the_reference(precision, name):
    mesh = (soup(300) if name == "soup" else shape_mesh(name, 10, D)).to(precision["dtype"])
    rays = scattered_rays(mesh, 3001).to(precision["dtype"])
    tree = MeshTree.build(mesh, for_rays=True).to(precision["device"])
    hits = trace_rays(rays.to(precision["device"]), tree)
    assert hits.t.dtype == precision["dtype"] and hits.face.device.type == precision["device"].type
    assert_as_reference(hits, mesh, rays, 1e-5 if precision["dtype"] == torch.float32 else 1e-12)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 17])
def test_any_number_of_triangles(device, count):
    mesh = soup(count).to(torch.float32)
    middles = mesh.corners().mean(1)
    rays = torch.cat(
        [middles - torch.tensor([0.1, 0.2, 5.0]), torch.tensor([0.1, 0.2, 5.0]).expand(count, 3)], 1
    )
    hits = trace_rays(rays.to(device), MeshTree.build(mesh).to(device))
    expected = trace_rays_reference(rays.double(), mesh.vertices.double(), mesh.faces)
    assert torch.equal(hits.face.cpu().long(), expected[0]) and (hits.face >= 0).all()


@pytest.mark.parametrize("divisions", [0, 1, 3])
def test_no_ray_slips_through_a_closed_mesh(precision, divisions):
    """Aimed exactly at vertices, at the middles of edges, and at random places on edges."""
    mesh = icosphere(divisions, D)
    assert mesh.is_closed() and mesh.volume() > 0
    tree = MeshTree.build(mesh.to(precision["dtype"]), for_rays=True).to(precision["device"])
    generator = torch.Generator().manual_seed(divisions)
    a, b = mesh.vertices[mesh.edges()[0]].unbind(1)
    for k in range(12):
        share = torch.rand(len(a), 1, generator=generator, dtype=D) if k % 2 else 0.5
        targets = torch.cat([mesh.vertices, a + share * (b - a)])
        # From where the target lies well inside of the outline of the sphere.
        origins = (2 + k) * torch.nn.functional.normalize(targets, dim=1)
        origins += 0.4 * (torch.rand(targets.shape, generator=generator, dtype=D) - 0.5)
        rays = torch.cat([origins, targets - origins], 1).to(precision["dtype"]).to(precision["device"])
        hits = trace_rays(rays, tree)
        assert (hits.face >= 0).all(), f"{int((hits.face < 0).sum())} of {len(rays)} rays slipped through"
        assert hits.front.all() and ((hits.t - 1).abs() < 1e-3).all()


def test_a_sphere_seen_by_a_camera_has_no_pin_holes(device):
    """Every pixel whose ray passes well inside of the sphere meets it; the depth is that along the optical axis."""
    mesh, tree = (icosphere(4), MeshTree.build(icosphere(4), for_rays=True).to(device))
    for eye in ((0.0, 0.0, 3.0), (2.2, -0.4, 0.7)):
        camera = Camera.look_at(eye, (0, 0, 0), (0, 1, 0), width=203, height=151)
        hits = trace_camera(camera.to(device), tree)
        face, t = hits.face.cpu().view(151, 203), hits.t.cpu().view(151, 203)
        fx, fy, cx, cy = camera.intrinsics.tolist()
        x = (torch.arange(203) + 0.5 - cx) / fx
        y = (torch.arange(151) + 0.5 - cy) / fy
        directions = torch.stack([*torch.meshgrid(x, y, indexing="xy"), torch.ones(151, 203)], -1)
        away = math.dist(eye, (0, 0, 0))
        apart = away * directions[..., :2].norm(dim=-1) / directions.norm(dim=-1)
        assert (face[apart < 0.98] >= 0).all() and (face[apart > 1.001] < 0).all()
        square = directions.square().sum(-1)
        z = (away - (away**2 - square * (away**2 - 1)).clamp_min(0).sqrt()) / square
        inside = apart < 0.9
        torch.testing.assert_close(t[inside], z[inside], rtol=0, atol=0.01)  # facets lie inside of the sphere
        rays = torch.cat([camera.position.expand(151, 203, 3), directions @ camera.world_to_cam[:3, :3]], -1)
        listed = trace_rays(rays.view(-1, 6).to(device), tree)
        assert (listed.face.cpu().view(151, 203) == face).double().mean() > 0.999
        near = replace(camera, near=float(t[face >= 0].median()))
        assert int((trace_camera(near.to(device), tree).front.cpu()).sum()) < int((face >= 0).sum())
        far = trace_camera(replace(camera, far=away - 1.1).to(device), tree)
        assert (far.face < 0).all() and len(mesh.faces) == 5120


def test_both_sides_are_met(device):
    mesh = TriangleMesh(torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]]), torch.tensor([[0, 1, 2]]))
    rays = torch.tensor([[0.25, 0.5, 2, 0, 0, -4], [0.25, 0.5, -2, 0, 0, 1], [0.25, 0.5, 2, 0, 0, 1]])
    hits = trace_rays(rays.to(device), MeshTree.build(mesh).to(device))
    assert hits.face.tolist() == [0, 0, -1] and hits.front.tolist() == [True, False, False]
    assert hits.t.tolist() == [0.5, 2.0, 0.0]
    torch.testing.assert_close(hits.weights.cpu(), torch.tensor([[0.25, 0.5], [0.25, 0.5], [0, 0]]))


def test_rays_that_are_not_finite_meet_nothing(device):
    tree = MeshTree.build(icosphere(1)).to(device)
    rays = torch.tensor([[0.0, 0, 3, 0, 0, -1]]).repeat(9, 1)
    rays[1:7].fill_diagonal_(math.nan)
    rays[7, 3:] = 0
    rays[8, 0] = math.inf
    assert (trace_rays(rays.to(device), tree).face >= 0).tolist() == [True] + [False] * 8
    assert len(trace_rays(rays[:0].to(device), tree).face) == 0


@pytest.mark.gpu
def test_the_gpu_does_as_the_cpu(gpu):
    """Hits of an image of a mesh of 80,000 triangles: the same triangles but for ties of rounding."""
    mesh = icosphere(6)
    tree = MeshTree.build(mesh, for_rays=True)
    camera = Camera.look_at((1.4, 0.3, 1.1), (0, 0, 0), width=641, height=479)
    here, there = trace_camera(camera, tree), trace_camera(camera.to(gpu), tree.to(gpu))
    same = here.face == there.face.cpu()
    assert same.double().mean() > 0.999
    torch.testing.assert_close(here.t, there.t.cpu(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(here.weights[same], there.weights.cpu()[same], rtol=0, atol=0.01)
    assert torch.equal(here.front[same], there.front.cpu()[same])


def test_opcheck(device):
    tree = MeshTree.build(icosphere(1)).to(device)
    held = (tree.boxes, tree.triangles, tree.numbers, 0.0, math.inf)
    torch.library.opcheck(
        torch.ops.luxel.trace_rays.default, (torch.rand(20, 6, device=device), None, None, 0, 0, *held)
    )


def test_what_is_refused(device):
    tree = MeshTree.build(icosphere(0)).to(device)
    rays = torch.rand(20, 6, device=device)
    with pytest.raises(ValueError, match=r"rays must be \[20, 6\]"):
        trace_rays(rays[:, :3], tree)
    with pytest.raises(ValueError, match=r"rays must be \[20, 6\] torch.float32"):
        trace_rays(rays.double(), tree)
    with pytest.raises(ValueError, match=r"near and far must be 0 <= near <= far, got 2.0 and 1.0"):
        trace_rays(rays, tree, 2.0, 1.0)
    with pytest.raises(ValueError, match=r"near and far must be .* got nan"):
        trace_rays(rays, tree, math.nan)
    with pytest.raises(ValueError, match=r"tree must be of MeshTree.build"):
        trace_rays(rays, replace(tree, triangles=tree.triangles[:2]))
    half = MeshTree(tree.boxes.half(), tree.triangles.half(), tree.pseudonormals, tree.numbers)
    with pytest.raises(ValueError, match="tree must be float32 or float64"):
        trace_rays(rays, half)
    camera = Camera.look_at((0, 0, 3), (0, 0, 0), (0, 1, 0), width=8, height=6).to(device)
    for wrong in (Camera.stack([camera]), replace(camera, lens=fisheye_lens().to(device))):
        with pytest.raises(ValueError, match="camera must be one pinhole"):
            trace_camera(wrong, tree)
