"""Cases of `sanitize.py` of rays through volumes: marching, what is seen, composition, waves, radiance fields."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from luxel.render.fields.drawing.wavefront import WavefrontRenderer
from luxel.render.fields.drawing.wavefront_polled import render_wavefront_polled
from luxel.render.fields.radiance import RadianceConfig, RadianceField
from luxel.render.geometry.camera import Camera, Pixels, View
from luxel.render.ops.field.colour_inputs import colour_inputs
from luxel.render.ops.field.colour_network import colour_network
from luxel.render.ops.field.composite import composite
from luxel.render.ops.field.draw_pixels import draw_pixels
from luxel.render.ops.field.march_rays import ASKED, LEFT_OUT, RAYS, Region, Samples, march_pixels, march_rays
from luxel.render.ops.field.mlp import Network
from luxel.render.ops.field.visible_samples import visible_samples

REGION = Region((-1.0, -1.0, -0.5, 1.0, 1.2, 1.0), 0.013, near=0.1, resolution=24)
COLOURS = torch.tensor([[3.0, -4, 5], [6, 1, -2], [-1, 2, 7]])


def bits(share: float, seed: int = 0) -> Tensor:
    """Occupied cells, so many of them."""
    occupied = torch.rand(REGION.resolution**3 // 8, 8, generator=torch.Generator().manual_seed(seed)) < share
    return (occupied * 2 ** torch.arange(8)).sum(-1).to(torch.uint8)


def field(positions: Tensor, directions: Tensor, colours: Tensor) -> tuple[Tensor, Tensor]:
    """A smooth density and colour before their activations."""
    density = 2 - 12 * (positions - 0.5).square().sum(-1)
    return density + colours[0, 0] * 0.1, positions @ colours + directions


def seen(samples: Samples, colours: Tensor, whole: bool) -> dict[str, Tensor]:
    """What rays see, and the gradient by the colours; where rays were left out, only how many samples there are."""
    named = {"asked": samples.counters[ASKED].double(), "rays": samples.counters[RAYS]}
    rays = len(samples.ranges)
    if rays == 0:
        return {name: t.cpu() for name, t in named.items()}
    behind = torch.linspace(0, 1, 3 * rays).view(rays, 3).to(colours)
    density, colour = field(samples.positions, samples.directions, colours)
    composed = composite(
        density, colour, samples.dt, samples.t, samples.ranges, samples.counters, behind, scale=0.4
    )
    (gradient,) = torch.autograd.grad(
        composed.rgb.square().sum() + composed.depth.sum() + composed.transmittance.sum(), colours
    )
    if whole:
        named |= dict(zip(composed._fields, composed, strict=True)) | {"gradient": gradient}
    return {name: t.detach().cpu() for name, t in named.items()}


def along_rays(count: int, share: float | None, capacity: int, device: torch.device) -> dict[str, Tensor]:
    """Rays from all around, some of them broken."""
    generator = torch.Generator().manual_seed(count)
    origins = 3 * torch.randn(count, 3, generator=generator)
    directions = torch.nn.functional.normalize(
        0.5 * torch.randn(count, 3, generator=generator) - origins, dim=-1
    )
    origins[5::50] = math.nan
    directions[7::50, 1] = math.inf
    directions[9::50] = torch.tensor([0.0, 0, 1])
    occupancy = None if share is None else bits(share).to(device)
    seed = torch.tensor([77 << 33], device=device)
    samples = march_rays(
        origins.to(device), directions.to(device), REGION, occupancy, capacity=capacity, seed=seed
    )
    whole = bool(samples.counters[ASKED] <= capacity)
    return seen(samples, COLOURS.to(device).requires_grad_(), whole)


def visible(
    count: int, raw_capacity: int, capacity: int, min_alpha: float, device: torch.device
) -> dict[str, Tensor]:
    """Visible samples of rays from all around, and what they show."""
    generator = torch.Generator().manual_seed(count)
    origins = 3 * torch.randn(count, 3, generator=generator)
    directions = torch.nn.functional.normalize(
        0.5 * torch.randn(count, 3, generator=generator) - origins, dim=-1
    )
    occupancy = bits(0.9).to(device)
    live = torch.tensor([count], dtype=torch.int32, device=device)
    raw = march_rays(
        origins.to(device), directions.to(device), REGION, occupancy, capacity=raw_capacity, live=live
    )
    density = torch.stack([6 - 12 * (raw.positions - 0.5).square().sum(-1), 9 * raw.t], 1)[:, 0]
    samples = visible_samples(
        raw,
        density,
        capacity=capacity,
        scale=0.4,
        min_alpha=min_alpha,
        live=live,
        target=5000,
        raw_target=raw_capacity,
    )
    whole = bool(raw.counters[ASKED] <= raw_capacity and samples.counters[ASKED] <= capacity)
    outputs = seen(samples, COLOURS.to(device).requires_grad_(), whole)
    if not whole:  # which rays have room is not the same everywhere
        return {"rays": outputs["rays"], "raw": raw.counters[ASKED].double().cpu()}
    return outputs | {"live": live.double().cpu(), "left out": samples.counters[LEFT_OUT].cpu()}


def along_pixels(rows: int, live: int, channels: int, device: torch.device) -> dict[str, Tensor]:
    """Drawn pixels of views of several sizes; not all rows count."""
    generator = torch.Generator().manual_seed(rows)
    sizes = [(30, 20), (1, 1), (17, 40)]
    eyes = [(3.0, 0.2, 0.5), (0.0, 2.5, 1.0), (-2.0, -2.0, 0.1)]
    cameras = [
        Camera.look_at(e, (0, 0, 0.2), width=w, height=h) for e, (w, h) in zip(eyes, sizes, strict=True)
    ]
    firsts = [0, *itertools.accumulate(w * h for w, h in sizes)]
    images = torch.randint(0, 256, (firsts[-1], channels), generator=generator, dtype=torch.uint8)
    numbers = torch.randint(0, 2**62, (rows,), generator=generator).to(device)
    number = torch.tensor([live], dtype=torch.int32, device=device)
    drawn = draw_pixels(numbers, images.to(device), live=number)
    table = torch.tensor([[a, w] for a, (w, _) in zip(firsts, sizes, strict=False)]).to(device)
    poses = torch.stack([c.world_to_cam for c in cameras]).to(device)
    lenses = torch.stack([c.intrinsics for c in cameras]).to(device)
    occupancy = bits(0.2).to(device)
    samples = march_pixels(
        drawn[0],
        table,
        poses,
        lenses,
        REGION,
        occupancy,
        capacity=60 * rows + 1,
        seed=numbers[:1],
        live=number,
        target=5000,
    )
    named = seen(samples, COLOURS.to(device).requires_grad_(), True)
    return named | {f"drawn {i}": t.cpu() for i, t in enumerate(drawn)} | {"live": number.double().cpu()}


def beside_harmonics(count: int, width: int, device: torch.device) -> dict[str, Tensor]:
    """What the colour network takes, and its gradient."""
    generator = torch.Generator().manual_seed(count)
    features, directions, weights = (
        torch.randn(count, k, generator=generator).to(device) for k in (width, 3, width + 16)
    )
    features.requires_grad_()
    inputs, density = colour_inputs(features, directions)
    (gradient,) = torch.autograd.grad((inputs * weights).sum() + density.square().sum(), features)
    return {"inputs": inputs.detach().cpu(), "density": density.detach().cpu(), "gradient": gradient.cpu()}


def coloured(
    count: int, features: int, width: int, live: int | None, device: torch.device
) -> dict[str, Tensor]:
    """The colour network on features and directions as they are."""
    generator = torch.Generator().manual_seed(count)
    given, directions = (torch.randn(count, k, generator=generator).to(device) for k in (features, 3))
    sizes = Network(features + 16, width, 2, 3)
    weights = 0.2 * torch.randn(sizes.parameter_count(), generator=generator).to(device)
    number = None if live is None else torch.tensor([live], dtype=torch.int32, device=device)
    directions = torch.nn.functional.normalize(directions, dim=-1)
    outputs = colour_network(given, directions, weights, *sizes[1:4], "softplus", "sigmoid", live=number)
    rows = count if live is None else live
    return {name: t[:rows].cpu() for name, t in zip(("colour", "first"), outputs, strict=True)}


def in_waves(width: int, height: int, share: float | None, device: torch.device) -> dict[str, Tensor]:
    """An image drawn in waves."""
    camera = Camera.look_at((2.4, 1.1, 0.9), (0, 0, 0.2), width=width, height=height).to(device)
    occupancy = None if share is None else bits(share).to(device)
    colours = COLOURS.to(device)
    behind = torch.tensor([0.2, 0.5, 0.9], device=device)
    names = ("rgb", "alpha", "depth")
    outputs = render_wavefront_polled(
        lambda x, d: field(x, d, colours), camera, REGION, occupancy, behind, 0.4
    )
    return {name: t.cpu() for name, t in zip(names, outputs, strict=True)}


def plain_waves(width: int, height: int, rays: int, rows: int, device: torch.device) -> dict[str, Tensor]:
    """The same of a field without activations, in parts and waves of a size."""
    camera = Camera.look_at((2.4, 1.1, 0.9), (0, 0, 0.2), width=width, height=height).to(device)
    behind = torch.tensor([0.2, 0.5, 0.9], device=device)

    def lump(x: Tensor, directions: Tensor) -> tuple[Tensor, None]:
        return torch.cat([9 - 20 * (x - 0.5).norm(dim=-1, keepdim=True), 1.4 * x - 0.2], 1), None

    names = ("rgb", "alpha", "depth")
    limits = {"rays": rays, "rows": rows}
    outputs = render_wavefront_polled(lump, camera, REGION, bits(0.5).to(device), behind, 0.4, **limits)
    return {name: t.cpu() for name, t in zip(names, outputs, strict=True)}


def planned_waves(
    width: int, height: int, rays: int, rows: int, share: float | None, device: torch.device
) -> dict[str, Tensor]:
    """An image whose waves the host does not look at, in parts and tiles, twice."""
    camera = Camera.look_at((2.4, 1.1, 0.9), (0, 0, 0.2), width=width, height=height).to(device)
    occupancy = None if share is None else bits(share).to(device)
    colours, behind = COLOURS.to(device), torch.tensor([0.2, 0.5, 0.9], device=device)
    plan = WavefrontRenderer(device, rays, rows)

    def query(x: Tensor, directions: Tensor | None, live: Tensor) -> tuple[Tensor, Tensor]:
        assert directions is not None
        return field(x, directions, colours)

    names = ("rgb", "alpha", "depth")
    plan.render(query, None, camera, REGION, occupancy, behind, 0.4)
    outputs = plan.render(query, None, camera, REGION, occupancy, behind, 0.4)
    return {name: t.cpu() for name, t in zip(names, outputs, strict=True)}


class SmallRadianceField(RadianceField):
    """With few cells."""

    cells = 16
    diagonal_samples = 100


def trained(steps: int, device: torch.device) -> dict[str, Tensor]:
    """The image of a field after some steps of plain descent."""
    config = RadianceConfig(field="radiance", hidden=1, log2_entries=10, finest=64, batch=2048, precise=True)
    field = SmallRadianceField(config).to(device)
    image = np.full((9, 11, 3), 90, np.uint8)
    cover = np.tri(9, 11, dtype=np.uint8) * 255
    camera = Camera.look_at((0, -4, 0.3), (0, 0, 0), width=11, height=9)
    field.begin([View("one", camera, lambda: Pixels(image, cover))], device)
    numbers = torch.Generator().manual_seed(0)
    shown, behind = field.rays.images, torch.ones(3, device=device)
    for step in range(steps):
        chance = torch.randint(2**62, (field.rays.count,), generator=numbers).to(device)
        drawn = draw_pixels(chance, shown.pixels, None, behind, field.march.live)
        batch = type(field.draw_batch(torch.Generator(device)))(chance[:1], *drawn)
        loss = field.loss(batch)
        for parameter, gradient in zip(
            field.parameters(), torch.autograd.grad(loss, list(field.parameters())), strict=True
        ):
            parameter.data -= 0.1 * gradient
        if step == 0:  # one density in each cell: random places in them are others on another device
            field.march.occupancy.update(step, lambda x: 9 * (16 * x).floor().div(16).norm(dim=-1))
    return {"image": field.render(camera.to(device), behind).cpu()}


def march_cases() -> dict[str, Callable[..., Any]]:
    """Every case by name, as a function of the device."""
    out: dict[str, Callable[..., Any]] = {}
    for count, share in itertools.product((0, 1, 31, 65, 1000), (None, 0.0, 0.1, 0.9)):
        out[f"march {count} rays, occupied {share}"] = partial(along_rays, count, share, 200 * count + 1)
    for capacity in (1, 777, 20_000):
        out[f"march 1000 rays, room for {capacity}"] = partial(along_rays, 1000, 0.5, capacity)
    for count, min_alpha in itertools.product((0, 1, 7, 9, 1000), (0.0, 0.003)):
        out[f"visible samples of {count} rays, alpha {min_alpha}"] = partial(
            visible, count, 200 * count + 1, 100 * count + 1, min_alpha
        )
    for raw_capacity, capacity in ((777, 100), (90_000, 1), (90_000, 2000), (20_000, 20_000)):
        out[f"visible samples, room for {raw_capacity} and {capacity}"] = partial(
            visible, 1000, raw_capacity, capacity, 0.0
        )
    for rows, live, channels in ((1, 1, 4), (300, 123, 4), (1000, 1000, 3), (64, 0, 4)):
        out[f"march {live} of {rows} drawn pixels, {channels} channels"] = partial(
            along_pixels, rows, live, channels
        )
    for count, width in itertools.product((0, 1, 257), (4, 16, 112)):
        out[f"colour inputs of {count} samples, {width} features"] = partial(beside_harmonics, count, width)
    for (count, live), (features, width) in itertools.product(
        ((0, None), (1, None), (257, None), (5000, 333), (40, 0)), ((16, 64), (4, 32), (16, 128))
    ):
        name = f"half colour network of {live} of {count} samples, {features} features, width {width}"
        out[name] = partial(coloured, count, features, width, live)
    for (width, height), share in itertools.product(((1, 1), (33, 7), (150, 90)), (None, 0.0, 0.15)):
        out[f"waves {width}x{height}, occupied {share}"] = partial(in_waves, width, height, share)
    for (width, height), rays in itertools.product(((1, 1), (150, 90)), (1000, 1 << 21)):
        out[f"plain waves {width}x{height}, {rays} rays"] = partial(plain_waves, width, height, rays, 1 << 20)
    for (width, height), share in itertools.product(((1, 1), (33, 7), (150, 90)), (None, 0.0, 0.15)):
        for rays, rows in ((1 << 20, 1 << 18), (1000, 3000)):
            name = f"planned waves {width}x{height}, occupied {share}, {rays} rays"
            out[name] = partial(planned_waves, width, height, rays, rows, share)
    out["radiance field, 3 steps"] = partial(trained, 3)
    return out
