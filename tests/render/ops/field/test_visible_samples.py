"""Samples that can be seen: by the reference, by hand, with too little room, and how many rays are to fill it."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from luxel.render.ops.field.composite import composite
from luxel.render.ops.field.march_rays import ASKED, LEFT_OUT, RAYS, SAMPLES, Region, Samples, march_rays
from luxel.render.ops.field.visible_samples import visible_samples
from luxel.render.reference.field.visible_samples import visible_samples_reference

BOX = (0.0, 0.0, 0.0, 1.0, 1.0, 1.0)
REGION = Region(BOX, 0.004, resolution=4)
SCALE = 1.7


def marched(
    count: int, precision: dict, capacity: int = 100_000, live: Tensor | None = None, seed: int = 0
) -> tuple[Samples, Tensor]:
    """Samples of rays through the box, some of which miss it, and a density at each: of a ray of its own height."""
    generator = torch.Generator().manual_seed(seed)
    origins = torch.randn(count, 3, generator=generator) + torch.tensor([-4.0, 0.5, 0.5])
    towards = torch.rand(count, 3, generator=generator) + 0.1
    directions = torch.nn.functional.normalize(towards - origins, dim=-1)
    where = precision["device"]
    origins, directions = (t.float().to(where, precision["dtype"]) for t in (origins, directions))
    samples = march_rays(origins, directions, REGION, None, capacity=capacity, live=live)
    noise = torch.randn(capacity, generator=generator)
    height = (
        (samples.directions[:, 1].cpu().double() * 1e4).sin().float()
    )  # the same for all samples of a ray
    density = (3 + 2.5 * noise + 3 * height).float()
    return samples, density.to(**precision)


def chosen(
    raw: Samples, density: Tensor, min_alpha: float = 0.0, least: float = 1e-4
) -> tuple[list[Tensor], Tensor]:
    """The samples of each ray that the float64 reference sees, and how near any of them was to not being seen."""
    ranges = raw.ranges.cpu()
    seen, margin = visible_samples_reference(
        density.cpu().double(),
        raw.dt.cpu().double(),
        ranges,
        scale=SCALE,
        min_transmittance=least,
        min_alpha=min_alpha,
    )
    return [ranges[r, 0] + row.nonzero()[:, 0] for r, row in enumerate(seen)], margin


@pytest.mark.parametrize("min_alpha", [0.0, 0.02])
def test_it_is_the_reference(precision, min_alpha):
    raw, density = marched(301, precision)
    actual = visible_samples(raw, density, capacity=90_000, scale=SCALE, min_alpha=min_alpha)
    expected, margin = chosen(raw, density, min_alpha)
    clear = margin > (3e-4 if density.dtype == torch.float32 else 1e-9)
    assert clear.double().mean() > (0.8 if density.dtype == torch.float32 else 0.99)
    ranges = actual.ranges.cpu()
    for r in clear.nonzero()[:, 0].tolist():
        mine = slice(int(ranges[r, 0]), int(ranges[r].sum()))
        assert ranges[r, 1] == len(expected[r])
        for after, before in zip(actual[:4], raw[:4], strict=True):
            assert torch.equal(after[mine].cpu(), before.cpu()[expected[r]])
    counters = actual.counters.tolist()
    used = counters[SAMPLES]
    assert counters[:4] == [int(ranges[:, 1].sum()), used, 301, 0]
    assert 3000 < used < 0.7 * raw.counters[SAMPLES]
    for tensor in actual[:4]:
        assert not tensor[used:].any()
    order = ranges[ranges[:, 1] > 0].long()
    if precision["device"].type == "cuda":
        order = order[order[:, 0].argsort()]
    assert torch.equal(
        order[:, 0], order[:, 1].cumsum(0) - order[:, 1]
    )  # side by side, on the CPU in their order
    assert (ranges[ranges[:, 1] == 0] == 0).all()


def test_nothing_that_composite_looks_at_is_left_out(precision):
    raw, density = marched(200, precision)
    index = torch.arange(len(density), dtype=density.dtype)[:, None].to(density)
    numbered = raw._replace(directions=torch.cat([index, raw.directions[:, 1:]], 1))
    actual = visible_samples(numbered, density, capacity=90_000, scale=SCALE)
    behind = torch.rand(200, 3, generator=torch.Generator().manual_seed(1)).to(density)
    seen = []
    for samples in (raw, actual):
        at = density if samples is raw else density[actual.directions[:, 0].long()]
        ends = samples.t, samples.ranges, samples.counters, behind
        seen.append(composite(at, samples.positions, samples.dt, *ends, scale=SCALE))
    off = 1e-5 if density.dtype == torch.float32 else 1e-12
    _, margin = chosen(raw, density)
    clear = (margin > 3e-4).to(density.device)
    for name in ("rgb", "transmittance", "depth"):
        a, b = (getattr(s, name)[clear] for s in seen)
        torch.testing.assert_close(a, b, rtol=0, atol=5 * off if name == "depth" else off)


def test_by_hand(device):
    ranges = torch.tensor([[2, 40], [0, 0], [42, 3], [0, 2]], dtype=torch.int32, device=device)
    counters = torch.tensor([45, 45, 4, 0, 0], device=device)
    index = torch.arange(50.0, device=device)
    place = index[:, None].expand(50, 3).contiguous()
    raw = Samples(place, place + 100, index + 200, torch.ones(50, device=device), ranges, counters)
    density = torch.full((50, 3), -20.0, device=device)
    density[3, 1] = density[40, 1] = density[43, 1] = 1.0  # a depth of e
    density[35, 1] = 4.0  # and of 54.6: nothing is seen behind it
    density[44, 1] = float("nan")
    actual = visible_samples(raw, density[:, 1], capacity=60)
    assert actual.counters.tolist()[:4] == [39, 39, 4, 0]
    assert actual.ranges[:, 1].tolist() == [34, 0, 3, 2]
    few = visible_samples(raw, density[:, 1], capacity=60, min_alpha=0.5)
    assert few.ranges[:, 1].tolist() == [2, 0, 1, 0]
    first, second = (int(few.ranges[r, 0]) for r in (0, 2))
    assert few.t[first : first + 2].tolist() == [203, 235] and few.t[second].item() == 243
    assert few.positions[second].tolist() == [43] * 3 and few.directions[second].tolist() == [143] * 3
    deep = visible_samples(raw, density[:, 1], capacity=60, min_alpha=0.5, scale=0.01, min_transmittance=0.0)
    assert deep.ranges[:, 1].tolist() == [0, 0, 0, 0] and deep.counters[ASKED] == 0 and not deep.t.any()


def test_too_little_room(device):
    precision = {"device": device, "dtype": torch.float32}
    raw, density = marched(400, precision)
    whole = visible_samples(raw, density, capacity=90_000, scale=SCALE)
    asked = int(whole.counters[ASKED])
    for capacity in (1, asked // 3, asked - 1, asked):
        actual = visible_samples(raw, density, capacity=capacity, scale=SCALE)
        used, expected, count, left_out = actual.counters.tolist()[:4]
        assert expected == asked and count == 400 and used <= capacity and len(actual.t) == capacity
        has = actual.ranges[:, 1] > 0
        assert used == actual.ranges[:, 1].sum() and torch.equal(actual.ranges[has, 1], whole.ranges[has, 1])
        assert left_out == int((whole.ranges[:, 1] > 0).sum() - has.sum())
        assert (left_out > 0) == (capacity < asked)
        assert used > capacity - 500 and not actual.t[used:].any()
        places = torch.zeros(capacity, dtype=torch.long)
        for first, number in actual.ranges[has].tolist():
            places[first : first + number] += 1
        assert (places[:used] == 1).all()
    tight, density = marched(400, precision, capacity=9000)
    dropped = int(tight.counters[LEFT_OUT])
    actual = visible_samples(tight, density, capacity=500, scale=SCALE)
    assert dropped > 100 and actual.counters[LEFT_OUT] > dropped
    assert actual.counters[LEFT_OUT] == 400 - (actual.ranges[:, 1] > 0).sum() - _misses(tight, dropped)


def _misses(raw: Samples, dropped: int) -> int:
    """How many rays have no samples because they miss the box."""
    return int((raw.ranges[:, 1] == 0).sum()) - dropped


@pytest.mark.parametrize(
    ("target", "raw_target"), [(4000, 0), (60_000, 15_000), (4000, 15_000), (2000, 80_000)]
)
def test_the_number_of_rays_adapts_to_the_tighter_room(device, target, raw_target):
    precision = {"device": device, "dtype": torch.float32}
    live = torch.tensor([5], dtype=torch.int32, device=device)
    steps = []
    for seed in range(9):
        raw, density = marched(1000, precision, live=live, seed=seed)
        assert live.item() == raw.counters[RAYS]  # marching leaves it
        actual = visible_samples(
            raw, density, capacity=50_000, scale=SCALE, live=live, target=target, raw_target=raw_target
        )
        steps.append((int(actual.counters[RAYS]), int(raw.counters[ASKED]), int(actual.counters[ASKED])))
    assert steps[0][0] == 5
    for (rays, asked_raw, asked), (after, *_) in itertools.pairwise(steps):
        fill = max(asked / target, asked_raw / raw_target if raw_target else 0)
        assert abs(after - min(max(rays / fill, rays / 2), 2 * rays, 1000)) <= 1
    assert steps[-1][0] > 20
    # Rays that were left out before they were looked at say nothing of what is seen.
    live.fill_(400)
    raw, density = marched(1000, precision, capacity=20_000, live=live)
    looked_at = 400 - int(raw.counters[LEFT_OUT])
    actual = visible_samples(raw, density, capacity=50_000, scale=SCALE, live=live, target=3000)
    assert looked_at < 200
    assert live.item() == min(max(3000 * looked_at // int(actual.counters[ASKED]), 200), 800)


def test_rays_that_see_nothing_are_doubled(device):
    precision = {"device": device, "dtype": torch.float32}
    live = torch.tensor([100], dtype=torch.int32, device=device)
    raw, density = marched(150, precision, live=live)
    visible_samples(raw, density - 40, capacity=99, live=live, target=50, min_alpha=0.5)
    assert live.item() == 150
    visible_samples(raw, density, capacity=99, live=live)
    assert live.item() == 150  # no target
    none = Samples._make([*(t[:0] for t in raw[:5]), torch.zeros_like(raw.counters)])
    actual = visible_samples(none, density[:0], capacity=7)
    assert actual.counters.tolist() == [0] * 5 and not actual.t.any() and len(actual.ranges) == 0


def test_what_is_refused(device):
    raw, density = marched(20, {"device": device, "dtype": torch.float32}, capacity=5000)
    with pytest.raises(ValueError, match=r"density must be \[5000\] torch.float32"):
        visible_samples(raw, density[:-1], capacity=10)
    with pytest.raises(ValueError, match="raw_ranges must be"):
        visible_samples(raw._replace(ranges=raw.ranges.long()), density, capacity=10)
    with pytest.raises(ValueError, match=r"capacity must be 1 to .* got 0"):
        visible_samples(raw, density, capacity=0)
    with pytest.raises(ValueError, match="t must be"):
        visible_samples(raw._replace(t=raw.t.long()), density, capacity=10)


def test_opcheck(device):
    raw, density = marched(20, {"device": device, "dtype": torch.float32}, capacity=5000)
    live = torch.tensor([3], dtype=torch.int32, device=device)
    checks = ("test_schema", "test_faketensor") if device.type == "cpu" else ("test_faketensor",)
    given = (*raw, density, live, 600, 500, 900, SCALE, 1e-4, 0.01)
    torch.library.opcheck(torch.ops.luxel.visible_samples.default, given, test_utils=checks)
