"""Runs the same device work repeatedly: on a GPU as a captured CUDA graph."""

from __future__ import annotations

import contextlib
import gc
import threading
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import torch

Outputs = TypeVar("Outputs")


def sent_to_host(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of a GPU tensor in page-locked memory, valid once an event recorded after this call has happened."""
    return torch.empty_like(tensor, device="cpu", pin_memory=True).copy_(tensor, non_blocking=True)


def on_host(parts: Iterable[torch.Tensor]) -> Iterator[np.ndarray]:
    """Tensors in the memory of the host, one after another; those of a GPU are copied while the one before is used.

    Args:
        parts: with the size of the first along all axes but the first, along which none is longer.

    Returns:
        Each is valid until the next is asked for: memory for all would cost more than using them.
    """
    buffers: list[torch.Tensor] = []
    before: tuple[torch.Tensor, torch.cuda.Event] | None = None
    for number, part in enumerate(parts):
        if not part.is_cuda:
            yield part.numpy()
            continue
        if len(buffers) < 2:
            buffers.append(torch.empty_like(part, device="cpu", pin_memory=True))
        copy, copied = buffers[number % 2][: len(part)], torch.cuda.Event()
        copy.copy_(part, non_blocking=True)
        copied.record(torch.cuda.current_stream(part.device))
        if before is not None:
            yield _arrived(*before)
        before = copy, copied
    if before is not None:
        yield _arrived(*before)


def _arrived(copy: torch.Tensor, copied: torch.cuda.Event) -> np.ndarray:
    copied.synchronize()
    return copy.numpy()


class _Graphs:
    """The graphs that a `Replay` captured, and their memory pool."""

    graphs: dict[Hashable, tuple[torch.cuda.CUDAGraph | None, Any]]
    pool: torch.cuda.MemPool | None

    def __init__(self) -> None:
        self.graphs, self.pool = {}, None


# While one thread captures, or allocates from a pool, torch aborts the process if another thread, or the garbage
# collector, frees a pool. Pools that are dropped meanwhile are stored in _dropped.
_capturing = threading.Lock()
_dropped: list[object] = []


@contextlib.contextmanager
def _memory_stays() -> Iterator[None]:
    """Context in which no other thread captures or frees memory, and the garbage collector is off."""
    with _capturing:
        collects = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if collects:
                gc.enable()
    _free_dropped()


def _free_dropped() -> None:
    if _capturing.acquire(blocking=False):
        try:
            _dropped.clear()
        finally:
            _capturing.release()


def _drop(resident: _Graphs) -> None:
    _dropped.append((resident.graphs, resident.pool))
    resident.graphs, resident.pool = {}, None
    _free_dropped()


def release_memory() -> None:
    """Returns torch's cached memory to the device, as soon as no thread is capturing."""
    if torch.cuda.is_available():
        with _capturing:
            _dropped.clear()
            torch.cuda.empty_cache()


class Replay(Generic[Outputs]):
    """Captures work once and replays it, which costs the host microseconds instead of milliseconds.

    Captured work allocates from its own pool; its outputs are overwritten by its next run. The first run of a key is
    not captured, so that lazy initialisation happens before. On the CPU the work simply runs.

    Args:
        device: where the work is done.
        generators: random number generators that the work uses; a replay advances them as the work itself would.
    """

    def __init__(self, device: torch.device, generators: Sequence[torch.Generator] = ()) -> None:
        self.device, self.captures = device, 0
        self._generators = tuple(generators)
        self._resident = _Graphs()
        weakref.finalize(self, _drop, self._resident).atexit = False
        self._stream: torch.cuda.Stream | None = None
        self._epoch: Hashable = None

    def forget(self) -> None:
        """Drops captured graphs and their memory, when the tensors that they work on are gone."""
        _drop(self._resident)
        self._epoch = None

    def run(self, epoch: Hashable, key: Hashable, work: Callable[[], Outputs]) -> Outputs:
        """Runs ``work`` on torch's current stream, or replays its capture; nothing waits for the device.

        Args:
            epoch: everything that the captured work depends on apart from its key; where it differs from that of
                the last run, earlier captures are dropped.
            key: identifies the work among several.
        """
        if self.device.type != "cuda":
            return work()
        if epoch != self._epoch:
            self.forget()
            self._epoch, self._resident.pool = epoch, torch.cuda.MemPool()
        graphs, pool = self._resident.graphs, self._resident.pool
        assert pool is not None
        if key not in graphs:
            with _memory_stays(), torch.cuda.device(self.device), torch.cuda.use_mem_pool(pool):
                outputs = work()
            graphs[key] = None, outputs
            return outputs
        graph, outputs = graphs[key]
        if graph is None:
            del graphs[key], outputs
            with _memory_stays():
                graph, outputs = self._capture(work, pool)
            graphs[key] = graph, outputs
        graph.replay()
        return outputs

    def _capture(
        self, work: Callable[[], Outputs], pool: torch.cuda.MemPool
    ) -> tuple[torch.cuda.CUDAGraph, Outputs]:
        if self._stream is None:
            self._stream = torch.cuda.Stream(self.device)
        graph = torch.cuda.CUDAGraph()
        for generator in self._generators:
            graph.register_generator_state(generator)
        self._stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self._stream):
            # Other threads (viewers) may allocate meanwhile.
            name: Any = pool.id
            graph.capture_begin(pool=name, capture_error_mode="thread_local")
            try:
                outputs = work()
            except BaseException:
                with contextlib.suppress(RuntimeError):  # the first error is the one to report
                    graph.capture_end()
                raise
            graph.capture_end()
        self.captures += 1
        return graph, outputs
