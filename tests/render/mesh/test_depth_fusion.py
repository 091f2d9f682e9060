"""Surfaces fused from depth maps of exact shapes."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.mesh import depth_fusion as fusion_module
from luxel.render.mesh.depth_fusion import DepthFusion, FusedSurface

RADIUS = 1.0


def sphere_depth(camera: Camera) -> tuple[Tensor, Tensor]:
    """Depth along z of a sphere at the origin [H, W], 0 beside it, and colours by the position, [H, W, 3]."""
    columns, rows = torch.meshgrid(
        torch.arange(camera.width) + 0.5, torch.arange(camera.height) + 0.5, indexing="xy"
    )
    fx, fy, cx, cy = camera.intrinsics.tolist()
    rays = torch.stack([(columns - cx) / fx, (rows - cy) / fy, torch.ones_like(rows)], -1)
    rays = rays.double() @ camera.world_to_cam[:3, :3].double()
    eye = camera.position.double()
    a, b, c = rays.square().sum(-1), (rays * eye).sum(-1), eye.square().sum() - RADIUS**2
    root = (b * b - a * c).clamp_min(0).sqrt()
    depth = torch.where(b * b > a * c, (-b - root) / a, 0)
    points = eye + depth[..., None] * rays
    return depth.float(), (0.5 + 0.5 * points).clamp(0, 1).float()


def around(count: int, side: int = 160) -> list[Camera]:
    """Cameras on a sphere of radius 3 that look at the origin."""
    cameras = []
    for k in range(count):
        z = 1 - (2 * k + 1) / count
        angle = k * math.pi * (3 - math.sqrt(5))
        flat = math.sqrt(1 - z * z)
        eye = 3 * flat * math.cos(angle), 3 * flat * math.sin(angle), 3 * z
        cameras.append(Camera.look_at(eye, (0, 0, 0), fov_y=math.radians(45), width=side, height=side))
    return cameras


def fused(cameras: list[Camera], resolution: int, device: torch.device | str = "cpu") -> FusedSurface:
    fusion = DepthFusion(torch.full((3,), -1.25), 2.5, resolution, torch.device(device))
    maps = [(*sphere_depth(camera), camera) for camera in cameras]
    for depth, _, camera in maps:
        fusion.reserve(depth.to(device), camera.to(device))
    assert 0 < fusion.blocks < (resolution / 8 + 2) ** 3
    for depth, rgb, camera in maps:
        fusion.add(depth.to(device), rgb.to(device), camera.to(device))
    return fusion.surface()


@pytest.mark.parametrize("resolution", [40, 64])
def test_a_sphere_seen_from_all_sides_is_closed_and_where_it_should_be(resolution: int) -> None:
    mesh, colours = fused(around(40), resolution)
    spacing = 2.5 / resolution
    assert mesh.is_closed()
    off = mesh.vertices.norm(dim=1) - RADIUS
    assert off.abs().mean() < 0.1 * spacing and off.abs().max() < 0.5 * spacing
    assert float(mesh.volume()) == pytest.approx(4 / 3 * math.pi, rel=0.01)
    expected = (0.5 + 0.5 * mesh.vertices / RADIUS).clamp(0, 1)
    assert (colours - expected).abs().mean() < 0.02


def test_a_finer_grid_is_nearer() -> None:
    errors = [
        float((fused(around(30), resolution).mesh.vertices.norm(dim=1) - RADIUS).abs().mean())
        for resolution in (24, 48)
    ]
    assert errors[1] < 0.6 * errors[0]


def test_what_no_map_shows_has_no_surface() -> None:
    half = [camera for camera in around(40) if camera.position[2] > 1]
    mesh, _ = fused(half, 48)
    assert not mesh.is_closed() and float(mesh.vertices[:, 2].min()) > -0.6
    fusion = DepthFusion(torch.full((3,), -1.25), 2.5, 16, torch.device("cpu"))
    empty = fusion.surface()
    assert not len(empty.mesh.faces) and not len(empty.mesh.vertices) and not len(empty.colours)
    fusion.reserve(torch.zeros(20, 20), around(1, 20)[0])
    assert fusion.blocks == 0 and not len(fusion.surface().mesh.faces)


def test_points_that_few_maps_saw_can_be_left_out() -> None:
    cameras = around(40)
    fusion = DepthFusion(torch.full((3,), -1.25), 2.5, 32, torch.device("cpu"))
    for camera in cameras[:1]:
        fusion.reserve(sphere_depth(camera)[0], camera)
    for camera in cameras[:1]:
        fusion.add(*sphere_depth(camera), camera)
    assert len(fusion.surface().mesh.faces) > 100 and not len(fusion.surface(1.5).mesh.faces)


def test_what_leaks_through_a_surface_in_single_maps_is_no_surface() -> None:
    """Each map has a gap of its own, where it shows what would be inside of the sphere."""
    cameras, maps = around(60, 80), []
    fusion = DepthFusion(torch.full((3,), -1.25), 2.5, 40, torch.device("cpu"))
    for k, camera in enumerate(cameras):
        depth, rgb = sphere_depth(camera)
        middle = slice(36 + k % 4, 41 + k % 4)
        depth[middle, middle] += 0.6
        maps.append((depth, rgb, camera))
        fusion.reserve(depth, camera)
    for one in maps:
        fusion.add(*one)
    mesh = fusion.surface().mesh
    off = mesh.vertices.norm(dim=1) - RADIUS
    assert mesh.is_closed() and off.abs().max() < 2.5 / 40
    fusion._hidden.zero_()
    assert (fusion.surface().mesh.vertices.norm(dim=1) < 0.7 * RADIUS).any()


def test_a_far_surface_behind_a_near_one_does_not_pull_it() -> None:
    # A plane at 2 before one at 3: across the edge, depth is not interpolated.
    camera = Camera.look_at((0, 0, -2), (0, 0, 0), up=(0, -1, 0), width=64, height=64)
    depth = torch.full((64, 64), 2.0)
    depth[:, 32:] = 3.0
    fusion = DepthFusion(torch.tensor([-2.0, -2.0, -0.5]), 4.0, 64, torch.device("cpu"))
    fusion.reserve(depth, camera)
    fusion.add(depth, torch.zeros(64, 64, 3), camera)
    mesh, _ = fusion.surface()
    z = mesh.vertices[:, 2]
    near = torch.minimum((z - 0).abs(), (z - 1).abs())
    assert near.max() < 0.01


def test_a_box_without_size_is_refused() -> None:
    with pytest.raises(ValueError, match="side above 0"):
        DepthFusion(torch.zeros(3), 0.0, 8, torch.device("cpu"))


@pytest.mark.parametrize("chunk", [1 << 12, 7])
def test_blocks_outside_of_an_image_are_left_out_with_equal_results(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Cameras close by, each of which sees a part, off the centre and near the edge of its image.
    near = []
    for camera in around(10, 64):
        pose = camera.world_to_cam.clone()
        pose[2, 3] -= 1.6
        near.append(replace(camera, world_to_cam=pose, intrinsics=torch.tensor([90.0, 70.0, 9.0, 50.0])))
    worked: list[int] = []
    plain = DepthFusion._in_view

    def counted(self: DepthFusion, centres: Tensor, camera: Camera) -> list:
        parts = plain(self, centres, camera)
        worked.append(sum(len(centres[part]) for part in parts))
        return parts

    monkeypatch.setattr(fusion_module, "CHUNK", {"cpu": chunk})
    surfaces = []
    for in_view in (counted, lambda self, centres, camera: [slice(None)]):
        monkeypatch.setattr(DepthFusion, "_in_view", in_view)
        surfaces.append(fused(near, 40))
    blocks = [n for n in worked if n]
    assert min(blocks) < 0.7 * max(blocks), "some blocks were left out"
    assert torch.equal(surfaces[0].mesh.vertices, surfaces[1].mesh.vertices)
    assert torch.equal(surfaces[0].mesh.faces, surfaces[1].mesh.faces)
    assert torch.equal(surfaces[0].colours, surfaces[1].colours)
    assert len(surfaces[0].mesh.faces) > 500


@pytest.mark.gpu
def test_a_gpu_gives_the_same_surface(gpu: torch.device) -> None:
    on_gpu, on_cpu = fused(around(12), 40, gpu), fused(around(12), 40)
    assert abs(len(on_gpu.mesh.faces) - len(on_cpu.mesh.faces)) < 0.01 * len(on_cpu.mesh.faces)
    off = [(surface.mesh.vertices.norm(dim=1) - RADIUS).abs().mean().item() for surface in (on_gpu, on_cpu)]
    assert off[0] == pytest.approx(off[1], rel=0.02)
