"""Copies results of steps to the host some steps later, so that the host never waits for the newest step."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from luxel.render.replay import sent_to_host

PULSE = 8  # steps between readbacks on a GPU, which limit how far the host runs ahead of the device
RUN_AHEAD = (
    4  # readbacks in flight: bounds how long a viewer waits for its turn, and the error of a time limit
)


@dataclass
class Readback:
    """Tensors of one step: on a GPU copies in page-locked memory, valid once ``arrived``.

    Args:
        step: number of steps submitted when it was taken.
        tensors: as given to `ReadbackQueue.push`.
        event: recorded after the copies; None on the CPU.
    """

    step: int
    tensors: tuple[Tensor | None, ...]
    event: torch.cuda.Event | None

    @property
    def arrived(self) -> bool:
        """Whether the tensors can be read without waiting."""
        return self.event is None or self.event.query()

    def wait(self) -> None:
        """Waits until the tensors can be read."""
        if self.event is not None:
            self.event.synchronize()


class ReadbackQueue:
    """Readbacks in the order of their steps.

    Args:
        device: where the tensors are.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._in_flight: deque[Readback] = deque()

    def push(self, step: int, *tensors: Tensor | None) -> None:
        """Starts copying tensors of step ``step`` to the host; without tensors only an event marks the step."""
        event = None
        if self.device.type == "cuda":
            tensors = tuple(None if tensor is None else sent_to_host(tensor) for tensor in tensors)
            event = torch.cuda.Event()
            event.record()
        self._in_flight.append(Readback(step, tensors, event))

    def arrived(self, wait: bool = False) -> Iterator[Readback]:
        """Removes and yields the readbacks that have arrived; waits for the oldest while more than ``RUN_AHEAD`` are in
        flight.

        Args:
            wait: wait for all.
        """
        while self._in_flight:
            oldest = self._in_flight[0]
            if not oldest.arrived:
                if len(self._in_flight) <= RUN_AHEAD and not wait:
                    return
                oldest.wait()
            self._in_flight.popleft()
            yield oldest

    def clear(self) -> None:
        """Drops all readbacks in flight."""
        self._in_flight.clear()
