"""The training loop: steps in sequence, with pauses, Ctrl-C, evaluations, checkpoints and a progress display."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import nullcontext
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event
from typing import Any, NamedTuple, Protocol, TypeVar

import torch

from luxel.render.errors import LuxelError
from luxel.render.runs.checkpoint_saving import Done, Saver, Written
from luxel.render.runs.checkpoints.checkpoint import Checkpoint
from luxel.render.runs.fair_lock import FairLock
from luxel.render.runs.folder.run_folder import RunFolder
from luxel.render.runs.interrupt import Interrupt
from luxel.render.runs.memory import used_memory
from luxel.render.runs.progress import ProgressDisplay

log = logging.getLogger(__name__)
T = TypeVar("T")
Report = TypeVar("Report")
Result = TypeVar("Result")
Report_co = TypeVar("Report_co", covariant=True)
Result_co = TypeVar("Result_co", covariant=True)


class CheckpointPolicy(NamedTuple):
    """When checkpoints are written.

    Args:
        every: steps between checkpoints; 0: none by steps.
        minutes: minutes between checkpoints; 0: none by time.
        keep: number of newest checkpoints that are retained.
    """

    every: int
    minutes: float
    keep: int


class Run(Protocol[Report_co, Result_co]):
    """The interface of a training run that `TrainingLoop` requires."""

    @property
    def folder(self) -> RunFolder:
        """The run folder."""
        ...

    @property
    def steps(self) -> int:
        """Length of the run."""
        ...

    @property
    def checkpoint_policy(self) -> CheckpointPolicy:
        """When checkpoints are written."""
        ...

    def advance(self) -> Report_co:
        """Submits one step and updates ``TrainingLoop.steps_done``."""
        ...

    def synchronize(self) -> bool:
        """Waits for all submitted steps; whether some must be repeated, in which case ``steps_done`` was reduced."""
        ...

    def status(self) -> dict[str, Any]:
        """Numbers for a display; never waits for the device."""
        ...

    def checkpoint(self) -> Checkpoint:
        """The complete state."""
        ...

    def finish_reason(self) -> str:
        """Why the run is over, apart from Ctrl-C and `TrainingLoop.request_stop`; empty: it continues."""
        ...

    def evaluate_when_due(self) -> None:
        """Called after each step, before a checkpoint is considered."""
        ...

    def finish(self, reason: str) -> Result_co:
        """Ends the run and returns its result."""
        ...


class TrainingLoop:
    """Runs any `Run`, and holds the counters that all runs share.

    Args:
        device: where steps run.
        say: receives messages for the user; None: standard output.

    Attributes:
        lock: used like an RLock; held during a step, free between steps.
        steps_done: submitted steps, whether or not the device has finished them.
        train_seconds: time spent in steps.
        cpu_seconds: processor time of this process during steps on a CPU, of all its threads together.
        speed: running mean of steps per second; 0 before the first step.
        done: whether the run has ended otherwise than by Ctrl-C.
        reason: why the last step was the last, see `Run.finish_reason`; empty while there are more.
        signal: number of the signal that ended the run, or came while its results were written; 0: none.
    """

    def __init__(self, device: torch.device, say: Callable[[str], None] | None = None) -> None:
        self.device = device
        self.lock: Any = FairLock()
        self._display = ProgressDisplay()
        self.say = say or self._display.say
        self.steps_done, self.train_seconds, self.cpu_seconds, self.speed = 0, 0.0, 0.0, 0.0
        self.done, self.reason, self.signal = False, "", 0
        self._go, self._stop, self._single_steps, self._over = Event(), False, 0, False
        self._go.set()
        self._requests: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        self.saver = Saver(device, self.lock, self.say)

    def resume_at(self, step: int, train_seconds: float) -> None:
        """Continues from a checkpoint of step ``step``, which is not written again."""
        self.steps_done, self.train_seconds, self.saver.step = step, train_seconds, step

    @property
    def paused(self) -> bool:
        """Whether training is paused."""
        return not self._go.is_set()

    def pause(self) -> None:
        """Pauses training after the current step."""
        self._go.clear()

    def resume_training(self) -> None:
        """Ends a pause."""
        self._go.set()

    def request_stop(self) -> None:
        """Ends `run` after the current step with reason "stopped"."""
        self._stop = True
        self._go.set()

    def step_once(self) -> None:
        """Pauses training, after one more step if it is paused already."""
        if self.paused:
            self._single_steps += 1
        self.pause()

    def between_steps(self, action: Callable[[], T]) -> Future[T]:
        """Calls ``action`` in the thread that trains, after the current step and also while training is paused.

        Returns:
            Its result or exception; LuxelError where the run ends before.
        """
        future: Future[T] = Future()
        self._requests.put((action, future))
        if self._over:
            self._refuse_requests()
        return future

    def step(self, run: Run[Report, Any]) -> Report:
        """One timed training step.

        Raises:
            LuxelError: training cannot continue.
        """
        with self.lock:
            worked = time.process_time() if self.device.type == "cpu" else None
            started = time.perf_counter()
            report = run.advance()
            seconds = time.perf_counter() - started
            self.train_seconds += seconds
            if worked is not None:  # asked of all threads, which takes as long as some steps of a GPU
                self.cpu_seconds += time.process_time() - worked
            self.speed = 1 / seconds if self.speed == 0 else 1 / (0.97 / self.speed + 0.03 * seconds)
        return report

    def run(
        self,
        run: Run[Any, Result],
        on_step: Callable[[Any], None] | None = None,
        *,
        progress: bool = True,
    ) -> Result:
        """Trains to the end, with evaluations, checkpoints and a progress display.

        In the main thread the first Ctrl-C saves a checkpoint and returns; a second one aborts.

        Args:
            run: what is trained.
            on_step: called with ``run`` after each step, without the lock; its exceptions are logged once and ignored.
            progress: show a progress display.
        """
        complained = False
        display = self._display if progress else nullcontext()
        with self.saver, Interrupt(self.say) as interrupt, display:
            while not (reason := self._finish_reason(run, interrupt)) or self._must_repeat(run):
                self._answer_requests()
                if not self._may_step():
                    self._show(run, progress)
                    continue
                before = self.steps_done
                self.step(run)
                self._show(run, progress)
                if on_step is not None:
                    try:
                        on_step(run)
                    except Exception:
                        if not complained:
                            log.exception("on_step failed; training continues")
                        complained = True
                if self.steps_done > before:
                    run.evaluate_when_due()
                    self._save_when_due(run)
            self._over, self.reason = True, reason
            self._refuse_requests()
            try:
                return run.finish(reason)
            finally:
                self.signal = interrupt.number

    def used_memory(self) -> int:
        """Bytes of the device in use, see `luxel.render.runs.memory.used_memory`, without the copy of a checkpoint."""
        return used_memory(self.device) - self.saver.held

    def save_checkpoint(self, run: Run[Any, Any]) -> Path | None:
        """Writes a checkpoint now; a failure is reported and returns None, and older checkpoints stay."""
        return self.saver.save(run, self.steps_done)

    def final_checkpoint(self, run: Run[Any, Any]) -> Path | None:
        """The checkpoint of the last step, written unless it exists."""
        return self.saver.final(run, self.steps_done)

    def save_alongside(
        self, run: Run[Any, Any], results: Callable[[], Written], work: Callable[[], Done]
    ) -> tuple[Path | None, Written, Done]:
        """The checkpoint of the last step, and results of the run, while ``work`` is done; see
        `Saver.save_alongside`."""
        return self.saver.save_alongside(run, self.steps_done, results, work)

    def say_how_to_resume(self, run: Run[Any, Any], saved: Path | None) -> None:
        """The message after Ctrl-C.

        Args:
            saved: the last checkpoint; None: none could be written.
        """
        remedy = (
            f"Resume with: luxel train --resume {run.folder.path}" if saved else "Nothing could be saved."
        )
        self.say(f"Stopped at step {self.steps_done}. {remedy}")

    def wait_for_device(self) -> None:
        """Waits for the device and counts the time as training time."""
        if self.device.type == "cuda":
            started = time.perf_counter()
            torch.cuda.synchronize(self.device)
            self.train_seconds += time.perf_counter() - started

    def is_due(self, every: int, steps: int) -> bool:
        """Whether something is due that happens every ``every`` steps (0: never), but not after the last of ``steps``,
        when `Run.finish` does it."""
        return every > 0 and self.steps_done % every == 0 and self.steps_done < steps

    def counters(self, steps: int, seconds: float | None) -> dict[str, Any]:
        """The part of `Run.status` that all runs have.

        Args:
            steps: length of the run.
            seconds: time limit of the run; None: none.
        """
        left = (steps - self.steps_done) / self.speed if self.speed > 0 else None
        if seconds is not None:
            allowed = max(0.0, seconds - self.train_seconds)
            left = allowed if left is None else min(left, allowed)
        return {
            "step": self.steps_done,
            "steps": steps,
            "steps_per_s": self.speed,
            "memory": self.used_memory(),
            "elapsed": self.train_seconds,
            "eta": 0.0 if self.done else left,
            "paused": self.paused,
            "done": self.done,
            "reason": self.reason,
            "time_limit": seconds,
        }

    def _may_step(self) -> bool:
        """Whether to do a step now; waits up to a tenth of a second while training is paused."""
        if self._go.wait(0 if self._single_steps else 0.1):
            return not self._stop  # a stop ends a pause too
        if not self._single_steps:
            return False
        self._single_steps -= 1
        return True

    def _answer_requests(self) -> None:
        """Calls what `between_steps` was given; exceptions go to who asked."""
        while not self._requests.empty():
            action, future = self._requests.get()
            try:
                future.set_result(action())
            except Exception as error:
                future.set_exception(error)

    def _refuse_requests(self) -> None:
        while True:
            try:
                _, future = self._requests.get_nowait()
            except Empty:
                return
            future.set_exception(LuxelError("The run has ended.", "Go on with it: luxel train --resume RUN."))

    def _finish_reason(self, run: Run[Any, Any], interrupt: Interrupt) -> str:
        if interrupt.requested:
            return "interrupted"
        return "stopped" if self._stop else run.finish_reason()

    def _must_repeat(self, run: Run[Any, Any]) -> bool:
        """At the end of a run: whether some of its steps had no effect and must be repeated."""
        self.wait_for_device()
        return run.synchronize() and not self._stop

    def _save_when_due(self, run: Run[Any, Any]) -> None:
        every, minutes, _ = run.checkpoint_policy
        late = minutes > 0 and time.monotonic() - self.saver.taken_at >= 60 * minutes
        if (self.is_due(every, run.steps) or late) and not run.synchronize():
            self.saver.save_meanwhile(run, self.steps_done)

    def _show(self, run: Run[Any, Any], progress: bool) -> None:
        if progress and self._display.due:
            self._display.update(run.status())
