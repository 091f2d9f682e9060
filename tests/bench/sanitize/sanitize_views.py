"""The cases of `sanitize.py` of training views: exposure, poses, and Adam on the table of all views."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from luxel.render.ops.train.view_adam import view_adam_
from luxel.render.ops.train.view_exposure import view_exposure
from luxel.render.ops.train.view_pose import view_pose


def drawn(*shape: int, seed: int = 0) -> Tensor:
    """Normal numbers, the same on each device."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def exposure(size: tuple[int, int, int], width: int, cutout: bool, device: torch.device) -> dict[str, Tensor]:
    """Images and all gradients."""
    leaves = [drawn(*size, 3), 0.1 * drawn(size[0], width, seed=1)]
    leaves += [drawn(*size, seed=2).sigmoid()] if cutout else []
    leaves = [leaf.to(device).requires_grad_() for leaf in leaves]
    behind = drawn(size[0], 3, seed=3).to(device) if cutout else None
    shown = view_exposure(leaves[0], leaves[1], leaves[2] if cutout else None, behind)
    shown.backward(drawn(*size, 3, seed=4).to(device))
    return {"shown": shown.detach(), **{f"gradient {i}": leaf.grad for i, leaf in enumerate(leaves)}}  # type: ignore[dict-item]


def pose(views: int, device: torch.device) -> dict[str, Tensor]:
    """Poses and the gradient by the parameters."""
    given, leaf = drawn(views, 4, 4).to(device), (0.1 * drawn(views, 6, seed=1)).to(device).requires_grad_()
    moved = view_pose(given, leaf, 2.0)
    moved.backward(drawn(views, 4, 4, seed=2).to(device))
    assert leaf.grad is not None
    return {"moved": moved.detach(), "gradient": leaf.grad}


def adam(views: int, width: int, directions: int | None, device: torch.device) -> dict[str, Tensor]:
    """The table after a step that saw a view twice."""
    tables = [drawn(views, width, seed=seed).abs().to(device) for seed in range(3)]
    common = None if directions is None else torch.linalg.qr(drawn(views * width, 8))[0][:, :directions]
    of_step = torch.tensor([views - 1, 0, views - 1], device=device)
    view_adam_(
        *tables,
        None if common is None else common.to(device),
        of_step,
        drawn(3, width, seed=5).to(device),
        torch.tensor([0.01, 0.5], device=device),
        torch.zeros(1, dtype=torch.int32, device=device),
        betas=(0.9, 0.99),
        eps=1e-15,
    )
    return dict(zip(("values", "first", "second"), tables, strict=True))


def view_cases() -> dict[str, Callable[[torch.device], dict[str, Tensor]]]:
    """Every case by name, as a function of the device."""
    out: dict[str, Callable[[torch.device], dict[str, Tensor]]] = {}
    for size in ((1, 1, 1), (2, 7, 5), (1, 120, 133)):
        for width in (3, 9, 12):
            for cutout in (False, True):
                name = f"exposure {size}, {width} parameters{', cut out' if cutout else ''}"
                out[name] = partial(exposure, size, width, cutout)
    for views in (1, 33):
        out[f"poses of {views} views"] = partial(pose, views)
    for views, width, directions in ((2, 6, None), (700, 12, None), (9, 6, 0), (40, 6, 7), (400, 6, 8)):
        out[f"Adam of {views} views, {width} parameters, {directions} directions"] = partial(
            adam, views, width, directions
        )
    return out
