"""How the work of a frame reaches a GPU."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, cast, get_args

import torch

from luxel.render.errors import LuxelError

# captured: as CUDA graphs, with counts that stay on the device; launched: the same kernels one by one; polled: the host
# reads how many rays are left as it goes, and launches as much as they need.
Mode = Literal["captured", "launched", "polled"]
VARIABLE = "LUXEL_FRAMES"

_chosen: list[Mode] = []


def frame_mode() -> Mode:
    """What `drawn` has chosen, or else the environment variable ``LUXEL_FRAMES``; captured where neither says anything.

    Raises:
        LuxelError: the variable has another value.
    """
    if _chosen:
        return _chosen[-1]
    named = os.environ.get(VARIABLE) or "captured"
    if named not in get_args(Mode):
        raise LuxelError(f"{VARIABLE} is {named!r}.", f"Set it to one of {', '.join(get_args(Mode))}.")
    return cast(Mode, named)


def planned(device: torch.device) -> bool:
    """Whether frames are drawn without the host's help: on a GPU, unless they are polled."""
    return device.type == "cuda" and frame_mode() != "polled"


@contextmanager
def drawn(mode: Mode) -> Iterator[None]:
    """Frames of all fields are drawn in this way meanwhile, by all threads: for comparisons."""
    _chosen.append(mode)
    try:
        yield
    finally:
        _chosen.pop()
