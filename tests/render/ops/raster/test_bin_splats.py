"""Lists of tiles at real sizes: complete, in the order of depth, equal depths in the order of the splats."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from luxel.render.ops.raster.bin_splats import bin_splats, tile_grid
from luxel.render.ops.raster.project_gaussians import project_gaussians


def many_splats(count: int, width: int, height: int, device: torch.device, cameras: int = 1):
    """Projected Gaussians of about a pixel, a few of half the image, some not seen; a third share their depths."""
    generator = torch.Generator().manual_seed(count)

    def uniform(*shape: int, low: float = 0.0, high: float = 1.0) -> Tensor:
        return low + (high - low) * torch.rand(*shape, generator=generator)

    z = torch.exp2(uniform(count, low=-6.0, high=40.0))
    shared = torch.arange(count) % 3 == 0
    z[shared] = torch.exp2(torch.randint(-3, 6, (count,), generator=generator).float())[shared]
    focal = float(width)
    x, y = (uniform(count, low=-0.6, high=0.6) * size / focal * z for size in (width, height))
    size = 0.5 / focal * z
    size[torch.randperm(count, generator=generator)[: min(5, count // 10)]] *= 0.5 * width
    parameters = (
        torch.stack([x, y, z], -1),
        torch.randn(count, 4, generator=generator),
        size.log()[:, None].repeat(1, 3),
        uniform(count, low=-3.0, high=3.0),
        torch.zeros(count, 3),
        torch.zeros(count, 0, 3),
    )
    poses = torch.eye(4).repeat(cameras, 1, 1)
    poses[:, 2, 3] = torch.arange(cameras)
    intrinsics = torch.tensor([focal, focal, width / 2, height / 2]).repeat(cameras, 1)
    return project_gaussians(
        tuple(t.to(device) for t in parameters),  # pyright: ignore[reportArgumentType]
        poses.to(device),
        intrinsics.to(device),
        width=width,
        height=height,
        sh_degree=0,
        near=0.01,
        far=1e30,
        dilation=0.3,
    )


@pytest.mark.parametrize(
    ("count", "width", "height", "cameras"),
    [
        (1, 64, 48, 1),
        (700, 16, 16, 1),  # one tile
        (5_000, 640, 480, 1),
        (40_000, 200, 130, 3),
        (400_000, 1280, 720, 1),  # larger tiles of the sorts
        (1_200_000, 640, 480, 1),  # and of the gathering of what is seen
        (30_000, 4160, 4160, 1),  # more tiles than 16 bits tell apart
    ],
)
@pytest.mark.parametrize("slack", [0, 12_345])
def test_lists_are_whole_and_in_order(device, count, width, height, cameras, slack):
    splats, _, tile_counts, totals = many_splats(count, width, height, device, cameras)
    seen, needed = totals.tolist()
    assert seen == (tile_counts > 0).sum() and needed == tile_counts.sum() and (needed > 0 or count == 1)
    instances, ranges, overflow, _ = bin_splats(
        splats,
        tile_counts,
        totals,
        width=width,
        height=height,
        visible_capacity=seen + slack,
        capacity=needed + slack,
    )
    assert overflow.item() == 0
    columns, rows = tile_grid(width, height)
    lengths = (ranges[:, 1] - ranges[:, 0]).long()
    assert ranges.shape[0] == cameras * columns * rows and lengths.min() >= 0
    filled = lengths > 0
    ends = ranges[filled, 1].long()
    assert ranges[filled][:1, 0].sum() == 0 and torch.equal(ranges[filled][1:, 0].long(), ends[:-1])
    listed = instances[: int(lengths.sum())].long()
    # Counting and listing may round apart at the edge of a tile, never by much.
    actual = torch.bincount(listed, minlength=cameras * count).reshape(cameras, count)
    assert ((actual > 0) <= (tile_counts > 0)).all()
    assert (actual - tile_counts).abs().sum() <= 1e-5 * needed
    tile = torch.repeat_interleave(torch.arange(lengths.numel(), device=device), lengths)
    assert torch.equal(tile // (columns * rows), listed // count), "a splat in another camera's tile"
    depth = splats.reshape(-1, 8)[listed, 3]
    same = tile[1:] == tile[:-1]
    assert (depth[1:] >= depth[:-1])[same].all(), "not in the order of depth"
    ties = same & (depth[1:] == depth[:-1])
    assert (listed[1:] > listed[:-1])[ties].all() and (count < 1000 or ties.any())
    box = splats.reshape(-1, 8)[listed]
    across = (box[:, 0] - (tile % columns * 16 + 8)).abs()
    down = (box[:, 1] - (tile // columns % rows * 16 + 8)).abs()
    assert (across <= 8.01 + box[:, 7]).all() and (down <= 8.01 + box[:, 7]).all(), (
        "a splat far from its tile"
    )


def test_lists_are_cut_where_room_ends(device):
    splats, _, tile_counts, totals = many_splats(20_000, 320, 200, device)
    seen, needed = totals.tolist()
    for visible, capacity in ((seen, needed // 2), (seen // 2, needed), (10, 10)):
        instances, ranges, overflow, _ = bin_splats(
            splats, tile_counts, totals, width=320, height=200, visible_capacity=visible, capacity=capacity
        )
        assert overflow.item() == (capacity < needed)
        assert ranges.min() >= 0 and ranges.max() <= capacity and (ranges[:, 1] >= ranges[:, 0]).all()
        listed = instances[: int(ranges[:, 1].max())]
        assert listed.min() >= 0 and listed.max() < 20_000


def test_the_order_repeats(device):
    splats, _, tile_counts, totals = many_splats(150_000, 800, 800, device)
    seen, needed = totals.tolist()
    room = {"width": 800, "height": 800, "visible_capacity": seen, "capacity": needed}
    first, *_ = bin_splats(splats, tile_counts, totals, **room)
    for _ in range(5):
        again, *_ = bin_splats(splats, tile_counts, totals, **room)
        assert torch.equal(first, again)
