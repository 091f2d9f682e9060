"""`luxel demo`."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from luxel.render.errors import LuxelError
from luxel.render.train import TrainConfig
from luxel.scenes.captures.demo import CREDIT, demo_path
from luxel.viewer.commands.options import DeviceName, Serve, pick_device
from luxel.viewer.progress import describe, opening
from luxel.viewer.runs import Origin, is_run, load_origin
from luxel.viewer.training import fit
from luxel.viewer.web.serving import check_serving


@dataclass
class Demo:
    """Trains the capture that comes with luxel, a Tudor tankard, and shows it in the browser.

    Takes about a minute of training on two CPU cores and needs no download. The address is printed at once: the
    tankard takes shape while you look. At the end the held-out views (every 8th, on white by their masks) are
    measured, a line `held-out PSNR: NN.NN dB` is printed, and a report is written. The viewer then stays until
    Ctrl-C; with LUXEL_DEMO_EXIT=1 in the environment nothing is served and the command ends after the report.

    Examples:
        luxel demo
        LUXEL_DEMO_EXIT=1 luxel demo --run /tmp/tankard
    """

    run: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs/demo")
    """Folder of the run; an earlier demo in it is replaced."""
    minutes: float = 1.0
    """Minutes of training."""
    device: DeviceName = "auto"
    """Where to train; auto: the GPU where luxel can use it."""
    serve: Annotated[Serve, tyro.conf.arg(name="")] = field(default_factory=Serve)

    def execute(self) -> int:
        """Trains, measures, serves; returns the exit status."""
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
            for name in ("checkpoints", "eval", "renders"):
                shutil.rmtree(self.run / name, ignore_errors=True)
        return fit(config, capture, origin, self.run, device, serve=None if leave else self.serve)

    def _must_be_a_demo(self, origin: Origin) -> None:
        """Only an earlier demo is replaced, never a run of something else."""
        try:
            found = load_origin(self.run).path
        except LuxelError:
            found = "something else"
        if Path(found) != Path(origin.path):
            raise LuxelError(f"{self.run}: holds a run of {found}.", "Give another folder with --run.")
