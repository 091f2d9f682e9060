"""`luxel demo`."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from luxel.render.bounds import Bounds, Folder, Options
from luxel.render.errors import LuxelError
from luxel.render.runs.owner import own
from luxel.render.train.config import TrainConfig
from luxel.scenes.captures.demo import CREDIT, demo_path
from luxel.viewer.commands.options import DeviceName, Serve, pick_device

if TYPE_CHECKING:
    from luxel.viewer.origin import Origin


@dataclass
class Demo(Options):
    """Trains the capture that comes with luxel, a Tudor tankard, and shows it in the browser.

    Trains for one minute, on the GPU or on the CPU, and needs no download. The address of the viewer is printed at
    once and shows the scene while it trains. At the end every 8th view, which was held out, is evaluated on a white
    background: the command prints `held-out PSNR: NN.NN dB` and writes a report. The viewer runs until Ctrl-C. With
    LUXEL_DEMO_EXIT=1 in the environment there is no viewer, and the command ends after the report.

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
        from luxel.viewer.origin import Origin
        from luxel.viewer.progress import describe, opening
        from luxel.viewer.runs import is_run
        from luxel.viewer.training import fit
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
                for name in ("checkpoints", "eval", "renders"):
                    shutil.rmtree(self.run / name, ignore_errors=True)
        serve = None if leave else self.serve
        return fit(config, capture, origin, self.run, device, serve=serve, check_capture=False)

    def _must_be_a_demo(self, origin: Origin) -> None:
        """Only an earlier demo is replaced, never a run of something else."""
        from luxel.viewer.origin import load_origin

        try:
            path = load_origin(self.run).path
        except LuxelError:
            path = "something else"
        if Path(path) != Path(origin.path):
            raise LuxelError(f"{self.run}: holds a run of {path}.", "Give another folder with --run.")
