"""The stage project_convexes: rows and gradients are the reference's, what is dropped, statistics, what is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from convex_scenes import D, axis_camera, facing, random_convexes, solid
from splat_stages import draw, projection_of
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.ops.raster.project_convexes import project_convexes
from luxel.render.primitives.convexes import Convexes
from luxel.render.reference.raster.project_convexes import ConvexSplats, project_convexes_reference
from luxel.render.reference.raster.rasterize_convexes import rasterize_convexes_reference

CORNERS = 8


def project(convexes: Convexes, camera: Camera, **options: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    cameras, projection = projection_of(camera)
    options = {"sh_degree": 3, "with_depth": True, **options}
    return project_convexes(tuple(convexes.tensors().values()), *cameras, **projection, **options)


def rows_of(splats: ConvexSplats) -> Tensor:
    """The reference's splats as rows of the kernels."""
    k, count = splats.corners.shape[1], splats.edges.shape[0]
    relative = splats.corners - splats.center2d[:, None].detach()
    real = torch.arange(k) < splats.edges[:, None]
    relative = torch.nn.functional.pad(torch.where(real[..., None], relative, 0.0), (0, 0, 0, CORNERS - k))
    head = [
        splats.opacity,
        splats.depth.detach(),
        splats.delta,
        splats.sigma,
        splats.edges.to(D),
        splats.reach,
    ]
    return torch.cat(
        [splats.center2d, torch.stack(head, -1), splats.low, splats.high, relative.reshape(count, -1)], -1
    )


def two_cameras(toy_camera, **options: Any) -> Camera:
    return Camera.stack(
        [toy_camera(64, 48, off_centre=True, **options), toy_camera(64, 48, eye=(2.5, 2, 1), **options)]
    )


@pytest.mark.parametrize("k", range(3, 9))
def test_rows_and_gradients_are_those_of_the_reference(toy_camera, precision, k):
    """Also of the cameras' poses, of batches of them, and of every number of points."""
    single = precision["dtype"] == torch.float32
    forward, backward = (1e-5, 1e-4) if single else (1e-12, 1e-10)
    native = (
        random_convexes(80, seed=k, k=k, sh_degree=k % 4).map(lambda t: t.to(**precision)).requires_grad_()
    )
    witness = native.detach().map(lambda t: t.to("cpu", D)).requires_grad_()
    cameras = two_cameras(toy_camera, dtype=D)
    own = replace(cameras, world_to_cam=cameras.world_to_cam.to(**precision, copy=True).requires_grad_())
    own = replace(own, intrinsics=own.intrinsics.to(**precision))
    poses = cameras.world_to_cam.to(precision["dtype"]).to(D).requires_grad_()
    splats, values, tile_counts, totals = project(native, own)
    assert totals.tolist() == [(tile_counts > 0).sum(), tile_counts.sum()]
    generator = torch.Generator().manual_seed(1)
    losses = [torch.zeros((), dtype=D), torch.zeros((), dtype=D)]
    for c in range(2):
        camera = replace(cameras, world_to_cam=poses[c], intrinsics=cameras.intrinsics[c])
        expected = project_convexes_reference(witness, camera)
        index = expected.index
        assert len(index) > 20 and expected.margin.min() > 1e-6
        assert tile_counts[c].nonzero()[:, 0].tolist() == index.tolist()
        pairs = [(splats[c].cpu()[index], rows_of(expected))]
        pairs.append((values[c].cpu()[index], torch.cat([expected.rgb, expected.depth[:, None]], -1)))
        for actual, true in pairs:
            scale = true.detach().abs().amax(0).clamp_min(1.0)  # boxes and reaches are larger than the image
            assert ((actual.detach().to(D) - true.detach()).abs() <= 10 * forward * scale).all()
            weight = torch.randn(true.shape, generator=generator, dtype=D)
            if true.shape[1] == 28:
                weight[:, 6:12] = 0  # number of edges, reach and box have no gradient, nor do
                weight[:, :2] = weight[:, 3] = 0  # the centroid and its depth, but through the values
            losses = [losses[0] + (actual.to(D) * weight).sum(), losses[1] + (true * weight).sum()]
    losses[0].backward()
    losses[1].backward()
    pairs = [(name, getattr(native, name), getattr(witness, name)) for name in Convexes.names]
    for name, actual, true in [*pairs, ("world_to_cam", own.world_to_cam, poses)]:
        difference, norm = (actual.grad.cpu().to(D) - true.grad).norm(), true.grad.norm()
        assert difference <= backward * norm, f"gradient of {name}: {difference:.3g} off in {norm:.3g}"


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        (lambda c: c.points[..., 2].fill_(0.21), True),
        (lambda c: c.points[..., 2].fill_(0.19), False),  # nearer than 0.2
        (lambda c: c.points[0, 0, 2].fill_(-0.5), False),  # one point is behind the camera
        (lambda c: c.points[0, 0].copy_(torch.tensor([156.0, 0, 1])), True),  # 0.75 * 64 * 156 / 1 px aside
        (lambda c: c.points[0, 0].copy_(torch.tensor([260.0, 0, 1])), False),  # beyond 10,000 px
        (lambda c: c.points[0, :, 1].copy_(c.points[0, :, 0]), False),  # in line
        (lambda c: c.points[0, 2:].copy_(c.points[0, 1]), False),  # two places
        (lambda c: c.points[..., 0].add_(100), False),  # beside the image
        (lambda c: c.opacity_logits.fill_(-5.54), False),  # under 1/255
        (lambda c: c.mask_logits.fill_(-4.6), False),  # sigmoid under 0.01
        (lambda c: c.mask_logits.fill_(-4.59), True),
        (lambda c: c.points[0, 1, 1].fill_(math.nan), False),
        (lambda c: c.log_delta.fill_(math.nan), False),
        (lambda c: c.log_sigma.fill_(math.inf), False),
        (lambda c: c.log_delta.fill_(-math.inf), True),
        (lambda c: c.sh_dc.fill_(math.inf), False),
        (lambda c: c.mask_logits.fill_(math.nan), False),
    ],
)
def test_what_is_dropped_has_gradients_of_zero(precision, change, kept):
    convexes = Convexes.cat(solid(facing(5.0), torch.ones(1, 3)), solid(facing(3.0), torch.ones(1, 3)))
    first = convexes.select(torch.tensor([0]))
    change(first)
    convexes = Convexes.cat(first, convexes.select(torch.tensor([1])))
    camera = axis_camera()
    witness = convexes.detach().requires_grad_()
    assert project_convexes_reference(witness, camera).index.tolist() == ([0, 1] if kept else [1])
    rasterize_convexes_reference(witness, camera).rgb.sum().backward()
    convexes = convexes.map(lambda t: t.to(**precision)).requires_grad_()
    drawn = draw(convexes, camera.to(precision["dtype"]).to(precision["device"]))
    assert (drawn.tile_counts[0] > 0).tolist() == [kept, True]
    drawn.image.sum().backward()
    for name, tensor in [*convexes.tensors().items(), *witness.tensors().items()]:
        assert tensor.grad.isfinite().all(), name
        assert kept or not tensor.grad[0].any(), name


def test_near_and_far_of_the_camera_count(device):
    convexes = solid(facing(5.0), torch.ones(1, 3)).map(lambda t: t.to(device, torch.float32))
    camera = axis_camera().to(torch.float32).to(device)
    for limits, seen in (({"near": 5.1}, 0), ({"far": 4.9}, 0), ({"near": 4.9, "far": 5.1}, 1)):
        limited = Camera(camera.world_to_cam, camera.intrinsics, 64, 64, **limits)
        assert project(convexes, limited)[3][0] == seen


SQUARE = [(0.0, 0.0), (2.0, 0.0), (2.0, 2.0), (0.0, 2.0)]


@pytest.mark.parametrize(
    ("points", "corners"),
    [
        (SQUARE, SQUARE),
        (SQUARE[::-1], SQUARE),
        ([*SQUARE, (1.0, 1.0), (0.5, 1.5)], SQUARE),  # within
        ([*SQUARE, (1.0, 0.0), (2.0, 1.0), (1.0, 2.0), (0.0, 1.0)], SQUARE),  # on every edge
        ([(1.0, 0.0), (0.0, 1.0), *SQUARE, (0.0, 0.5)], SQUARE),  # on those that meet at the first corner
        ([*SQUARE, *SQUARE], SQUARE),  # everything twice
        ([(0.0, 0.0), (0.0, 0.0), (0.0, 0.0), *SQUARE[1:]], SQUARE),
        ([*SQUARE, (0.0, 2.0), (0.0, 2.0)], SQUARE),
        ([(1.0, 1.0)] * 5, []),
        ([(1.0, 1.0), (2.0, 3.0)] * 2, []),
        ([(0.0, 0.0), (1.0, 0.0), (3.0, 0.0), (2.0, 0.0)], []),
        ([(0.0, 3.0), (0.0, 1.0), (0.0, 2.0)], []),
        ([(1.0, -1.0), (0.0, 0.0), (-2.0, 2.0), (3.0, -3.0)], []),
    ],
)
def test_polygons_in_special_positions(precision, points, corners):
    """As the scan of the reference has them, beginning with the lowest corner."""
    flat = torch.tensor(points, dtype=D) - 1
    convexes = solid(torch.nn.functional.pad(flat, (0, 1), value=4.0)[None], torch.ones(1, 3))
    convexes = convexes.map(lambda t: t.to(**precision))
    camera = axis_camera(64, 64, 32.0).to(precision["dtype"]).to(precision["device"])
    splats, _, tile_counts, _ = project(convexes, camera)
    assert (tile_counts[0, 0] > 0) == bool(corners)
    if corners:
        row = splats[0, 0].cpu().to(D)
        actual = (row[12:].reshape(8, 2) + row[:2])[: int(row[6])]
        expected = (torch.tensor(corners, dtype=D) - 1) * 8 + 32
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_polygons_of_small_whole_numbers(precision, seed):
    """Many ties: eight points, whose mean is exact, on a grid of 4 x 4."""
    flat = torch.randint(0, 4, (300, 8, 2), generator=torch.Generator().manual_seed(seed)).to(D)
    convexes = solid(torch.nn.functional.pad(flat - 1.5, (0, 1), value=4.0), torch.ones(300, 3))
    expected = project_convexes_reference(convexes, axis_camera(64, 64, 32.0))
    camera = axis_camera(64, 64, 32.0).to(precision["dtype"]).to(precision["device"])
    splats, _, tile_counts, _ = project(convexes.map(lambda t: t.to(**precision)), camera)
    assert tile_counts[0].nonzero()[:, 0].tolist() == expected.index.tolist()
    actual = splats[0].cpu()[expected.index].to(D)
    assert torch.equal(actual[:, 6].long(), expected.edges)
    torch.testing.assert_close(actual[:, 12:], rows_of(expected)[:, 12:], rtol=0, atol=1e-4)


def by_hand(convexes: Convexes, cameras: Camera, weight: Tensor) -> Tensor:
    """Statistics by autograd of the reference's sigma, [N, 4]; weight [C, N, 28] of the rows."""
    total = torch.zeros(convexes.count, 4, dtype=D)
    for c in range(cameras.world_to_cam.shape[0]):
        camera = replace(cameras, world_to_cam=cameras.world_to_cam[c], intrinsics=cameras.intrinsics[c])
        splats = project_convexes_reference(convexes, camera)
        total[splats.index, 0] += splats.depth * weight[c, splats.index, 5]
        total[splats.index, 2] += 1
        local = convexes.points[splats.index] @ camera.world_to_cam[:3, :3].T + camera.world_to_cam[:3, 3]
        flat = local[..., :2] / local[..., 2:] * camera.intrinsics[:2] + camera.intrinsics[2:]
        size = (flat - splats.center2d[:, None]).norm(dim=-1).amax(-1) / max(camera.width, camera.height)
        total[splats.index, 3] = total[splats.index, 3].maximum(size)
    return total


def test_statistics(toy_camera, precision):
    convexes = random_convexes(50, seed=5)
    cameras = two_cameras(toy_camera, dtype=D)
    weight = torch.randn(2, 50, 28, generator=torch.Generator().manual_seed(2)).to(D)
    expected = by_hand(convexes, cameras, weight)
    native = convexes.map(lambda t: t.to(**precision)).requires_grad_()
    cameras = cameras.to(precision["dtype"]).to(precision["device"])
    statistics = torch.zeros(50, 4, **precision)
    splats, _, tile_counts, _ = project(native, cameras, statistics=statistics)
    assert not statistics.any()
    (torch.where(tile_counts[..., None] > 0, splats, 0) * weight.to(splats)).sum().backward()
    assert (expected[:, 0] < 0).any() and (expected[:, 2] == 2).any() and (expected[:, 2] == 0).any()
    torch.testing.assert_close(statistics.cpu().to(D), expected, rtol=1e-5, atol=1e-5)
    # As if for ever more views, but for the largest size; and nothing where they are to be skipped.
    arguments = [t.detach() for t in (*native.tensors().values(), cameras.world_to_cam, cameras.intrinsics)]
    options = (64, 48, 3, cameras.near, cameras.far, True)
    rest = (tile_counts, weight.to(splats), torch.zeros(2, 50, 4, **precision), False)
    once = statistics.clone()
    for skip in (1, 0):
        torch.ops.luxel.project_convexes_bwd(
            *arguments,
            statistics,
            *options,
            *rest,
            skip=torch.tensor([skip], dtype=torch.int32, device=statistics.device),
        )
        factor = 1.0 if skip else torch.tensor([2.0, 0, 2, 1], **precision)
        torch.testing.assert_close(statistics, once * factor)


@pytest.mark.parametrize("with_depth", [True, False])
def test_opcheck(toy_camera, device, with_depth):
    convexes = random_convexes(30, seed=7, sh_degree=3).map(lambda t: t.to(device, torch.float32))
    convexes.points.mul_(0.2)  # rows of culled convexes are left unwritten: only a scene seen in full repeats
    convexes.mask_logits.fill_(1.0)
    cameras = two_cameras(toy_camera).to(device)
    tensors = [*convexes.requires_grad_().tensors().values(), cameras.world_to_cam.requires_grad_()]
    options = (64, 48, 3, 0.01, 1e10, with_depth)
    _, _, tile_counts, _ = project(convexes, cameras)
    assert (tile_counts > 0).all()
    for statistics in (None, torch.zeros(30, 4, device=device)):
        arguments = (*tensors, cameras.intrinsics, statistics, *options)
        operation = torch.ops.luxel.project_convexes.default
        torch.library.opcheck(operation, arguments, rtol=1e-4, atol=1e-4)
    plain = [t.detach() for t in tensors]
    g_values = torch.ones(2, 30, 3 + with_depth, device=device)
    arguments = (*plain, cameras.intrinsics, torch.zeros(30, 4, device=device), *options, tile_counts)
    arguments = (*arguments, torch.ones(2, 30, 28, device=device), g_values, True)
    operation = torch.ops.luxel.project_convexes_bwd.default
    torch.library.opcheck(operation, arguments, test_utils=("test_schema", "test_faketensor"))


def test_what_is_refused_is_named(toy_camera, device):
    convexes = random_convexes(4).map(lambda t: t.to(device, torch.float32))
    camera = toy_camera(device=device)
    tensors = list(convexes.tensors().values())
    cameras, projection = projection_of(camera)

    def call(place: int, tensor: Tensor) -> None:
        changed = [*tensors]
        changed[place] = tensor
        project_convexes(tuple(changed), *cameras, **projection, sh_degree=0)

    for k in (2, 9):
        with pytest.raises(ValueError, match=r"points must be \[N, 3\.\.8, 3\]"):
            call(0, torch.zeros(4, k, 3, device=device))
    with pytest.raises(ValueError, match="log_sigma"):
        call(2, torch.zeros(5, device=device))
    with pytest.raises(ValueError, match="mask_logits"):
        call(6, torch.zeros(4, dtype=D, device=device))
    with pytest.raises(ValueError, match="float16"):
        project(convexes.to(torch.float16), camera.to(torch.float16))
    with pytest.raises(ValueError, match="near"):
        project(convexes, replace(camera, near=0.0))
