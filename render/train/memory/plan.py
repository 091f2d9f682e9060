"""Plans the memory of a run before it starts, from estimates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import View, pixel_count
from luxel.render.primitives.parameters import Parameters
from luxel.render.runs.memory import free_memory

# Measured upper bounds, in bytes. A primitive: parameter, gradient and two moments of Adam; then the workspaces of
# projection, binning (about 12 tile instances at 12 bytes, sorted twice) and backward. A pixel: colour, gradients,
# SSIM partials.
SPLAT_WORKSPACE = 400
PIXEL_WORKSPACE = 160
SPARE = 256 << 20  # context, allocator slack, the viewer


@dataclass(frozen=True)
class Plan:
    """Where the training images are retained and how many primitives fit.

    Args:
        images: "device" or "stream".
        cap: largest number of primitives that memory and configuration allow; None: no limit.
        notes: messages for the user about changes that memory made necessary.
    """

    images: str
    cap: int | None
    notes: tuple[str, ...] = ()


def bytes_of_one(scene: Parameters) -> int:
    """Bytes that training needs per primitive."""
    numbers = sum(math.prod(tensor.shape[1:]) for tensor in scene.tensors().values())
    return 4 * 4 * numbers + SPLAT_WORKSPACE


def image_bytes(views: Sequence[View], pyramid: bool, depth: bool = False) -> int:
    """Bytes of all images on the device: RGB and alpha or weight, depth where it is trained with, and a third more with
    coarser levels."""
    total = (6 if depth else 4) * pixel_count(views)
    return total * 4 // 3 if pyramid else total


def plan(
    views: Sequence[View],
    count: int,
    *,
    each: int,
    noun: str = "Gaussians",
    pyramid: bool,
    depth: bool = False,
    images: str,
    max_gaussians: int | None,
    device: torch.device,
    free: int | None = None,
) -> Plan:
    """Plans a run.

    Args:
        views: training views.
        count: primitives at the start.
        each: bytes per primitive, see `bytes_of_one`.
        noun: name of the primitives in messages.
        pyramid: whether images are trained at coarser levels too.
        depth: whether depth is trained with.
        images, max_gaussians: see `luxel.render.train.config.TrainConfig`.
        device: where to train.
        free: bytes of free memory; None: queried from the device.

    Raises:
        LuxelError: one image and the first primitives do not fit.
    """
    free = free_memory(device) if free is None else free
    pixels = max(view.camera.width * view.camera.height for view in views)
    all_images = image_bytes(views, pyramid, depth)
    left = free - SPARE - pixels * PIXEL_WORKSPACE
    where = "GPU" if device.type == "cuda" else "machine"
    if left < min(count, 1000) * each:
        needed = (SPARE + pixels * PIXEL_WORKSPACE) / 2**30
        raise LuxelError(
            f"The {where} is too small: {free / 2**30:.2f} GiB are free, "
            f"one image of {pixels / 1e6:.1f} megapixels needs {needed:.2f} GiB.",
            "Close other programs on it, or train on smaller images (--max-size).",
        )
    notes = []
    if images == "auto":
        images = "device" if all_images + 4 * count * each <= left and all_images <= left // 2 else "stream"
        if images == "stream":
            notes.append(
                f"The images ({all_images / 2**30:.2f} GiB) are streamed step by step: "
                f"{free / 2**30:.2f} GiB are free on the {where}."
            )
    fits = max(1, (left - (all_images if images == "device" else 0)) // each)
    allowed = max_gaussians if max_gaussians is not None else max(10_000_000, count)
    cap = max_gaussians
    if fits < allowed:
        cap = fits
        if max_gaussians is not None or fits < 2 * count:
            notes.append(f"At most {fits:,} {noun} fit into the {free / 2**30:.2f} GiB that are free.")
    return Plan(images, cap, tuple(notes))
