"""Surfaces of scenes of primitives, as their cameras see them."""

from __future__ import annotations

import math

import pytest
import torch

from luxel.render.camera import Camera
from luxel.render.errors import LuxelError
from luxel.render.mesh.depth_fusion import DepthFusion, FusedSurface
from luxel.render.mesh.triangles import TriangleMesh, components
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.scene_surface import scene_surface, without_small_parts


def shell(count: int, radius: float) -> Gaussians:
    """Flat, opaque, red Gaussians on a sphere."""
    k = torch.arange(count) + 0.5
    z, angle = 1 - 2 * k / count, k * math.pi * (3 - math.sqrt(5))
    flat = (1 - z * z).sqrt()
    normals = torch.stack([flat * angle.cos(), flat * angle.sin(), z], -1)
    # The shortest turn from the z axis to the normal.
    quats = torch.stack([1 + normals[:, 2], -normals[:, 1], normals[:, 0], torch.zeros(count)], -1)
    size = radius * math.sqrt(4 * math.pi / count)
    scales = torch.tensor([size, size, 0.02 * size]).log().expand(count, 3)
    colour = torch.tensor([0.9, 0.2, 0.1])
    sh_dc = ((colour - 0.5) / 0.28209479).expand(count, 3)
    opacity = torch.full((count,), 4.0)
    return Gaussians(
        radius * normals, quats, scales.contiguous(), opacity, sh_dc.contiguous(), torch.zeros(count, 0, 3)
    )


def ring(count: int, side: int) -> list[Camera]:
    cameras = []
    for k in range(count):
        z, angle = 1 - (2 * k + 1) / count, k * math.pi * (3 - math.sqrt(5))
        flat = math.sqrt(1 - z * z)
        eye = (6 * flat * math.cos(angle), 6 * flat * math.sin(angle), 6 * z)
        cameras.append(Camera.look_at(eye, (0, 0, 0), fov_y=math.radians(45), width=side, height=side))
    return cameras


def test_a_shell_of_gaussians_becomes_a_closed_sphere() -> None:
    said: list[str] = []
    stages: list[tuple[str, float]] = []
    mesh, colours = scene_surface(
        shell(1500, 2.0), ring(24, 96), 40, say=said.append, on_progress=lambda *now: stages.append(now)
    )
    size = 2 * math.sqrt(4 * math.pi / 1500)  # depth is that of the centres of Gaussians of this size
    radii = mesh.vertices.norm(dim=1)
    assert mesh.is_closed() and (radii - 2).abs().mean() < 0.5 * size
    assert (radii - 2).abs().max() < size
    assert float(mesh.volume()) == pytest.approx(4 / 3 * math.pi * 8, rel=0.15)
    assert (colours - torch.tensor([0.9, 0.2, 0.1])).abs().mean() < 0.05
    assert "blocks" in said[0] and stages[-1] == ("fusing depth", 1.0)


def test_parts_that_hang_apart_are_left_out() -> None:
    scene = shell(1500, 2.0)
    stray = shell(12, 0.1).map(torch.clone)
    stray.means = stray.means + torch.tensor([0.0, 0.0, 2.6])
    both = Gaussians(**{name: torch.cat([t, stray.tensors()[name]]) for name, t in scene.tensors().items()})
    kept = scene_surface(both, ring(24, 96), 48, least_part=0.0).mesh
    cleaned = scene_surface(both, ring(24, 96), 48, least_part=0.1).mesh
    assert len(components(kept).unique()) > len(components(cleaned).unique()) == 1
    assert float(cleaned.vertices[:, 2].max()) < 2.3 < float(kept.vertices[:, 2].max())


def test_components_are_what_edges_connect() -> None:
    faces = torch.tensor([[5, 1, 3], [3, 1, 0], [2, 4, 6]], dtype=torch.int32)
    mesh = TriangleMesh(torch.zeros(8, 3), faces)
    assert components(mesh).tolist() == [0, 0, 2, 0, 2, 0, 2, 7]
    chain = torch.arange(300).unfold(0, 3, 1).flip(0).to(torch.int32)
    assert components(TriangleMesh(torch.zeros(300, 3), chain)).unique().tolist() == [0]
    small = without_small_parts(FusedSurface(mesh, torch.arange(24.0).view(8, 3)), 0.9)
    assert len(small.mesh.faces) == 2 and small.colours[:, 0].tolist() == [0, 3, 9, 15]


def test_what_cannot_be_a_mesh_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = shell(200, 2.0)
    with pytest.raises(LuxelError, match="no cameras"):
        scene_surface(scene, [])
    away = [Camera.look_at((0, 0, 9), (0, 0, 20), up=(0, 1, 0), width=32, height=32)]
    with pytest.raises(LuxelError, match="see no surface"):
        scene_surface(scene, away)
    pixel = [Camera.look_at((0, 0, 6), (0, 0, 0), up=(0, 1, 0), width=1, height=1)]
    with pytest.raises(LuxelError, match="see a single point"):
        scene_surface(scene, pixel)
    with monkeypatch.context() as patch:
        patch.setattr(DepthFusion, "add", lambda *arguments: None)  # nothing is ever fused
        with pytest.raises(LuxelError, match="see no surface"):
            scene_surface(scene, ring(4, 32), 32)
    monkeypatch.setattr("luxel.render.scene_surface.free_memory", lambda device: 1000)
    with pytest.raises(LuxelError, match="more than there is memory"):
        scene_surface(scene, ring(4, 32), 32)
