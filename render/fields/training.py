"""A training run of a neural field."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from luxel.render.backends import require_field_backend
from luxel.render.errors import LuxelError
from luxel.render.fields.application import Application
from luxel.render.fields.applications import application_type, make_application
from luxel.render.fields.config import FieldConfig
from luxel.render.fields.files import FIELD_FILE, save_field
from luxel.render.fields.optimizer import FieldOptimizer
from luxel.render.native import keep_freed_memory
from luxel.render.replay import sent_to_host
from luxel.render.runs.checkpoint import Checkpoint, CheckpointError, load_newest
from luxel.render.runs.loop import TrainingLoop
from luxel.render.runs.progress import ProgressDisplay, duration
from luxel.render.runs.run_folder import RunFolder
from luxel.render.train import limits

PULSE = 8  # steps between marks by which the host sees how far the device is
RUN_AHEAD = 4  # marks that may be under way: bounds how long a viewer waits, and the error of a time limit


@dataclass
class FieldResult:
    """How a run ended.

    Args:
        reason: "steps", "seconds", "stopped" or "interrupted".
        step: completed steps.
        train_seconds: time spent in training steps; measuring, pauses and viewers do not count.
        scores: what `Application.evaluate` said at the end; empty after Ctrl-C.
        checkpoint: JSON file of the last checkpoint, or None where none could be written.
        scene: the field's file, or None.
    """

    reason: str
    step: int
    train_seconds: float
    scores: dict[str, float]
    checkpoint: Path | None
    scene: Path | None


@dataclass
class _Mark:
    """A point in the device's work; there once ``event`` has happened."""

    step: int
    loss: Tensor | None
    event: torch.cuda.Event | None

    @property
    def arrived(self) -> bool:
        return self.event is None or self.event.query()


class FieldTrainer(TrainingLoop[int, FieldResult]):
    """Trains an application, with checkpoints, measurements and a run folder.

    On the CPU the result depends only on configuration and data; on a GPU sums of floats come in any order.

    Args:
        application: with its first parameters; see `luxel.render.fields.applications.make_application`.
        data: as its `begin` takes them.
        folder: of the run; must not hold one already (see `FieldTrainer.resume`).
        device: where to train.
        say: gets sentences for the person; None: standard output.
        about: more entries for config.json (where the data are).
        start: the state that the run goes on from.

    Raises:
        LuxelError: the data cannot be used, or the folder, or the backend here.
    """

    def __init__(
        self,
        application: Application,
        data: Any,
        folder: Path | str,
        device: torch.device | str = "cpu",
        say: Callable[[str], None] | None = None,
        *,
        about: dict[str, Any] | None = None,
        start: Checkpoint | None = None,
    ) -> None:
        super().__init__(torch.device(device), say)
        if self.device.type == "cpu":
            keep_freed_memory()
        self.application = application.to(self.device)
        self.config = application.config
        self.config.check()
        require_field_backend(self.config.backend, self.device)
        self.folder = RunFolder(Path(folder), self.say)
        self.loss: float | None = None
        self.scores: dict[str, float] = {}
        self._marks: deque[_Mark] = deque()
        if start is None:
            self.folder.require_new()
        self.application.begin(data, self.device)
        self.optimizer = FieldOptimizer(self.application)
        if start is not None:
            self._restore(start)
        details = {"seed": self.config.seed, "device": str(self.device)}
        self.folder.write_config(self.config, {**details, **(about or {})})

    @classmethod
    def new(
        cls,
        config: FieldConfig,
        data: Any,
        folder: Path | str,
        device: torch.device | str = "cpu",
        **more: Any,
    ) -> FieldTrainer:
        """A run of the field that a configuration and the data describe; ``more`` as the constructor has it."""
        config.check()
        suited = application_type(config.field).suited(config, data)
        return cls(make_application(suited), data, folder, device, **more)

    @classmethod
    def resume(
        cls,
        folder: Path | str,
        data: Any,
        device: torch.device | str = "cpu",
        *,
        overrides: dict[str, Any] | None = None,
        say: Callable[[str], None] | None = None,
        about: dict[str, Any] | None = None,
    ) -> FieldTrainer:
        """Goes on from the newest whole checkpoint of a run, exactly where it was.

        Args:
            folder: of the run.
            data: the same as before.
            overrides: changed configuration by name, for example {"steps": 60_000}.

        Raises:
            LuxelError: no run of a field, no whole checkpoint, or an override that the tables do not fit, as another
                backend's.
        """
        body = RunFolder.read_body(Path(folder))
        config = FieldConfig.from_dict({**body["config"], **(overrides or {})})
        before = FieldConfig.from_dict(body["config"]).backend
        if config.backend != before:
            raise LuxelError(
                f"{folder}: the run was trained by {before}, whose grid is not quite that of {config.backend}.",
                "Leave --backend out, or start a new run.",
            )
        start = load_newest(Path(folder) / "checkpoints", say or ProgressDisplay().say)
        return cls(make_application(config), data, folder, device, say, about=about, start=start)

    @property
    def scene(self) -> Application:
        """The field as it is now, drawn from the running mean of its parameters; hold ``lock`` while using it."""
        return self.application

    @property
    def progress(self) -> float:
        """Share of the run that is done, in [0, 1]."""
        share = self.steps_done / self.config.steps
        if self.config.seconds is not None:
            share = max(share, self.train_seconds / self.config.seconds)
        return min(share, 1.0)

    def status(self) -> dict[str, Any]:
        """Numbers for a display; never waits for the device. May be called from any thread."""
        left = (self.config.steps - self.steps_done) / self._speed if self._speed > 0 else None
        if self.config.seconds is not None:
            allowed = max(0.0, self.config.seconds - self.train_seconds)
            left = allowed if left is None else min(left, allowed)
        return {
            "step": self.steps_done,
            "steps": self.config.steps,
            "progress": self.progress,
            "steps_per_s": self._speed,
            "loss": self.loss,
            "scores": self.scores,
            "count": self.application.count,
            "noun": "parameters",
            "memory": limits.used_memory(self.device),
            "elapsed": self.train_seconds,
            "eta": 0.0 if self.done else left,
            "paused": self.paused,
            "done": self.done,
        }

    def evaluate(self) -> dict[str, float]:
        """Measures the field now, outside of the training time."""
        self._synchronise()
        self._hear(wait=True)
        with self.lock, torch.no_grad():
            self.scores = self.application.evaluate()
        self.folder.log({"step": self.steps_done, "seconds": self.train_seconds, "test": self.scores})
        return self.scores

    def _advance(self) -> int:
        step = self.steps_done
        loss = self.optimizer.step(step)
        self.steps_done = step + 1
        report = self.steps_done % self.config.report_every == 0
        if report or self.steps_done % PULSE == 0:
            event = None
            if self.device.type == "cuda":
                loss = sent_to_host(loss) if report else loss
                event = torch.cuda.Event()
                event.record()
            self._marks.append(_Mark(self.steps_done, loss if report else None, event))
        self._hear()
        return self.steps_done

    def _hear(self, wait: bool = False) -> None:
        """Takes what has arrived from the device, and waits where too much is under way."""
        while self._marks:
            oldest = self._marks[0]
            if not oldest.arrived:
                if len(self._marks) <= RUN_AHEAD and not wait:
                    return
                assert oldest.event is not None
                oldest.event.synchronize()
            self._marks.popleft()
            if oldest.loss is not None:
                self._take_loss(oldest.step, float(oldest.loss))

    def _take_loss(self, step: int, loss: float) -> None:
        self.loss = loss
        self.folder.log({"step": step, "seconds": round(self.train_seconds, 3), "loss": loss})
        if not math.isfinite(loss):
            raise LuxelError(
                f"Training diverged at step {step}: the loss is {loss}.",
                f"Lower --rate, or go on from before: luxel train --resume {self.folder.path}",
            )

    def _reason_to_end(self) -> str:
        if self.config.seconds is not None and self.train_seconds >= self.config.seconds:
            return "seconds"
        return "steps" if self.steps_done >= self.config.steps else ""

    def _measure_and_save_when_due(self) -> None:
        config = self.config
        if (
            config.eval_every > 0
            and self.steps_done % config.eval_every == 0
            and self.steps_done < config.steps
        ):
            self.evaluate()
        if self._checkpoint_is_due(config.checkpoint_every, config.checkpoint_minutes, config.steps):
            self.save_checkpoint()

    def _checkpoint(self) -> tuple[Checkpoint, int]:
        state = {"config": self.config.to_dict(), "train_seconds": self.train_seconds, "loss": self.loss}
        return Checkpoint(self.steps_done, self.optimizer.tensors(), state), self.config.keep

    def _finish(self, reason: str) -> FieldResult:
        self._synchronise()
        self._hear(wait=True)
        path = self._final_checkpoint()
        with self.lock:
            field = self.folder.save_file(FIELD_FILE, lambda place: save_field(place, self.application))
        scores: dict[str, float] = {}
        if reason == "interrupted":
            self._say_how_to_go_on(path)
        else:
            scores = self.evaluate()
            self.say(f"{self.steps_done} steps in {duration(self.train_seconds)}: {in_words(scores)}.")
        self.done = reason != "interrupted"
        return FieldResult(reason, self.steps_done, self.train_seconds, scores, path, field)

    def _restore(self, start: Checkpoint) -> None:
        try:
            goes_on = self.optimizer.restore(start.tensors)
        except (RuntimeError, KeyError) as error:
            raise CheckpointError(
                f"{self.folder.checkpoints}: the checkpoint of step {start.step} is of another field ({error}).",
                "Encoding, sizes and data of a run stay as they are; start a new run for others.",
            ) from error
        if not goes_on:
            self.say("The run goes on as on another kind of device: its random samples start anew.")
        self.steps_done, self.train_seconds = start.step, float(start.state["train_seconds"])
        self.loss, self._saved_at = start.state["loss"], self.steps_done
        self.folder.trim_log(start.step)


def in_words(scores: dict[str, float]) -> str:
    """Scores as a person reads them, in dB where they are."""
    return ", ".join(
        f"{name.upper()} {value:.2f} dB"
        if name.startswith("psnr")
        else f"{name.replace('_', ' ')} {value:.4g}"
        for name, value in scores.items()
    )
