"""`luxel bench strangers`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import tyro

from luxel.render.bounds import Bounds, Folder, Options, Positive, Seed
from luxel.viewer.options import DeviceName, optional, pick_device

BUDGET = 1200.0  # seconds


@dataclass
class Strangers(Options):
    """Trains captures that are made from a seed, with every kind of scene and preset: nothing can be tuned to them.

    Captures: exact, a random solid of known distance with exact alpha; turntable, an object on one with masks and
    changing exposure; room, textured and bare walls from within; street, near detail and far towers; utm, the street in
    the coordinates of a map. Each is trained by `luxel train` in a process of its own, without other options than those
    of the kind and preset; on a GPU gsplat trains alongside where it is installed. Prints a table and writes
    OUT/strangers.json, strangers.md and strangers.html: steps, primitives, PSNR, SSIM, LPIPS, training and wall time,
    distances of meshes from the exact solid; and what is not as promised: presets in their order, radiance fields and
    surfaces close to Gaussians and surfels, little waiting besides training.

    Examples:
        luxel bench strangers
        luxel bench strangers --only exact --budget 60
        luxel bench strangers --only gaussians-fast gaussians-default --seed 7
        luxel bench strangers --captures captures/chair captures/fox --trainings 3 --budget 3600
    """

    seed: Annotated[Seed | None, optional("INT")] = None
    """Of shapes, textures, colours and cameras; default: the date as YYYYMMDD. It is printed and in the report."""
    budget: Positive = BUDGET
    """Seconds of the complete call. The most informative trainings run first; what is expected to take longer than what
    is left is not started, what does is ended, and both are listed."""
    only: Annotated[tuple[str, ...], optional("NAME...")] = ()
    """Captures to train on, kinds of scenes to train (gaussians, surfels, convexes, radiance, gsplat) or single
    trainings (gaussians-fast); default: all."""
    captures: Annotated[tuple[Path, ...], optional("DIR...")] = ()
    """Further captures to train in the same way, your own for example; --only takes the names of their folders."""
    trainings: Annotated[int, Bounds(1, 100)] = 1
    """How often each training runs, with the seeds 0, 1, …: the table has the medians, the report every run. gsplat's
    and meshes are of one."""
    keep: Annotated[Path | None, Folder(), optional("DIR")] = None
    """New folder in which captures and runs stay, with the output of the commands; default: they are deleted."""
    quick: bool = False
    """Tiny captures and trainings, to check that everything works; the figures mean nothing."""
    out: Annotated[Path, Folder(), tyro.conf.arg(metavar="DIR")] = Path("bench")
    """Folder for the report; an earlier one in it is replaced."""
    device: DeviceName = "auto"
    """Device to render and train on; auto: the GPU if luxel can use it, else the CPU, which takes hours."""

    def execute(self) -> int:
        """Measures, writes, prints; returns 1 where a part failed."""
        from luxel.viewer.bench import report
        from luxel.viewer.bench.strangers import report as strangers_report
        from luxel.viewer.bench.strangers.run import Settings, chosen_tasks, gsplat_trains, require_empty, run

        device = pick_device(self.device)
        seed = int(date.today().strftime("%Y%m%d")) if self.seed is None else self.seed
        tasks = chosen_tasks(self.only, self.captures)
        if self.keep is not None:
            require_empty(self.keep)
        report.check_writable(self.out, "strangers")
        settings = Settings(
            seed, device, self.budget, self.quick, gsplat_trains(device), self.trainings, self.keep
        )
        print(f"seed: {seed}", flush=True)

        def keep(results: dict[str, Any]) -> None:
            row = results["rows"][-1]
            figures = f"{row['psnr']:.2f} dB in {row['seconds']:.1f} s" if "psnr" in row else "failed"
            print(f"{row['capture']}, {row['kind']}-{row['preset']}: {figures}", file=sys.stderr, flush=True)
            report.write(
                self.out, "strangers", results, strangers_report.TITLE, strangers_report.sections(results)
            )

        results = run(tasks, settings, keep)
        parts = strangers_report.sections(results)
        status = report.conclude(
            self.out, "strangers", results, strangers_report.TITLE, parts, strangers_report.PRINTED
        )
        for one in results["skipped"]:
            print(f"not run: {one['capture']}, {one['method']}: {one['reason']}")
        print(strangers_report.summary(results))
        return status
