"""The interface by which commands and viewers watch and control a training run."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import torch

from luxel.render.runs.folder.run_folder import RunFolder
from luxel.render.runs.loop import Report_co, Result_co, Run, TrainingLoop

T = TypeVar("T")
Report = TypeVar("Report")
Result = TypeVar("Result")


class LoopedRun(Run[Report_co, Result_co], Protocol[Report_co, Result_co]):
    """A `Run` with the loop that it is run by."""

    loop: TrainingLoop


class RunControls(Generic[Report, Result]):
    """Forwards to the `TrainingLoop` of a run; holds no state of its own.

    Attributes:
        loop: of the run.
        folder: the run folder.
    """

    loop: TrainingLoop
    folder: RunFolder

    @property
    def device(self) -> torch.device:
        """Where the run trains."""
        return self.loop.device

    @property
    def lock(self) -> Any:
        """See `TrainingLoop`."""
        return self.loop.lock

    @property
    def say(self) -> Callable[[str], None]:
        """Receives messages for the user."""
        return self.loop.say

    @property
    def steps_done(self) -> int:
        """See `TrainingLoop`."""
        return self.loop.steps_done

    @steps_done.setter
    def steps_done(self, steps: int) -> None:
        self.loop.steps_done = steps

    @property
    def train_seconds(self) -> float:
        """See `TrainingLoop`."""
        return self.loop.train_seconds

    @property
    def done(self) -> bool:
        """See `TrainingLoop`."""
        return self.loop.done

    @property
    def paused(self) -> bool:
        """Whether training is paused."""
        return self.loop.paused

    def pause(self) -> None:
        """Pauses training after the current step."""
        self.loop.pause()

    def resume_training(self) -> None:
        """Ends a pause."""
        self.loop.resume_training()

    def step_once(self) -> None:
        """See `TrainingLoop.step_once`."""
        self.loop.step_once()

    def between_steps(self, action: Callable[[], T]) -> Future[T]:
        """See `TrainingLoop.between_steps`."""
        return self.loop.between_steps(action)

    def request_stop(self) -> None:
        """Ends `run` after the current step, as if the run were over."""
        self.loop.request_stop()

    def step(self: LoopedRun[Report, Any]) -> Report:
        """See `TrainingLoop.step`."""
        return self.loop.step(self)

    def run(
        self: LoopedRun[Any, Result],
        on_step: Callable[[Any], None] | None = None,
        *,
        progress: bool = True,
    ) -> Result:
        """See `TrainingLoop.run`."""
        return self.loop.run(self, on_step, progress=progress)

    def save_checkpoint(self: LoopedRun[Any, Any]) -> Path | None:
        """See `TrainingLoop.save_checkpoint`."""
        return self.loop.save_checkpoint(self)
