"""Rays to a surface: where they meet a sphere, against the reference, and what is refused."""

from __future__ import annotations

import math

import pytest
import torch
from mesh_shapes import SHAPES, ball, ring
from torch import Tensor

from luxel.render.ops.field.sphere_trace import Rays, sphere_trace
from luxel.render.reference.field.sphere_trace import camera_rays_reference, sphere_trace_reference


def grid_of(distance, cells: int, dtype: torch.dtype = torch.float32, slack: float = 0.0) -> Tensor:
    """A function at the centres of the cells of the unit box, [R, R, R]."""
    along = (torch.arange(cells, dtype=dtype) + 0.5) / cells
    return distance(torch.stack(torch.meshgrid(along, along, along, indexing="ij"), -1)) - slack


def camera(
    width: int, height: int, eye: tuple[float, float, float], dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """cam_to_unit and intrinsics of a camera that looks at the middle of the box, in other units than the box's."""
    middle = torch.full((3,), 0.5, dtype=dtype)
    forward = torch.nn.functional.normalize(middle - torch.tensor(eye, dtype=dtype), dim=0)
    right = torch.nn.functional.normalize(
        torch.linalg.cross(forward, torch.tensor([0, 0, 1], dtype=dtype)), dim=0
    )
    turn = torch.stack([right, torch.linalg.cross(forward, right), forward], 1)
    pose = torch.cat([0.25 * turn, torch.tensor(eye, dtype=dtype)[:, None]], 1)
    return pose, torch.tensor([1.3 * width, 1.2 * width, 0.45 * width, 0.52 * height], dtype=dtype)


def distances_along(rays: Tensor, hits) -> Tensor:
    """The distance to the hit of each ray, infinite for those that gave none."""
    actual = torch.full((len(rays),), torch.inf, dtype=rays.dtype)
    index = hits.rays.cpu().long()
    assert len(set(index.tolist())) == len(index)
    actual[index] = (hits.x.cpu() - rays[index, :3]).norm(dim=-1)
    return actual


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("eye", [(2.0, -1.0, 0.9), (0.55, 0.45, 0.98), (0.5, 0.05, 0.5), (0.45, 0.5, 0.5)])
def test_it_is_the_reference(precision, name, eye):
    dtype, device = precision["dtype"], precision["device"]
    pose, intrinsics = camera(53, 41, eye, dtype)
    rays = camera_rays_reference(pose, intrinsics, 53, 41)
    assert torch.allclose(rays[:, 3:].norm(dim=1), torch.ones(len(rays), dtype=dtype))
    hit, ray_t = sphere_trace_reference(rays, SHAPES[name], 1e-4, steps=200)
    grid = grid_of(SHAPES[name], 16, dtype).to(device)
    by_camera = Rays(53 * 41, cam_to_unit=pose.to(device), intrinsics=intrinsics.to(device), width=53)
    for given in (by_camera, Rays(53 * 41, rays.to(device))):
        hits = sphere_trace(given, grid, SHAPES[name], tolerance=1e-4, steps=200)
        actual = distances_along(rays, hits)
        agree = actual.isfinite() == hit
        assert agree.double().mean() > 0.995  # rays that graze may fall to either side
        both = hit & actual.isfinite()
        assert both.sum() > 20
        assert (actual - ray_t.abs())[both].abs().median() < 1e-4
        assert SHAPES[name](hits.x.cpu()).abs().max() < (2e-4 if eye[1] < 0 or eye[2] > 0.9 else 1)
        assert hits.evaluations < 53 * 41 * 8


def test_the_grid_saves_evaluations(device):
    pose, intrinsics = camera(160, 120, (2.0, -1.0, 0.9), torch.float32)
    given = Rays(160 * 120, cam_to_unit=pose.to(device), intrinsics=intrinsics.to(device), width=160)
    coarse, fine = (
        sphere_trace(given, grid_of(ball, cells).to(device), ball).evaluations for cells in (1, 64)
    )
    assert fine < 0.4 * coarse


def test_a_sphere_by_hand(device):
    """Rays along an axis at some distances from it; one misses by little, one starts beyond, one points away."""
    off = torch.tensor([0.0, 0.2, 0.3499, 0.3502, 0.1, 0.1])
    origins = torch.stack([torch.tensor([-1.0, -1, -1, -1, 2, -1]), 0.5 + off, torch.full_like(off, 0.5)], 1)
    forward = torch.tensor([1.0, 1, 1, 1, 1, -1])
    directions = torch.stack([forward, torch.zeros(6), torch.zeros(6)], 1)
    rays = torch.cat([origins, directions], 1)
    hits = sphere_trace(
        Rays(6, rays.to(device)), grid_of(ball, 32).to(device), ball, tolerance=1e-5, steps=300
    )
    actual = distances_along(rays, hits)
    expected = 1.5 - (0.35**2 - off.square()).clamp(min=0).sqrt()
    assert actual.isfinite().tolist() == [True, True, True, False, False, False]
    torch.testing.assert_close(actual[:3], expected[:3], rtol=0, atol=2e-3)
    torch.testing.assert_close(actual[:2], expected[:2], rtol=0, atol=5e-5)


def test_a_field_that_is_off(device):
    """Distances that are too small by a factor, and a grid that allows for it, find the same surface."""
    pose, intrinsics = camera(64, 48, (1.5, -1.0, 1.4), torch.float32)
    given = Rays(64 * 48, cam_to_unit=pose.to(device), intrinsics=intrinsics.to(device), width=64)
    rays = camera_rays_reference(pose, intrinsics, 64, 48)
    true = distances_along(rays, sphere_trace(given, grid_of(ring, 32).to(device), ring, steps=100))
    cautious = distances_along(
        rays,
        sphere_trace(given, grid_of(ring, 32, slack=0.01).to(device), lambda x: 0.7 * ring(x), steps=100),
    )
    assert (true.isfinite() == cautious.isfinite()).double().mean() > 0.99
    both = true.isfinite() & cautious.isfinite()
    assert (true - cautious)[both].abs().median() < 5e-4


def test_nothing_to_see(device):
    grid = torch.full((8, 8, 8), 2.0, device=device)

    def never(x: Tensor) -> Tensor:
        raise AssertionError

    rays = torch.tensor([[-1.0, 0.5, 0.5, 1, 0, 0], [math.nan, 0.5, 0.5, 1, 0, 0], [0.5, 0.5, 0.5, 0, 0, 0]])
    assert len(sphere_trace(Rays(3, rays.to(device)), grid, never).rays) == 0
    assert len(sphere_trace(Rays(0, rays[:0].to(device)), grid, never).rays) == 0
    nan = sphere_trace(Rays(1, rays[:1].to(device)), torch.zeros_like(grid), lambda x: x[:, 0] * math.nan)
    assert len(nan.rays) == 0 and nan.evaluations == 3


def test_opcheck(device):
    m = 40
    pose, intrinsics = (t.to(device) for t in camera(8, 5, (2.0, -1.0, 0.9), torch.float32))
    grid = grid_of(ball, 8).to(device)

    def empty(dtype: torch.dtype, *shape: int) -> Tensor:
        return torch.zeros(shape, dtype=dtype, device=device)

    ray_t, x, hit_x = (empty(torch.float32, *shape) for shape in ((m,), (m, 3), (m, 3)))
    lists = [empty(torch.int32, m) for _ in range(3)]
    counts = [empty(torch.int32, 1) for _ in range(3)]
    start = (None, pose, intrinsics, None, None, 8, m, grid, ray_t, lists[0], counts[0], x)
    checks = ("test_schema", "test_faketensor")
    torch.library.opcheck(torch.ops.luxel.sphere_trace_begin.default, start, test_utils=checks)
    rest = (lists[1], counts[1], ray_t[:20].clone(), lists[2], counts[2], hit_x, 1e-3, 0.0)
    torch.library.opcheck(torch.ops.luxel.sphere_trace_step.default, (*start, *rest), test_utils=checks)


def test_what_is_refused(device):
    grid = torch.zeros(4, 4, 4, device=device)
    rays = torch.zeros(5, 6, device=device)
    with pytest.raises(ValueError, match="rays or a camera must be given"):
        sphere_trace(Rays(5), grid, ball)
    with pytest.raises(ValueError, match=r"rays must be \[5, 6\]"):
        sphere_trace(Rays(5, rays[:, :5]), grid, ball)
    with pytest.raises(ValueError, match=r"grid must be \[4, 4, 4\]"):
        sphere_trace(Rays(5, rays), grid[:, :3], ball)
    with pytest.raises(ValueError, match=r"grid must be \[R, R, R\]"):
        sphere_trace(Rays(5, rays), grid[0], ball)
    with pytest.raises(ValueError, match="grid must be float32 or float64"):
        sphere_trace(Rays(5, rays.half()), grid.half(), ball)


@pytest.mark.parametrize(
    ("count", "distances", "message"),
    [
        (-1, 5, r"rays.count must be 0 to 2\^31 - 1, got -1"),
        (5, 6, r"distance must be \[0 to 5\], got \[6\]"),
    ],
)
def test_lists_that_do_not_fit(count: int, distances: int, message: str) -> None:
    def lists(*shape: int) -> list[Tensor]:
        return [torch.zeros(shape, dtype=torch.int32) for _ in range(3)]

    each, counts, grid = lists(5), lists(1), torch.zeros(4, 4, 4)
    begin = torch.zeros(5, 6), None, None, None, None, 0, count, grid, torch.zeros(5), each[0], counts[0]
    step = each[1], counts[1], torch.zeros(distances), each[2], counts[2], torch.zeros(5, 3), 1e-3, 0.0
    with pytest.raises(ValueError, match=message):
        torch.ops.luxel.sphere_trace_step(*begin, torch.zeros(5, 3), *step)
