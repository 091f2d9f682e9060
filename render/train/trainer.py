"""A training run: its loop, and all that keeps it safe and lets people watch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from luxel.render.backends import rasterizer
from luxel.render.camera import Points, View
from luxel.render.errors import LuxelError
from luxel.render.evaluate import Evaluation
from luxel.render.primitives import PRIMITIVES
from luxel.render.primitives.parameters import Parameters
from luxel.render.runs import checkpoint as checkpoints
from luxel.render.runs.progress import ProgressDisplay, duration
from luxel.render.runs.run_folder import RunFolder
from luxel.render.train import limits
from luxel.render.train.config import TrainConfig
from luxel.render.train.held_out import measure
from luxel.render.train.learning import Learning
from luxel.render.train.optimizer import Optimizer
from luxel.render.train.reports import StepReport, TrainResult
from luxel.render.train.resume import read_run
from luxel.render.train.start import first_primitives


class Trainer(Learning):
    """Trains primitives on posed images.

    The result depends only on configuration, seed and data on the CPU; on a GPU sums of floats come in any
    order.

    Args:
        config: what to do.
        train_views, test_views: fitted, and held out for measuring (may be empty).
        points: where the first primitives are put.
        run_dir: folder of the run; must not hold one already (see `Trainer.resume`).
        device: where to train.
        export: writes a scene file, called with the scene and run_dir/scene.ply at the end.
        about: more entries for config.json (where the capture is, the hold-out rule).
        say: gets sentences for the person; None: standard output.
        render: draws, called like luxel.render.rasterize; None: the configuration's backend.

    Raises:
        LuxelError: nothing to train on, no memory for it, or a folder that cannot be used.
    """

    def __init__(
        self,
        config: TrainConfig,
        train_views: Sequence[View],
        test_views: Sequence[View],
        points: Points | None,
        run_dir: Path | str,
        device: torch.device | str = "cpu",
        export: Callable[[Parameters, Path], None] | None = None,
        *,
        about: dict[str, Any] | None = None,
        say: Callable[[str], None] | None = None,
        render: Callable[..., Any] | None = None,
        start: checkpoints.Checkpoint | None = None,
    ) -> None:
        config.check()
        if not train_views:
            raise LuxelError("There are no views to train on.", "A capture needs at least 3 photographs.")
        if config.target_psnr is not None and not test_views:
            raise LuxelError("target_psnr needs held-out views, but there are none.", "Hold some views out.")
        super().__init__(config, train_views, torch.device(device), say)
        self._render = render or rasterizer(config.backend, self.device)
        self.test_views = list(test_views)
        self.folder = RunFolder(Path(run_dir), self.say)
        self._export = export
        self.test_psnr: float | None = None
        self._tested_at = -1
        if start is None:
            self.folder.require_new()
            self._begin(first_primitives(points, config, self.train_views, self.device))
        else:
            self._restore(start)
        self._saved_at = self.steps_done if start else -1
        self._open(self._render)
        if self.scene.moves and len({view.time for view in self.train_views}) == 1:
            self.say(f"All photographs have the same time: the {self.scene.noun} will not learn to move.")
        shade = 0.0 if self.background == "black" else 1.0
        self._shade = torch.full((3,), shade, device=self.device)
        names = {"train": [v.name for v in self.train_views], "test": [v.name for v in self.test_views]}
        details = {"seed": config.seed, "device": str(self.device), "extent": self.extent, "views": names}
        self.folder.write_config(config, {**details, "background": self.background, **(about or {})})

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
        """Goes on from the newest whole checkpoint of a run, exactly where it was.

        With a larger ``steps`` a finished run is extended; its schedules are then those of the longer run,
        so the learning rate of the means rises to what that run has at this step.

        Args:
            run_dir: folder of the run.
            train_views, test_views: the same as before.
            overrides: changed configuration by (dotted) name, for example {"steps": 60_000,
                "strategy.cap_max": 10**6}.

        Raises:
            LuxelError: no run, no whole checkpoint, or other views than it was trained on.
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

    def status(self) -> dict[str, Any]:
        """Numbers for a display; never waits for the device. May be called from any thread."""
        left = (self.config.steps - self.steps_done) / self._speed if self._speed > 0 else None
        if self.config.target_minutes is not None:
            allowed = max(0.0, 60 * self.config.target_minutes - self.train_seconds)
            left = allowed if left is None else min(left, allowed)
        return {
            "step": self.steps_done,
            "steps": self.config.steps,
            "progress": self.progress,
            "steps_per_s": self._speed,
            "psnr": self.psnr,
            "test_psnr": self.test_psnr,
            "count": self.optimizer.count,
            "noun": self.scene.noun,
            "sh_degree": self.timeline.at(self.steps_done).sh_degree,
            "memory": limits.used_memory(self.device),
            "elapsed": self.train_seconds,
            "eta": 0.0 if self.done else left,
            "paused": self.paused,
            "done": self.done,
        }

    def _advance(self) -> StepReport:
        """A step; gives way where memory runs out.

        Raises:
            LuxelError: memory runs out whatever is given up, or training has diverged.
        """
        for _ in range(8):
            try:
                return self._one_step()
            except (RuntimeError, MemoryError) as error:
                if not limits.is_out_of_memory(error):
                    raise
            self._give_way()  # after the handler, which holds on to the frames of the failed step
        raise LuxelError(
            f"Memory of {self.device} ran out at step {self.steps_done} and giving way did not help.",
            "Train on smaller images (--max-size) or with fewer Gaussians (--max-gaussians).",
        )

    def evaluate(self, *, lpips: bool = False, save_renders: int = 0) -> Evaluation | None:
        """Measures the held-out views now, outside of the training time; see `held_out.measure`."""
        self.synchronize()
        found = measure(
            self.scene,
            self.test_views,
            self._shade,
            self.folder,
            antialiased=self.config.antialiased,
            lpips=lpips,
            save_renders=save_renders,
            render=self._render,
        )
        if found is not None:
            self.test_psnr, self._tested_at = found.mean.psnr, self.steps_done
            scores = found.as_dict()["mean"]
            self.folder.log({"step": self.steps_done, "seconds": self.train_seconds, "test": scores})
        return found

    def _checkpoint(self) -> tuple[checkpoints.Checkpoint, int]:
        self.synchronize()
        tensors = self.optimizer.tensors() | {"generator": self.generator.get_state()}
        tensors["statistics"] = self.statistics.data
        if self._kept is not None:
            tensors |= self._kept.tensors(self.optimizer)
        state = {
            "config": self.config.to_dict(),
            "adam_steps": self.optimizer.steps,
            "train_seconds": self.train_seconds,
            "psnr": self.psnr,
            "test_psnr": self.test_psnr,
            "halvings": self._halvings,
            "train_views": [view.name for view in self.train_views],
        }
        return checkpoints.Checkpoint(self.steps_done, tensors, state), self.config.checkpoints.keep

    def _falls_back(self) -> bool:
        """At the end of a run: whether it was not the end after all."""
        self._synchronise()
        return self.synchronize() and not self._stop

    def _how_to_go_back(self) -> str:
        return f"Lower the learning rates, or go on from before: luxel train --resume {self.folder.path}"

    def _log(self, step: int, values: dict[str, Any]) -> None:
        """A line of metrics.jsonl."""
        entry = {"step": step, "seconds": round(self.train_seconds, 3), "count": self.optimizer.count}
        self.folder.log(entry | values)

    def _reason_to_end(self) -> str:
        config = self.config
        minutes, psnr = config.target_minutes, config.target_psnr
        if psnr is not None and self.test_psnr is not None and self.test_psnr >= psnr:
            return "target_psnr"
        if minutes is not None and self.train_seconds >= 60 * minutes:
            return "target_minutes"
        if config.end_at_max_gaussians and self.optimizer.count >= (config.max_gaussians or 0):
            return "max_gaussians"
        return "steps" if self.steps_done >= config.steps else ""

    def _measure_and_save_when_due(self) -> None:
        config, step = self.config, self.steps_done
        if config.eval_every > 0 and step % config.eval_every == 0 and step < config.steps:
            self._synchronise()
            if not self.synchronize():
                self.evaluate()
        saving = config.checkpoints
        if self._checkpoint_is_due(saving.every, saving.minutes, config.steps) and not self.synchronize():
            self.save_checkpoint()

    def _finish(self, reason: str) -> TrainResult:
        self._synchronise()
        path = self._final_checkpoint()
        export, scene = self._export, None
        if export is not None:
            scene = self.folder.save_file("scene.ply", lambda path: export(self.scene, path))
        evaluation = None
        if reason == "interrupted":
            self._say_how_to_go_on(path)
        else:
            evaluation = self.evaluate(lpips=self.config.lpips, save_renders=self.config.save_renders)
        self.done = reason != "interrupted"
        self.dataset.close()
        if evaluation is not None:
            self.say(
                f"{self.steps_done} steps in {duration(self.train_seconds)}, "
                f"{self.optimizer.count:,} {self.scene.noun}, held-out PSNR {self.test_psnr:.2f} dB."
            )
        psnr = self.test_psnr if self._tested_at == self.steps_done else None
        return TrainResult(
            reason, self.steps_done, self.train_seconds, self.optimizer.count, psnr, evaluation, path, scene
        )

    def _restore(self, start: checkpoints.Checkpoint) -> None:
        tensors = {name: t.to(self.device) for name, t in start.tensors.items() if name != "generator"}
        self.optimizer = Optimizer.from_tensors(
            tensors, start.state["adam_steps"], PRIMITIVES[self.config.primitive].parameters
        )
        self._start_statistics()
        self.statistics.data.copy_(tensors["statistics"])
        if self._kept is not None:
            self._kept.restore(tensors, self.optimizer)
        state = start.tensors["generator"]
        if state.numel() == self.generator.get_state().numel():
            self.generator.set_state(state)
        else:
            self.say("The run goes on on another kind of device: its random numbers start anew.")
        self.steps_done, self.train_seconds = start.step, float(start.state["train_seconds"])
        self.psnr, self.test_psnr = start.state["psnr"], None
        self._halvings = start.state.get("halvings")
        self.cap = self.config.max_gaussians
        self.folder.trim_log(start.step)
