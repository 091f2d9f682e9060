"""The cases of `sanitize.py` of 4D Gaussians: slices, projections, neighbours, and what training adds to the loss."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from sanitize_adam import adam_cases
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.ops.raster.project_gaussians4d import project_gaussians4d
from luxel.render.ops.train.neighbours import neighbours
from luxel.render.ops.train.opacity_entropy import opacity_entropy
from luxel.render.ops.train.velocity_consistency import velocity_consistency
from luxel.render.primitives.gaussians4d import Gaussians4d


def cloud(count: int, seed: int, *, degree: int = 3) -> Gaussians4d:
    """Random 4D Gaussians around the origin and time 0.5, a warp of which is far from it; on the CPU."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    times = 0.5 + 0.3 * normal(count)
    times[64:128] = 30
    return Gaussians4d(
        means=0.4 * normal(count, 3),
        times=times,
        log_scales=math.log(0.1) + 0.3 * normal(count, 3),
        log_scale_t=math.log(0.5) + 0.3 * normal(count),
        rotors=normal(count, 8),
        opacity_logits=normal(count),
        sh_dc=normal(count, 3),
        sh_rest=0.1 * normal(count, (degree + 1) ** 2 - 1, 3),
    )


def gaussians4d_that_hurt() -> dict[str, Gaussians4d]:
    """4D Gaussians by name."""
    broken = cloud(200, 2)
    for i, name in enumerate(Gaussians4d.names):
        for k, value in enumerate((math.nan, math.inf, -math.inf)):
            getattr(broken, name)[3 * i + k].view(-1)[0] = value
    broken.rotors[30], broken.log_scale_t[31] = 0, 200
    broken.log_scales[32, 0] = -200  # not all of them: a point has no normal
    return {
        "usual": cloud(300, 1),
        "none": cloud(0, 3),
        "one": cloud(1, 6),
        "whole warps": cloud(256, 4),
        "broken": broken,
        "degree 0": cloud(100, 7, degree=0),
        "degree 1": cloud(100, 8, degree=1),
    }


def project(
    gaussians: Gaussians4d, camera: Camera, poses: bool, options: dict[str, Any], device: torch.device
) -> dict[str, Tensor]:
    """Splats and values of 4D Gaussians, and all gradients from random ones of these; 0 where culled."""
    camera = camera.to(device)
    count = camera.world_to_cam.shape[0]
    leaves = [t.detach().clone().to(device).requires_grad_() for t in gaussians.tensors().values()]
    pose = camera.world_to_cam.detach().clone().requires_grad_(poses)
    moments = torch.linspace(0.4, 0.7, count).to(device).requires_grad_(poses)
    statistics = torch.zeros(gaussians.count, 4, device=device)
    drawing: dict[str, Any] = {"width": camera.width, "height": camera.height, "sh_degree": 3}
    drawing |= {"near": 0.01, "far": 100.0, "dilation": 0.3, "statistics": statistics, **options}
    splats, values, tile_counts, totals = project_gaussians4d(
        tuple(leaves), pose, camera.intrinsics, moments, **drawing
    )
    outputs = {"totals": totals.float(), "statistics": statistics}
    if gaussians.count:
        given = [
            torch.randn(t.shape, generator=torch.Generator().manual_seed(3)).to(device)
            for t in (splats, values)
        ]
        torch.autograd.backward([splats, values], given)
        inputs = {f"g_{name}": t for name, t in zip(Gaussians4d.names, leaves, strict=True)}
        inputs |= {"g_world_to_cam": pose, "g_moments": moments} if poses else {}
        outputs |= {name: t.grad for name, t in inputs.items() if t.grad is not None}
    seen = (tile_counts > 0)[..., None]
    outputs |= {"splats": torch.where(seen, splats, 0.0), "values": torch.where(seen, values, 0.0)}
    return {name: t.detach().cpu() for name, t in outputs.items()}


def nearest(count: int, dimensions: int, k: int, masked: bool, device: torch.device) -> dict[str, Tensor]:
    """Distances to the nearest, of points of which some are not finite; -1 where there is none."""
    generator = torch.Generator().manual_seed(count)
    points = torch.randn(count, dimensions, generator=generator)
    points[5::97, 0] = math.nan
    mask = (torch.rand(count, generator=generator) > 0.5).to(device) if masked else None
    index = neighbours(points.to(device), k, mask).cpu().long()
    away = (points[:, None] - points[index]).norm(dim=-1)
    return {"away": torch.where(index == torch.arange(count)[:, None], -1.0, away)}


def regularise(gaussians: Gaussians4d, k: int, seen: float, device: torch.device) -> dict[str, Tensor]:
    """Entropy and consistency of 4D Gaussians of which some rows are spare and hold anything, and their gradients."""
    generator = torch.Generator().manual_seed(5)
    held = gaussians.map(lambda t: t.detach().clone())
    spare = torch.arange(held.count) % 11 == 10
    for name, tensor in held.tensors().items():
        tensor[spare] = -math.inf if name == "opacity_logits" else math.nan
    visible = (torch.rand(held.count, generator=generator) < seen) & ~spare
    near = neighbours(held.means, k, ~spare)  # the same ones on every device
    leaves = [
        getattr(held, name).to(device).requires_grad_()
        for name in ("rotors", "log_scales", "log_scale_t", "opacity_logits")
    ]
    near, visible = near.to(device), visible.to(device)
    losses = velocity_consistency(*leaves[:3], near, visible), opacity_entropy(leaves[3], visible)
    gradients = torch.autograd.grad(sum(losses), leaves)
    named = {"consistency": losses[0], "entropy": losses[1]}
    named |= {f"gradient {i}": gradient for i, gradient in enumerate(gradients)}
    return {name: tensor.detach().cpu() for name, tensor in named.items()}


def gaussians4d_cases(camera_at: Callable[[float, int, int], Camera]) -> dict[str, Callable[..., Any]]:
    """Every case by name, as a function of the device."""
    out: dict[str, Callable[..., Any]] = {}
    views = {"one camera": 1, "3 cameras": 3}
    options = {"with_depth": True, "with_normals": True}
    for (name, gaussians), (title, count) in itertools.product(
        gaussians4d_that_hurt().items(), views.items()
    ):
        cameras = Camera.stack([camera_at(0.3 + 0.7 * k, 67, 45) for k in range(count)])
        out[f"4d {name}, {title}, parameters alone"] = partial(project, gaussians, cameras, False, {})
        if count > 1:
            out |= adam_cases(f"4d {name}", gaussians, cameras, {})
        out[f"4d {name}, {title}, poses"] = partial(project, gaussians, cameras, True, options)
    for width, height in ((1, 1), (17, 1), (129, 97)):
        camera = Camera.stack([camera_at(0.3, width, height)])
        out[f"4d {width}x{height}"] = partial(project, cloud(300, 1), camera, False, {"antialiased": True})
    for count, dimensions, k, masked in itertools.product(
        (1, 33, 1025, 40_000), (3, 4), (1, 8, 16), (False, True)
    ):
        if count < 40_000 or k == 8:
            name = f"neighbours of {count} in {dimensions}d, k={k}, masked={masked}"
            out[name] = partial(nearest, count, dimensions, k, masked)
    sets = gaussians4d_that_hurt() | {"many": cloud(20_000, 9)}
    for (name, gaussians), k, seen in itertools.product(sets.items(), (1, 8, 16), (0.0, 0.6, 1.0)):
        out[f"regularisers of {name}, k={k}, seen={seen}"] = partial(regularise, gaussians, k, seen)
    return out
