"""A training run of primitives on posed images."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Points, View, pixel_count
from luxel.render.metrics.evaluate import Evaluation
from luxel.render.native import keep_freed_memory
from luxel.render.primitives import PRIMITIVES
from luxel.render.primitives.parameters import Parameters
from luxel.render.raster import rasterizer
from luxel.render.runs.checkpoints.checkpoint import Checkpoint
from luxel.render.runs.controls import RunControls
from luxel.render.runs.folder.run_folder import RunFolder
from luxel.render.runs.loop import CheckpointPolicy, TrainingLoop
from luxel.render.runs.out_of_memory import out_of_memory, save_what_is_possible
from luxel.render.runs.progress import ProgressDisplay, duration
from luxel.render.runs.weak_callback import weakly
from luxel.render.train.config import TrainConfig
from luxel.render.train.densify.densifier import Densifier
from luxel.render.train.memory.budget import MemoryBudget
from luxel.render.train.monitor.divergence import check_loss, check_parameters
from luxel.render.train.monitor.held_out import Watch, measured, prepare
from luxel.render.train.monitor.loss_monitor import LossMonitor
from luxel.render.train.monitor.reports import Reached, StepReport, TrainResult
from luxel.render.train.resume import read_run, reconfigured
from luxel.render.train.start import first_primitives, require_lenses, scene_extent
from luxel.render.train.state import restore, state_of, write_config
from luxel.render.train.step.step_queue import StepQueue
from luxel.render.train.step.timeline import Timeline
from luxel.render.train.store.protocol import ParameterStore
from luxel.render.train.store.stores import open_store
from luxel.render.train.views.dataset import halvings_possible
from luxel.render.train.views.image_content import image_content
from luxel.render.train.views.models import ViewModels


class Trainer(RunControls[StepReport, TrainResult]):
    """Trains primitives on posed images.

    On the CPU the result depends only on configuration, seed and data; on a GPU too if the configuration is
    ``deterministic``, else floating-point sums are in varying order. Runs with a time limit are not reproducible.

    Args:
        config: see `TrainConfig`.
        train_views, test_views: views that are fitted, and views held out for evaluation (may be empty).
        points: where the first primitives are placed, or the first primitives themselves.
        run_dir: folder of the run; must not hold a run already (see `Trainer.resume`).
        device: where to train.
        export: writes a scene file, called with the scene and run_dir/scene.ply at the end.
        about: additional entries for config.json (path of the capture, its hold-out rule).
        say: receives messages for the user; None: standard output.
        render: rasterizer, called like luxel.render.raster.rasterize; None: that of the configuration's backend.
        start: checkpoint to continue from, see `Trainer.resume`; None: a new run.

    Attributes:
        store: the primitives with Adam's moments.
        dataset: the training images.
        timeline: the schedules.
        queue: the steps submitted to the device.
        densifier: densification.
        auxiliary: auxiliary state of the primitive; None: it has none.
        models: what is learnt of the training views.
        halvings: of the images that the primitives are adapted to; None: not known.
        reached_sh_degree: of the run before it was resumed or changed, see `Timeline`.
        memory: limits of images and primitives.
        monitor: loss and PSNR of training views.
        test_psnr, frame_ms: PSNR of the held-out views in dB, and time to render one; None before they are evaluated.
        background: "white", "black" or "random".
        watch_last_evaluation: watches the evaluation at the end of the run, see `held_out.measure`; None: nothing does.

    Raises:
        LuxelError: nothing to train on, too little memory, or a folder that cannot be used.
    """

    def __init__(
        self,
        config: TrainConfig,
        train_views: Sequence[View],
        test_views: Sequence[View],
        points: Points | Parameters | None,
        run_dir: Path | str,
        device: torch.device | str = "cpu",
        export: Callable[[Parameters, Path], None] | None = None,
        *,
        about: dict[str, Any] | None = None,
        say: Callable[[str], None] | None = None,
        render: Callable[..., Any] | None = None,
        start: Checkpoint | None = None,
    ) -> None:
        config.check()
        if not train_views:
            raise LuxelError("There are no views to train on.", "A capture needs at least 3 images.")
        for name in ("target_psnr", "target_frame_ms"):
            if getattr(config, name) is not None and not test_views:
                raise LuxelError(f"{name} needs held-out views, but there are none.", "Hold some views out.")
        require_lenses(config, [*train_views, *test_views])
        self.loop = TrainingLoop(torch.device(device), say)
        if self.device.type == "cpu":
            keep_freed_memory()
        self.train_views, self.test_views = list(train_views), list(test_views)
        self.extent, self._about = scene_extent(self.train_views), about or {}
        self._configure(config.sized(pixel_count(train_views)))
        self.generator = torch.Generator(self.device).manual_seed(config.seed)
        self.monitor, self._tested_at = LossMonitor(), -1
        self.test_psnr: float | None = None
        self.frame_ms: float | None = None
        self.halvings: int | None = 0
        self.reached_sh_degree = 0
        self.watch_last_evaluation: Watch | None = None
        self._render, self._export = render or rasterizer(config.backend, self.device), export
        self.folder = RunFolder(Path(run_dir), self.say)
        if start is None:
            self.folder.require_new()
            self.start_from(
                first_primitives(points, self.config, self.train_views, self.device, say=self.say)
            )
        else:
            restore(self, start)
            self.loop.resume_at(start.step, self.train_seconds)
        self._open_views()
        write_config(self, self._about)

    @classmethod
    def resume(
        cls,
        run_dir: Path | str,
        train_views: Sequence[View],
        test_views: Sequence[View],
        *,
        device: torch.device | str = "cpu",
        overrides: dict[str, Any] | None = None,
        export: Callable[[Parameters, Path], None] | None = None,
        about: dict[str, Any] | None = None,
        say: Callable[[str], None] | None = None,
        render: Callable[..., Any] | None = None,
    ) -> Trainer:
        """Resumes a run from its newest intact checkpoint.

        A finished run is extended by a larger ``steps``; the schedules are then those of the longer run, so the
        learning rate of the means rises to its value in that run.

        Args:
            run_dir: folder of the run.
            train_views, test_views: the same as before.
            overrides: changed configuration by dotted name, such as {"steps": 60_000, "strategy.cap_max": 10**6}.

        Raises:
            LuxelError: no run, no intact checkpoint, or different training views.
        """
        past = read_run(Path(run_dir), train_views, overrides or {}, say or ProgressDisplay().say)
        return cls(
            past.config,
            train_views,
            test_views,
            None,
            run_dir,
            device,
            export,
            about={**past.about, **(about or {})},
            say=say,
            render=render,
            start=past.start,
        )

    @property
    def scene(self) -> Any:
        """The present primitives, without gradients; hold ``lock`` while using them."""
        return self.store.scene

    @property
    def steps(self) -> int:
        """Length of the run."""
        return self.config.steps

    @property
    def progress(self) -> float:
        """Fraction of the run that is done, in [0, 1], on which the schedules depend."""
        return self.timeline.progress(self.steps_done)

    @property
    def checkpoint_policy(self) -> CheckpointPolicy:
        """When checkpoints are written."""
        saving = self.config.checkpoints
        return CheckpointPolicy(saving.every, saving.minutes, saving.keep)

    def start_from(self, scene: Parameters) -> None:
        """Replaces the primitives, copied; moments and statistics start at 0."""
        self.take(open_store(scene, self.config))

    def status(self) -> dict[str, Any]:
        """Numbers for a display; never waits for the device. May be called from any thread."""
        minutes = self.config.target_minutes
        return {
            **self.loop.counters(self.config.steps, None if minutes is None else 60 * minutes),
            "progress": self.progress,
            "psnr": self.monitor.psnr,
            "test_psnr": self.test_psnr,
            "count": self.store.count,
            "noun": self.scene.noun,
            "sh_degree": self.timeline.at(self.steps_done).sh_degree,
        }

    def advance(self) -> StepReport:
        """Submits a step, and changes the set of primitives where that is due; reduces memory if it runs out.

        Raises:
            LuxelError: memory runs out in spite of all reductions, or training has diverged.
        """
        if (report := self.memory.retried(self._one_step, self._reduce_memory)) is not None:
            return report
        save_what_is_possible(self)
        raise out_of_memory(
            self, "Train on smaller images (--max-size) or with fewer Gaussians (--max-gaussians)."
        )

    def synchronize(self) -> bool:
        """Waits for the device; whether steps must be repeated because their tile instances exceeded the capacity.

        ``steps_done`` is then the number of steps that took effect.
        """
        with self.lock:
            submitted, self.steps_done = self.steps_done, self.queue.synchronize()
            return self.steps_done < submitted

    def evaluate(
        self, *, lpips: bool = False, save_renders: int = 0, watch: Watch | None = None
    ) -> Evaluation | None:
        """Evaluates the held-out views now, outside of the training time; see `held_out.measured`."""
        self.synchronize()
        check_parameters(self)
        held_out = measured(self, self._render, lpips, save_renders, watch)
        if held_out is None:
            return None
        evaluation, self.frame_ms = held_out
        psnr = evaluation.mean.psnr
        self.test_psnr, self._tested_at = None if math.isnan(psnr) else psnr, self.steps_done
        scores = {"test": evaluation.as_dict()["mean"], "frame_ms": round(self.frame_ms, 3)}
        self.folder.log({"step": self.steps_done, "seconds": self.train_seconds, **scores})
        return evaluation

    def evaluate_when_due(self) -> None:
        """Evaluates the held-out views every ``eval_every`` steps."""
        if self.loop.is_due(self.config.eval_every, self.config.steps):
            self.loop.wait_for_device()
            if not self.synchronize():
                self.evaluate()

    def checkpoint(self) -> Checkpoint:
        """The complete state; LuxelError where many parameters are not finite."""
        self.synchronize()
        check_parameters(self)
        return state_of(self)

    def finish_reason(self) -> str:
        """Which limit of the configuration was reached; empty: none."""
        memory = 0 if self.config.target_gigabytes is None else self.loop.used_memory()
        reached = self.steps_done, self.train_seconds, self.store.count, memory
        return self.config.limit_reached(Reached(*reached, self.test_psnr, self.frame_ms))

    def reconfigure(self, overrides: dict[str, Any]) -> None:
        """Changes the configuration between two steps, as stopping and resuming with ``overrides`` does.

        Raises:
            LuxelError: an unknown name or an invalid value, or a different primitive or backend; nothing is changed.
        """
        config = reconfigured(self.config, overrides)
        with self.lock:
            state = self.checkpoint()
            self.dataset.close()
            self._configure(config)
            restore(self, state)
            self._open_views()
            self._note_changes(overrides)

    def _note_changes(self, overrides: dict[str, Any]) -> None:
        changes = [*self._about.get("changes", ()), {"step": self.steps_done, "options": overrides}]
        self._about = {**self._about, "changes": changes}
        write_config(self, self._about)
        self._log(self.steps_done, {"changed": overrides})

    def finish(self, reason: str) -> TrainResult:
        """Writes the last checkpoint and the scene; evaluates unless interrupted."""
        self.loop.wait_for_device()
        scores: Any = {"lpips": self.config.lpips, "save_renders": self.config.save_renders}
        scores |= {"watch": self.watch_last_evaluation}
        write, stopped = self._export and partial(self._export, self.scene), reason == "interrupted"
        path, scene, evaluation = self.loop.save_alongside(
            self,
            lambda: write and self.folder.save_file("scene.ply", write, self.steps_done),
            lambda: None if stopped else self.evaluate(**scores),
        )
        if stopped:
            self.loop.say_how_to_resume(self, path)
        self.loop.done, count = not stopped, self.store.count
        self.dataset.close()
        if evaluation is not None:
            took = f"{self.steps_done} steps in {duration(self.train_seconds)}"
            psnr = "not measured" if self.test_psnr is None else f"{self.test_psnr:.2f} dB"
            self.say(f"{took}, {count:,} {self.scene.noun}, held-out PSNR {psnr}.")
        reached = self.test_psnr if self._tested_at == self.steps_done else None
        return TrainResult(
            reason, self.steps_done, self.train_seconds, count, reached, evaluation, path, scene
        )

    def copy_scene(self, path: Path) -> int:
        """Writes the present scene to a file, as ``export`` writes the result; may be called from any thread.

        Returns:
            Its step.

        Raises:
            LuxelError: it cannot be written, or the run has no ``export``.
        """
        if self._export is None:
            raise LuxelError("This run writes no scene files.", "Wait for its first checkpoint.")
        with self.lock:
            step, scene = self.steps_done, self.scene.detach().map(torch.clone)
        self._export(scene, path)
        return step

    def _configure(self, config: TrainConfig) -> None:
        self.config, self.background = config, config.background
        self.content = image_content(self.train_views if config.strategy.follows_images else ())
        self.auxiliary = PRIMITIVES[config.primitive].engine.auxiliary(config.loss)
        self.models = ViewModels.of(config, self.train_views, self.extent, self.device, self.test_views)
        self.memory = MemoryBudget(config, self.train_views, self.device, self.say)

    def take(self, store: ParameterStore) -> None:
        """Continues with other primitives and their moments."""
        self.store = store
        of_images = self.train_views, self.content
        self.densifier = Densifier(self.config, store, self.generator, *of_images, weakly(self._log))

    def _open_views(self) -> None:
        """Prepares images, schedules and the queue of steps."""
        self.dataset = self.memory.open_dataset(self.densifier)
        if self.background == "auto":
            self.background = "white" if self.dataset.has_alpha else "black"
        self._make_queue()
        if self.halvings is None:
            self.halvings = self.timeline.at(max(0, self.steps_done - 1)).halvings
        if self.scene.moves and len({view.time for view in self.train_views}) == 1:
            self.say(f"All images have the same time: the {self.scene.noun} will not learn to move.")

    def _make_queue(self) -> None:
        config = self.config
        coarse = halvings_possible(self.train_views, config.resolution.halvings, config.resolution.smallest)
        self.timeline = Timeline(
            *(config, self.extent, coarse, self.background, weakly(self._share_of_time)),
            self.reached_sh_degree,
        )
        rest = self._render, weakly(self._take_stats), self.auxiliary, self.content.coverage, self.models
        self.queue = StepQueue(config, self.dataset, self.timeline, *rest)
        self.queue.start(self.steps_done)

    def _share_of_time(self) -> float:  # that the run may take; 0 without a limit
        return self.train_seconds / (60 * (self.config.target_minutes or math.inf))

    def _one_step(self) -> StepReport:
        if self._adapt_to_resolution():
            return StepReport(self.steps_done, self.store.count)
        step = self.steps_done
        report = (step + 1) % self.config.report_every == 0
        self.queue.submit(step, self.store, self.densifier.rows, report)
        self.steps_done = step + 1
        stalled = self.queue.poll()
        due = self.densifier.due(self.steps_done, self.timeline)
        if (stalled or due or self.monitor.non_finite) and self.synchronize():
            return StepReport(self.steps_done, self.store.count)
        chosen = self.steps_done, self.timeline, self.memory.cap
        if due:
            check_parameters(self)
            prepare(self)
        refinement = self.densifier.after_step(*chosen) if due else None
        if self.monitor.non_finite:
            check_loss(self)
        return StepReport(self.steps_done, self.store.count, refinement=refinement)

    def _adapt_to_resolution(self) -> bool:
        """Rescales parameters if the next step has images of another size; whether steps must be repeated first."""
        rescale = PRIMITIVES[self.config.primitive].engine.on_resolution_change
        if rescale is None or not (self.halvings or self.config.resolution.halvings):
            return False
        before, halvings = self.halvings or 0, self.timeline.at(self.steps_done).halvings
        if halvings != before and self.synchronize():
            return True
        if halvings != before:
            factor = 2.0 ** (before - halvings)
            self.store.edit(lambda scene: rescale(scene, factor))
        self.halvings = halvings
        return False

    def _take_stats(self, step: int, loss: float, squared_error: float) -> None:
        """Loss and error of a step have arrived from the device, some steps later."""
        psnr, now = self.monitor.take(loss, squared_error), self.timeline.at(step)
        values = {"loss": loss, "psnr": psnr, "memory": self.loop.used_memory()}
        self._log(step, values | {"sh_degree": now.sh_degree, "halvings": now.halvings})

    def _reduce_memory(self) -> None:
        # The failed step may have been counted.
        self.steps_done = min(self.steps_done, self.queue.synchronize())
        self.queue.start(self.steps_done)
        self.queue.forget()
        self.memory.reduce(self.steps_done, self.dataset, self.densifier)
        if self.memory.batch != self.config.batch:
            self._set_batch(self.memory.batch)

    def stream_images(self) -> None:
        """Frees the training images on the device, and the captured steps that read them."""
        if not self.dataset.streaming:
            self.queue.forget()
            self.dataset.start_streaming()

    def _set_batch(self, batch: int) -> None:
        self.config = self.densifier.config = replace(self.config, batch=batch)
        self._make_queue()
        self._note_changes({"batch": batch})

    def _log(self, step: int, values: dict[str, Any]) -> None:
        """Appends a line to metrics.jsonl."""
        now = {"step": step, "seconds": round(self.train_seconds, 3), "count": self.store.count}
        self.folder.log(now | values)
