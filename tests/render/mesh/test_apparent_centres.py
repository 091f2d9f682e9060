"""Points on which images of primitives agree, and the depth that is corrected by them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from luxel.render.apparent_centres import apparent_centres, depth_shift
from luxel.render.camera import Camera
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.primitives.surfels import Surfels
from luxel.render.surface_depth import ray_depth, surface_depth


def around(count: int, side: int = 96) -> list[Camera]:
    """Cameras on a sphere of radius 4 that look at the origin."""
    cameras = []
    for k in range(count):
        z, angle = 1 - (2 * k + 1) / count, k * math.pi * (3 - math.sqrt(5))
        flat = math.sqrt(1 - z * z)
        eye = (4 * flat * math.cos(angle), 4 * flat * math.sin(angle), 4 * z)
        cameras.append(Camera.look_at(eye, (0, 0, 0), fov_y=math.radians(40), width=side, height=side))
    return cameras


def sphere(count: int, size: float, thickness: float = 0.1) -> Gaussians:
    """Flat opaque Gaussians evenly on the unit sphere."""
    k = torch.arange(count) + 0.5
    z, angle = 1 - 2 * k / count, k * math.pi * (3 - math.sqrt(5))
    flat = (1 - z * z).sqrt()
    normals = torch.stack([flat * angle.cos(), flat * angle.sin(), z], -1)
    quats = torch.stack([1 + normals[:, 2], -normals[:, 1], normals[:, 0], torch.zeros(count)], -1)
    scales = torch.tensor([size, size, thickness * size]).log().repeat(count, 1)
    opaque = torch.full((count,), 3.0)
    return Gaussians(normals, quats, scales, opaque, torch.zeros(count, 3), torch.zeros(count, 0, 3))


def as_surfels(scene: Gaussians) -> Surfels:
    scales = scene.log_scales[:, :2].contiguous()
    return Surfels(scene.means, scene.quats, scales, scene.opacity_logits, scene.sh_dc, scene.sh_rest)


def test_primitives_that_do_not_overlap_appear_where_they_are() -> None:
    places = torch.tensor([[0.6, 0, 0], [-0.6, 0, 0], [0, 0.7, 0], [0, 0, 0.65], [0.1, 0.1, 0.1]])
    one = sphere(1, 0.05, 1.0)
    scene = Gaussians(
        places, *(t.expand(5, *t.shape[1:]).contiguous() for t in list(one.tensors().values())[1:])
    )
    scene.opacity_logits[4] = -20
    apparent = apparent_centres(scene, around(12))
    assert (apparent - places).norm(dim=1).max() < 2e-3
    assert torch.allclose(apparent[4], places[4], atol=1e-6), "it is transparent"


@pytest.mark.parametrize("surfels", [False, True])
def test_primitives_that_overlap_on_a_surface_appear_in_front_of_it(surfels: bool) -> None:
    scene = sphere(1500, 0.06)
    apparent = apparent_centres(as_surfels(scene) if surfels else scene, around(20))
    away = apparent.norm(dim=1) - 1
    assert 0.004 < float(away.median()) < 0.06


def test_the_shift_is_that_of_the_depth_along_the_ray() -> None:
    camera, scene = around(3)[0], sphere(400, 0.06, 0.3)
    moved = scene.means + 0.01 * torch.randn(400, 3, generator=torch.Generator().manual_seed(0))
    facing = (scene.means * torch.nn.functional.normalize(camera.position, dim=0)).sum(1) > 0.6
    local = scene.means @ camera.world_to_cam[:3, :3].T + camera.world_to_cam[:3, 3]
    shift = depth_shift(scene, camera, moved)
    for row in facing.nonzero()[:20, 0].tolist():
        # An image whose only pixel looks at the centre.
        x, y, z = local[row].tolist()
        one = replace(
            camera, intrinsics=torch.tensor([1.0, 1.0, 0.5 - x / z, 0.5 - y / z]), width=1, height=1
        )
        number = torch.full((1, 1), row)
        change = ray_depth(replace(scene, means=moved), one, number) - ray_depth(scene, one, number)
        assert float(change) == pytest.approx(float(shift[row]), abs=2e-5)


def test_surfels_moved_along_their_normals_shift_the_depth_by_as_much() -> None:
    scene, camera = as_surfels(sphere(3000, 0.04)), around(3)[0]
    plain, _ = surface_depth(scene, camera)
    lifted, _ = surface_depth(scene, camera, centres=1.02 * scene.means)
    middle = (slice(40, 56), slice(40, 56))  # there the surface faces the camera
    assert (lifted - plain)[middle].mean() == pytest.approx(-0.02, abs=0.002)
    assert torch.equal(lifted > 0, plain > 0)
