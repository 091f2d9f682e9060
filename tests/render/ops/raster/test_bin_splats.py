"""Lists of tiles at real sizes: complete, in the order of depth, equal depths in the order of the splats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from luxel.render.ops.raster.bin_splats import bin_splats, tile_grid
from luxel.render.ops.raster.project_convexes import project_convexes
from luxel.render.ops.raster.project_gaussians import project_gaussians


def uniform(generator: torch.Generator, *shape: int, low: float = 0.0, high: float = 1.0) -> Tensor:
    return low + (high - low) * torch.rand(*shape, generator=generator)


def many_gaussians(centre: Tensor, size: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
    count = centre.shape[0]
    return (
        centre,
        torch.randn(count, 4, generator=generator),
        size.log()[:, None].repeat(1, 3),
        uniform(generator, count, low=-3.0, high=3.0),
        torch.zeros(count, 3),
        torch.zeros(count, 0, 3),
    )


def many_convexes(centre: Tensor, size: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
    count, z = centre.shape[0], centre[:, 2]
    offsets = torch.randn(count, 6, 3, generator=generator) * torch.tensor([1.0, 1, 0])
    return (
        centre[:, None] + size[:, None, None] * offsets,
        (0.5 / z).log(),
        (1.0 / z).log(),
        uniform(generator, count, low=-3.0, high=3.0),
        torch.zeros(count, 3),
        torch.zeros(count, 0, 3),
        torch.where(torch.arange(count) % 7 == 0, -9.0, 1.0),
    )


def square_of(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Lowest and highest corner that the rows of Gaussians cover."""
    return rows[:, :2] - rows[:, 7:8] - 0.01, rows[:, :2] + rows[:, 7:8] + 0.01


def box_of(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Lowest and highest corner of the centres of pixels that the rows of convexes cover, a hair wider."""
    low, high = rows[:, 8:10] - 0.1, rows[:, 10:12] + 0.1
    hair = 1e-3 * (high - low)
    return low - hair + 0.5, high + hair - 0.5


@dataclass(frozen=True)
class Case:
    """A primitive in numbers.

    Args:
        row: numbers of a splat.
        parameters: of centres, sizes and random numbers.
        depths: powers of 2 of depths, and of those that a third shares.
        pixels: size of most; large: by how much of the image's width a few are larger.
        bounds: corners of what a row covers, in pixels.
    """

    name: str
    row: int
    project: Callable[..., tuple[Tensor, ...]]
    options: dict[str, float]
    parameters: Callable[..., tuple[Tensor, ...]]
    depths: tuple[float, float, int, int]
    pixels: float
    large: float
    bounds: Callable[[Tensor], tuple[Tensor, Tensor]]

    def many(
        self, count: int, width: int, height: int, device: torch.device, cameras: int = 1
    ) -> tuple[Tensor, ...]:
        """Projected ones of a few pixels, a few of half the image or all, some not seen; a third share their depths."""
        generator = torch.Generator().manual_seed(count)
        low, high, first, last = self.depths
        z = torch.exp2(uniform(generator, count, low=low, high=high))
        shared = torch.arange(count) % 3 == 0
        z[shared] = torch.exp2(torch.randint(first, last, (count,), generator=generator).float())[shared]
        focal = float(width)
        x, y = (uniform(generator, count, low=-0.6, high=0.6) * side / focal * z for side in (width, height))
        size = self.pixels / focal * z
        size[torch.randperm(count, generator=generator)[: min(5, count // 10)]] *= self.large * width
        poses = torch.eye(4).repeat(cameras, 1, 1)
        poses[:, 2, 3] = torch.arange(cameras)
        intrinsics = torch.tensor([focal, focal, width / 2, height / 2]).repeat(cameras, 1)
        parameters = self.parameters(torch.stack([x, y, z], -1), size, generator)
        return self.project(
            tuple(t.to(device) for t in parameters),
            poses.to(device),
            intrinsics.to(device),
            width=width,
            height=height,
            sh_degree=0,
            near=0.01,
            far=1e30,
            **self.options,
        )


GAUSSIANS = Case(
    "gaussians",
    8,
    project_gaussians,
    {"dilation": 0.3},
    many_gaussians,
    (-6.0, 40.0, -3, 6),
    0.5,
    0.5,
    square_of,
)
CONVEXES = Case("convexes", 28, project_convexes, {}, many_convexes, (-1.0, 8.0, 0, 6), 2.0, 0.2, box_of)
SIZES = [
    (1, 64, 48, 1),
    (700, 16, 16, 1),  # one tile
    (5_000, 640, 480, 1),
    (40_000, 200, 130, 3),
    (30_000, 4160, 4160, 1),  # more tiles than 16 bits tell apart
]
both = pytest.mark.parametrize("case", [GAUSSIANS, CONVEXES], ids=["gaussians", "convexes"])


@pytest.mark.parametrize(
    ("case", "count", "width", "height", "cameras"),
    [(case, *size) for case in (GAUSSIANS, CONVEXES) for size in SIZES]
    + [
        (GAUSSIANS, 400_000, 1280, 720, 1),  # larger tiles of the sorts
        (GAUSSIANS, 1_200_000, 640, 480, 1),  # and of the gathering of what is seen
        (CONVEXES, 150_000, 1280, 720, 1),
    ],
)
@pytest.mark.parametrize("slack", [0, 12_345])
def test_lists_are_whole_and_in_order(device, case, count, width, height, cameras, slack):
    splats, _, tile_counts, totals = case.many(count, width, height, device, cameras)
    seen, needed = totals.tolist()
    assert seen == (tile_counts > 0).sum() and needed == tile_counts.sum() and (needed > 0 or count == 1)
    room = {"visible_capacity": seen + slack, "capacity": needed + slack}
    size = {"width": width, "height": height}
    instances, ranges, overflow, _ = bin_splats(
        splats, tile_counts, totals, **size, **room, primitive=case.name
    )
    assert overflow.item() == 0
    columns, rows = tile_grid(width, height)
    lengths = (ranges[:, 1] - ranges[:, 0]).long()
    assert ranges.shape[0] == cameras * columns * rows and lengths.min() >= 0
    filled = ranges[lengths > 0].long()
    assert filled[:1, 0].sum() == 0 and torch.equal(filled[1:, 0], filled[:-1, 1])
    listed = instances[: int(lengths.sum())].long()
    # Counting and listing may round apart at the edge of a tile, never by much.
    actual = torch.bincount(listed, minlength=cameras * count).reshape(cameras, count)
    assert ((actual > 0) <= (tile_counts > 0)).all() and (actual - tile_counts).abs().sum() <= 1e-5 * needed
    tile = torch.repeat_interleave(torch.arange(lengths.numel(), device=device), lengths)
    assert torch.equal(tile // (columns * rows), listed // count), "a splat in another camera's tile"
    box = splats.reshape(-1, case.row)[listed]
    depth, same = box[:, 3], tile[1:] == tile[:-1]
    assert (depth[1:] >= depth[:-1])[same].all(), "not in the order of depth"
    ties = same & (depth[1:] == depth[:-1])
    assert (listed[1:] > listed[:-1])[ties].all() and (count < 1000 or ties.any())
    corner = torch.stack([tile % columns * 16, tile // columns % rows * 16], -1)
    low, high = case.bounds(box)
    assert (low <= corner + 16).all() and (high >= corner).all(), "a splat far from its tile"


@both
def test_lists_are_cut_where_room_ends(device, case):
    splats, _, tile_counts, totals = case.many(20_000, 320, 200, device)
    seen, needed = totals.tolist()
    for visible, capacity in ((seen, needed // 2), (seen // 2, needed), (10, 10)):
        room = {"visible_capacity": visible, "capacity": capacity}
        instances, ranges, overflow, _ = bin_splats(
            splats, tile_counts, totals, width=320, height=200, **room, primitive=case.name
        )
        assert overflow.item() == (capacity < needed)
        assert ranges.min() >= 0 and ranges.max() <= capacity and (ranges[:, 1] >= ranges[:, 0]).all()
        listed = instances[: int(ranges[:, 1].max())]
        assert listed.min() >= 0 and listed.max() < 20_000


def test_the_order_repeats(device):
    splats, _, tile_counts, totals = GAUSSIANS.many(150_000, 800, 800, device)
    seen, needed = totals.tolist()
    room = {"width": 800, "height": 800, "visible_capacity": seen, "capacity": needed}
    first, *_ = bin_splats(splats, tile_counts, totals, **room)
    for _ in range(5):
        again, *_ = bin_splats(splats, tile_counts, totals, **room)
        assert torch.equal(first, again)


def test_opcheck_and_what_is_refused(device):
    splats, _, tile_counts, totals = CONVEXES.many(500, 64, 48, device)
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
