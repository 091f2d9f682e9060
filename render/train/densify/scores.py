"""Experimental: sums of each primitive's blending weights over the pixels of several training views.

An image is sum_i w_i colour_i, so the gradient of sum_pixels W image by the colours is sum_pixels W w_i: the backward
pass of blending, given maps W in place of a gradient, sums three of them in one go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from luxel.render.primitives.parameters import Parameters
from luxel.render.rasterize import rasterize
from luxel.render.train.dataset import Target

AT_ONCE = 1 << 20  # Gaussians times views of a pass: about 300 bytes each with their tile instances

Maps = Callable[[Tensor, Target], Tensor]  # renders [C, H, W, 3] and their C targets -> [C, H, W, 3]


def sampled(count: int, number: int, seed: int, step: int) -> list[int]:
    """Indices of views drawn without replacement, all where there are no more; a function of seed and step."""
    if number >= count:
        return list(range(count))
    return sorted(np.random.default_rng([seed, 2, step]).choice(count, number, replace=False).tolist())


def error_maps(rgb: Tensor, target: Target) -> Tensor:
    """Per pixel: 1, the absolute error (mean of the channels), the squared error; all times the target's weight.

    Args:
        rgb: renders over the targets' background, [C, H, W, 3].
        target: with a leading C in its tensors.
    """
    off = rgb.clamp(0, 1) - target.rgb
    maps = torch.stack([torch.ones_like(off[..., 0]), off.abs().mean(-1), off.square().mean(-1)], -1)
    return maps if target.weight is None else maps * target.weight[..., None]


def blending_scores(
    scene: Parameters,
    targets: Iterable[Target],
    maps: Maps = error_maps,
    *,
    background: Tensor,
    sh_degree: int | None = None,
    antialiased: bool = False,
    deterministic: bool = False,
) -> Tensor:
    """Sums of blending weight times maps over the pixels, per primitive, mean of the views; no autograd.

    Waits for the device once for each batch of views of one size.

    Args:
        scene: N primitives, float32.
        targets: views, images over ``background``, on the same device.
        maps: three numbers per pixel.
        background: [3].
        sh_degree, antialiased, deterministic: see `rasterize`.

    Returns:
        [N, 3] in the order of the maps; 0 where no view sees the primitive, or there is none.
    """
    total, views = torch.zeros(scene.count, 3, device=scene.device), 0
    how = {"antialiased": antialiased, "sh_degree": scene.sh_degree if sh_degree is None else sh_degree}
    with torch.no_grad():
        for batch in _batches(targets, max(1, AT_ONCE // max(1, scene.count))):
            total += _sums(scene, batch, maps, background, how, deterministic)
            views += batch.rgb.shape[0]
    return total / max(1, views)


def _sums(
    scene: Parameters,
    target: Target,
    maps: Maps,
    background: Tensor,
    how: dict[str, Any],
    deterministic: bool,
) -> Tensor:
    """The scores of a batch of views, summed, [N, 3]."""
    ones = torch.ones(scene.count, 3, device=scene.device, requires_grad=True)
    with torch.enable_grad():
        frame = rasterize(
            scene.detach(),
            target.camera,
            time=target.time,
            background=background,
            features=ones,
            deterministic=deterministic,
            **how,
        )
        assert frame.features is not None
        return torch.autograd.grad(frame.features, ones, maps(frame.rgb.detach(), target))[0]


def _batches(targets: Iterable[Target], most: int) -> Iterator[Target]:
    """Neighbours of one size together, with a leading C in every tensor."""
    held: list[Target] = []
    for target in targets:
        if held and (len(held) == most or not _alike(held[0], target)):
            yield _stack(held)
            held = []
        held.append(target)
    if held:
        yield _stack(held)


def _alike(a: Target, b: Target) -> bool:
    clips = [(t.camera.near, t.camera.far) for t in (a, b)]
    return a.rgb.shape == b.rgb.shape and clips[0] == clips[1] and (a.weight is None) == (b.weight is None)


def _stack(targets: Sequence[Target]) -> Target:
    """Targets of one size as one; without alpha, which the images are already composited by."""
    cameras = [target.camera for target in targets]
    camera = replace(
        cameras[0],
        world_to_cam=torch.stack([c.world_to_cam for c in cameras]),
        intrinsics=torch.stack([c.intrinsics for c in cameras]),
    )
    weights = [target.weight for target in targets if target.weight is not None]
    rgb = torch.stack([target.rgb for target in targets])
    times = [target.time for target in targets if target.time is not None]
    stacks = (torch.stack(part) if part else None for part in (weights, times))
    return Target(camera, rgb, None, *stacks)
