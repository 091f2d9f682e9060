"""`luxel eval`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from luxel.render.bounds import Every, Folder, Megapixels, Options, Pixels
from luxel.render.errors import LuxelError
from luxel.render.raster import Backend
from luxel.render.train.config import TrainConfig
from luxel.viewer.doctor import facts as machine_facts
from luxel.viewer.options import DeviceName, optional, pick_device

if TYPE_CHECKING:
    import torch

    from luxel.render.storage.folder import OutputFolder
    from luxel.viewer.scene_loading.capture_options import Origin


@dataclass
class Eval(Options):
    """Evaluates a scene on the views that were held out of its training.

    Prints PSNR, SSIM and LPIPS of each view and their means, and writes OUT/report.json and OUT/index.html, a page
    with image, render and error of every view side by side. Cut-out captures are composited on the background that
    the run was trained with (white if it was random). All pixels count except those that masks exclude.

    A run of a neural field is evaluated as at the end of its training, on the data that it was trained on.

    Where the run has objects (`luxel segment`) and the capture true ids, their IoU is reported too.

    Examples:
        luxel eval runs/first
        luxel eval runs/first --json
        luxel eval scene.ply --capture capture/ --out report/
    """

    scene: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of a run, or a scene file (.ply, .compressed.ply, .splat, .ksplat, .spz, .sog, .glb or .safetensors)
    together with --capture."""
    capture: Annotated[Path | None, optional("CAPTURE")] = None
    """Evaluate on this capture; default: the one that the run was trained on."""
    split: Literal["test", "train"] = "test"
    """Views to evaluate on: those held out, or those trained on."""
    out: Annotated[Path | None, Folder(), optional("DIR")] = None
    """Folder of the report; default: eval/ in the run, or NAME-eval alongside a scene file. An earlier report in it is
    replaced, and no other files."""
    force: bool = False
    """Replace other files that have names of files of the report too: index.html, report.json, images/*.jpg."""
    background: Literal["auto", "white", "black"] = "auto"
    """Colour behind the scene and behind cut-out images; auto: the one that the run was trained with."""
    holdout_every: Annotated[Every | None, optional("N")] = None
    """Hold out every Nth view; default: as in the run."""
    max_size: Annotated[Pixels | None, optional("PIXELS")] = None
    """Downscale images to at most this many pixels along the longer side; default: as in the run."""
    max_megapixels: Annotated[Megapixels | None, optional("N")] = None
    """Refuse images of more megapixels, which need 3 MB of memory each; default: 400, or as in the run."""
    antialiased: Annotated[bool | None, optional("{True,False}")] = None
    """Render with the opacity compensation of Mip-Splatting; default: as the run was trained, or as the
    scene file says."""
    lpips: bool = True
    """Compute LPIPS (slower)."""
    aligned: bool = False
    """Compute the PSNR after an affine fit of each render's colours too, which leaves out differences of exposure and
    white balance. Always done for runs that learnt the exposure of their images."""
    refined: bool = False
    """Compute the PSNR with each camera moved to where the scene looks most like its image too, which leaves out
    errors of the poses. Always done for runs that refined the poses of their images."""
    json: bool = False
    """Print JSON instead of a table."""
    scene_axes: Annotated[str | None, optional("AXES")] = None
    """Axes of a scene file that ignores the specification of its format: what x, y and z point at, by the letters of
    right, left, up, down, front and back, such as RDF (3DGS) or RUB; default: those of the format."""
    keep_non_finite: bool = False
    """Keep primitives with parameters that are NaN or infinite; by default they are left out, with a message."""
    device: DeviceName = "auto"
    """Device to render and compare on; auto: the GPU if luxel can use it, else the CPU."""
    backend: Annotated[Backend | None, optional("{luxel,gsplat}")] = None
    """Rasterizer backend; default: that of the run. Fields are evaluated by luxel if tiny-cuda-nn is not available."""

    def execute(self) -> int:
        """Evaluates, prints and writes the report; returns the exit status."""
        from luxel.render.primitives import Parameters
        from luxel.render.runs.folder.run_config import has_config
        from luxel.render.train.resume import read_config
        from luxel.render.train.start import scene_extent
        from luxel.scenes.loading.loader import LoadOptions
        from luxel.scenes.loading.loaders import open_scene
        from luxel.scenes.loading.run_results import check_axes, is_field_run
        from luxel.viewer.progress import describe, opening
        from luxel.viewer.reports.scoring import background_of, psnr_in_words, score
        from luxel.viewer.scene_loading.learned_views import cameras_of_run, refined_views, shutters_of_run
        from luxel.viewer.segmenting import segmentation_scores

        device = pick_device(self.device)
        check_axes(self.scene, self.scene_axes)
        output = self._output()
        if is_field_run(self.scene):
            return self._evaluate_field(device, output)
        config = read_config(self.scene)[0] if has_config(self.scene) else TrainConfig()
        backend = self.backend or config.backend
        scene = open_scene(self.scene, LoadOptions(self.keep_non_finite, self.scene_axes, backend, device))
        origin = self._origin()
        if origin.shift is None:
            origin.shift = scene.about.shift or (0.0, 0.0, 0.0)
        with opening("opening the capture") as on_progress:
            capture = origin.open(on_progress, device)
        if not self.capture:  # another one need not have the same depth
            origin.add_depth(capture, config)
        if not self.json:
            describe(capture)
        views = capture.test
        if self.split == "train":
            views = capture.train if self.capture else refined_views(self.scene, capture)
        if not views:
            raise LuxelError(
                f"{origin.path}: no views are held out ({capture.holdout}).",
                "Evaluate on --split train, or hold out every Nth view with --holdout-every N.",
            )
        if config.rolling_shutter and not self.capture:
            views = shutters_of_run(self.scene, config, capture.train, capture.test, device).evaluation_views(
                views
            )
        background = config.background if self.background == "auto" else self.background
        antialiased = bool(scene.about.antialiased) if self.antialiased is None else self.antialiased
        objects = None
        if (parameters := scene.part(Parameters)) is not None:
            compensated = antialiased and "antialiased" in scene.about.options
            objects = segmentation_scores(self.scene, parameters, views, antialiased=compensated)
        split = "held-out views" if self.split == "test" else "training views"
        evaluation, page = score(
            scene,
            views,
            output,
            title=f"{capture.name}: {split}",
            background=background_of(background, capture),
            antialiased=antialiased,
            lpips=self.lpips,
            aligned=self.aligned or config.exposure != "none",
            camera_response=cameras_of_run(self.scene, capture.train, device)
            if config.exposure == "camera"
            else None,
            refine=scene_extent(capture.train) if self.refined or config.refine_poses else None,
            depth=None if config.depth == "none" else config.depth_scale,
            facts={
                "scene": f"{self.scene}, {scene.count:,} {scene.about.noun}",
                "views": f"{len(views)} of {len(capture.train) + len(capture.test)}; held out: {capture.holdout}",
                **({"objects": _in_words(objects)} if objects else {}),
                **machine_facts(),
            },
            notes=[str(warning) for warning in capture.warnings],
        )
        if self.json:
            further = {"objects": objects} if objects else {}
            print(json.dumps({**evaluation.as_dict(), **further, "report": str(page)}, indent=2))
            return 0
        print(evaluation.table())
        print(f"{'held-out' if self.split == 'test' else 'training'} PSNR: {psnr_in_words(evaluation)}")
        if objects:
            print(f"objects: {_in_words(objects)}")
        print(f"report: {page}")
        return 0

    def _evaluate_field(self, device: torch.device, output: OutputFolder) -> int:
        """Evaluates a neural field on the data that it was trained on, as its training does."""
        import torch

        from luxel.render.fields.peers.tinycudann_field import evaluate_by_luxel
        from luxel.render.fields.training.trainer import in_words
        from luxel.scenes.loading.run_results import load_run_field
        from luxel.viewer.progress import opening
        from luxel.viewer.reports.evaluation_report import RECORD, writing
        from luxel.viewer.scene_loading.field_data import FieldOrigin

        field = load_run_field(self.scene).to(device)
        if self.backend == "gsplat":
            raise LuxelError("--backend gsplat: gsplat cannot draw neural fields.", "Leave it out.")
        if self.backend == "luxel":
            evaluate_by_luxel(field)
        origin = FieldOrigin.of_run(self.scene, self.capture)
        with opening("opening the data") as on_progress:
            opened = origin.open(on_progress, device)
        field.begin(opened.data, device)
        with torch.no_grad():
            scores = field.evaluate()
        with writing(output.path):
            path = output.write(RECORD, json.dumps(scores, indent=2).encode())
        print(json.dumps({**scores, "report": str(path)}, indent=2) if self.json else in_words(scores))
        return 0

    def _origin(self) -> Origin:
        from luxel.scenes.loading.run_results import is_run
        from luxel.viewer.scene_loading.capture_options import Origin, load_origin

        if not is_run(self.scene) and self.capture is None:
            raise LuxelError(
                f"{self.scene}: a scene file does not name a capture to compare it with.",
                "Give --capture CAPTURE.",
            )
        try:
            origin = load_origin(self.scene, self.capture, adds_depth=self.capture is None)
        except LuxelError:
            if self.capture is None:
                raise
            origin = Origin(str(self.capture))
        if self.holdout_every is not None:
            origin.holdout_every = self.holdout_every
        if self.max_size is not None:
            origin.max_size = self.max_size
        if self.max_megapixels is not None:
            origin.max_megapixels = self.max_megapixels
        return origin

    def _output(self) -> OutputFolder:
        """The folder of the report; refused before long work where other files are at its path."""
        from luxel.render.storage.folder import OutputFolder
        from luxel.scenes.loading.run_results import is_field_run, is_run
        from luxel.viewer.reports.evaluation_report import PAGE, RECORD, check_writable, report_of_run

        if self.out is None and is_run(self.scene):
            output = report_of_run(self.scene, force=self.force)
        else:
            default = self.scene.with_name(f"{self.scene.stem}-eval")
            output = OutputFolder(self.out or default, force=self.force)
        check_writable(output, [RECORD] if is_field_run(self.scene) else [PAGE, RECORD])
        return output


def _in_words(objects: dict[str, float]) -> str:
    """The mean IoU of objects and that of each, in percent."""
    each = ", ".join(f"{name} {100 * iou:.1f}" for name, iou in objects.items() if name != "mean")
    return f"mean IoU {100 * objects['mean']:.1f} % ({each})"
