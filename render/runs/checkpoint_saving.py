"""Checkpoints of a run: written now, in a thread while it goes on, or alongside other work at its end."""

from __future__ import annotations

import copy
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch

from luxel.render.errors import LuxelError
from luxel.render.runs.checkpoints.checkpoint import Checkpoint
from luxel.render.runs.folder.run_folder import RunFolder
from luxel.render.runs.memory import free_memory, is_out_of_memory

COPIED = 0.2  # most of the free memory that a copy of the state may fill
Written = TypeVar("Written")
Done = TypeVar("Done")


class Saved(Protocol):
    """What a `Saver` requires of a run."""

    @property
    def folder(self) -> RunFolder:
        """The run folder."""
        ...

    @property
    def checkpoint_policy(self) -> Any:
        """Its ``keep`` is the number of checkpoints that are retained."""
        ...

    def checkpoint(self) -> Checkpoint:
        """The complete state, in tensors that the next step changes."""
        ...


class Saver:
    """Writes the checkpoints of a run, one after another; a failure is reported, and older checkpoints stay.

    A context that does not end before the last one is written.

    Args:
        device: where the run trains.
        lock: held while the state is taken.
        say: receives messages for the user.

    Attributes:
        step: of the last checkpoint that was written or resumed; -1: none.
        taken_at: when the state was last taken, of `time.monotonic`, seconds.
    """

    def __init__(
        self, device: torch.device, lock: AbstractContextManager[Any], say: Callable[[str], None]
    ) -> None:
        self.step, self.taken_at = -1, time.monotonic()
        self._device, self._lock, self._say = device, lock, say
        self._pending: Future[Path | None] | None = None
        self._copy_bytes = 0

    @property
    def held(self) -> int:
        """Bytes on the device of the run that the copy of its state takes, until it is written."""
        pending = self._pending  # once: any thread may ask, while another waits for it
        return 0 if pending is None or pending.done() else self._copy_bytes

    def __enter__(self) -> Saver:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()

    def save(self, run: Saved, step: int) -> Path | None:
        """Writes the checkpoint of a step now; returns None after a failure."""
        with self._lock:
            self.wait()
            return self._written(run, self._taken(run, step))

    def save_meanwhile(self, run: Saved, step: int) -> None:
        """Copies the state, which a thread writes while the run goes on; now, where there is no memory for a copy."""
        with self._lock:
            self.wait()
            state = self._taken(run, step)
            copied = None if state is None else _copied(state)
            if copied is None:
                self._written(run, state)
                return
            self._copy_bytes = _sizes(copied)[self._device.type]
            copying, pool = self._copying(), ThreadPoolExecutor(1, "luxel-checkpoint")
            self._pending = pool.submit(self._written_in, copying, run, copied)
            pool.shutdown(wait=False)

    def wait(self) -> None:
        """Returns when no thread writes a checkpoint."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def final(self, run: Saved, step: int) -> Path | None:
        """The checkpoint of the last step, written unless it exists."""
        return self._existing(run, step) or self.save(run, step)

    def save_alongside(
        self, run: Saved, step: int, results: Callable[[], Written], work: Callable[[], Done]
    ) -> tuple[Path | None, Written, Done]:
        """Writes the checkpoint of the last step and the results in two threads, while ``work`` is done here.

        Nothing may change the state of the run meanwhile. All have ended when this returns or raises.

        Args:
            run: whose steps are done.
            step: the last one.
            results: writes what the run is for.
            work: what else is to be done, such as an evaluation.
        """
        path = self._existing(run, step)
        state = None if path else self._taken(run, step)

        def checkpoint() -> Path | None:
            with self._copying():
                return path or self._written(run, state)

        def others() -> Written:
            with self._copying():
                return results()

        with ThreadPoolExecutor(2, "luxel-save") as pool:
            saving, writing = pool.submit(checkpoint), pool.submit(others)
            done = work()
            return saving.result(), writing.result(), done

    def _existing(self, run: Saved, step: int) -> Path | None:
        self.wait()
        path = run.folder.checkpoints / f"step-{step:08d}.json"
        return path if self.step == step and path.exists() else None

    def _taken(self, run: Saved, step: int) -> Checkpoint | None:
        """The state of a run now, in tensors that its next step changes; None after a report that memory ran out."""
        self.taken_at = time.monotonic()
        try:
            state = run.checkpoint()
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            self._say(f"No checkpoint of step {step}: memory ran out. Training continues.")
            return None
        state.run = run.folder.body
        return state

    def _written(self, run: Saved, state: Checkpoint | None) -> Path | None:
        if state is None:
            return None
        try:
            run.folder.renew()
            path = run.folder.save_checkpoint(state, run.checkpoint_policy.keep)
        except LuxelError as error:
            self._say(f"{error} Training continues.")
            return None
        self.step = state.step
        return path

    def _written_in(self, copying: AbstractContextManager[Any], run: Saved, state: Checkpoint) -> Path | None:
        with copying:
            return self._written(run, state)

    def _copying(self) -> AbstractContextManager[Any]:
        """Copies from a GPU that wait for what it was given before, and for nothing that comes later."""
        if self._device.type != "cuda":
            return nullcontext()
        stream = torch.cuda.Stream(self._device)
        stream.wait_stream(torch.cuda.default_stream(self._device))
        return torch.cuda.stream(stream)


def _sizes(state: Checkpoint, onto: torch.device | None = None) -> Counter[str]:
    """Bytes of the tensors by type of device, or of copies of them on one device."""
    sizes: Counter[str] = Counter()
    for tensor in state.tensors.values():
        sizes[(onto or tensor.device).type] += tensor.numel() * tensor.element_size()
    return sizes


def _copied(state: Checkpoint) -> Checkpoint | None:
    """A copy that no step changes, on the GPU, where it takes a moment, else on the host; None: both are too full."""
    devices = {tensor.device.type: tensor.device for tensor in state.tensors.values()}
    host = torch.device("cpu")
    for onto in [None, host] if "cuda" in devices else [host]:
        sizes = _sizes(state, onto)
        if any(size > COPIED * free_memory(devices.get(kind, host)) for kind, size in sizes.items()):
            continue
        try:
            tensors = {
                name: tensor.detach().to(onto or tensor.device, copy=True)
                for name, tensor in state.tensors.items()
            }
        except Exception as error:
            if not is_out_of_memory(error):
                raise
        else:
            return replace(state, tensors=tensors, state=copy.deepcopy(state.state))
    return None
