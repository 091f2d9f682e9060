"""Stage: the random pixels of a step of a radiance field, with their colours (kernels of the same name)."""

from __future__ import annotations

import torch
from torch import Tensor

from luxel.render.native import library_for
from luxel.render.ops.registry import define, register_implementation, require

define(
    "draw_pixels(Tensor numbers, Tensor images, Tensor? candidates, Tensor? background, Tensor? live)"
    " -> (Tensor, Tensor, Tensor)"
)


def draw_pixels(
    numbers: Tensor,
    images: Tensor,
    candidates: Tensor | None = None,
    background: Tensor | None = None,
    live: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Random pixels of images, composited onto a background; nothing waits for the device.

    Args:
        numbers: random, from 0 on, int64 [R].
        images: straight colours of all pixels of all images, one image after the other, uint8 [P, 3] or
            with alpha [P, 4].
        candidates: numbers of the pixels to draw from, int64 [M]; None: all. Not checked to be below P.
        background: colour, float32 [3]; None: a random one for each row.
        live: number of rows in use, int32 [1]; None: all.

    Returns:
        Indices of the pixels, int64 [R], -1 for unused rows; their colours, float32 [R, 3] in [0, 1] on
        the background; that background, float32 [R, 3]. Both are 0 for unused rows.

    Raises:
        ValueError: shapes, types or devices do not fit, or there is no pixel.
    """
    return torch.ops.luxel.draw_pixels(numbers, images, candidates, background, live)


def _run(
    numbers: Tensor, images: Tensor, candidates: Tensor | None, background: Tensor | None, live: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    if images.dim() != 2 or images.shape[1] not in (3, 4):
        raise ValueError(f"draw_pixels: images must be [P, 3 or 4], got {list(images.shape)}")
    if numbers.dim() != 1:
        raise ValueError(f"draw_pixels: numbers must be [R], got {list(numbers.shape)}")
    pool = images.shape[0] if candidates is None else candidates.shape[0]
    if pool == 0:
        raise ValueError("draw_pixels: images or candidates must hold at least one pixel, got none")
    expected: dict[str, tuple[Tensor | None, torch.dtype, tuple[int, ...]]] = {
        "numbers": (numbers, torch.int64, (numbers.shape[0],)),
        "images": (images, torch.uint8, tuple(images.shape)),
        "candidates": (candidates, torch.int64, (pool,)),
        "background": (background, torch.float32, (3,)),
        "live": (live, torch.int32, (1,)),
    }
    require("draw_pixels", numbers.device, expected)
    pixels, targets, backgrounds = outputs = _fake(numbers)
    library_for(numbers.device).call(
        "draw_pixels",
        numbers.device,
        torch.float32,
        **{name: tensor for name, (tensor, *_) in expected.items()},
        pool=pool,
        count=numbers.shape[0],
        channels=images.shape[1],
        pixels=pixels,
        targets=targets,
        backgrounds=backgrounds,
    )
    return outputs


def _fake(numbers: Tensor, *_: object) -> tuple[Tensor, Tensor, Tensor]:
    rows = numbers.shape[0]
    return (
        torch.empty_like(numbers),
        numbers.new_empty(rows, 3, dtype=torch.float32),
        numbers.new_empty(rows, 3, dtype=torch.float32),
    )


register_implementation("draw_pixels", _run, _fake)
