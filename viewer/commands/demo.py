"""`luxel demo`."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from luxel.render.bounds import Bounds, Folder, Options
from luxel.render.errors import LuxelError
from luxel.render.runs.folder.owner import own
from luxel.render.train.config import TrainConfig
from luxel.scenes.captures.demo import CREDIT, demo_path
from luxel.viewer.options import DeviceName, Serve, pick_device

if TYPE_CHECKING:
    from luxel.render.train import Trainer, TrainResult
    from luxel.viewer.scene_loading.capture_options import Origin

BUSY = 0.75  # share of the cores below which other processes are the cause
GOAL = 25.0  # dB that a minute on two free cores exceeds, see docs/performance.md
USUAL_STEPS = 4500  # of a minute on two free cores, see docs/performance.md


def remarks(trainer: Trainer, result: TrainResult) -> list[str]:
    """What a demo reached and, where that is less than it should be, why."""
    import torch

    cores = torch.get_num_threads()
    share = trainer.loop.cpu_seconds / max(1e-9, result.train_seconds * cores)
    on = (
        f"{min(share, 1):.0%} of {cores} core{'s' if cores > 1 else ''}"
        if trainer.device.type == "cpu"
        else "the GPU"
    )
    out = [f"{result.step:,} steps in {result.train_seconds:.0f} s of training with {on}."]
    if result.test_psnr is None or result.test_psnr >= GOAL:
        return out
    return [*out, f"That is below the {GOAL:.0f} dB of the demo: {_reason(trainer, result, cores, share)}"]


def _reason(trainer: Trainer, result: TrainResult, cores: int, share: float) -> str:
    if result.step >= min(USUAL_STEPS, trainer.config.steps):
        return "although it took the usual number of steps. Please report this, with the output of `luxel doctor`."
    few = f"it took fewer steps than the usual {USUAL_STEPS:,}, because"
    longer = f"`luxel demo --minutes {2 * (trainer.config.target_minutes or 1):g}` trains for longer."
    if result.reason != "target_minutes":
        return f"{few} it was stopped."
    if (trainer.config.target_minutes or 1) < 1:
        return f"{few} training was limited to less than a minute. {longer}"
    if trainer.device.type == "cpu" and share < BUSY:
        return f"{few} other processes occupied the processor. Without them it is reached, or {longer}"
    return f"{few} this machine is slower than two free cores. {longer}"


@dataclass
class Demo(Options):
    """Trains the capture that comes with luxel, a Tudor tankard, and shows it in the browser.

    Trains for one minute, on the GPU or on the CPU, and needs no download. The address of the viewer is printed at
    once and shows the scene while it trains. At the end every 8th view, which was held out, is evaluated on a white
    background: the command prints `held-out PSNR: NN.NN dB`, and why where that is below 25 dB, and writes a report.
    The viewer runs until Ctrl-C. With LUXEL_DEMO_EXIT=1 in the environment there is no viewer, and the command ends
    after the report.

    Examples:
        luxel demo
        LUXEL_DEMO_EXIT=1 luxel demo --run /tmp/tankard
    """

    run: Annotated[Path, Folder(), tyro.conf.arg(metavar="DIR")] = Path("runs/demo")
    """Folder of the run; an earlier demo in it is replaced."""
    minutes: Annotated[float, Bounds(0, 10**6, above=True, stated=False)] = 1.0
    """Minutes of training."""
    device: DeviceName = "auto"
    """Device that trains; auto: the GPU if luxel can use it, else the CPU."""
    serve: Annotated[Serve, tyro.conf.arg(name="")] = field(default_factory=Serve)

    def execute(self) -> int:
        """Trains, evaluates and serves; returns the exit status."""
        from luxel.scenes.loading.run_results import is_run
        from luxel.viewer.progress import describe, opening
        from luxel.viewer.scene_loading.capture_options import Origin
        from luxel.viewer.scene_loading.runs import delete_run, new_run_folder
        from luxel.viewer.training.train_scene import fit
        from luxel.viewer.web.serving import check_serving

        leave = os.environ.get("LUXEL_DEMO_EXIT", "") not in ("", "0")
        device = pick_device(self.device)
        config = TrainConfig.demo()
        config.target_minutes = self.minutes
        config.check()
        check_serving(self.serve)
        origin = Origin(str(demo_path()), holdout_every=8, masks="cutout")
        with opening("opening the capture") as on_progress:
            capture = origin.open(on_progress)
        describe(capture)
        print(CREDIT)
        if is_run(self.run):
            self._must_be_a_demo(origin)
            with own(self.run):
                delete_run(self.run)
        else:
            new_run_folder("demo", self.run)
        serve = None if leave else self.serve
        return fit(
            config, capture, origin, self.run, device, serve=serve, check_capture=False, remarks=remarks
        )

    def _must_be_a_demo(self, origin: Origin) -> None:
        """Only an earlier demo is replaced, never a run of something else."""
        from luxel.render.runs.folder.run_config import has_config
        from luxel.viewer.scene_loading.capture_options import read_origin

        try:
            path = read_origin(self.run).path if has_config(self.run) else "something else"
        except LuxelError:
            path = "something else"
        if Path(path) != Path(origin.path):
            raise LuxelError(f"{self.run}: holds a run of {path}.", "Give another folder with --run.")
