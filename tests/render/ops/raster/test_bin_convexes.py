"""Lists of convexes per tile: those of the reference, whole, in the order of depth, cut where room ends."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from convex_scenes import D, random_convexes
from splat_stages import draw

from luxel.render.geometry.camera import Camera
from luxel.render.ops.raster.bin_splats import bin_splats, tile_grid
from luxel.render.ops.raster.project_convexes import project_convexes
from luxel.render.primitives.convexes import Convexes
from luxel.render.reference.raster.bin_convexes import bin_convexes_reference
from luxel.render.reference.raster.project_convexes import project_convexes_reference


def lists_of(instances, ranges) -> list[list[int]]:
    return [instances[start:end].tolist() for start, end in ranges.tolist()]


@pytest.mark.parametrize("k", [3, 5, 8])
@pytest.mark.parametrize("size", [0.05, 0.4, 2.0])
def test_lists_are_those_of_the_reference(toy_camera, precision, k, size):
    cameras = Camera.stack(
        [toy_camera(150, 100, dtype=D), toy_camera(150, 100, eye=(2.5, 2, 1), off_centre=True, dtype=D)]
    )
    convexes = random_convexes(150, seed=k, k=k, size=size)
    convexes.points[:30, :, 1] = convexes.points[:30, :1, 1] + 0.05 * convexes.points[:30, :, 1]  # thin ones
    drawn = draw(
        convexes.map(lambda t: t.to(**precision)), cameras.to(precision["dtype"]).to(precision["device"])
    )
    instances, ranges, overflow, _ = drawn.lists
    assert overflow.item() == 0 and ranges[-1, 1] == drawn.totals[1] == drawn.tile_counts.sum()
    actual, tiles = lists_of(instances, ranges), ranges.shape[0] // 2
    for c in range(2):
        one = replace(cameras, world_to_cam=cameras.world_to_cam[c], intrinsics=cameras.intrinsics[c])
        witness = project_convexes_reference(convexes, one)
        expected = lists_of(*bin_convexes_reference(witness, 150, 100))
        expected = [(witness.index[which] + 150 * c).tolist() for which in expected]
        missing = extra = 0
        for own, true in zip(actual[c * tiles : (c + 1) * tiles], expected, strict=True):
            missing, extra = missing + len(set(true) - set(own)), extra + len(set(own) - set(true))
            # The kernels' bounds are a hair wider: a convex that only grazes a tile may be listed besides.
            assert [i for i in own if i in true] == true
        assert sum(map(len, expected)) > 150 and missing == 0 and extra <= 2 + 0.01 * sum(map(len, expected))


def many_convexes(count: int, width: int, height: int, device: torch.device, cameras: int = 1):
    """Convexes of about two pixels, a few that cover the image, some not seen; a third share their depths."""
    generator = torch.Generator().manual_seed(count)

    def uniform(*shape: int, low: float = 0.0, high: float = 1.0) -> torch.Tensor:
        return low + (high - low) * torch.rand(*shape, generator=generator)

    z = torch.exp2(uniform(count, low=-1.0, high=8.0))
    shared = torch.arange(count) % 3 == 0
    z[shared] = torch.exp2(torch.randint(0, 6, (count,), generator=generator).float())[shared]
    focal = float(width)
    x, y = (uniform(count, low=-0.6, high=0.6) * size / focal * z for size in (width, height))
    size = 2.0 / focal * z
    size[torch.randperm(count, generator=generator)[: min(5, count // 10)]] *= 0.2 * width
    centre = torch.stack([x, y, z], -1)[:, None]
    offsets = torch.randn(count, 6, 3, generator=generator) * torch.tensor([1.0, 1, 0])
    convexes = Convexes(
        points=centre + size[:, None, None] * offsets,
        log_delta=(0.5 / z).log(),
        log_sigma=(1.0 / z).log(),
        opacity_logits=uniform(count, low=-3.0, high=3.0),
        sh_dc=torch.zeros(count, 3),
        sh_rest=torch.zeros(count, 0, 3),
        mask_logits=torch.where(torch.arange(count) % 7 == 0, -9.0, 1.0),
    ).to(device)
    poses = torch.eye(4).repeat(cameras, 1, 1)
    poses[:, 2, 3] = torch.arange(cameras)
    intrinsics = torch.tensor([focal, focal, width / 2, height / 2]).repeat(cameras, 1)
    return project_convexes(
        tuple(convexes.tensors().values()),
        poses.to(device),
        intrinsics.to(device),
        width=width,
        height=height,
        sh_degree=0,
        near=0.01,
        far=1e30,
    )


@pytest.mark.parametrize(
    ("count", "width", "height", "cameras"),
    [
        (1, 64, 48, 1),
        (700, 16, 16, 1),  # one tile
        (5_000, 640, 480, 1),
        (40_000, 200, 130, 3),
        (150_000, 1280, 720, 1),
        (30_000, 4160, 4160, 1),  # more tiles than 16 bits tell apart
    ],
)
@pytest.mark.parametrize("slack", [0, 12_345])
def test_lists_are_whole_and_in_order(device, count, width, height, cameras, slack):
    splats, _, tile_counts, totals = many_convexes(count, width, height, device, cameras)
    seen, needed = totals.tolist()
    assert seen == (tile_counts > 0).sum() and needed == tile_counts.sum() and (needed > 0 or count == 1)
    room = {"visible_capacity": seen + slack, "capacity": needed + slack}
    size = {"width": width, "height": height}
    instances, ranges, overflow, _ = bin_splats(
        splats, tile_counts, totals, **size, **room, primitive="convexes"
    )
    assert overflow.item() == 0
    columns, rows = tile_grid(width, height)
    lengths = (ranges[:, 1] - ranges[:, 0]).long()
    assert ranges.shape[0] == cameras * columns * rows and lengths.min() >= 0
    listed = instances[: int(lengths.sum())].long()
    actual = torch.bincount(listed, minlength=cameras * count).reshape(cameras, count)
    # Counting and listing may round apart at the edge of a tile, never by much.
    assert ((actual > 0) <= (tile_counts > 0)).all() and (actual - tile_counts).abs().sum() <= 1e-5 * needed
    tile = torch.repeat_interleave(torch.arange(lengths.numel(), device=device), lengths)
    assert torch.equal(tile // (columns * rows), listed // count), "a convex in another camera's tile"
    rows_of_lists = splats.reshape(-1, 28)[listed]
    depth, same = rows_of_lists[:, 3], tile[1:] == tile[:-1]
    assert (depth[1:] >= depth[:-1])[same].all(), "not in the order of depth"
    ties = same & (depth[1:] == depth[:-1])
    assert (listed[1:] > listed[:-1])[ties].all() and (count < 1000 or ties.any())
    x, y = tile % columns * 16, tile // columns % rows * 16
    low, high = rows_of_lists[:, 8:10] - 0.1, rows_of_lists[:, 10:12] + 0.1
    hair = 1e-3 * (high - low)
    corner = torch.stack([x, y], -1)
    assert (low - hair <= corner + 15.5).all() and (high + hair >= corner + 0.5).all(), (
        "a convex far from its tile"
    )


def test_lists_are_cut_where_room_ends(device):
    splats, _, tile_counts, totals = many_convexes(20_000, 320, 200, device)
    seen, needed = totals.tolist()
    for visible, capacity in ((seen, needed // 2), (seen // 2, needed), (10, 10)):
        room = {"visible_capacity": visible, "capacity": capacity}
        instances, ranges, overflow, _ = bin_splats(
            splats, tile_counts, totals, width=320, height=200, **room, primitive="convexes"
        )
        assert overflow.item() == (capacity < needed)
        assert ranges.min() >= 0 and ranges.max() <= capacity and (ranges[:, 1] >= ranges[:, 0]).all()
        listed = instances[: int(ranges[:, 1].max())]
        assert listed.min() >= 0 and listed.max() < 20_000


def test_opcheck_and_what_is_refused(device):
    splats, _, tile_counts, totals = many_convexes(500, 64, 48, device)
    seen, needed = totals.tolist()
    arguments = (splats, tile_counts, totals, 64, 48, seen, needed, "convexes")
    checks = (
        ("test_schema", "test_faketensor") if splats.is_cuda else ("test_schema", "test_aot_dispatch_dynamic")
    )
    torch.library.opcheck(torch.ops.luxel.bin_splats.default, arguments, test_utils=checks)
    room = {"width": 64, "height": 48, "visible_capacity": seen, "capacity": needed}
    with pytest.raises(ValueError, match=r"splats of gaussians must be \[1, 500, 8\]"):
        bin_splats(splats, tile_counts, totals, **room)
    with pytest.raises(ValueError, match="spheres"):
        bin_splats(splats, tile_counts, totals, **room, primitive="spheres")
