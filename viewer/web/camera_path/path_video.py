"""Renders a camera path to a video alongside the images of the pages, with progress, until it is done or cancelled."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from luxel.render.errors import LuxelError
from luxel.scenes.paths import CameraPath
from luxel.viewer.films.film import write_film
from luxel.viewer.films.output_file import OutputFile
from luxel.viewer.web.session import Session
from luxel.viewer.web.shading.film_frame import film_frame
from luxel.viewer.web.shading.shading import DisplaySettings

log = logging.getLogger("luxel.viewer")


class _Cancelled(Exception):
    """Ends the sequence of frames."""


class PathVideo:
    """A video that is rendered in a thread of its own; pages and training go on between its frames.

    Args:
        session: the scene; each frame shows it as it is then.
        path: cameras of the size of the video, and times.
        settings: how the frames look; what tools add to the images of a page is left out, see `film_frame`.
        file: of the film, in any format; written under another name until it is complete, and with a number where
            something has its name by then.
        on_change: called after each frame and at the end, in the thread that renders.

    Attributes:
        frames: number of frames that are done.
        state: "rendering", "done", "cancelled" or "failed".
        message: why it failed.
    """

    def __init__(
        self,
        session: Session,
        path: CameraPath,
        settings: DisplaySettings,
        file: Path,
        on_change: Callable[[PathVideo], None],
    ) -> None:
        self._session, self._path = session, path
        self._settings, self._on_change = settings, on_change
        self._output = OutputFile(file, numbered=True)
        self._cancel = threading.Event()
        self.frames, self.state, self.message = 0, "rendering", ""
        self._thread = threading.Thread(target=self._run, name="luxel-video", daemon=True)

    @property
    def file(self) -> Path:
        """Of the video; its name is final when the video is done."""
        return self._output.path

    @property
    def share(self) -> float:
        """Fraction of the frames that are done."""
        return self.frames / len(self._path.cameras)

    def start(self) -> None:
        """Begins to render."""
        self._thread.start()

    def cancel(self, wait: float = 0.0) -> None:
        """Ends it after the present frame, leaving no file; returns after at most ``wait`` seconds."""
        self._cancel.set()
        if wait and self._thread.is_alive():
            self._thread.join(wait)

    def _run(self) -> None:
        try:
            write_film(self._output, self._images(), self._path.fps, self._advance)
            self.state = "done"
        except _Cancelled:
            self.state = "cancelled"
        except LuxelError as error:
            self.state, self.message = "failed", str(error)
        except Exception as error:  # whatever a render raises, the page goes on
            log.exception("A video could not be rendered.")
            self.state, self.message = "failed", f"{type(error).__name__}: {error}"
        self._on_change(self)

    def _advance(self) -> None:
        self.frames += 1
        self._on_change(self)

    def _images(self) -> Iterator[np.ndarray]:
        """The frames, uint8 [H, W, 3]."""
        times = self._path.times or [self._settings.time] * len(self._path.cameras)
        for camera, time in zip(self._path.cameras, times, strict=True):
            if self._cancel.is_set():
                raise _Cancelled
            settings = replace(self._settings, time=time)
            clipped = replace(camera, near=settings.near, far=settings.far)
            with self._session.borrow() as scene:
                image = film_frame(scene, clipped.to(scene.device), settings)
            yield image
