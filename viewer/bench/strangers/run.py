"""Runs the benchmark: writes captures and trains them, the most informative trainings first, within a budget."""

from __future__ import annotations

import shutil
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from luxel.render.errors import LuxelError
from luxel.render.replay import release_memory
from luxel.render.storage.descriptors import make_folders
from luxel.render.storage.journal import scratch_folder
from luxel.scenes.synthetic.rays.distance_solid import DistanceSolid
from luxel.viewer.bench.machine import machine_facts
from luxel.viewer.bench.raster.measure import FORMAT
from luxel.viewer.bench.strangers.made import CAPTURES, QUICK_SIZE, MadeCapture, Size, given_capture
from luxel.viewer.bench.strangers.mesh import mesh_scores
from luxel.viewer.bench.strangers.methods import GAUSSIANS_DEFAULT, GSPLAT, METHODS, Method
from luxel.viewer.bench.strangers.promises import broken_promises
from luxel.viewer.bench.strangers.trained import OutOfTime, medians, train, train_peer
from luxel.viewer.bench.train.gsplat_trainer import require as require_gsplat
from luxel.viewer.reports.evaluation_report import writing

QUICK_SECONDS = 5.0  # expected of a tiny training
NO_TIME = "no time was left"

Task = tuple[MadeCapture, Method]


@dataclass(frozen=True)
class Settings:
    """How the benchmark runs.

    Args:
        seed: of all captures.
        device: to render and train on.
        budget: seconds of all of it.
        quick: tiny captures and trainings; the figures mean nothing.
        peers: whether gsplat is trained too.
        trainings: how often each training runs, with the seeds 0, 1, …; its figures are the medians. gsplat's and the
            meshes are of one.
        folder: in which captures and runs are retained; None: they are deleted.
    """

    seed: int
    device: torch.device
    budget: float
    quick: bool = False
    peers: bool = False
    trainings: int = 1
    folder: Path | None = None


def chosen_tasks(only: Sequence[str], given: Sequence[Path] = ()) -> list[Task]:
    """The trainings that are asked for, in the order in which they run.

    Args:
        only: names of captures, of kinds of scenes or of single trainings ("gaussians-fast"); of each that is named at
            all, no others are trained. Empty: all.
        given: folders of further captures, which are trained besides those that are made, or alone where ``only`` names
            one of them and none of those.

    Raises:
        LuxelError: a name that nothing has, or that two captures have; a capture that is not there.
    """
    if missing := [path for path in given if not path.exists()]:
        raise LuxelError(
            f"--captures {missing[0]}: there is no such capture.", "Give the folder of a capture."
        )
    everything = [*CAPTURES, *(given_capture(folder.resolve()) for folder in given)]
    names = [made.name for made in everything]
    if twice := [name for name in names if names.count(name) > 1]:
        raise LuxelError(
            f"--captures: two captures have the name {twice[0]}.",
            "Give a folder of another name, or a link to it.",
        )
    captures = [made for made in everything if made.name in only]
    methods = [method for method in METHODS if {method.name, method.kind} & set(only)]
    known = {*names} | {m.name for m in METHODS} | {m.kind for m in METHODS}
    if unknown := [name for name in only if name not in known]:
        raise LuxelError(
            f"--only {unknown[0]}: there is no such capture or training.",
            f"Captures: {', '.join(names)}; trainings: "
            f"{', '.join(dict.fromkeys(m.kind for m in METHODS))}, {', '.join(m.name for m in METHODS)}.",
        )
    tasks = [
        (made, method)
        for method in METHODS
        if not methods or method in methods
        for made in captures or everything
        if method in made.methods
    ]
    if not tasks:
        raise LuxelError(
            f"--only {' '.join(only)}: none of the captures is trained so.",
            "Give other captures or other trainings.",
        )
    return tasks


def gsplat_trains(device: torch.device) -> bool:
    """Whether gsplat can train on a device."""
    try:
        require_gsplat(device)
    except LuxelError:
        return False
    return True


def run(
    tasks: Sequence[Task], settings: Settings, on_row: Callable[[dict[str, Any]], None] = lambda report: None
) -> dict[str, Any]:
    """Writes the captures and trains them, each in the order of the tasks, until the budget is spent.

    Args:
        tasks: captures and trainings.
        settings: seed, device, budget.
        on_row: called with the report so far after each training.

    Returns:
        The report: plain values for JSON.
    """
    report: dict[str, Any] = {
        "kind": "strangers",
        "format": FORMAT,
        "machine": machine_facts(settings.device),
        "seed": settings.seed,
        "budget": settings.budget,
        "quick": settings.quick,
        "trainings": settings.trainings,
        "captures": {},
        "rows": [],
        "skipped": [],
        "promises": [],
    }
    with _folder(settings.folder) as folder:
        bench = _Bench(settings, folder, report)
        captures = list({made.name: made for made, _ in tasks}.values())
        for made, method in tasks:
            if method.kind == GSPLAT and not settings.peers:
                bench.skip(made, method, "gsplat is not trained here")
                continue
            row = bench.trained(made, method)
            if row is not None:
                report["rows"].append(row)
                report["promises"] = [] if settings.quick else broken_promises(report, captures)
                on_row(report)
    return report


def require_empty(folder: Path) -> None:
    """Refuses a folder that holds something, which captures and runs could replace.

    Raises:
        LuxelError: it does.
    """
    with writing(folder):
        if folder.is_dir() and any(folder.iterdir()):
            raise LuxelError(
                f"{folder}: there are files in it already.", "Give a new or empty folder with --keep."
            )


def _folder(given: Path | None) -> AbstractContextManager[Path]:
    if given is None:
        return scratch_folder()
    with writing(given):
        make_folders(given)
    return nullcontext(given)


@dataclass
class _Bench:
    """The state of a call."""

    settings: Settings
    folder: Path
    report: dict[str, Any]
    written: dict[str, Path] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float:
        """Seconds of the budget that are left."""
        return self.settings.budget - (time.monotonic() - self.started)

    def skip(self, made: MadeCapture, method: Method, reason: str) -> None:
        """Notes a training that did not run, or not to the end."""
        self.report["skipped"].append({"capture": made.name, "method": method.name, "reason": reason})

    def trained(self, made: MadeCapture, method: Method) -> dict[str, Any] | None:
        """The row of a training; None: it did not run, or its capture could not be written."""
        expected = QUICK_SECONDS
        if not self.settings.quick:
            times = 1 if method.kind == GSPLAT else self.settings.trainings
            expected = times * method.seconds + (0 if made.name in self.written else made.seconds)
        if expected > self.left:
            self.skip(made, method, NO_TIME)
            return None
        row: dict[str, Any] = {
            "capture": made.name,
            "kind": method.kind,
            "preset": method.preset,
            "options": method.options,
            "failures": {},
        }
        run_folder = self.folder / f"{made.name}-{method.name}"
        part = "capture"
        try:
            capture = self._written(made)
            part = "training"
            row |= self._figures(method, capture, run_folder, made)
            if made.solid is not None and method.mesh:
                part = "mesh"
                row |= self._mesh(made.solid, run_folder)
        except OutOfTime:
            self.skip(made, method, f"ended during the {part}: {NO_TIME}")
            if part != "mesh":
                return None
        except Exception:
            row["failures"][part] = traceback.format_exc()
            print(row["failures"][part], file=sys.stderr, flush=True)
        finally:
            if self.settings.folder is None:
                shutil.rmtree(run_folder, ignore_errors=True)
        return row

    def _written(self, made: MadeCapture) -> Path:
        """The folder of a capture, which is written at its first use."""
        if made.name not in self.written:
            if made.copy_of:
                self._written(next(other for other in CAPTURES if other.name == made.copy_of))
            folder = self.folder / made.name
            size = QUICK_SIZE if self.settings.quick else Size()
            started = time.perf_counter()
            self.written[made.name] = made.write(folder, self.settings.seed, size, self.settings.device)
            release_memory()
            seconds = time.perf_counter() - started
            self.report["captures"][made.name] = {"about": made.about, "seconds": seconds}
            print(f"{made.name}: written in {seconds:.1f} s", file=sys.stderr, flush=True)
        return self.written[made.name]

    def _mesh(self, solid: Callable[..., DistanceSolid], run_folder: Path) -> dict[str, Any]:
        seed, device = self.settings.seed, self.settings.device
        return mesh_scores(solid(seed, device=device), seed, run_folder, device, self.left)

    def _trainings(
        self, made: MadeCapture, method: Method, capture: Path, run_folder: Path
    ) -> dict[str, Any]:
        """The medians of all trainings, and the figures of each; the run of the first one stays for its mesh."""
        settings, runs = self.settings, list[dict[str, Any]]()
        for seed in range(settings.trainings):
            folder = run_folder if seed == 0 else run_folder.with_name(f"{run_folder.name}-seed-{seed}")
            try:
                runs.append(
                    train(
                        *(method, capture, folder, settings.device, self.left),
                        seed=seed,
                        quick=settings.quick,
                    )
                )
            except OutOfTime:
                if not runs:
                    raise
                self.skip(
                    made, method, f"ended during training {seed + 1} of {settings.trainings}: {NO_TIME}"
                )
                break
            finally:
                if seed and settings.folder is None:
                    shutil.rmtree(folder, ignore_errors=True)
        return {**medians(runs), "runs": runs}

    def _figures(self, method: Method, capture: Path, run_folder: Path, made: MadeCapture) -> dict[str, Any]:
        settings = self.settings
        if method.kind != GSPLAT:
            return self._trainings(made, method, capture, run_folder)
        counts = [
            row.get("count")
            for row in self.report["rows"]
            if (row["capture"], row["kind"], row["preset"])
            == (made.name, GAUSSIANS_DEFAULT.kind, GAUSSIANS_DEFAULT.preset)
        ]
        result = train_peer(
            method, capture, settings.device, counts[0] if counts else None, quick=settings.quick
        )
        release_memory()
        return result
