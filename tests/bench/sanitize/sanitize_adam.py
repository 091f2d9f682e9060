"""The cases of `sanitize.py` of Adam within the backward of a projection, of any primitive."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.ops.raster.projection import TYPES, projection_of
from luxel.render.ops.train.adam import adam_schedule
from luxel.render.ops.train.project_adam import project_adam_
from luxel.render.primitives.parameters import Parameters

VIEW = {"near": 0.01, "far": 100.0, "dilation": 0.3, "with_depth": True, "sh_degree": 3}


def adam_step(
    primitives: Parameters, camera: Camera, more: bool, options: dict[str, Any], device: torch.device
) -> dict[str, Tensor]:
    """One step from random gradients of the splats; ``more``: with gradients from elsewhere for some parameters."""
    camera, projection = camera.to(device), projection_of(primitives.primitive)
    count = camera.world_to_cam.shape[0]
    parameters = [t.detach().clone().to(device) for t in primitives.tensors().values()]
    parts = [parameters, *([torch.full_like(p, value) for p in parameters] for value in (1e-3, 1e-4))]
    cameras = [camera.world_to_cam, camera.intrinsics]
    if primitives.moves:
        cameras.append(torch.linspace(0.4, 0.7, count).to(device))
    every = {**dict.fromkeys(TYPES, False), **VIEW, "width": camera.width, "height": camera.height, **options}
    drawing = {name: every[name] for name in projection.options}
    splats, values, tile_counts, _ = projection((*parameters, *cameras), None, **drawing)

    def random(like: Tensor, seed: int) -> Tensor:
        return torch.randn(like.shape, generator=torch.Generator().manual_seed(seed)).to(device)

    extras = [random(p, i) if i % 3 < 2 else None for i, p in enumerate(parameters)]
    statistics = torch.zeros(primitives.count, 4, device=device)
    project_adam_(
        primitives.primitive,
        *parts,
        cameras,
        tile_counts=tile_counts,
        g_splats=random(splats, 3),
        g_values=random(values, 3),
        schedule=torch.tensor(adam_schedule([1e-3] * len(parameters), 5), device=device),
        extras=extras if more else None,
        statistics=statistics,
        **drawing,
        **{name: value for name, value in options.items() if name not in TYPES},
    )
    named = {
        f"{kind} {i}": t.cpu() for kind, part in zip("pmv", parts, strict=True) for i, t in enumerate(part)
    }
    return named | {"statistics": statistics.cpu(), "seen": (tile_counts > 0).float().cpu()}


def adam_cases(
    name: str, primitives: Parameters, cameras: Camera, penalties: dict[str, float]
) -> dict[str, Callable[..., Any]]:
    """Every case by name, as a function of the device.

    Args:
        name: of the primitives.
        primitives: on the CPU.
        cameras: a batch; of several the first one alone too.
        penalties: those of the primitive.
    """
    count, out = cameras.world_to_cam.shape[0], {}
    alone = Camera.stack(
        [Camera(cameras.world_to_cam[0], cameras.intrinsics[0], cameras.width, cameras.height)]
    )
    ways: dict[str, tuple[bool, dict[str, Any]]] = {
        "": (False, {}),
        ", visible_only": (False, {"visible_only": True}),
        ", active_sh_only": (False, {"active_sh_only": True, "sh_degree": 1, **penalties}),
        ", more gradients": (True, {"largest_of_views": True}),
        ", more gradients, visible_only": (True, {"visible_only": True, "keep_sh_rest": True, **penalties}),
    }
    for view, camera in {"one camera": alone, f"{count} cameras": cameras}.items():
        for way, (more, options) in ways.items():
            out[f"fused adam {name}, {view}{way}"] = partial(adam_step, primitives, camera, more, options)
    return out
