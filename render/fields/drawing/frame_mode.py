"""How the work of a frame is launched on a GPU."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, cast, get_args

import torch

from luxel.render.errors import LuxelError

# captured: as CUDA graphs, with counts that stay on the device; launched: the same kernels one by one; polled: the host
# reads the number of live rays and launches what they need.
Mode = Literal["captured", "launched", "polled"]
VARIABLE = "LUXEL_FRAMES"

_chosen: list[Mode] = []


def frame_mode() -> Mode:
    """The mode of `use_frame_mode`, else of the environment variable ``LUXEL_FRAMES``, else captured.

    Raises:
        LuxelError: the variable has another value.
    """
    if _chosen:
        return _chosen[-1]
    named = os.environ.get(VARIABLE) or "captured"
    if named not in get_args(Mode):
        raise LuxelError(f"{VARIABLE} is {named!r}.", f"Set it to one of {', '.join(get_args(Mode))}.")
    return cast(Mode, named)


def counts_on_device(device: torch.device) -> bool:
    """Whether the counts of live rays stay on the device: on a GPU, unless frames are polled."""
    return device.type == "cuda" and frame_mode() != "polled"


@contextmanager
def use_frame_mode(mode: Mode) -> Iterator[None]:
    """Context in which all threads draw frames in this mode, for comparisons."""
    _chosen.append(mode)
    try:
        yield
    finally:
        _chosen.pop()


class StreamOrder:
    """Orders images that share memory, also across streams.

    Args:
        device: on which they are rendered.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._rendered: torch.cuda.Event | None = None

    def begin(self) -> None:
        """Work launched on this stream from here on waits for the last image."""
        if self._rendered is not None:
            torch.cuda.current_stream(self._device).wait_event(self._rendered)

    def end(self) -> None:
        """The image is done when the work of this stream so far is."""
        if self._device.type != "cuda":
            return
        if self._rendered is None:
            self._rendered = torch.cuda.Event()
        self._rendered.record(torch.cuda.current_stream(self._device))
