"""Times of the photometric loss, value and gradient, and its error against float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from luxel.render.ops.train.loss import photometric_loss
from luxel.viewer.bench.timing import compare_ms

INPUT_SETS = 4  # more than a cache holds
# Floats moved per float of the image: forward reads two images and writes three maps, backward reads those and both
# images and writes the gradient.
FLOATS_MOVED = (2 + 3) + (3 + 2 + 1)
Loss = Callable[[Tensor, Tensor, Tensor | None], Tensor]


def image_pair(width: int, height: int, device: torch.device, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """A render [H, W, 3], a target [H, W, 3] that is close to it, smooth and partly flat, and weights [H, W], a
    tenth of them 0."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(1, 3, height // 8 + 1, width // 8 + 1, generator=generator)
    target = torch.nn.functional.interpolate(coarse, (height, width), mode="bilinear")[0].movedim(0, -1)
    target[: height // 4] = 1.0
    rgb = (target + 0.05 * torch.randn(height, width, 3, generator=generator)).clamp(0, 1)
    weight = (torch.rand(height, width, generator=generator) > 0.1).float()
    rgb, target, weight = (t.contiguous().to(device) for t in (rgb, target, weight))
    return rgb.requires_grad_(), target, weight


def value_and_gradient(
    loss: Loss, rgb: Tensor, target: Tensor, weight: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The loss and its gradient with respect to rgb."""
    value = loss(rgb, target, weight)
    return value, torch.autograd.grad(value, rgb)[0]


def replayed(run: Callable[[int], object]) -> Callable[[int], object]:
    """``run(0)`` captured into a CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            run(0)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run(0)
    return lambda _: graph.replay()


def loss_variants(width: int, height: int, device: torch.device) -> dict[str, Callable[[int], object]]:
    """What is timed: the loss without weights and with them, and both as graphs on a GPU."""
    sets = [image_pair(width, height, device, seed) for seed in range(INPUT_SETS)]

    def run(weighted: bool) -> Callable[[int], object]:
        def once(i: int) -> object:
            rgb, target, weight = sets[i % INPUT_SETS]
            return value_and_gradient(photometric_loss, rgb, target, weight if weighted else None)

        return once

    runs = {"luxel": run(False), "luxel, weighted": run(True)}
    if device.type == "cuda":
        runs |= {f"{name}, replayed": replayed(once) for name, once in list(runs.items())}
    return runs


def time_loss(width: int, height: int, device: torch.device, iterations: int) -> dict[str, Any]:
    """Times of the loss at one size by variant, and the least number of bytes moved."""
    runs = loss_variants(width, height, device)
    times = compare_ms(runs, device, warmup=5, iterations=iterations)
    return {"times": times, "bytes": 4 * FLOATS_MOVED * 3 * width * height}


def gradient_error(width: int, height: int, device: torch.device) -> float:
    """||g - h|| / ||h|| of the gradient g, with h from the same operation in float64 on the CPU."""
    rgb, target, _ = image_pair(width, height, device, seed=0)
    exact = rgb.detach().cpu().double().requires_grad_()
    _, g = value_and_gradient(photometric_loss, rgb, target, None)
    _, h = value_and_gradient(photometric_loss, exact, target.cpu().double(), None)
    return ((g.cpu().double() - h).norm() / h.norm()).item()
