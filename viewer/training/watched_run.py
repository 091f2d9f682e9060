"""A training in this process with its viewer: to the end, and longer where a page asks for it."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from luxel.render.errors import LuxelError
from luxel.render.replay import release_memory
from luxel.render.runs.memory import is_out_of_memory
from luxel.render.runs.out_of_memory import out_of_memory, save_what_is_possible
from luxel.render.train import TrainConfig, Trainer, TrainResult
from luxel.scenes.errors import CaptureError
from luxel.viewer.attach import RunServer
from luxel.viewer.process.streams import print_where_it_is_read
from luxel.viewer.training.live_viewer import LiveViewer
from luxel.viewer.web.run_end import RunEnd

if TYPE_CHECKING:
    from luxel.render.fields.training.trainer import FieldTrainer
    from luxel.viewer.options import Serve
    from luxel.viewer.web.app import ViewerApp
    from luxel.viewer.web.editing.editable_training import EditableTraining
    from luxel.viewer.web.session import Session

BAD_END, SIGNALLED = 1, 128  # exit statuses; to the second the number of the signal is added


def run_watched(
    trainer: Trainer | FieldTrainer,
    session: Callable[[], Session],
    serve: Serve | None,
    conclude: Callable[[Any], Path | None],
    longer: Callable[[Any, int], Trainer] | None = None,
) -> int:
    """Trains to the end; optionally serves the scene meanwhile and afterwards, when pages may train it longer.

    Args:
        trainer: of primitives or of a field.
        session: makes the session that the viewer shows.
        serve: where the viewer listens; None: no viewer.
        conclude: called with the result of a run that was not interrupted; returns the page of its report, if any.
        longer: makes the trainer that continues a run by a number of steps, from its result; None: nothing does.

    Returns:
        The exit status: 0; 1 where the run could not be saved completely or its folder was deleted; 128 and the number
        of the signal after Ctrl-C, SIGTERM or SIGHUP.
    """
    live = LiveViewer(session)
    app = None
    if serve is not None:
        app = live.start(serve)
        print(f"viewer: {app.url}", flush=True)
    try:
        while True:
            result, report, status = _run_once(trainer, live, conclude)
            if app is None or trainer.loop.signal:
                return status
            print(f"viewer: {app.url}", flush=True)
            further = _serve_ended(app, end_of(trainer, result, report), longer, result)
            if further is None:
                return status
            trainer = further
    finally:
        live.stop()


def _run_once(
    trainer: Trainer | FieldTrainer, live: LiveViewer, conclude: Callable[[Any], Path | None]
) -> tuple[Any, Path | None, int]:
    """Trains until a run ends, and writes its report; returns its result, the report's page and the exit status."""
    folder, report = trainer.folder.path, None
    server = RunServer(trainer, live.show, live.hide, lambda: live.stays)
    try:
        print(f"run: {folder} on {trainer.device}", flush=True)
        try:
            server.start()
        except OSError as error:
            trainer.say(f"`luxel view {folder}` cannot attach to this run ({error.strerror or error}).")
        result = _trained(trainer)
    finally:
        live.save_edits()
        server.close()
    if not trainer.loop.signal:
        report = _concluded(conclude, result)
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
        return result, report, SIGNALLED + trainer.loop.signal
    return result, report, BAD_END if unsaved or lost else 0


def _serve_ended(
    app: ViewerApp, end: RunEnd, longer: Callable[[Any, int], Trainer] | None, result: Any
) -> Trainer | None:
    """Shows a run that has ended until Ctrl-C (None), or until it is trained longer by the trainer that is returned."""
    from luxel.viewer.web.editing.editable_training import EditableTraining
    from luxel.viewer.web.serving import serve_until
    from luxel.viewer.web.session import TrainingSession

    session = app.session
    assert isinstance(session, TrainingSession), "a viewer that stays shows the run alone"
    requests: SimpleQueue[int] = SimpleQueue()
    editing = EditableTraining.of(session) if session.primitives is not None else None

    def extend(steps: int) -> None:
        if editing is not None:
            editing.close()
        session.train_again(None)  # at once, so that nothing is edited any more
        requests.put(steps)

    session.extend = None if longer is None else extend
    while True:
        session.end(end)
        if editing is not None:
            _open(editing)
        steps = serve_until(app, requests)
        if steps is None or longer is None:
            return None
        try:
            trainer = longer(result, steps)
        except LuxelError as error:
            print(f"luxel: {error}", file=sys.stderr)
            end = replace(end, problem=str(error))
            continue
        session.train_again(trainer)
        return trainer


def _open(editing: EditableTraining) -> None:
    """Lets pages edit the result of a run; where that fails, they try again when a tool is chosen."""
    try:
        editing.open()
    except LuxelError as error:
        print(f"luxel: {error}", file=sys.stderr)


def end_of(trainer: Trainer | FieldTrainer, result: Any, report: Path | None) -> RunEnd:
    """What pages show of a run that has ended.

    Args:
        trainer: of the run.
        result: TrainResult or FieldResult.
        report: page of its report, if there is one.
    """
    status, evaluation = trainer.status(), getattr(result, "evaluation", None)
    mean = None if evaluation is None else evaluation.mean
    return RunEnd(
        result.reason,
        result.step,
        trainer.steps,
        result.train_seconds,
        status["count"],
        status["noun"],
        *((None, None) if mean is None else (_finite(mean.psnr), _finite(mean.ssim))),
        views=0 if evaluation is None else len(evaluation.scores),
        report=report,
    )


def _finite(score: float) -> float | None:
    return score if math.isfinite(score) else None


def more_steps(config: TrainConfig, result: TrainResult, steps: int) -> dict[str, Any]:
    """Changes of a configuration with which a run that has ended is trained longer: a length, and no limit of time,
    nor the one that has ended it.

    Args:
        config: of the run.
        result: how it ended.
        steps: further ones.
    """
    changes: dict[str, Any] = {"steps": result.step + steps}
    if config.target_minutes is not None:
        changes |= {"target_minutes": None, "pace_by_time": False}
    if result.reason in ("target_psnr", "target_frame_ms", "target_gigabytes"):
        changes[result.reason] = None
    if result.reason == "max_gaussians":
        changes["end_at_max_gaussians"] = False
    return changes


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


def _concluded(conclude: Callable[[Any], Path | None], result: Any) -> Path | None:
    """Writes the report of a run, which is saved already, and returns its page: a lack of memory is only a message."""
    try:
        return conclude(result)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        print("luxel: memory ran out while the report was written; the run is complete.", file=sys.stderr)
        return None
