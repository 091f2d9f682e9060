"""Samples along rays: by the reference, by hand, with too little room, of pixels; and the pixels that are drawn."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.ops.field.draw_pixels import draw_pixels
from luxel.render.ops.field.march_rays import (
    ASKED,
    LEFT_OUT,
    RAYS,
    SAMPLES,
    Region,
    march_pixels,
    march_rays,
    pack_cells,
    unpack_cells,
)
from luxel.render.reference.field.march_rays import (
    contracted_reference,
    march_cascades_reference,
    march_rays_reference,
    pixel_rays_reference,
)

D = torch.float64
BOX = (-1.0, -0.5, 0.25, 1.5, 1.0, 2.0)
REGION = Region(BOX, 0.021, near=0.4, resolution=16)


def cells(resolution: int, share: float, seed: int = 0) -> Tensor:
    """Which cells are occupied, bool [G, G, G]."""
    return (
        torch.rand(resolution, resolution, resolution, generator=torch.Generator().manual_seed(seed)) < share
    )


def rays(n: int, dtype: torch.dtype = D, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Rays from around the box, most of which meet it; some along an axis, some that are broken."""
    generator = torch.Generator().manual_seed(seed)
    origins = 4 * torch.randn(n, 3, generator=generator)
    towards = torch.tensor(BOX).view(2, 3).mean(0) + 0.6 * torch.randn(n, 3, generator=generator)
    directions = torch.nn.functional.normalize(towards - origins, dim=-1)
    if n > 40:
        origins[3], directions[3] = torch.tensor([-5.0, 0.3, 1.1]), torch.tensor([1.0, 0, 0])
        origins[9], directions[9] = torch.tensor([0.1, 9.0, 1.3]), torch.tensor([0, -1.0, 0])
        origins[17] = torch.tensor([0.2, 0.3, 1.1])  # inside
        origins[21, 1] = math.nan
        directions[23, 2] = math.nan
    return origins.to(dtype), directions.to(dtype)


def assert_same_samples(actual, origins, directions, occupied, region, jitter=0.5):
    """The samples are those of the float64 reference, but for places within rounding of a face of a cell."""
    single = actual.t.dtype == torch.float32
    off, near = (1e-5, 3e-4) if single else (1e-12, 1e-9)
    row, points, t, margin = march_rays_reference(
        origins.double(),
        directions.double(),
        region.box,
        region.step,
        occupied,
        near=region.near,
        far=region.far,
        jitter=jitter,
    )
    count = (
        torch.bincount(row, minlength=len(origins))
        if len(row)
        else torch.zeros(len(origins), dtype=torch.long)
    )
    clear = ~(margin < near).any(-1)
    assert clear.double().mean() > (0.6 if single else 0.99)
    ranges = actual.ranges.cpu().long()
    assert torch.equal(ranges[clear, 1], count[clear])
    start = count.cumsum(0) - count
    for r in (clear & (count > 0)).nonzero()[:, 0].tolist():
        mine = slice(int(ranges[r, 0]), int(ranges[r].sum()))
        true = slice(int(start[r]), int(start[r] + count[r]))
        torch.testing.assert_close(actual.t[mine].cpu().to(D), t[true], rtol=off, atol=off)
        torch.testing.assert_close(actual.positions[mine].cpu().to(D), points[true], rtol=0, atol=4 * off)
        given = directions[r].double().expand(int(count[r]), 3)
        torch.testing.assert_close(actual.directions[mine].cpu().to(D), given, rtol=0, atol=0)
        assert (actual.dt[mine] == torch.tensor(region.step, dtype=actual.dt.dtype).item()).all()


@pytest.mark.parametrize("share", [0.0, 0.07, 0.6, None])
def test_it_is_the_reference(precision, share):
    origins, directions = rays(203)
    given = [t.float().to(**precision) for t in (origins, directions)]  # the same numbers in every type
    occupied = None if share is None else cells(16, share)
    bits = None if occupied is None else pack_cells(occupied).to(precision["device"])
    actual = march_rays(given[0], given[1], REGION, bits, capacity=40_000)
    counters = actual.counters.tolist()
    used = counters[SAMPLES]
    assert counters[:4] == [int(actual.ranges[:, 1].sum()), used, 203, 0]
    assert (used > 1000) == (share != 0)
    assert_same_samples(actual, given[0].cpu(), given[1].cpu(), occupied, REGION)
    for tensor in actual[:4]:
        assert not tensor[used:].any() and tensor.isfinite().all()
    order = actual.ranges[actual.ranges[:, 1] > 0].cpu().long()
    order = order[order[:, 0].argsort()]
    assert torch.equal(order[:, 0], order[:, 1].cumsum(0) - order[:, 1])  # side by side
    assert (actual.ranges[actual.ranges[:, 1] == 0] == 0).all()


@pytest.mark.parametrize("growth", [0.0, 1 / 128])
@pytest.mark.parametrize("contracted", [True, False])
def test_cascades_are_the_reference(precision, contracted, growth):
    origins, directions = rays(120)
    keep = (origins + directions).isfinite().all(-1)
    given = [t[keep].float().to(**precision) for t in (origins, directions)]
    region = REGION._replace(cascades=4, contracted=contracted, growth=growth)
    occupied = torch.stack([cells(16, share, k) for k, share in enumerate((0.5, 0.2, 0.05, 0.3))])
    occupied[1, :4] = False  # whole blocks that are skipped
    bits = torch.cat([pack_cells(grid) for grid in occupied]).to(precision["device"])
    actual = march_rays(*given, region, bits, capacity=150_000)
    row, points, t, lengths, margin = march_cascades_reference(
        given[0].cpu().double(),
        given[1].cpu().double(),
        region.box,
        region.step,
        occupied,
        growth=growth,
        near=region.near,
    )
    single = actual.t.dtype == torch.float32
    off, near = (2e-5, 3e-3) if single else (1e-12, 1e-9)
    count = torch.bincount(row, minlength=len(given[0]))
    clear = ~(margin < near).any(-1)
    assert count.sum() > 2000 and (single or clear.double().mean() > 0.95)
    assert torch.equal(actual.ranges[:, 1].cpu().long()[clear], count[clear])
    expected = contracted_reference(points) if contracted else (points - 0.5) / 8 + 0.5
    start = count.cumsum(0) - count
    for r in (clear & (count > 0)).nonzero()[:, 0].tolist():
        first, number = actual.ranges[r].tolist()
        mine, true = slice(first, first + number), slice(int(start[r]), int(start[r] + count[r]))
        for a, b, scale in (
            (actual.t, t, 10),
            (actual.dt, lengths, 1),
            (actual.positions, expected, 1),
        ):
            torch.testing.assert_close(a[mine].cpu().double(), b[true], rtol=0, atol=off * scale)
    assert (actual.t[: int(actual.counters[SAMPLES])] > 3).any()


def test_places_in_the_field_and_back():
    inside = torch.rand(200, 3, generator=torch.Generator().manual_seed(2), dtype=D)
    for region in (REGION, REGION._replace(cascades=5), REGION._replace(cascades=5, contracted=True)):
        p = 0.5 + (inside - 0.5) * 0.99 * region.outermost
        torch.testing.assert_close(region.from_field(region.to_field(p)), p, rtol=1e-9, atol=1e-9)
    contracted = REGION._replace(cascades=5, contracted=True)
    far = 0.5 + 12 * (inside - 0.5)
    torch.testing.assert_close(contracted.to_field(far), contracted_reference(far), rtol=0, atol=1e-12)
    torch.testing.assert_close(contracted.to_field(inside), (inside + 0.5) / 2)


def test_by_hand(device):
    region = Region((0, 0, 0, 1, 1, 1), 0.125, resolution=4)
    occupied = torch.zeros(4, 4, 4, dtype=torch.bool)
    occupied[2:, :2, 2:] = True  # x and z above a half, y below
    bits = pack_cells(occupied).to(device)
    assert bits.tolist() == [0, 0, 0, 0, 0b11001100, 0, 0b11001100, 0]
    origin = torch.tensor([[-1.0, 0.25, 0.75]], device=device)
    along = torch.tensor([[1.0, 0, 0]], device=device)
    actual = march_rays(origin, along, region, bits, capacity=10)
    assert actual.ranges.tolist() == [[0, 4]]
    torch.testing.assert_close(actual.t[:4].cpu(), torch.tensor([1.5625, 1.6875, 1.8125, 1.9375]))
    torch.testing.assert_close(actual.positions[0].cpu(), torch.tensor([0.5625, 0.25, 0.75]))
    assert march_rays(-origin, along, region, bits, capacity=10).counters[SAMPLES] == 0
    near = march_rays(origin, along, region._replace(near=1.6), None, capacity=10)
    torch.testing.assert_close(near.t[:4].cpu(), torch.tensor([1.6625, 1.7875, 1.9125, 0]))
    far = march_rays(origin, along, region._replace(far=1.2), None, capacity=10)
    assert far.counters[SAMPLES] == 2


def test_cells_as_bits(device):
    for resolution in (4, 8, 20):
        occupied = cells(resolution, 0.3, resolution).to(device)
        bits = pack_cells(occupied)
        assert bits.shape == (resolution**3 // 8,) and torch.equal(unpack_cells(bits), occupied)


def test_jitter(device):
    region = Region((0, 0, 0, 1, 1, 1), 0.01, resolution=4)
    origins = torch.rand(500, 3, generator=torch.Generator().manual_seed(1)).to(device)
    origins[:, 0] = -1
    along = torch.tensor([1.0, 0, 0], device=device).expand(500, 3).contiguous()
    starts = []
    for seed in (5, 5, 6 << 40):
        given = torch.tensor([seed], device=device)
        actual = march_rays(origins, along, region, None, capacity=60_000, seed=given)
        starts.append((actual.t[actual.ranges[:, 0].long()] - 1) / region.step)
        assert_same_samples(
            actual,
            origins.cpu(),
            along.cpu(),
            None,
            region,
            ((actual.t[actual.ranges[:, 0].long()].cpu().double() - 1) / 0.01),
        )
    assert torch.equal(starts[0], starts[1]) and (starts[0] != starts[2]).float().mean() > 0.99
    assert starts[0].min() > 0 and starts[0].max() < 1.001
    assert abs(starts[0].mean() - 0.5) < 0.05 and abs(starts[0].std() - 12**-0.5) < 0.03


def test_too_little_room(device):
    origins, directions = (t.float().to(device) for t in rays(300))
    bits = pack_cells(cells(16, 0.4)).to(device)
    whole = march_rays(origins, directions, REGION, bits, capacity=40_000)
    asked = int(whole.counters[ASKED])
    for capacity in (1, asked // 3, asked - 1, asked):
        actual = march_rays(origins, directions, REGION, bits, capacity=capacity)
        used, expected, count, left_out = actual.counters.tolist()[:4]
        assert expected == asked and count == 300 and used <= capacity
        has = actual.ranges[:, 1] > 0
        assert used == actual.ranges[:, 1].sum()
        assert torch.equal(actual.ranges[has, 1], whole.ranges[has, 1])
        assert left_out == int((whole.ranges[:, 1] > 0).sum() - has.sum()) and (left_out > 0) == (
            capacity < asked
        )
        assert used > capacity - 200 and not actual.t[used:].any()  # the last one that fits is near the end
        places = torch.zeros(capacity, dtype=torch.long)
        for first, number in actual.ranges[has].tolist():
            places[first : first + number] += 1
        assert (places[:used] == 1).all()


def test_the_number_of_rays_adapts(device):
    origins, directions = (t.float().to(device) for t in rays(1000))
    bits = pack_cells(cells(16, 0.4)).to(device)
    live = torch.tensor([100], dtype=torch.int32, device=device)
    seen = []
    for _ in range(8):
        actual = march_rays(origins, directions, REGION, bits, capacity=20_000, live=live, target=10_000)
        assert actual.counters[RAYS] <= 1000 and actual.counters[LEFT_OUT] == 0
        seen.append((int(actual.counters[RAYS]), int(actual.counters[ASKED])))
        assert not actual.ranges[seen[-1][0] :].any()
    assert seen[0][0] == 100 and abs(seen[-1][1] - 10_000) < 500
    assert all(a <= 2 * b + 1 and b <= 2 * a + 1 for (a, _), (b, _) in itertools.pairwise(seen))
    nothing = torch.zeros_like(bits)
    live.fill_(150)
    march_rays(origins, directions, REGION, nothing, capacity=100, live=live, target=50)
    assert live.item() == 300


def views(dtype: torch.dtype) -> tuple[list[Camera], Tensor, Tensor, Tensor]:
    cameras = [
        Camera.look_at((3, 0.5, 2), (0, 0, 1), width=7, height=5),
        Camera.look_at((-2, 2, 1), (0, 0, 1), width=4, height=6),
        Camera.look_at((1, -3, 0.5), (0, 0.2, 1), width=1, height=1),
    ]
    table = torch.tensor([[0, 7], [35, 4], [59, 1]])
    return (
        cameras,
        table,
        torch.stack([c.world_to_cam for c in cameras]).to(dtype),
        torch.stack([c.intrinsics for c in cameras]).to(dtype),
    )


def test_pixels_of_views(precision):
    cameras, table, poses, intrinsics = views(precision["dtype"])
    pixels = torch.arange(60)
    origins, directions = pixel_rays_reference(pixels, table, poses.double(), intrinsics.double())
    at = 0
    for camera in cameras:
        n = camera.width * camera.height
        torch.testing.assert_close(
            origins[at : at + n], camera.position.double().expand(n, 3), rtol=0, atol=1e-6
        )
        ends = origins[at : at + n] + 2 * directions[at : at + n]
        seen = ends @ camera.world_to_cam[:3, :3].double().T + camera.world_to_cam[:3, 3].double()
        px = camera.intrinsics[:2].double() * seen[:, :2] / seen[:, 2:] + camera.intrinsics[2:].double()
        columns, rows = torch.arange(n) % camera.width + 0.5, torch.arange(n) // camera.width + 0.5
        torch.testing.assert_close(px, torch.stack([columns, rows], -1).double(), rtol=0, atol=1e-4)
        at += n
    where = precision["device"]
    region = REGION._replace(near=0.0)
    pixels = torch.cat([pixels, torch.tensor([-1, -7])]).to(where)
    actual = march_pixels(
        pixels, table.to(where), poses.to(where), intrinsics.to(where), region, None, capacity=9000
    )
    count, off = actual.ranges[:, 1].cpu(), 1e-5 if actual.t.dtype == torch.float32 else 1e-12
    assert actual.counters[ASKED] > 2000 and not count[60:].any()
    for r in range(60):
        mine = slice(int(actual.ranges[r, 0]), int(actual.ranges[r].sum()))
        torch.testing.assert_close(
            actual.directions[mine].cpu().double(), directions[r].expand(int(count[r]), 3), rtol=0, atol=off
        )
        box = torch.tensor(BOX, dtype=D).view(2, 3)
        points = actual.positions[mine].cpu().double() * (box[1] - box[0]) + box[0]
        true = origins[r] + actual.t[mine].cpu().double()[:, None] * directions[r]
        torch.testing.assert_close(points, true, rtol=0, atol=4 * off)


def test_what_is_refused(device):
    origins, directions = (t.float().to(device) for t in rays(5))
    with pytest.raises(ValueError, match=r"occupancy must be \[512\] torch.uint8"):
        march_rays(
            origins, directions, REGION, torch.zeros(511, dtype=torch.uint8, device=device), capacity=9
        )
    with pytest.raises(ValueError, match="box must be"):
        march_rays(origins, directions, REGION._replace(box=(0, 0, 0, 1, 0, 1)), None, capacity=9)
    with pytest.raises(ValueError, match="step must be above 0"):
        march_rays(origins, directions, REGION._replace(step=0.0), None, capacity=9)
    with pytest.raises(ValueError, match="resolution must be a multiple of 4"):
        march_rays(origins, directions, REGION._replace(resolution=7), None, capacity=9)
    with pytest.raises(
        ValueError, match="cascades must be 1 to 16, with a resolution that is a multiple of 16"
    ):
        march_rays(origins, directions, REGION._replace(cascades=2, resolution=20), None, capacity=9)
    with pytest.raises(ValueError, match="growth must be at least 0 and below 1"):
        march_rays(origins, directions, REGION._replace(growth=-0.1), None, capacity=9)
    with pytest.raises(ValueError, match=r"capacity must be 1 to .* got 0 and 5"):
        march_rays(origins, directions, REGION, None, capacity=0)
    with pytest.raises(ValueError, match=r"directions must be \[5, 3\]"):
        march_rays(origins, directions[:4], REGION, None, capacity=9)
    with pytest.raises(ValueError, match=r"origins or world_to_cam must be given, .* float32 or float64"):
        march_rays(origins.half(), directions, REGION, None, capacity=9)
    pixels, views = (torch.zeros(*n, dtype=torch.int64, device=device) for n in ((3,), (0, 2)))
    poses, lenses = torch.zeros(0, 4, 4, device=device), torch.zeros(0, 4, device=device)
    with pytest.raises(ValueError, match="views must be given with pixels, and at least one"):
        march_pixels(pixels, views, poses, lenses, REGION, None, capacity=9)
    assert march_rays(origins[:0], directions[:0], REGION, None, capacity=4).counters.tolist() == [0] * 5


def test_drawn_pixels(device):
    generator = torch.Generator().manual_seed(3)
    images = torch.randint(0, 256, (200, 4), generator=generator, dtype=torch.uint8)
    numbers = torch.randint(0, 2**62, (3000,), generator=generator)
    live = torch.tensor([2500], dtype=torch.int32)
    given = numbers.to(device), images.to(device)
    pixels, targets, behind = (t.cpu() for t in draw_pixels(*given, live=live.to(device)))
    assert torch.equal(pixels[:2500], numbers[:2500] % 200) and (pixels[2500:] == -1).all()
    assert not targets[2500:].any() and not behind[2500:].any()
    chosen = images[pixels[:2500]].double() / 255
    expected = chosen[:, :3] * chosen[:, 3:] + (1 - chosen[:, 3:]) * behind[:2500].double()
    torch.testing.assert_close(targets[:2500].double(), expected, rtol=0, atol=1e-6)
    assert abs(behind[:2500].mean() - 0.5) < 0.02 and abs(behind[:2500].std() - 12**-0.5) < 0.02
    white = torch.ones(3)
    among = torch.arange(0, 200, 3)
    pixels, targets, behind = (t.cpu() for t in draw_pixels(*given, among.to(device), white.to(device)))
    assert (pixels % 3 == 0).all() and (behind == 1).all()
    chosen = images[pixels].double() / 255
    torch.testing.assert_close(
        targets.double(), chosen[:, :3] * chosen[:, 3:] + 1 - chosen[:, 3:], rtol=0, atol=1e-6
    )
    _, targets, _ = (t.cpu() for t in draw_pixels(given[0], given[1][:, :3].contiguous()))
    torch.testing.assert_close(targets, images[numbers % 200, :3] / 255, rtol=0, atol=1e-7)
    with pytest.raises(ValueError, match="at least one pixel, got none"):
        draw_pixels(given[0], given[1][:0])
    with pytest.raises(ValueError, match=r"images must be \[P, 3 or 4\], got \[200, 2\]"):
        draw_pixels(given[0], given[1][:, :2])
    with pytest.raises(ValueError, match=r"numbers must be \[R\], got \[3000, 1\]"):
        draw_pixels(given[0][:, None], given[1])


def test_opcheck(device):
    origins, directions = (t.float().to(device) for t in rays(50))
    bits = pack_cells(cells(16, 0.4)).to(device)
    live = torch.tensor([30], dtype=torch.int32, device=device)
    rest = bits, None, live, 16, 500, 0, list(BOX), 0.021, 0.0, math.inf, 1, False, 0.0
    given = (origins, directions, None, None, None, None, *rest)
    checks = ("test_schema", "test_faketensor") if device.type == "cpu" else ("test_faketensor",)
    torch.library.opcheck(torch.ops.luxel.march_rays.default, given, test_utils=checks)
    images = torch.zeros(9, 3, dtype=torch.uint8, device=device)
    torch.library.opcheck(
        torch.ops.luxel.draw_pixels.default, (torch.arange(5, device=device), images, None, None, live)
    )
