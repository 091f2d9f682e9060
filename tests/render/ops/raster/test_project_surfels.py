"""The projection of surfels and its operation: rows, statistics, schemas, what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from splat_stages import draw, projection_of
from surfel_scenes import D, random_surfels, well_observed
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera
from luxel.render.ops.raster.blend_splats import blend_splats
from luxel.render.ops.raster.project_surfels import PROJECTION, project_surfels
from luxel.render.primitives.surfels import Surfels
from luxel.render.raster.rasterize import DensifyStatistics, rasterize
from luxel.render.reference.raster.blend_surfels import intersect
from luxel.render.reference.raster.project_surfels import project_surfels_reference

ROUNDING = {"rtol": 1e-4, "atol": 1e-4}  # sums on a GPU come out of atomic additions in any order


def two_cameras(toy_camera, **precision) -> Camera:
    views = [
        toy_camera(64, 48, **precision),
        toy_camera(64, 48, eye=(2.5, 2, 1), off_centre=True, **precision),
    ]
    return Camera.stack(views)


def project(surfels: Surfels, camera: Camera, statistics: Tensor | None = None) -> tuple[Tensor, ...]:
    cameras, size = projection_of(camera)
    tensors = tuple(surfels.tensors().values())
    return project_surfels(
        tensors, *cameras, **size, sh_degree=3, with_depth=True, with_normals=True, statistics=statistics
    )


def test_rows_are_the_intersection_in_closed_form(toy_camera, precision):
    """u^2 + v^2 and depth at random pixels by the row, against rays that meet planes."""
    camera = toy_camera(64, 48, dtype=D)
    surfels = well_observed(random_surfels(60, seed=1), camera)
    planes = project_surfels_reference(surfels, camera)
    posed = camera.to(precision["dtype"]).to(precision["device"])
    splats, values, tile_counts, totals = project(surfels.map(lambda t: t.to(**precision)), posed)
    assert set(planes.index.tolist()) >= set(tile_counts[0].nonzero()[:, 0].tolist())
    rows = splats[0].cpu().to(D)[planes.index]
    shown = tile_counts[0].cpu()[planes.index] > 0
    rows, planes = rows[shown], type(planes)(*(part[shown] for part in planes))
    away = 4 * torch.randn(25, len(rows), 2, generator=torch.Generator().manual_seed(2)).to(D)
    dx, dy = away.unbind(-1)
    s = 1 / (1 + rows[:, 8] * dx + rows[:, 9] * dy)
    square = s.square() * (rows[:, 4] * dx * dx + 2 * rows[:, 5] * dx * dy + rows[:, 6] * dy * dy)
    tolerance = 1e-9 if precision["dtype"] == D else 2e-3
    for k in range(len(rows)):
        hit = intersect(
            camera, planes.mean2d[k] + away[:, k], planes.centre[k : k + 1], planes.tangents[k : k + 1]
        )
        torch.testing.assert_close(square[:, k], hit.square[:, 0], rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(rows[k, 3] * s[:, k], hit.depth[:, 0], rtol=tolerance, atol=0)
    inverse = torch.linalg.inv(torch.stack([rows[:, [4, 5]], rows[:, [5, 6]]], 1))
    torch.testing.assert_close(rows[:, 7], torch.linalg.det(inverse), rtol=tolerance, atol=0)
    h = (inverse @ rows[:, 8:10, None])[..., 0]
    torch.testing.assert_close(rows[:, 10:12], h, rtol=tolerance, atol=tolerance * float(h.abs().max()))
    assert values.shape[-1] == 8 and int(totals[0]) == int((tile_counts > 0).sum())
    drawn = (
        values[0].cpu().to(D)[planes.index[: len(rows)]]
        if shown.all()
        else values[0].cpu().to(D)[planes.index]
    )
    torch.testing.assert_close(drawn[:, 4], drawn[:, 3].square(), rtol=1e-5, atol=0)


def test_statistics(toy_camera, precision):
    surfels = random_surfels(50, seed=5)
    cameras = two_cameras(toy_camera, dtype=D)
    weight = torch.randn(2, 50, 12, generator=torch.Generator().manual_seed(2)).to(D)
    native = surfels.map(lambda t: t.to(**precision)).requires_grad_()
    cameras = cameras.to(precision["dtype"]).to(precision["device"])
    statistics = torch.zeros(50, 4, **precision)
    splats, _, tile_counts, _ = project(native, cameras, statistics)
    assert not statistics.any()
    (torch.where(tile_counts[..., None] > 0, splats, 0) * weight.to(splats)).sum().backward()
    seen = (tile_counts > 0).cpu()
    half = torch.tensor([32.0, 24.0], dtype=D)
    norms = (weight[..., :2] * half).norm(dim=-1) * seen
    absolute = (weight[..., [3, 7]] * half).norm(dim=-1) * seen
    expected = torch.stack([norms.sum(0), absolute.sum(0), seen.sum(0).to(D)], -1)
    torch.testing.assert_close(statistics[:, :3].cpu().to(D), expected, rtol=1e-5, atol=1e-5)
    visible = seen.any(0)
    assert (statistics[:, 3].cpu()[visible] > 0).all() and not statistics[:, 3].cpu()[~visible].any()
    assert (expected[:, 2] == 2).any() and (statistics[:, 3] < 4).all()


def test_absolute_gradients_are_sums_over_pixels(toy_camera, device):
    """At least the norm of the plain gradient, and the same where one pixel alone is weighted."""
    camera = toy_camera(32, 24, device=device)
    surfels = random_surfels(30, seed=6).map(lambda t: t.to(device, torch.float32)).requires_grad_()
    statistics = DensifyStatistics.zeros(30, device)
    frame = rasterize(surfels, camera, statistics=statistics, absolute_gradients=True)
    frame.rgb.square().sum().backward()
    assert (statistics.abs_grad_norm >= statistics.grad_norm * (1 - 1e-4)).all()
    assert statistics.abs_grad_norm.max() > statistics.grad_norm.max()
    statistics.reset()
    frame = rasterize(surfels, camera, statistics=statistics, absolute_gradients=True)
    frame.rgb[12, 16].sum().backward()
    torch.testing.assert_close(statistics.abs_grad_norm, statistics.grad_norm, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(("with_depth", "with_normals"), [(True, True), (True, False), (False, True)])
def test_opcheck(toy_camera, device, with_depth, with_normals):
    surfels = random_surfels(30, seed=7, sh_degree=3, size=0.1).map(lambda t: t.to(device, torch.float32))
    surfels.means.mul_(0.2)  # rows of culled surfels are left unwritten: only a scene seen in full repeats
    cameras = two_cameras(toy_camera).to(device)
    tensors = [*surfels.requires_grad_().tensors().values(), cameras.world_to_cam.requires_grad_()]
    options = (64, 48, 3, 0.01, 1e10, with_depth, with_normals)
    _, _, tile_counts, _ = project(surfels, cameras)
    assert (tile_counts > 0).all()
    for statistics in (None, torch.zeros(30, 4, device=device)):
        arguments = (*tensors, cameras.intrinsics, statistics, *options)
        torch.library.opcheck(torch.ops.luxel.project_surfels.default, arguments, **ROUNDING)
    plain = [t.detach() for t in tensors]
    channels = PROJECTION.channels(options)
    assert channels == {(True, True): 8, (True, False): 4, (False, True): 6}[with_depth, with_normals]
    arguments = (*plain, cameras.intrinsics, torch.zeros(30, 4, device=device), *options, tile_counts)
    arguments = (
        *arguments,
        torch.ones(2, 30, 12, device=device),
        torch.ones(2, 30, channels, device=device),
        True,
    )
    operation = torch.ops.luxel.project_surfels_bwd.default
    torch.library.opcheck(operation, arguments, test_utils=("test_schema", "test_faketensor"))


def test_opcheck_of_blending(toy_camera, device):
    surfels = random_surfels(4, seed=8).map(lambda t: t.to(device, torch.float32))
    drawn = draw(surfels, two_cameras(toy_camera).to(device))
    instances, ranges, _, plan = drawn.lists
    splats, values = drawn.splats.detach().nan_to_num(), drawn.values.detach().nan_to_num()
    inputs = (splats.requires_grad_(), values.requires_grad_(), None, instances, ranges, plan)
    for moments in (0, 2):
        arguments = (*inputs, 64, 48, 0.99, moments > 0, True, True, True, True, moments, "surfels")
        torch.library.opcheck(torch.ops.luxel.blend.default, arguments, **ROUNDING)
    how = (64, 48, 0.99, False, False, False, False, True, 2, "surfels")
    plain = (*(t.detach() for t in inputs[:2]), *inputs[2:])
    outputs = torch.ops.luxel.blend(*plain, *how)
    arguments = (*plain, *how, *outputs[:3], outputs[5], torch.ones_like(outputs[0]), None)
    operation = torch.ops.luxel.blend_bwd.default
    torch.library.opcheck(operation, arguments, test_utils=("test_schema", "test_faketensor"))


def test_what_is_refused_is_named(toy_camera, device):
    surfels = random_surfels(4).map(lambda t: t.to(device, torch.float32))
    camera = toy_camera(device=device)
    with pytest.raises(ValueError, match=r"log_scales must be \[4, 2\]"):
        replace(surfels, log_scales=torch.zeros(4, 3, device=device))
    tensors, (cameras, size) = list(surfels.tensors().values()), projection_of(camera)
    tensors[2] = torch.zeros(4, 3, device=device)
    with pytest.raises(ValueError, match="log_scales"):
        project_surfels(tuple(tensors), *cameras, **size, sh_degree=0)
    with pytest.raises(ValueError, match="float16"):
        project(surfels.to(torch.float16), camera.to(torch.float16))
    with pytest.raises(ValueError, match="near"):
        project(surfels, replace(camera, near=0.0))
    lens = torch.tensor([1.0, 0, 0, 0, 0, 0, 0, 1.5], device=device)
    with pytest.raises(LuxelError, match="Surfels"):
        rasterize(surfels, replace(camera, lens=lens))


@pytest.mark.parametrize(
    ("primitive", "row", "channels", "moments"),
    [
        ("gaussians", 8, 4, 1),
        ("convexes", 28, 8, 2),
        ("surfels", 12, 3, 1),
        ("surfels", 12, 4, 2),
        ("surfels", 12, 8, -1),
    ],
)
def test_moments_that_the_values_do_not_have(device, primitive, row, channels, moments):
    inputs = torch.zeros(1, 0, row, device=device), torch.zeros(1, 0, channels, device=device)
    empty = torch.zeros(0, dtype=torch.int32, device=device)
    with pytest.raises(ValueError, match=f"depth_moments of {primitive} must be 0"):
        blend_splats(
            *inputs,
            None,
            empty,
            torch.zeros(1, 2, dtype=torch.int32, device=device),
            empty,
            primitive=primitive,
            width=4,
            height=4,
            max_alpha=0.5,
            depth_moments=moments,
        )
