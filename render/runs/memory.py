"""Free and used memory of a device, and whether an error means that memory ran out."""

from __future__ import annotations

import os

import torch

from luxel.render.errors import LuxelError
from luxel.render.storage.reading import available_memory, is_lack_of_memory


def free_memory(device: torch.device) -> int:
    """Bytes that can still be allocated on a device; for the CPU, without swapping, see `available_memory`."""
    if device.type == "cuda":
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + cached
    return available_memory()


def used_memory(device: torch.device) -> int:
    """Bytes in use: allocated by torch on a GPU, the resident set of the process on the CPU."""
    if device.type == "cuda":
        return torch.cuda.memory_allocated(device)
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out, on a GPU or on the host."""
    if isinstance(error, torch.OutOfMemoryError) or is_lack_of_memory(error):
        return True
    if isinstance(error, LuxelError):
        return error.__cause__ is not None and is_out_of_memory(error.__cause__)
    text = str(error).lower()
    return isinstance(error, RuntimeError) and ("out of memory" in text or "alloc_failed" in text)


def where_memory_ran_out(error: BaseException) -> str:
    """The subject of a message about an error for which `is_out_of_memory` holds."""
    on_gpu = isinstance(error, torch.OutOfMemoryError) or "cuda" in str(error).lower()
    return "The GPU" if on_gpu else "This machine"
