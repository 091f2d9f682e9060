"""Training for the command line: the trainer, a viewer meanwhile, scene file and report at the end."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from luxel.render.errors import LuxelError
from luxel.render.primitives import Parameters
from luxel.render.raster import rasterizer
from luxel.render.raster.primitive_scene import primitive_scene
from luxel.render.replay import release_memory
from luxel.render.runs.memory import is_out_of_memory
from luxel.render.runs.out_of_memory import out_of_memory, save_what_is_possible
from luxel.render.storage.descriptors import ForeignFileError
from luxel.render.train import TrainConfig, Trainer, TrainResult
from luxel.render.train.resume import read_config
from luxel.scenes import Capture, save_scene
from luxel.scenes.captures.checks.blur import with_sharpness
from luxel.scenes.errors import CaptureError
from luxel.scenes.measuring.measured_facts import measured_in_run
from luxel.viewer.attach import RunServer
from luxel.viewer.doctor import facts as machine_facts
from luxel.viewer.process.streams import print_where_it_is_read
from luxel.viewer.progress import opening
from luxel.viewer.reports.capture_warnings import CaptureWarnings
from luxel.viewer.reports.evaluation_report import report_of_run
from luxel.viewer.reports.report_alongside import ReportAlongside
from luxel.viewer.reports.scoring import background_of, is_free, psnr_in_words, score
from luxel.viewer.scene_loading.capture_options import Origin
from luxel.viewer.scene_loading.scene_facts import as_shift, facts_of_training

if TYPE_CHECKING:
    from luxel.render.fields.training.trainer import FieldTrainer
    from luxel.viewer.options import Serve
    from luxel.viewer.web.app import ViewerApp
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
BAD_END, SIGNALLED = 1, 128  # exit statuses; to the second the number of the signal is added


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
    behind = background_of(trainer.config.background, capture)

    def session() -> Session:
        from luxel.viewer.web.session import TrainingSession

        return TrainingSession(
            trainer,
            [*capture.train, *capture.test],
            capture.name,
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
        )


def run_watched(
    trainer: Trainer | FieldTrainer,
    session: Callable[[], Session],
    serve: Serve | None,
    conclude: Callable[[Any], None],
) -> int:
    """Trains to the end; optionally serves the scene meanwhile and afterwards.

    Args:
        trainer: of primitives or of a field.
        session: makes the session that the viewer shows.
        serve: where the viewer listens; None: no viewer.
        conclude: called with the result of a run that was not interrupted.

    Returns:
        The exit status: 0; 1 where the run could not be saved completely or its folder was deleted; 128 and the number
        of the signal after Ctrl-C, SIGTERM or SIGHUP.
    """
    folder = trainer.folder.path
    live = LiveViewer(session)
    server = RunServer(trainer, live.show, live.hide)
    app = None
    if serve is not None:
        app = live.start(serve)
        print(f"viewer: {app.url}", flush=True)
    try:
        print(f"run: {folder} on {trainer.device}", flush=True)
        try:
            server.start()
        except OSError as error:
            trainer.say(f"`luxel view {folder}` cannot attach to this run ({error.strerror or error}).")
        result = _trained(trainer)
        server.close()
        if not trainer.loop.signal:
            _concluded(conclude, result)
        unsaved = result.checkpoint is None or result.scene is None
        if unsaved:
            print(
                f"luxel: {folder}: the run could not be saved completely; free some disk space or memory.",
                file=sys.stderr,
            )
        if lost := trainer.folder.lost:
            print(f"luxel: {lost}", file=sys.stderr)
        if trainer.loop.signal:
            if result.reason != "interrupted":
                print(f"luxel: {folder}: the run is complete; its report was not written.", file=sys.stderr)
            else:
                print_where_it_is_read(f"luxel: Stopped at step {result.step}: luxel train --resume {folder}")
            return SIGNALLED + trainer.loop.signal
        if app is not None:
            from luxel.viewer.web.serving import serve_until_interrupted

            print(f"viewer: {app.url}", flush=True)
            serve_until_interrupted(app)
        return BAD_END if unsaved or lost else 0
    finally:
        server.close()
        live.stop()


def _trained(trainer: Trainer | FieldTrainer) -> Any:
    """The result of a run; before it ends for a lack of memory or an image that cannot be read, it is saved.

    Raises:
        LuxelError: it ended so; the message says how to resume it.
    """
    try:
        return trainer.run()
    except Exception as error:
        unreadable = error if isinstance(error, CaptureError) and not is_out_of_memory(error) else None
        if unreadable is None and not is_out_of_memory(error):
            raise
    release_memory()  # after the handler, which keeps the frames of what failed alive
    save_what_is_possible(trainer)
    if unreadable is not None:
        raise CaptureError(
            unreadable.problem, f"{unreadable.remedy} Then: luxel train --resume {trainer.folder.path}"
        )
    raise out_of_memory(trainer, "End other programs, or train with smaller steps (--batch).")


def _concluded(conclude: Callable[[Any], None], result: Any) -> None:
    """Writes the report of a run, which is saved already: a lack of memory is only a message."""
    try:
        conclude(result)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        print("luxel: memory ran out while the report was written; the run is complete.", file=sys.stderr)


class LiveViewer:
    """The web viewer of a run that trains in this process, started at once or when it is asked for.

    Args:
        session: makes the session that it shows.
    """

    def __init__(self, session: Callable[[], Session]) -> None:
        self._session = session
        self._app: ViewerApp | None = None
        self._stays = False
        self._beside: tuple[str, bool] | None = None
        self._lock = threading.Lock()

    def start(self, serve: Serve) -> ViewerApp:
        """Starts the viewer, which stays until `stop`."""
        with self._lock:
            self._stays = True
            return self._open(serve)

    def show(self, options: dict[str, Any], beside: str | None = None, left: bool = True) -> str:
        """Starts the viewer with options of `Serve` unless it runs; returns its address.

        Args:
            options: of `Serve`.
            beside: path of a scene that is shown too; None: the run alone.
            left: whether the run is the left one of the two.

        Raises:
            LuxelError: unknown options, ones that `luxel view` refuses too, a scene that cannot be read, or another
                viewer of the run that cannot be replaced.
        """
        from luxel.viewer.options import Serve

        pair = None if beside is None else (beside, left)
        serve = Serve.of_plain(options)
        with self._lock:
            if self._app is not None and pair != self._beside:
                if self._stays and pair is not None:
                    raise LuxelError(
                        f"the run shows its viewer at {self._app.url} already, without a second scene.",
                        "Start the training without --view, then luxel view A B shows both.",
                    )
                if not self._stays:
                    app, self._app = self._app, None
                    app.stop()
            return (self._app or self._open(serve, pair)).url

    def hide(self) -> None:
        """Ends a viewer that `show` started."""
        if not self._stays:
            self.stop()

    def stop(self) -> None:
        """Ends the viewer."""
        with self._lock:
            app, self._app = self._app, None
        if app is not None:
            app.stop()

    def _open(self, serve: Serve, beside: tuple[str, bool] | None = None) -> ViewerApp:
        from luxel.viewer.web.serving import make_viewer

        session = self._session() if beside is None else self._pair(Path(beside[0]), beside[1])
        app = make_viewer(session, serve)
        app.start()
        self._app, self._beside = app, beside
        return app

    def _pair(self, path: Path, left: bool) -> Session:
        """The session of the run and another scene, on the device of the run."""
        from luxel.viewer.web.opening import open_session
        from luxel.viewer.web.pair.session import PairSession, Side, distinct_names

        run = self._session()
        with run.borrow() as scene:
            device = scene.device
        other = open_session(path, device, beside=run.about)
        names = distinct_names(run.folder or Path(run.name), path)
        own = Side.of(names[0], run)
        second = Side.of(names[1], other)
        return PairSession(own, second) if left else PairSession(second, own, main=1)


def _conclude(
    trainer: Trainer,
    capture: Capture,
    folder: Path,
    result: TrainResult,
    remarks: list[str],
    begun: ReportAlongside,
) -> None:
    """Writes the report, or completes that which was begun, and prints scores, remarks and paths."""
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
