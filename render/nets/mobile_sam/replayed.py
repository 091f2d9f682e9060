"""Parts of a network as captured CUDA graphs: their hundreds of small kernels cost the host more than the device."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence

import torch
from torch import Tensor

from luxel.render.replay import Replay

MAX_GRAPHS = 12  # graphs; further shapes run without one


class ReplayedPart:
    """A function of tensors that a GPU captures once for each shape of its inputs; elsewhere it is only called.

    Threads may call it at the same time, each on its own stream.

    Args:
        work: gives tensors that depend on its inputs and on tensors that stay where they are.
    """

    def __init__(self, work: Callable[..., tuple[Tensor, ...]]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._replay: Replay[tuple[Tensor, ...]] | None = None
        self._inputs: dict[Hashable, list[Tensor]] = {}
        self._finished: torch.Event | None = None

    def __call__(
        self, *inputs: Tensor, options: Sequence[Hashable] = (), capture: bool = True
    ) -> tuple[Tensor, ...]:
        """What ``work`` gives for the inputs, followed by the options, which a graph fixes.

        Args:
            inputs: all on one device.
            options: other arguments of ``work``.
            capture: otherwise it is only called, as for inputs so large that a graph gains nothing and holds memory.
        """
        device = inputs[0].device
        if device.type != "cuda" or not capture:
            return self._work(*inputs, *options)
        with self._lock, torch.cuda.device(device):
            if self._replay is None or self._replay.device != device:
                self._replay, self._inputs, self._finished = Replay(device), {}, None
            key = (*options, *((each.shape, each.stride(), each.dtype) for each in inputs))
            if key not in self._inputs and len(self._inputs) >= MAX_GRAPHS:
                return self._work(*inputs, *options)
            if self._finished is not None:  # the last call may be on the stream of another thread
                torch.cuda.current_stream(device).wait_event(self._finished)
            retained = self._inputs.setdefault(key, [torch.empty_like(each) for each in inputs])
            for own, given in zip(retained, inputs, strict=True):
                own.copy_(given)
            outputs = self._replay.run(device, key, lambda: self._work(*retained, *options))
            out = tuple(each.clone() for each in outputs)
            self._finished = torch.cuda.current_stream(device).record_event()
            return out
