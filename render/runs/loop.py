"""The loop of a training run: steps one after another, with pauses, Ctrl-C, checkpoints and a display."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from threading import Event
from typing import Any, Generic, Self, TypeVar

import torch

from luxel.render.runs import checkpoint as checkpoints
from luxel.render.runs.fair_lock import FairLock
from luxel.render.runs.interrupt import Interrupt
from luxel.render.runs.progress import ProgressDisplay
from luxel.render.runs.run_folder import RunFolder

log = logging.getLogger(__name__)
Report = TypeVar("Report")
Result = TypeVar("Result")


class TrainingLoop(ABC, Generic[Report, Result]):
    """What runs of every kind have in common, whatever a step does.

    Attributes:
        lock: used like an RLock; held during a step, free between steps.
        folder: of the run.
        steps_done: asked for, whether or not the device has come to their end.
        train_seconds: spent in steps.
        done: whether the run has ended otherwise than by Ctrl-C.
    """

    folder: RunFolder

    def __init__(self, device: torch.device, say: Callable[[str], None] | None) -> None:
        self.device = device
        self.lock: Any = FairLock()
        self._display = ProgressDisplay()
        self.say = say or self._display.say
        self.steps_done, self.train_seconds = 0, 0.0
        self.done = False
        self._go, self._stop = Event(), False
        self._go.set()
        self._speed = 0.0
        self._saved_at, self._saved_when = -1, time.monotonic()

    @property
    def paused(self) -> bool:
        """Whether training waits."""
        return not self._go.is_set()

    def pause(self) -> None:
        """Lets training wait after the present step."""
        self._go.clear()

    def resume_training(self) -> None:
        """Ends a pause."""
        self._go.set()

    def request_stop(self) -> None:
        """Ends `run` after the present step, as if the run were over."""
        self._stop = True
        self._go.set()

    @abstractmethod
    def status(self) -> dict[str, Any]:
        """Numbers for a display; never waits for the device. May be called from any thread."""

    def step(self) -> Report:
        """One training step.

        Raises:
            LuxelError: training cannot go on.
        """
        with self.lock:
            started = time.perf_counter()
            report = self._advance()
            seconds = time.perf_counter() - started
            self.train_seconds += seconds
            self._speed = 1 / seconds if self._speed == 0 else 1 / (0.97 / self._speed + 0.03 * seconds)
        return report

    def run(self, on_step: Callable[[Self], None] | None = None, *, progress: bool = True) -> Result:
        """Trains to the end, with checkpoints, measurements and a display.

        In the main thread Ctrl-C saves a checkpoint and returns; a second one aborts.

        Args:
            on_step: called after each step, without the lock; an exception in it is logged once and ends
                nothing.
            progress: show a display.
        """
        complained = False
        with Interrupt(self.say) as interrupt, self._display if progress else nullcontext():
            while not (reason := self._reason(interrupt)) or self._falls_back():
                if not self._go.wait(0.1):
                    self._show(progress)
                    continue
                before = self.steps_done
                self.step()
                self._show(progress)
                if on_step is not None:
                    try:
                        on_step(self)
                    except Exception:
                        if not complained:
                            log.exception("on_step failed; training goes on")
                        complained = True
                if self.steps_done > before:
                    self._measure_and_save_when_due()
            return self._finish(reason)

    def save_checkpoint(self) -> Path | None:
        """Writes a checkpoint; a failure is said and gives None, and the older ones stay."""
        with self.lock:
            found, keep = self._checkpoint()
            self._saved_when = time.monotonic()
            try:
                path = checkpoints.save(self.folder.checkpoints, found, keep)
            except checkpoints.CheckpointError as error:
                self.say(f"{error} Training goes on.")
                return None
            self._saved_at = self.steps_done
            return path

    @abstractmethod
    def _advance(self) -> Report:
        """The work of a step; moves ``steps_done`` on."""

    @abstractmethod
    def _checkpoint(self) -> tuple[checkpoints.Checkpoint, int]:
        """The whole state of now, and how many checkpoints are kept."""

    @abstractmethod
    def _reason_to_end(self) -> str:
        """Why the run is over, beside Ctrl-C and `request_stop`; empty: it is not."""

    @abstractmethod
    def _measure_and_save_when_due(self) -> None:
        """Called after each step."""

    @abstractmethod
    def _finish(self, reason: str) -> Result:
        """Ends the run."""

    def _falls_back(self) -> bool:
        """At the end of a run: whether it was not the end after all."""
        return False

    def _reason(self, interrupt: Interrupt) -> str:
        if interrupt.requested:
            return "interrupted"
        return "stopped" if self._stop else self._reason_to_end()

    def _show(self, progress: bool) -> None:
        if progress and self._display.due:
            self._display.update(self.status())

    def _checkpoint_is_due(self, every: int, minutes: float, steps: int) -> bool:
        """Whether steps or minutes say so; the last step has its own."""
        late = minutes > 0 and time.monotonic() - self._saved_when >= 60 * minutes
        return (every > 0 and self.steps_done % every == 0 and self.steps_done < steps) or late

    def _final_checkpoint(self) -> Path | None:
        """The checkpoint of the last step, written unless it is there."""
        if self._saved_at == self.steps_done:
            return self.folder.checkpoints / f"step-{self.steps_done:08d}.json"
        return self.save_checkpoint()

    def _say_how_to_go_on(self, saved: Path | None) -> None:
        """After Ctrl-C."""
        remedy = (
            f"Go on with: luxel train --resume {self.folder.path}" if saved else "Nothing could be saved."
        )
        self.say(f"Stopped at step {self.steps_done}. {remedy}")

    def _synchronise(self) -> None:
        """Counts steps that the device has not finished as training time."""
        if self.device.type == "cuda":
            started = time.perf_counter()
            torch.cuda.synchronize(self.device)
            self.train_seconds += time.perf_counter() - started
