"""A training run of a neural field."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import torch

from luxel.render.backends import require_field_backend
from luxel.render.errors import LuxelError
from luxel.render.fields.application import Application, make_application
from luxel.render.fields.applications import application_type
from luxel.render.fields.config import FieldConfig, config_of_run
from luxel.render.fields.files import FIELD_FILE, save_field
from luxel.render.fields.training.optimizer import FieldOptimizer, require_field_tensors
from luxel.render.fields.training.skipped_steps import SkippedSteps
from luxel.render.native import keep_freed_memory
from luxel.render.runs.checkpoints.checkpoint import Checkpoint, CheckpointError, load_newest
from luxel.render.runs.checkpoints.resume import (
    has_other_data,
    require_state,
    say_other_instructions,
    with_overrides,
)
from luxel.render.runs.controls import RunControls
from luxel.render.runs.folder.run_folder import RunFolder
from luxel.render.runs.identity import data_digest
from luxel.render.runs.loop import CheckpointPolicy, TrainingLoop
from luxel.render.runs.progress import ProgressDisplay, duration
from luxel.render.runs.readback import PULSE, ReadbackQueue


@dataclass
class FieldResult:
    """How a run ended.

    Args:
        reason: "steps", "seconds", "stopped" or "interrupted".
        step: completed steps.
        train_seconds: time spent in training steps; evaluation, pauses and viewers do not count.
        scores: of `Application.evaluate` at the end; empty after Ctrl-C.
        checkpoint: JSON file of the last checkpoint, or None where none could be written.
        scene: the field's file, or None.
    """

    reason: str
    step: int
    train_seconds: float
    scores: dict[str, float]
    checkpoint: Path | None
    scene: Path | None


class FieldTrainer(RunControls[int, FieldResult]):
    """Trains a neural field, with evaluations, checkpoints and a run folder.

    On the CPU the result depends only on configuration and data; on a GPU floating-point sums are in varying order.

    Args:
        application: with its first parameters; see `luxel.render.fields.application.make_application`.
        data: as its `begin` takes them.
        folder: of the run; must not hold one already (see `FieldTrainer.resume`).
        device: where to train.
        say: receives messages for the user; None: standard output.
        about: additional entries for config.json (path of the data).
        start: checkpoint that the run is resumed from.

    Raises:
        LuxelError: the data, the folder or the backend cannot be used.
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
        self.loop = TrainingLoop(torch.device(device), say)
        if self.device.type == "cpu":
            keep_freed_memory()
        self.application = application.to(self.device)
        self.config = application.config
        self.config.check()
        require_field_backend(self.config.backend, self.device)
        self.folder = RunFolder(Path(folder), self.say)
        self.loss: float | None = None
        self.scores: dict[str, float] = {}
        self._readbacks = ReadbackQueue(self.device)
        self._skipped = SkippedSteps(0 if start is None else start.step)
        if start is None:
            self.folder.require_new()
        self.application.begin(data, self.device)
        self.optimizer = FieldOptimizer(self.application)
        if start is not None:
            self._restore(start)
        details = {"seed": self.config.seed, "device": str(self.device)}
        self.folder.write_config(self.config, {**details, **(about or {})}, data_digest(data))

    @classmethod
    def new(
        cls,
        config: FieldConfig,
        data: Any,
        folder: Path | str,
        device: torch.device | str = "cpu",
        **more: Any,
    ) -> FieldTrainer:
        """A new run of the field that configuration and data describe; ``more`` are options of the constructor."""
        config.check()
        adapted = application_type(config.field).adapt_config(config, data)
        return cls(make_application(adapted), data, folder, device, **more)

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
        """Resumes a run from its newest intact checkpoint.

        Args:
            folder: of the run.
            data: the same as before.
            overrides: changed configuration by name, for example {"steps": 60_000}.

        Raises:
            LuxelError: no run of a field, no intact checkpoint, or an override that does not fit the tables, such as
                another backend.
        """
        say = say or ProgressDisplay().say
        body = RunFolder.read_body(Path(folder), say)
        before = config_of_run(Path(folder), body).backend
        config = FieldConfig.from_dict(with_overrides(body["config"], overrides or {}))
        if config.backend != before:
            raise LuxelError(
                f"{folder}: the run was trained with {before}, whose grid differs from that of {config.backend}.",
                "Omit --backend, or start a new run.",
            )
        if has_other_data(body, data_digest(data)):
            say(
                f"{folder}: the data are not those that this run was started with. Training continues on them."
            )
        expected = make_application(config_of_run(Path(folder), body))

        def usable(checkpoint: Checkpoint) -> None:
            require_state(checkpoint, _State)
            require_field_tensors(checkpoint, expected)

        start = load_newest(Path(folder) / "checkpoints", say, body, usable)
        return cls(make_application(config), data, folder, device, say, about=about, start=start)

    @property
    def scene(self) -> Application:
        """The present field, with the running mean of its parameters; hold ``lock`` while using it."""
        return self.application

    @property
    def progress(self) -> float:
        """Fraction of the run that is done, in [0, 1]."""
        share = self.steps_done / self.config.steps
        if self.config.seconds is not None:
            share = max(share, self.train_seconds / self.config.seconds)
        return min(share, 1.0)

    @property
    def steps(self) -> int:
        """Length of the run."""
        return self.config.steps

    @property
    def checkpoint_policy(self) -> CheckpointPolicy:
        """When checkpoints are written."""
        return CheckpointPolicy(
            self.config.checkpoint_every, self.config.checkpoint_minutes, self.config.keep
        )

    def status(self) -> dict[str, Any]:
        """Numbers for a display; never waits for the device. May be called from any thread."""
        return {
            **self.loop.counters(self.config.steps, self.config.seconds),
            "progress": self.progress,
            "loss": self.loss,
            "scores": self.scores,
            "count": self.application.count,
            "noun": "parameters",
        }

    def advance(self) -> int:
        """Submits a step; returns the number of steps submitted so far."""
        step = self.steps_done
        loss = self.optimizer.step(step, self.train_seconds / (self.config.seconds or math.inf))
        self.steps_done = step + 1
        report = self.steps_done % self.config.report_every == 0
        if report or self.steps_done % PULSE == 0:
            self._readbacks.push(
                self.steps_done, *((loss, self.optimizer.skipped) if report else (None, None))
            )
        self._poll()
        return self.steps_done

    def synchronize(self) -> bool:
        """Waits for the device and takes the losses of all steps; no step has to be repeated."""
        self._poll(wait=True)
        return False

    def evaluate(self) -> dict[str, float]:
        """Evaluates the field now, outside of the training time."""
        self.loop.wait_for_device()
        self.synchronize()
        with self.lock, torch.no_grad():
            self.scores = self.application.evaluate()
        self.folder.log({"step": self.steps_done, "seconds": self.train_seconds, "test": self.scores})
        return self.scores

    def evaluate_when_due(self) -> None:
        """Evaluates the field every ``eval_every`` steps."""
        if self.loop.is_due(self.config.eval_every, self.config.steps):
            self.evaluate()

    def checkpoint(self) -> Checkpoint:
        """The complete state.

        Raises:
            LuxelError: the parameters are not finite.
        """
        self._check_parameters()
        state = {"config": self.config.to_dict(), "train_seconds": self.train_seconds, "loss": self.loss}
        return Checkpoint(self.steps_done, self.optimizer.tensors(), state)

    def _check_parameters(self) -> None:
        """Ends a run whose parameters are not finite, before a checkpoint of them; waits for the device."""
        parameters = dict(self.application.named_parameters())
        finite = torch.stack([p.detach().isfinite().all() for p in parameters.values()]).tolist()
        if not all(finite):
            broken = ", ".join(
                name for name, is_finite in zip(parameters, finite, strict=True) if not is_finite
            )
            raise LuxelError(
                f"Training diverged by step {self.steps_done}: parameters of the field are not finite ({broken}).",
                f"Lower --rate, or resume an earlier checkpoint: luxel train --resume {self.folder.path}",
            )

    def finish_reason(self) -> str:
        """Which limit of the configuration was reached; empty: none."""
        if self.config.seconds is not None and self.train_seconds >= self.config.seconds:
            return "seconds"
        return "steps" if self.steps_done >= self.config.steps else ""

    def finish(self, reason: str) -> FieldResult:
        """Writes the last checkpoint and the field; evaluates unless interrupted."""
        self.loop.wait_for_device()
        self.synchronize()
        path = self.loop.final_checkpoint(self)
        with self.lock:
            field = self.folder.save_file(
                FIELD_FILE, lambda path: save_field(path, self.application), self.steps_done
            )
        scores: dict[str, float] = {}
        if reason == "interrupted":
            self.loop.say_how_to_resume(self, path)
        else:
            scores = self.evaluate()
            self.say(f"{self.steps_done} steps in {duration(self.train_seconds)}: {in_words(scores)}.")
        self.loop.done = reason != "interrupted"
        return FieldResult(reason, self.steps_done, self.train_seconds, scores, path, field)

    def _poll(self, wait: bool = False) -> None:
        for readback in self._readbacks.arrived(wait):
            loss, skipped = readback.tensors
            if loss is not None and skipped is not None:
                self._take_loss(readback.step, float(loss), int(skipped))

    def _take_loss(self, step: int, loss: float, skipped: int) -> None:
        self.loss = loss
        lost = self._skipped.since_last(step, skipped)
        entry = {"step": step, "seconds": round(self.train_seconds, 3), "loss": loss}
        self.folder.log(entry | ({"skipped": lost} if lost else {}))
        if not math.isfinite(loss):
            raise LuxelError(
                f"Training diverged at step {step}: the loss is {loss}.",
                f"Lower --rate, or resume an earlier checkpoint: luxel train --resume {self.folder.path}",
            )

    def _restore(self, start: Checkpoint) -> None:
        try:
            same_device_type = self.optimizer.restore(start.tensors)
        except (RuntimeError, KeyError) as error:
            raise CheckpointError(
                f"{self.folder.checkpoints}: the checkpoint of step {start.step} is of a different field ({error}).",
                "Encoding, sizes and data of a run cannot be changed; start a new run.",
            ) from error
        if not same_device_type:
            self.say("Resumed on a different device type; random state was reset.")
        say_other_instructions(start, self.device, self.say)
        self.loop.resume_at(start.step, float(start.state["train_seconds"]))
        self.loss = start.state["loss"]
        self.folder.trim_log(start.step)


class _State(msgspec.Struct):
    """The state in a checkpoint of a field."""

    config: dict[str, Any]
    train_seconds: Annotated[float, msgspec.Meta(ge=0, le=1e12)]
    loss: float | None


def in_words(scores: dict[str, float]) -> str:
    """Scores as text, with units."""
    return ", ".join(
        f"{name.replace('psnr', 'PSNR').replace('_', ' ')} {value:.2f} dB"
        if name.startswith("psnr")
        else f"{name.replace('_', ' ')} {value:.4g}"
        for name, value in scores.items()
    )
