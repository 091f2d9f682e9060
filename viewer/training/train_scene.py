"""Training for the command line: the trainer, a viewer meanwhile, scene file and report at the end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from luxel.render.primitives import Parameters
from luxel.render.raster import rasterizer
from luxel.render.raster.primitive_scene import primitive_scene
from luxel.render.storage.descriptors import ForeignFileError
from luxel.render.train import TrainConfig, Trainer, TrainResult
from luxel.render.train.resume import read_config
from luxel.scenes import Capture, save_scene
from luxel.scenes.captures.checks.blur import with_sharpness
from luxel.scenes.measuring.measured_facts import measured_in_run
from luxel.viewer.doctor import facts as machine_facts
from luxel.viewer.progress import opening
from luxel.viewer.reports.capture_warnings import CaptureWarnings
from luxel.viewer.reports.evaluation_report import report_of_run
from luxel.viewer.reports.report_alongside import ReportAlongside
from luxel.viewer.reports.scoring import background_of, is_free, psnr_in_words, score
from luxel.viewer.scene_loading.capture_options import Origin
from luxel.viewer.scene_loading.scene_facts import as_shift, facts_of_training
from luxel.viewer.training.watched_run import more_steps, run_watched

if TYPE_CHECKING:
    from luxel.viewer.options import Serve
    from luxel.viewer.web.session import Session

ENDS = {
    "steps": "all steps done",
    "target_psnr": "the target of the held-out PSNR was reached",
    "target_minutes": "the time limit was reached",
    "target_frame_ms": "the target of the time to render a view was reached",
    "target_gigabytes": "the memory limit was reached",
    "seconds": "the time limit was reached",
    "max_gaussians": "the maximal number of Gaussians was reached",
    "stopped": "it was stopped",
    "interrupted": "interrupted",
}


def fit(
    config: TrainConfig,
    capture: Capture,
    origin: Origin,
    folder: Path,
    device: torch.device,
    *,
    serve: Serve | None = None,
    overrides: dict[str, Any] | None = None,
    start: Parameters | None = None,
    check_capture: bool = True,
    remarks: Callable[[Trainer, TrainResult], list[str]] | None = None,
) -> int:
    """Trains and evaluates; optionally serves the scene meanwhile and afterwards.

    Prints ``held-out PSNR: NN.NN dB`` at the end where views were held out.

    Args:
        config: of a new run.
        capture: what is trained on.
        origin: how it was opened, stored in config.json.
        folder: of the run.
        device: where to train.
        serve: where the viewer listens; None: no viewer.
        overrides: resume the run in ``folder`` with these changes (may be empty); None: start a new run.
        start: primitives that a new run begins with; None: those at the points of the capture.
        check_capture: check the capture in the background, see `CaptureWarnings`.
        remarks: sentences about a finished run, which are printed and written to its report.

    Returns:
        The exit status: 0; 1 where the run could not be saved completely or its folder was deleted; 128 and the number
        of the signal after Ctrl-C, SIGTERM or SIGHUP.
    """
    about = origin.about(capture)

    def export(scene: Any, path: Path) -> None:
        facts = measured_in_run(folder).over(facts_of_training(trainer.config, capture, scene))
        save_scene(path, scene, facts=facts)

    weighted = config if overrides is None else read_config(folder)[0]
    train_views = capture.train
    if (overrides or {}).get("downweight_blur", weighted.downweight_blur):
        with opening("measuring sharpness") as on_progress:
            train_views = with_sharpness(train_views, lambda share: on_progress("photographs", share))
    if overrides is None:
        first = capture.points if start is None else start
        trainer = Trainer(config, train_views, capture.test, first, folder, device, export, about=about)
    else:
        trainer = Trainer.resume(
            folder,
            train_views,
            capture.test,
            device=device,
            overrides=overrides,
            export=export,
            about=about,
        )

    def longer(result: TrainResult, steps: int) -> Trainer:
        nonlocal trainer, remarks
        remarks = None  # which are about the run that was begun
        changes = more_steps(trainer.config, result, steps)
        trainer = Trainer.resume(
            folder, train_views, capture.test, device=device, overrides=changes, export=export, about=about
        )
        trainer.watch_last_evaluation = begun.begin
        return trainer

    behind = background_of(trainer.config.background, capture)

    def session() -> Session:
        from luxel.viewer.web.session import TrainingSession

        return TrainingSession(
            trainer,
            [*capture.train, *capture.test],
            folder.resolve().name,
            up=capture.up,
            background=behind,
            free_background=is_free(trainer.config.background, capture),
            folder=folder,
            trained_on=len(capture.train),
            notices=capture.warnings,
            make=partial(
                primitive_scene,
                backend=trainer.config.backend,
                lenses=origin.lens == "keep",
                shift=as_shift(capture.shift),
            ),
        )

    checks = CaptureWarnings(capture, trainer.say) if check_capture else nullcontext()
    with checks, ReportAlongside(lambda: report_of_run(folder)) as begun:
        trainer.watch_last_evaluation = begun.begin
        return run_watched(
            trainer,
            session,
            serve,
            lambda result: _conclude(
                trainer, capture, folder, result, remarks(trainer, result) if remarks else [], begun
            ),
            longer,
        )


def _conclude(
    trainer: Trainer,
    capture: Capture,
    folder: Path,
    result: TrainResult,
    remarks: list[str],
    begun: ReportAlongside,
) -> Path | None:
    """Writes the report, or completes that which was begun, and prints scores, remarks and paths; returns its page."""
    seconds = result.train_seconds
    speed = f"{result.step / seconds:.1f} steps/s" if seconds > 0 else "-"
    facts = {
        "capture": f"{capture.name} ({capture.format})",
        "held out": f"{len(capture.test)} of {len(capture.train) + len(capture.test)} views: {capture.holdout}",
        "training": f"{result.step} steps in {seconds:.1f} s ({speed}), ended because {ENDS[result.reason]}",
        trainer.scene.noun[:1].upper() + trainer.scene.noun[1:]: f"{result.count:,}",
        "background": trainer.background,
        **machine_facts(),
    }
    page = None
    if result.evaluation is not None and capture.test:
        texts: dict[str, Any] = {
            "title": f"{capture.name}: held-out views",
            "facts": facts,
            "notes": [*remarks, *(str(warning) for warning in capture.warnings)],
        }
        try:
            page = begun.finish(result.evaluation, **texts)
            if page is None:
                _, page = score(
                    trainer.scene.detach(),
                    trainer.models.evaluation_views(capture.test),
                    report_of_run(folder),
                    background=background_of(trainer.config.background, capture),
                    antialiased=trainer.config.antialiased,
                    known=result.evaluation,
                    render=rasterizer(trainer.config.backend),
                    **texts,
                )
        except ForeignFileError as error:
            print(
                f"luxel: no report was written; the run is complete. {error.problem} Move it elsewhere, then: "
                f"luxel eval {folder}",
                file=sys.stderr,
            )
        print(result.evaluation.table())
        print(f"held-out PSNR: {psnr_in_words(result.evaluation)}")
    for remark in remarks:
        print(remark)
    if result.scene is not None:
        print(f"scene:  {result.scene}")
    if page is not None:
        print(f"report: {page}", flush=True)
    return page
