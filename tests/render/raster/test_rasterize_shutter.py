"""Gaussians seen through a rolling shutter: agreement with the reference, with renders row by row, and refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from convex_scenes import random_convexes
from gaussians4d_scenes import assert_agrees4d, random_gaussians4d
from lens_scenes import camera_with, gaussians_around
from surfel_scenes import random_surfels

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera
from luxel.render.geometry.shutter import DIRECTIONS, NUMBERS, pose_at, shutter_row, velocity_between
from luxel.render.ops.raster.projection import projection_of
from luxel.render.ops.train.project_adam import adam_step
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.raster.rasterize import rasterize
from luxel.render.raster.renderer import Renderer

D = torch.float64
MOTION = torch.tensor([0.08, -0.1, 0.06, 0.05, -0.07, 0.12])
CAMERA = Camera.look_at((3.0, 2.0, 1.0), (0, 0, 0), width=62, height=50)


@pytest.mark.parametrize("readout", DIRECTIONS)
def test_images_and_gradients_are_those_of_the_reference(readout, random_gaussians, precision, agrees):
    camera = replace(CAMERA, shutter=shutter_row(MOTION, readout))
    gaussians = random_gaussians(120, seed=3, spread=1.2, **precision)
    agrees(
        gaussians, camera, antialiased=readout == "up", depth=True, normals=True, jumps=0.06,
        background=torch.tensor([0.2, 0.5, 0.7]),
    )  # fmt: skip


@pytest.mark.parametrize("name", ["fisheye", "radial"])
def test_the_same_behind_a_lens(name, precision, agrees):
    camera = camera_with(name)
    single = precision["dtype"] == torch.float32 and "radial" in name
    gaussians = gaussians_around(before=camera if single else None).map(lambda t: t.to(**precision))
    agrees(gaussians, replace(camera, shutter=shutter_row(MOTION)), depth=True, jumps=0.06)


def test_a_batch_may_mix_shutters(random_gaussians, precision, agrees):
    cameras = [CAMERA, *(replace(CAMERA, shutter=shutter_row(k * MOTION)) for k in (1.0, -0.5))]
    stacked = Camera.stack(cameras)
    assert stacked.shutter is not None and stacked.shutter.shape == (3, NUMBERS)
    agrees(random_gaussians(80, seed=5, spread=1.2, **precision), stacked, jumps=0.06)


@pytest.mark.parametrize("name", [None, "radial"])
def test_moving_gaussians_are_those_of_the_reference(name, precision):
    gaussians = random_gaussians4d(80, seed=3, scale=0.2, **precision)
    camera = CAMERA
    if name is not None:
        camera = camera_with(name)
        gaussians.means = 0.6 * gaussians.means + torch.tensor([2.0, 1.2, 0.6]).to(gaussians.means)
    assert_agrees4d(gaussians, replace(camera, shutter=shutter_row(MOTION)), 0.45, depth=True, jumps=0.08)


def test_a_camera_at_rest_sees_what_a_global_shutter_sees(random_gaussians, device):
    gaussians = random_gaussians(200, seed=1, device=device)
    camera = CAMERA.to(device)
    rest = replace(camera, shutter=torch.zeros(NUMBERS, device=device))
    torch.testing.assert_close(
        rasterize(gaussians, rest).rgb, rasterize(gaussians, camera).rgb, rtol=0, atol=1e-5
    )


@pytest.mark.parametrize(("speed", "far"), [(0.01, 2e-5), (0.03, 3e-4), (0.1, 6e-3)])
def test_splats_are_where_their_rows_see_them(speed, far):
    """Against the exact fixed point along exp(tau velocity)."""
    generator = torch.Generator().manual_seed(2)
    camera = replace(CAMERA.to(D), width=640, height=480)
    camera = replace(camera, intrinsics=torch.tensor([600.0, 600.0, 320.0, 240.0], dtype=D))
    velocity = speed * torch.tensor([1.5, -1.0, 0.5, 1.0, -0.8, 0.6], dtype=D)
    points = 1.2 * (torch.rand(60, 3, generator=generator, dtype=D) - 0.5)
    splats = _dots(points, replace(camera, shutter=shutter_row(velocity)))
    errors = []
    for point, splat in zip(points, splats, strict=True):
        tau = 0.0
        for _ in range(40):
            matrix = pose_at(camera.world_to_cam, velocity, tau)
            seen = matrix[:3, :3] @ point + matrix[:3, 3]
            x, y = (camera.intrinsics[:2] * seen[:2] / seen[2] + camera.intrinsics[2:]).tolist()
            tau = min(0.5, max(-0.5, y / camera.height - 0.5))
        errors.append(((splat[0] - x) ** 2 + (splat[1] - y) ** 2) ** 0.5 / camera.height)
    assert max(errors) < far, max(errors)


def _dots(points: torch.Tensor, camera: Camera) -> torch.Tensor:
    """Screen positions of small Gaussians, [N, 2]."""
    n = len(points)
    quats = torch.tensor([1.0, 0, 0, 0], dtype=D).expand(n, 4)
    gaussians = Gaussians(
        points,
        quats,
        torch.full((n, 3), -4.0, dtype=D),
        torch.full((n,), 3.0, dtype=D),
        torch.zeros(n, 3, dtype=D),
        torch.zeros(n, 0, 3, dtype=D),
    )
    frame = rasterize(gaussians, camera)
    assert frame.splats is not None and (frame.tile_counts > 0).all()
    return frame.splats[0, :, :2]


def test_the_velocity_between_two_poses_leads_from_one_to_the_other():
    generator = torch.Generator().manual_seed(1)
    for size in (0.0, 1e-9, 1e-5, 0.3, 2.5):
        velocity = torch.randn(6, generator=generator, dtype=D)
        velocity[3:] *= size / velocity[3:].norm()
        later = pose_at(CAMERA.world_to_cam.double(), velocity, 1.0)
        torch.testing.assert_close(
            velocity_between(CAMERA.world_to_cam, later), velocity, rtol=1e-6, atol=1e-6
        )


def test_shutters_are_refused_where_they_do_not_fit(random_gaussians, device):
    gaussians = random_gaussians(5, device=device)
    with pytest.raises(ValueError, match=r"shutter must be \[8\], got \[6\]"):
        replace(CAMERA, shutter=torch.zeros(6))
    with pytest.raises(ValueError, match="readout must be one of down, up, right, left, got diagonal"):
        shutter_row(MOTION, "diagonal")  # type: ignore[arg-type]
    camera = replace(CAMERA, shutter=shutter_row(MOTION)).to(device)
    convex = random_convexes(2, 0).to(device)
    with pytest.raises(LuxelError, match="Convexes cannot use cameras with a rolling shutter"):
        rasterize(convex, camera)
    with pytest.raises(LuxelError, match="Surfels cannot use cameras with a rolling shutter"):
        rasterize(random_surfels(2).map(lambda t: t.to(device, torch.float32)), camera)
    tensors = (*gaussians.tensors().values(), camera.world_to_cam[None], camera.intrinsics[None])
    with pytest.raises(ValueError, match="shutters"):
        projection_of("gaussians")(
            tensors, None, torch.zeros(2, NUMBERS, device=device), width=8, height=8, sh_degree=0, near=0.1,
            far=10.0, dilation=0.3, antialiased=False, with_depth=False, with_normals=False,
        )  # fmt: skip


def test_stages_without_rolling_shutters_refuse_them(random_gaussians, device):
    gaussians = random_gaussians(5, device=device)
    rows = torch.zeros(1, NUMBERS, device=device)
    with pytest.raises(ValueError, match="project_convexes: cameras must not have a rolling shutter"):
        projection_of("convexes")((), None, rows, near=0.1)
    with pytest.raises(TypeError, match="project_convexes_adam_: cameras must not have a rolling shutter"):
        adam_step("convexes").of_shutters(rows, None)
    camera = replace(CAMERA, shutter=shutter_row(MOTION)).to(device)
    with pytest.raises(ValueError, match="camera must have a global shutter"):
        Renderer(gaussians).draw(camera)
