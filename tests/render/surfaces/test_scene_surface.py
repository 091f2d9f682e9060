"""Surfaces of scenes of primitives, as their cameras see them."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from importlib.util import find_spec

import pytest
import torch

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera
from luxel.render.geometry.lens import fisheye_lens
from luxel.render.mesh.depth_fusion import DepthFusion, FusedSurface
from luxel.render.mesh.triangles import TriangleMesh, components
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.surfaces import scene_surface as surface_module
from luxel.render.surfaces.scene_surface import (
    Finish,
    SceneViews,
    finished_surface,
    scene_surface,
    without_small_parts,
)


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
    exact = scene_surface(shell(1500, 2.0), ring(24, 96), 40, exact=True).mesh
    off = exact.vertices.norm(dim=1) - 2
    assert exact.is_closed() and 2 * off.abs().mean() < (radii - 2).abs().mean()
    assert float(exact.volume()) == pytest.approx(4 / 3 * math.pi * 8, rel=0.05)
    assert (colours - torch.tensor([0.9, 0.2, 0.1])).abs().mean() < 0.05
    assert "blocks" in said[0] and stages[-1] == ("fusing depth", 1.0)


def test_parts_that_hang_apart_are_left_out() -> None:
    scene = shell(1500, 2.0)
    stray = shell(12, 0.1).map(torch.clone)
    stray.means = stray.means + torch.tensor([0.0, 0.0, 2.6])
    both = Gaussians(**{name: torch.cat([t, stray.tensors()[name]]) for name, t in scene.tensors().items()})
    kept = scene_surface(both, ring(24, 96), 48, min_part=0.0).mesh
    cleaned = scene_surface(both, ring(24, 96), 48, min_part=0.1).mesh
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
    monkeypatch.setattr("luxel.render.surfaces.scene_surface.free_memory", lambda device: 1000)
    with pytest.raises(LuxelError, match="more than there is memory"):
        scene_surface(scene, ring(4, 32), 32)


def test_renders_are_kept_where_memory_allows_with_equal_results(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, cameras = shell(400, 2.0), ring(6, 48)
    rendered: list[int] = []
    plain = surface_module.surface_depth

    def counted(*arguments, **options):
        rendered.append(1)
        return plain(*arguments, **options)

    monkeypatch.setattr(surface_module, "surface_depth", counted)
    surfaces, renders = [], []
    for share in (surface_module.CACHE_SHARE, 0.0):
        monkeypatch.setattr(surface_module, "CACHE_SHARE", share)
        rendered.clear()
        surfaces.append(scene_surface(scene, cameras, 32))
        renders.append(len(rendered))
    assert renders == [len(cameras), 3 * len(cameras)]
    (kept, colours), (again, again_colours) = surfaces
    assert torch.equal(kept.vertices, again.vertices) and torch.equal(kept.faces, again.faces)
    assert torch.equal(colours, again_colours)


def test_kept_renders_are_forgotten_before_the_grid_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, cameras = shell(400, 2.0), ring(6, 48)
    asked: list[bool] = []
    forgotten: list[bool] = []
    forget = SceneViews.forget

    def noted(self: SceneViews) -> None:
        forgotten.append(True)
        forget(self)

    monkeypatch.setattr(SceneViews, "forget", noted)

    def free(device: torch.device) -> int:
        asked.append(True)
        return 1 if len(asked) == 2 else 1 << 40  # first the renders, then the grid

    monkeypatch.setattr(surface_module, "free_memory", free)
    assert len(scene_surface(scene, cameras, 32).mesh.faces) and forgotten == [True] and len(asked) == 3


def test_a_lens_is_left_out_of_the_cameras() -> None:
    scene, cameras = shell(400, 2.0), ring(6, 48)
    bent = [replace(camera, lens=fisheye_lens([0.1])) for camera in cameras]
    plain, other = scene_surface(scene, cameras, 24), scene_surface(scene, bent, 24)
    assert torch.equal(plain.mesh.vertices, other.mesh.vertices)


@pytest.mark.skipif(
    find_spec("xatlas") is None or find_spec("fast_simplification") is None,
    reason="luxel[mesh] is not installed: textures of scenes were not tested",
)
def test_a_finish_closes_holes_decimates_and_textures() -> None:
    scene, cameras = shell(1500, 2.0), ring(24, 96)
    bald = scene.means[:, 2] < 1.9  # a hole at the top
    scene = scene.select(bald)
    above = [camera for camera in cameras if camera.position[2] > -2]
    said: list[str] = []
    stages: list[str] = []
    made = finished_surface(
        scene,
        above,
        40,
        Finish(fill_holes=1.0, triangles=500, texture=128),
        say=said.append,
        on_progress=lambda stage, share: stages.append(stage),
    )
    assert any("closed" in line for line in said) and any("texels are used" in line for line in said)
    assert {"closing holes", "decimating", "unwrapping", "baking the texture"} <= set(stages)
    assert 300 < len(made.mesh.faces) <= 500
    assert made.uv is not None and made.image is not None and len(made.uv) == len(made.colours)
    assert made.image.shape == (128, 128, 3)
    assert (made.image.mean((0, 1)) - torch.tensor([0.9, 0.2, 0.1])).abs().max() < 0.1
    untouched = finished_surface(scene, above, 40)
    assert untouched.uv is None and untouched.image is None and len(untouched.mesh.faces) > 1000


@pytest.mark.parametrize("module", ["fast_simplification", "xatlas"])
def test_a_missing_package_is_said_before_the_work(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(
        surface_module, "surface_depth", lambda *_, **__: pytest.fail("something was rendered")
    )
    finish = Finish(triangles=10) if module == "fast_simplification" else Finish(texture=64)
    with pytest.raises(LuxelError, match=r"which is not installed\. Install it with: pip install"):
        finished_surface(shell(20, 2.0), ring(2, 16), 16, finish)


def test_a_texture_larger_than_the_memory_is_refused_before_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xatlas", sys)
    monkeypatch.setattr(surface_module, "free_memory", lambda device: 1 << 30)
    with pytest.raises(LuxelError, match=r"16384 x 16384 pixels needs 24\.0 GiB.*Give fewer pixels"):
        finished_surface(shell(20, 2.0), ring(2, 16), 16, Finish(texture=16384))


def test_a_scene_that_is_nearly_transparent_has_no_surface() -> None:
    faint = shell(200, 2.0)
    faint.opacity_logits = torch.full_like(faint.opacity_logits, -6.0)
    with pytest.raises(LuxelError, match="see no surface"):
        scene_surface(faint, ring(4, 32), 16)
