"""The film of a session's camera path: it goes on when its page is closed, and waits for a page that takes it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from weakref import WeakKeyDictionary

from luxel.render.storage.journal import scratch_folder
from luxel.scenes.paths import CameraPath
from luxel.viewer.web.camera_path.path_video import PathVideo
from luxel.viewer.web.session import Session
from luxel.viewer.web.shading.shading import DisplaySettings

log = logging.getLogger("luxel.viewer")


@dataclass(frozen=True)
class FilmResult:
    """What became of a film.

    Args:
        state: "done", "cancelled" or "failed".
        message: why it failed.
        file: of the film.
        frames: how many it has.
        stored: whether the file stays, in the folder of the run; else it goes when it was read.
    """

    state: str
    message: str
    file: Path
    frames: int
    stored: bool


class FilmJobs:
    """One film at a time of a session, whose pages come and go; its methods may be called from any thread.

    Attributes:
        job: the film that is being rendered; None: there is none.
        result: of the last one, until it is taken; None: there is none.
        owner: the page that began it and takes its result; None: it was closed, and any page may.
    """

    _all: ClassVar[WeakKeyDictionary[Session, FilmJobs]] = WeakKeyDictionary()
    _all_lock = threading.Lock()

    def __init__(self) -> None:
        self.job: PathVideo | None = None
        self.result: FilmResult | None = None
        self.owner: object | None = None
        self._scratch, self._stored = ExitStack(), False
        self._callbacks: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    @staticmethod
    def of(session: Session) -> FilmJobs:
        """Those of a session."""
        with FilmJobs._all_lock:
            return FilmJobs._all.setdefault(session, FilmJobs())

    @staticmethod
    def end(session: Session, wait: float) -> None:
        """Cancels what is being rendered for a session that ends; returns after at most ``wait`` seconds."""
        with FilmJobs._all_lock:
            jobs = FilmJobs._all.get(session)
        if jobs is not None:
            jobs.cancel(wait)

    def begin(self, session: Session, path: CameraPath, settings: DisplaySettings, owner: object) -> None:
        """Begins a film, in the folder of the run where there is one; nothing happens while another one is made.

        Args:
            session, path, settings: see `PathVideo`.
            owner: the page that begins it.
        """
        with self._lock:
            if self.job is not None:
                return
            self._scratch.close()  # of a film that nobody took
            run = session.folder
            folder = run or self._scratch.enter_context(scratch_folder())
            self.job = PathVideo(session, path, settings, folder / "path.mp4", self._advance)
            self.result, self.owner = None, owner
            self._stored = run is not None
            job = self.job
        job.start()
        self._notify()

    def cancel(self, wait: float = 0.0) -> None:
        """Ends the film that is being rendered, without a file; returns after at most ``wait`` seconds."""
        if (job := self.job) is not None:
            job.cancel(wait)

    def leave(self, owner: object) -> None:
        """A page is closed: a film that it began goes on, and another page may take it."""
        with self._lock:
            if self.owner is not owner:
                return
            self.owner = None
            if self.result is not None and self.result.state == "cancelled":
                self.result = None
        self._notify()

    def dismiss(self) -> None:
        """A page has closed the offer: a film that is stored, or has failed, is offered no more."""
        with self._lock:
            if self.result is not None and (self.result.stored or self.result.state != "done"):
                self.result = None
        self._notify()

    def take(self) -> tuple[FilmResult, bytes] | None:
        """The result and the content of the file, once; None where another page took it, or there is none.

        The content is empty unless the film is done, and where its file was deleted meanwhile.
        """
        with self._lock:
            result, self.result = self.result, None
            if result is None:
                return None
            content = b""
            if result.state == "done":
                try:
                    content = result.file.read_bytes()
                except OSError as error:
                    log.warning("%s: the film cannot be read (%s).", result.file, error)
            self._scratch.close()
        self._notify()
        return result, content

    def _advance(self, job: PathVideo) -> None:
        if job.state != "rendering":
            with self._lock:
                self.result = FilmResult(job.state, job.message, job.file, job.frames, self._stored)
                self.job = None  # also as it holds the session
                if job.state == "cancelled" and self.owner is None:
                    self.result = None
                if job.state != "done":
                    self._scratch.close()
        self._notify()

    def on_change(self, callback: Callable[[], None]) -> None:
        """Calls ``callback`` after each frame, at the end, and when a result was taken, until `forget`."""
        with self._lock:
            self._callbacks = [*self._callbacks, callback]

    def forget(self, callback: Callable[[], None]) -> None:
        """The reverse of `on_change`."""
        with self._lock:
            self._callbacks = [each for each in self._callbacks if each != callback]

    def _notify(self) -> None:
        for callback in self._callbacks:
            try:
                callback()
            except Exception:  # a page that is being closed must not affect the film
                log.debug("a page could not show a film", exc_info=True)
