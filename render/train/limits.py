"""What a run needs of memory: an estimate before, and how to give way when it was wrong."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from luxel.render.camera import View
from luxel.render.errors import LuxelError
from luxel.render.primitives.parameters import Parameters

# Measured ceilings, in bytes. A primitive: parameter, gradient and two moments of Adam; then what projection,
# binning (about 12 tile instances at 12 bytes, sorted twice) and backward hold of it. A pixel: colour,
# gradients, SSIM partials.
SPLAT_WORKSPACE = 400
PIXEL_WORKSPACE = 160
SPARE = 256 << 20  # context, allocator slack, the viewer


@dataclass(frozen=True)
class Plan:
    """Where the photographs go and how many Gaussians fit.

    Args:
        images: "device" or "stream".
        cap: most primitives that the memory carries (and the configuration allows), or None for no limit.
        notes: sentences for the person, where memory changed what was asked for.
    """

    images: str
    cap: int | None
    notes: tuple[str, ...] = ()


def free_memory(device: torch.device) -> int:
    """Bytes that can still be taken on a device; for the CPU, what the system can give without swapping."""
    if device.type == "cuda":
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + cached
    try:
        with open("/proc/meminfo") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def used_memory(device: torch.device) -> int:
    """Bytes in use: torch's on a GPU, the resident set of the process on the CPU."""
    if device.type == "cuda":
        return torch.cuda.memory_allocated(device)
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def bytes_of_one(scene: Parameters) -> int:
    """Bytes that training needs for each primitive."""
    numbers = sum(math.prod(tensor.shape[1:]) for tensor in scene.tensors().values())
    return 4 * 4 * numbers + SPLAT_WORKSPACE


def image_bytes(views: Sequence[View], pyramid: bool) -> int:
    """Bytes of all photographs on the device: RGB and alpha or weight, and a third more with coarser
    levels."""
    total = sum(view.camera.width * view.camera.height * 4 for view in views)
    return total * 4 // 3 if pyramid else total


def plan(
    views: Sequence[View],
    count: int,
    *,
    each: int,
    noun: str = "Gaussians",
    pyramid: bool,
    images: str,
    max_gaussians: int | None,
    device: torch.device,
    free: int | None = None,
) -> Plan:
    """Decides before training, from estimates.

    Args:
        views: those that are trained on.
        count: primitives at the start.
        each: bytes of each, see `bytes_of_one`.
        noun: what they are called.
        pyramid, images, max_gaussians: of the configuration.
        free: bytes; None: asked of the device.

    Raises:
        LuxelError: not even one image with the first primitives fits.
    """
    free = free_memory(device) if free is None else free
    pixels = max(view.camera.width * view.camera.height for view in views)
    photos = image_bytes(views, pyramid)
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
        images = "device" if photos + 4 * count * each <= left and photos <= left // 2 else "stream"
        if images == "stream":
            notes.append(
                f"The photographs ({photos / 2**30:.2f} GiB) are sent step by step: "
                f"{free / 2**30:.2f} GiB are free on the {where}."
            )
    fits = max(1, (left - (photos if images == "device" else 0)) // each)
    wanted = max_gaussians if max_gaussians is not None else max(10_000_000, count)
    cap = max_gaussians
    if fits < wanted:
        cap = fits
        if max_gaussians is not None or fits < 2 * count:
            notes.append(f"At most {fits:,} {noun} fit into the {free / 2**30:.2f} GiB that are free.")
    return Plan(images, cap, tuple(notes))


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out, on a GPU or on the host."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and ("out of memory" in text or "can't allocate memory" in text)
