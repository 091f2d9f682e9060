"""The web viewer of a run that trains in this process."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from luxel.render.errors import LuxelError

if TYPE_CHECKING:
    from luxel.viewer.options import Serve
    from luxel.viewer.web.app import ViewerApp
    from luxel.viewer.web.session import Session


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

    @property
    def stays(self) -> bool:
        """Whether the viewer goes on after the training."""
        return self._stays

    def hide(self) -> None:
        """Ends a viewer that `show` started."""
        if not self._stays:
            self.stop()

    def stop(self) -> None:
        """Ends the viewer."""
        self.save_edits()
        with self._lock:
            app, self._app = self._app, None
        if app is not None:
            app.stop()

    def save_edits(self) -> None:
        """Saves what was edited while the training was paused; that of a finished scene waits for the next session."""
        if self._app is None:  # the imports take as long as the evaluation of some views
            return
        from luxel.viewer.web.editing.editable_training import EditableTraining
        from luxel.viewer.web.session import TrainingSession

        session = self._app.session
        if not isinstance(session, TrainingSession) or session.editable is None or not session.trains:
            return
        editing = EditableTraining.of(session)
        try:
            editing.close()
            if editing.message:
                print(f"luxel: {editing.message}", flush=True)
        except LuxelError as error:
            print(f"luxel: {error}", file=sys.stderr)

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
