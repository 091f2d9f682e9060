"""The cases of `sanitize.py` of surfels: drawing with each set of values, labels, and Adam within the backward."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from sanitize_adam import adam_cases
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.primitives.surfels import Surfels
from luxel.render.raster.rasterize import DensifyStatistics, rasterize
from luxel.render.segment.label_image import label_image


def cloud(count: int, seed: int, *, degree: int = 3, scale: float = 0.1) -> Surfels:
    """Random surfels in the unit ball around the origin, on the CPU."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    return Surfels(
        means=0.4 * normal(count, 3),
        quats=normal(count, 4),
        log_scales=math.log(scale) + 0.3 * normal(count, 2),
        opacity_logits=normal(count),
        sh_dc=normal(count, 3),
        sh_rest=0.1 * normal(count, (degree + 1) ** 2 - 1, 3),
    )


def surfels_that_hurt() -> dict[str, Surfels]:
    """Surfels by name."""
    broken = cloud(100, 2)
    for i, name in enumerate(Surfels.names):
        for k, value in enumerate((math.nan, math.inf, -math.inf)):
            getattr(broken, name)[3 * i + k].view(-1)[0] = value
    broken.quats[30], broken.log_scales[31] = 0, 80
    behind = cloud(40, 3)
    behind.means += torch.tensor([30.0, 0, 0])
    pile = cloud(4000, 5, degree=0, scale=0.3)
    pile.means.mul_(0.2)
    pile.quats.mul_(0.2)
    pile.quats[:, ::2] += 0.5**0.5  # towards the camera: edge-on, gradients are large and cancel
    pile.opacity_logits.copy_(-4.5 + 0.1 * pile.opacity_logits)
    return {
        "none": Surfels.empty(),
        "one": cloud(1, 6),
        "broken": broken,
        "behind": behind,
        "huge": cloud(20, 4, scale=1.0),
        "small": cloud(500, 8, scale=1e-4),
        "pile": pile,
        "whole warps": cloud(256, 7),
    }


def raster(
    surfels: Surfels, camera: Camera, depth: bool, normals: bool, deterministic: bool, device: torch.device
) -> dict[str, Tensor]:
    """One forward and backward pass; all outputs and gradients, on the CPU."""
    leaves = surfels.to(device).detach().requires_grad_()
    camera = replace(
        camera.to(device), world_to_cam=camera.world_to_cam.to(device, copy=True).requires_grad_()
    )
    statistics = DensifyStatistics.zeros(surfels.count, device)
    background = torch.full((3,), 0.3, device=device, requires_grad=True)
    frame = rasterize(
        leaves,
        camera,
        background=background,
        depth=depth,
        normals=normals,
        count=True,
        statistics=statistics,
        absolute_gradients=True,
        deterministic=deterministic,
    )
    names = ("rgb", "transmittance", "depth", "median_depth", "normals", "square_depth")
    outputs = {name: t for name in names if isinstance(t := getattr(frame, name), Tensor)}
    loss = torch.zeros((), device=device)
    for k, (name, image) in enumerate(outputs.items()):
        if name not in ("depth", "median_depth"):
            weights = torch.randn(image.shape, generator=torch.Generator().manual_seed(k)).to(device)
            loss = loss + (image * weights).mean()
    loss.backward()
    inputs = {**leaves.tensors(), "world_to_cam": camera.world_to_cam, "background": background}
    outputs |= {f"g_{name}": t.grad for name, t in inputs.items() if t.grad is not None}
    outputs |= {"statistics": statistics.data, "count": frame.count if frame.count is not None else loss}
    return {name: t.detach().float().cpu() for name, t in outputs.items()}


def labels(surfels: Surfels, camera: Camera, device: torch.device) -> dict[str, Tensor]:
    """The weights of the leading labels."""
    given = (torch.arange(surfels.count) * 7 % 17).to(torch.uint8)
    rendered = label_image(surfels.to(device), camera.to(device), given, 16, 0.0)
    return {"weights": rendered.weights, "transmittance": rendered.transmittance}


def surfel_cases(camera_at: Callable[[float, int, int], Camera]) -> dict[str, Callable[..., Any]]:
    """Every case by name, as a function of the device."""
    usual, camera, out = cloud(200, 1), camera_at(0.3, 67, 45), {}
    batch = Camera.stack([camera_at(0.7 * k, 67, 45) for k in range(3)])
    sets = {"usual": usual, **surfels_that_hurt()}
    for name, surfels in sets.items():
        out[f"surfels {name}"] = partial(raster, surfels, camera, True, True, False)
        out[f"surfels deterministic {name}"] = partial(raster, surfels, camera, True, True, True)
        out[f"label image of surfels {name}"] = partial(labels, surfels, camera)
        penalties = {"opacity_penalty": 0.1, "scale_penalty": 0.1}
        out |= adam_cases(f"surfels {name}", surfels, batch, penalties)
    for depth, normals in itertools.product((False, True), (False, True)):
        out[f"surfels depth={depth} normals={normals}"] = partial(raster, usual, batch, depth, normals, False)
    for width, height in ((1, 1), (16, 16), (17, 1), (3, 50), (129, 97)):
        view = camera_at(0.3, width, height)
        out[f"surfels {width}x{height}"] = partial(raster, usual, view, True, False, False)
    return out
