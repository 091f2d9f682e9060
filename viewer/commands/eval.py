"""`luxel eval`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import torch
import tyro

from luxel.render.backends import Backend, rasterizer
from luxel.render.errors import LuxelError
from luxel.render.fields.peer import evaluate_by_luxel
from luxel.render.fields.training import in_words
from luxel.render.train.config import TrainConfig
from luxel.render.train.resume import read_config
from luxel.viewer.commands.options import DeviceName, pick_device, require_drawable
from luxel.viewer.doctor import facts as machine_facts
from luxel.viewer.field_data import FieldOrigin
from luxel.viewer.progress import describe, opening
from luxel.viewer.runs import Origin, is_field_run, load_any_scene, load_origin, load_run_field
from luxel.viewer.scoring import background_of, score


@dataclass
class Eval:
    """Measures a scene on the views that were held out of its training.

    Prints PSNR, SSIM and LPIPS per view and their means, and writes OUT/report.json and OUT/index.html with
    photograph, render and error of every view side by side. Cut-out captures are composited on the background that
    the run was trained with (white where it was random); all pixels count except those that masks leave out.

    A run of a neural field is measured as at the end of its training, on the data that it was trained on.

    Examples:
        luxel eval runs/first
        luxel eval runs/first --json
        luxel eval scene.ply --capture capture/ --out report/
    """

    scene: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of a run, or a .ply, .splat or .safetensors file together with --capture."""
    capture: Annotated[Path | None, tyro.conf.arg(metavar="CAPTURE")] = None
    """Measure on this capture; default: the one that the run was trained on."""
    split: Literal["test", "train"] = "test"
    """Which views: those held out, or those trained on."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder of the report; default: eval/ in the run, or NAME-eval beside a scene file."""
    background: Literal["auto", "white", "black"] = "auto"
    """Colour behind the scene and behind cut-out photographs; auto: as the run was trained."""
    holdout_every: int | None = None
    """Hold out every so many-th view instead of as the run did."""
    max_size: int | None = None
    """Shrink photographs to at most this many pixels on their longer side, instead of as the run did."""
    antialiased: bool | None = None
    """Render with Mip-Splatting's opacity compensation; default: as the run was trained."""
    lpips: bool = True
    """Measure LPIPS too."""
    json: bool = False
    """Print JSON instead of the table."""
    device: DeviceName = "auto"
    """Where to render and compare; auto: the GPU where luxel can use it."""
    backend: Backend | None = None
    """Who draws, luxel's own kernels or gsplat's; default: as the run was trained, a field by luxel where tiny-cuda-nn
    cannot be used."""

    def execute(self) -> int:
        """Measures, prints and writes; returns the exit status."""
        device = pick_device(self.device)
        if is_field_run(self.scene):
            return self._evaluate_field(device)
        scene = load_any_scene(self.scene).to(device)
        config = read_config(self.scene)[0] if (self.scene / "config.json").exists() else TrainConfig()
        render = rasterizer(self.backend or config.backend, device)
        require_drawable(self.backend or config.backend, scene)
        origin = self._origin()
        with opening("opening the capture") as on_progress:
            capture = origin.open(on_progress)
        if not self.json:
            describe(capture)
        views = capture.test if self.split == "test" else capture.train
        if not views:
            raise LuxelError(
                f"{origin.path}: no views are held out ({capture.holdout}).",
                "Measure on --split train, or hold some out with --holdout-every 8.",
            )
        wanted = config.background if self.background == "auto" else self.background
        words = "held-out views" if self.split == "test" else "training views"
        evaluation, page = score(
            scene,
            views,
            self.out or self._default_out(),
            title=f"{capture.name}: {words}",
            background=background_of(wanted, capture),
            antialiased=config.antialiased if self.antialiased is None else self.antialiased,
            lpips=self.lpips,
            facts={
                "scene": f"{self.scene}, {scene.count:,} {scene.noun}",
                "views": f"{len(views)} of {len(capture.train) + len(capture.test)}; held out: {capture.holdout}",
                **machine_facts(),
            },
            notes=[str(warning) for warning in capture.warnings],
            render=render,
        )
        if self.json:
            print(json.dumps({**evaluation.as_dict(), "report": str(page)}, indent=2))
            return 0
        print(evaluation.table())
        print(f"{'held-out' if self.split == 'test' else 'training'} PSNR: {evaluation.mean.psnr:.2f} dB")
        print(f"report: {page}")
        return 0

    def _evaluate_field(self, device: torch.device) -> int:
        """Measures a neural field by what it was trained on, as its training does."""
        field = load_run_field(self.scene).to(device)
        if self.backend == "gsplat":
            raise LuxelError("--backend gsplat: it draws no neural fields.", "Leave it out.")
        if self.backend == "luxel":
            evaluate_by_luxel(field)
        origin = FieldOrigin.of_run(self.scene)
        if self.capture is not None:
            origin.path = str(self.capture)
        with opening("opening the data") as on_progress:
            found = origin.open(on_progress)
        field.begin(found.data, device)
        with torch.no_grad():
            scores = field.evaluate()
        path = (self.out or self._default_out()) / "report.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(scores, indent=2))
        print(json.dumps({**scores, "report": str(path)}, indent=2) if self.json else in_words(scores))
        return 0

    def _origin(self) -> Origin:
        if not self.scene.is_dir() and self.capture is None:
            raise LuxelError(
                f"{self.scene}: a scene file does not say what to compare it with.", "Give --capture CAPTURE."
            )
        try:
            origin = load_origin(self.scene)
        except LuxelError:
            if self.capture is None:
                raise
            origin = Origin("")
        if self.capture is not None:
            origin.path = str(self.capture)
        if self.holdout_every is not None:
            origin.holdout_every = self.holdout_every
        if self.max_size is not None:
            origin.max_size = self.max_size
        return origin

    def _default_out(self) -> Path:
        return self.scene / "eval" if self.scene.is_dir() else self.scene.with_name(f"{self.scene.stem}-eval")
