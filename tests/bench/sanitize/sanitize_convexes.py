"""The cases of `sanitize.py` that draw convexes, stage by stage."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from sanitize_adam import adam_cases
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.ops.raster.bin_splats import bin_splats
from luxel.render.ops.raster.blend_splats import CHANNELS, blend_splats
from luxel.render.ops.raster.project_convexes import project_convexes
from luxel.render.primitives.convexes import Convexes


def cloud(count: int, seed: int, *, k: int = 6, degree: int = 3, size: float = 0.2) -> Convexes:
    """Random convexes in the unit ball around the origin, on the CPU; some masks are off."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    return Convexes(
        points=0.4 * normal(count, 1, 3) + size * normal(count, k, 3),
        log_delta=math.log(0.05) + 0.5 * normal(count),
        log_sigma=math.log(0.05) + 0.5 * normal(count),
        opacity_logits=1 + normal(count),
        sh_dc=normal(count, 3),
        sh_rest=0.1 * normal(count, (degree + 1) ** 2 - 1, 3),
        mask_logits=torch.where(torch.arange(count) % 5 == 3, -5.0, 1.0),
    )


def convexes_that_hurt() -> dict[str, Convexes]:
    """Convexes by name."""
    broken = cloud(60, 2)
    broken.points[0, 0, 0], broken.points[1, 2, 2] = math.nan, math.inf
    broken.points[2, 1:] = broken.points[2, :1]
    broken.points[3] = broken.points[3, :1] * torch.linspace(1, 2, 6)[:, None]
    broken.log_delta[4], broken.log_sigma[5], broken.log_delta[6], broken.log_sigma[7] = 80, 80, -200, -200
    broken.opacity_logits[8], broken.mask_logits[9], broken.sh_dc[10, 0] = math.nan, math.nan, math.nan
    behind = cloud(40, 3)
    behind.points += torch.tensor([30.0, 0, 0])
    huge = cloud(5, 4, size=1.0)
    huge.log_delta -= 4
    pile = cloud(2000, 5, degree=0, size=0.3)
    pile.points.mul_(0.3)
    pile.opacity_logits.copy_(-4.5 + 0.1 * pile.opacity_logits)
    kinds = {f"of {k} points": cloud(150, 10 + k, k=k, degree=k % 4) for k in range(3, 9)}
    return kinds | {
        "none": Convexes.empty(5),
        "one": cloud(1, 6),
        "broken": broken,
        "behind": behind,
        "huge": huge,
        "pile": pile,
    }


def lists(convexes: Convexes, camera: Camera, device: torch.device) -> dict[str, Tensor]:
    """How long the list of each tile is."""
    cameras, size = Camera.stack([camera]).to(device), {"width": camera.width, "height": camera.height}
    splats, _, tile_counts, totals = project_convexes(
        tuple(convexes.to(device).tensors().values()),
        cameras.world_to_cam,
        cameras.intrinsics,
        **size,
        sh_degree=0,
        near=0.01,
        far=100.0,
    )
    seen, needed = totals.tolist()
    _, ranges, overflow, _ = bin_splats(
        splats, tile_counts, totals, **size, visible_capacity=seen, capacity=needed, primitive="convexes"
    )
    return {"lengths": (ranges[:, 1] - ranges[:, 0]).float(), "overflow": overflow.float()}


def raster(
    convexes: Convexes,
    camera: Camera,
    device: torch.device,
    *,
    channels: int = 4,
    room: int | None = None,
    deterministic: bool = False,
) -> dict[str, Tensor]:
    """One forward and backward pass; all outputs and gradients, on the CPU."""
    leaves = convexes.to(device).detach().requires_grad_()
    stacked = (camera if camera.batched else Camera.stack([camera])).to(device)
    pose = stacked.world_to_cam.detach().clone().requires_grad_()
    statistics = torch.zeros(convexes.count, 4, device=device)
    size: dict[str, Any] = {"width": camera.width, "height": camera.height}
    splats, values, tile_counts, totals = project_convexes(
        tuple(leaves.tensors().values()),
        pose,
        stacked.intrinsics,
        **size,
        sh_degree=3,
        near=0.01,
        far=100.0,
        with_depth=channels > 3,
        statistics=statistics,
    )
    seen, needed = totals.tolist() if room is None else (tile_counts.numel(), room)
    lists = bin_splats(
        splats, tile_counts, totals, **size, visible_capacity=seen, capacity=needed, primitive="convexes"
    )
    more = torch.randn(
        convexes.count, channels - values.shape[-1], generator=torch.Generator().manual_seed(1)
    )
    more = more.to(device).requires_grad_()
    values = torch.cat([values, more.expand(len(values), *more.shape)], -1)
    background = torch.full((len(values), channels), 0.3, device=device, requires_grad=True)
    image, transmittance, _, count, median = blend_splats(
        splats,
        values,
        background,
        lists[0],
        lists[1],
        lists[3],
        primitive="convexes",
        **size,
        max_alpha=0.99,
        deterministic=deterministic,
        median=channels != 6,
        tally=True,
    )
    outputs = {"image": image, "transmittance": transmittance, "count": count, "overflow": lists[2].float()}
    if channels != 6:
        outputs["median_depth"] = median
    weights = torch.randn(image.shape, generator=torch.Generator().manual_seed(2)).to(device)
    ((image * weights).mean() + transmittance.square().mean()).backward()
    inputs = {**leaves.tensors(), "world_to_cam": pose, "background": background, "more": more}
    outputs |= {f"g_{name}": t.grad for name, t in inputs.items() if t.grad is not None}
    return {name: t.detach().cpu() for name, t in outputs.items()} | {"statistics": statistics.cpu()}


def convex_cases(camera_at: Callable[[float, int, int], Camera]) -> dict[str, Callable[..., Any]]:
    """Every case by name, as a function of the device."""
    usual, camera = cloud(200, 1), camera_at(0.3, 67, 45)
    batch = Camera.stack([camera_at(0.7 * k, 67, 45) for k in range(3)])
    hard = convexes_that_hurt()
    out = {f"convexes {name}": partial(raster, convexes, camera) for name, convexes in hard.items()}
    for width, height in ((1, 1), (16, 16), (17, 1), (3, 50), (129, 97)):
        out[f"convexes {width}x{height}"] = partial(raster, usual, camera_at(0.3, width, height))
    for channels in CHANNELS:
        for fixed in (False, True):
            name = f"convexes channels={channels} deterministic={fixed}"
            out[name] = partial(raster, usual, camera, channels=channels, deterministic=fixed)
    for name in ("none", "broken", "pile", "huge"):
        out[f"convexes deterministic {name}"] = partial(raster, hard[name], camera, deterministic=True)
    out["convexes given room"] = partial(raster, usual, camera, room=20_000)
    out["convexes batch of 3"] = partial(raster, usual, batch)
    out["convexes batch of 3, none"] = partial(raster, Convexes.empty(), batch)
    for name, convexes in {**hard, "usual": usual, "whole warps": cloud(256, 7)}.items():
        out |= adam_cases(f"convexes {name}", convexes, batch, {"mask_penalty": 0.1})
    many = cloud(30_000, 20, degree=0, size=0.002)
    out["convexes in more tiles than 16 bits tell apart"] = partial(lists, many, camera_at(0.3, 4160, 4160))
    return out
