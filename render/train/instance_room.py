"""How many (tile, splat) pairs a step gets room for, so that training on a GPU need not ask for the exact number."""

from __future__ import annotations

import torch
from torch import Tensor

from luxel.render.rasterize import Frame

FIRST_MARGIN = 2.5  # after one exact number: other views may see more of the scene
MARGIN = 1.5  # after some steps have been seen
SPARE = 1 << 16


class InstanceRoom:
    """Learns from past steps what to pass as ``max_instances`` to `rasterize`.

    The step after `forget` reads the exact number from the device and waits for it; those that follow do not.
    `settle`, called where the device is waited for anyway, adapts to the largest number seen since. A step
    that needed more than the margin lacked the farthest splats of some tiles; the next `settle` ends that.
    """

    def __init__(self) -> None:
        self.limit: int | None = None
        self._largest: Tensor | None = None

    def forget(self) -> None:
        """The Gaussians or the image size have changed: the next step asks again."""
        self.limit, self._largest = None, None

    def note(self, frame: Frame) -> None:
        """Remembers, on the device, what a step needed."""
        needed = frame.instances
        self._largest = needed if self._largest is None else torch.maximum(self._largest, needed)
        if self.limit is None:
            self.limit = int(FIRST_MARGIN * int(needed)) + SPARE

    def settle(self) -> bool:
        """Waits for the device; returns whether a step since the last call had too little room."""
        if self._largest is None or self.limit is None:
            return False
        largest = int(self._largest)
        short = largest > self.limit
        self.limit, self._largest = int(MARGIN * largest) + SPARE, None
        return short
