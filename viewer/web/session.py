"""What the viewer shows: a finished scene, or one that is being trained."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import View
from luxel.render.primitives import Parameters
from luxel.render.raster.primitive_scene import primitive_scene
from luxel.render.scene import About, Scene
from luxel.viewer.scene_loading.runs import scene_times
from luxel.viewer.web.access.fair_queue import FairTurns
from luxel.viewer.web.run_end import RunEnd

STATUS_LIFETIME = 0.2  # seconds for which one status of the trainer is shown to all pages
LOCK_PATIENCE = 20.0  # most seconds that a render waits for a training step to end
HOLD = 1 << 44  # more versions than any scene has


def class_of_primitives(scene: Scene) -> type[Parameters] | None:
    """The class of the primitives of a scene; None: it has none."""
    primitives = scene.part(Parameters)
    return None if primitives is None else type(primitives)


@dataclass(frozen=True)
class Unmarked:
    """The part of a scene on which a tool shows something, such as a selection: the scene without that."""

    scene: Scene


@dataclass(frozen=True)
class ForeignMarks:
    """The part of a scene that one page has marked: the scene with the marks as the other pages show them."""

    scene: Scene


class Session(Protocol):
    """The scene behind the pages; every method may be called from any thread.

    Attributes:
        name: shown as the title of the page.
        about: what the scene is; stays the same.
        primitives: class of its primitives; None: it has none.
        views: posed images, for jumps and frustums; may be empty.
        training_views: those of them that the scene was trained on.
        times: first and last time of a dynamic scene, in the unit of the views' times; None: a static scene.
        up: world direction that points up, [3], or None to take it from the views.
        front: direction from the scene's centre to where a page without views begins, [3], or None for any side.
        background: colour in [0, 1] that a page starts with.
        free_background: whether nothing but a convention speaks for this colour: a page may show another one.
        antialiased: whether a page starts with Mip-Splatting's opacity compensation.
        share_of_time: largest fraction of wall time that rendering may take from training, in (0, 1].
        folder: of the run, where tools may save files; None: there is no run folder.
        source: run folder or file that it was opened from; None: it is not known.
        source_options: with which commands open it alike.
        capture: whose cameras it has instead of those that the run names; None: those of the run.
        seconds_per_pixel: what the last image of any page cost; 0: there was none. A page's first image is sized by it.
    """

    name: str
    about: About
    primitives: type[Parameters] | None
    views: Sequence[View]
    training_views: Sequence[View]
    times: tuple[float, float] | None
    up: np.ndarray | None
    front: np.ndarray | None
    background: tuple[float, float, float]
    free_background: bool
    antialiased: bool
    share_of_time: float
    folder: Path | None
    source: Path | None
    source_options: tuple[str, ...]
    capture: Path | None
    seconds_per_pixel: float

    @property
    def has_training(self) -> bool:
        """Whether the scene is trained by this program, or was."""
        ...

    @property
    def run_end(self) -> RunEnd | None:
        """How its training ended; None: it has not, or there was none."""
        ...

    @property
    def trains(self) -> bool:
        """Whether the scene is being trained."""
        ...

    @property
    def paused(self) -> bool:
        """Whether training is paused."""
        ...

    @property
    def editable(self) -> StaticSession | None:
        """The scene of primitives that pages may edit; None while there is none."""
        ...

    @property
    def version(self) -> int:
        """A number that changes whenever the scene does."""
        ...

    def borrow(self, page: Hashable = None) -> AbstractContextManager[Scene]:
        """The scene, which does not change until the context ends; waits while it is in use elsewhere.

        Args:
            page: any object, the same for all turns of a page; pages that wait get equal time. None: the calling
                thread counts as a page.
        """
        ...

    def status(self) -> dict[str, Any]:
        """Numbers for the page, by the names of Trainer.status; at least ``count``."""
        ...

    def pause(self) -> None:
        """Pauses training after the present step."""
        ...

    def resume(self) -> None:
        """Continues training."""
        ...


class StaticSession:
    """A finished scene.

    Args:
        scene: on the device that draws it.
        views: posed images of it, if there are any.
        trained_on: how many of the views, from the first on, the scene was trained on; None: all.
        name: title of the page.
        times: see Session; by default those of the views where they differ, else of the scene itself.
        up, front, background, free_background, antialiased, folder, source, source_options, capture: see Session.
        measured_in: folder of the run whose measurements (`luxel.scenes.measuring`) it has; None: ``folder``.

    Attributes:
        objects_folder: of the run that keeps its objects; None: they live as long as the session.
    """

    trains = False
    has_training = False
    paused = False
    seconds_per_pixel = 0.0
    run_end: RunEnd | None = None

    def __init__(
        self,
        scene: Scene,
        views: Sequence[View] = (),
        name: str = "scene",
        *,
        times: tuple[float, float] | None = None,
        up: np.ndarray | None = None,
        front: np.ndarray | None = None,
        background: tuple[float, float, float] = (0.0, 0.0, 0.0),
        free_background: bool = False,
        antialiased: bool = False,
        folder: Path | None = None,
        trained_on: int | None = None,
        measured_in: Path | None = None,
        source: Path | None = None,
        source_options: tuple[str, ...] = (),
        capture: Path | None = None,
    ) -> None:
        self.name, self.up, self.front, self.background = name, up, front, background
        self.views: Sequence[View] = list(views)
        self.training_views: Sequence[View] = self.views[:trained_on]
        self.antialiased, self.folder, self.free_background = antialiased, folder, free_background
        self.measured_in, self.objects_folder = measured_in or folder, folder
        self.source, self.source_options, self.capture = source or folder, source_options, capture
        self.share_of_time = 1.0
        self.version = 0
        self.about, self.primitives = scene.about, class_of_primitives(scene)
        self.times = (times or scene_times(scene, self.views)) if scene.about.moves else None
        self._scene = scene
        self._numbers: dict[str, int] | None = None
        self._turns = FairTurns()

    @property
    def editable(self) -> StaticSession | None:
        """Itself, where it has primitives."""
        return None if self.primitives is None else self

    @contextmanager
    def borrow(self, page: Hashable = None) -> Iterator[Scene]:
        """The scene; only one page has it at a time, as workspaces are not shared."""
        self._turns.acquire(threading.get_ident() if page is None else page)
        start = time.monotonic()
        try:
            yield self._scene
        finally:
            self._turns.release(time.monotonic() - start)

    def show(self, scene: Scene, numbers: dict[str, int] | None = None) -> None:
        """Replaces the scene; every page redraws.

        Args:
            scene: on the device that draws it.
            numbers: for `status`; None: the scene's own.

        Raises:
            ValueError: it is of another type, whose controls the pages do not have.
        """
        if scene.about.noun != self.about.noun:
            raise ValueError(f"scene must be {self.about.noun} as this session shows, got {scene.about.noun}")
        with self.borrow():
            self._scene, self._numbers = scene, numbers
            self.version += 1

    def status(self) -> dict[str, Any]:
        """How many primitives or parameters the scene has."""
        return self._scene.numbers() if self._numbers is None else self._numbers

    def pause(self) -> None:
        """Nothing to pause."""

    def resume(self) -> None:
        """Nothing to continue."""


class TrainingSession:
    """A scene while it is trained, and afterwards.

    A scene that is edited, of a paused or ended training, is shown instead of that of the trainer: see `hold`.

    Renders hold ``trainer.lock``. After a render of t seconds the next one waits t (1/share_of_time - 1) seconds, so
    that rendering takes at most this fraction of the time; while training is paused or done, renders do not wait.

    Args:
        trainer: a luxel.render.runs.loop.TrainingLoop: lock, scene, status(), pause(), resume_training(), paused.
            Its lock must be fair (render/runs/fair_lock.py): training would hold an ordinary lock nearly always.
        views: posed images, for jumps and frustums.
        trained_on: how many of them, from the first on, are trained on; None: all.
        name, up, front, background, free_background, folder: see Session; ``antialiased`` comes from the trainer's
            configuration.
        notices: sentences about the capture, shown on the page; may grow while it trains.
        times: see Session; by default those of the views where they differ, else of the scene as it is now.
        make: makes a scene of what is trained, and of what was known of it at first: (trained, about=...) -> Scene.

    Attributes:
        trainer: of the present training; a run that is trained longer has another one.
        is_starting: whether a trainer that continues the run is being made.
        extend: trains a number of steps longer after the end; None: that is not possible.
    """

    has_training = True
    seconds_per_pixel = 0.0

    def __init__(
        self,
        trainer: Any,
        views: Sequence[View] = (),
        name: str = "training",
        *,
        times: tuple[float, float] | None = None,
        up: np.ndarray | None = None,
        front: np.ndarray | None = None,
        background: tuple[float, float, float] = (0.0, 0.0, 0.0),
        free_background: bool = False,
        folder: Path | None = None,
        trained_on: int | None = None,
        notices: Sequence[str] = (),
        make: Callable[..., Scene] = primitive_scene,
    ) -> None:
        self.notices = notices
        self.trainer, self.folder, self.measured_in = trainer, folder, folder
        self.source: Path | None = folder
        self.source_options: tuple[str, ...] = ()
        self.capture: Path | None = None
        self.name, self.up, self.front, self.background = name, up, front, background
        self.views: Sequence[View] = list(views)
        self.training_views: Sequence[View] = self.views[:trained_on]
        self.antialiased = bool(getattr(getattr(trainer, "config", None), "antialiased", False))
        self.share_of_time, self.free_background = 0.3, free_background
        self._make = make
        with trainer.lock if getattr(trainer.scene, "moves", False) else nullcontext():  # for the times
            scene = make(trainer.scene.detach())
            self.about, self.primitives = scene.about, class_of_primitives(scene)
            self.times = (times or scene_times(scene, self.views)) if scene.about.moves else None
        self.run_end: RunEnd | None = None
        self.extend: Callable[[int], object] | None = None
        self.is_starting = False
        self._held: StaticSession | None = None
        self._holds = 0  # how often another scene was shown
        self._callbacks: list[Callable[[], object]] = []
        self._turns = FairTurns()
        self._not_before = 0.0
        self._status: dict[str, Any] = {}
        self._status_until = 0.0
        self._status_lock = threading.Lock()

    @property
    def trains(self) -> bool:
        """Whether the training has not ended."""
        return self.run_end is None

    @property
    def paused(self) -> bool:
        """Whether training is paused."""
        return self.trains and bool(self.trainer.paused)

    @property
    def editable(self) -> StaticSession | None:
        """The scene that is shown instead of the trainer's; None: there is none."""
        return self._held

    @property
    def version(self) -> int:
        """The training step, or the version of what is shown instead."""
        held = self._held
        inner = int(self.status().get("step", 0)) if held is None else held.version
        return inner + self._holds * HOLD

    def hold(self, held: StaticSession | None) -> None:
        """Shows another scene on all pages; None: that of the trainer again."""
        turn = object()
        self._turns.acquire(turn)  # an image that is being made is of the version before
        try:
            self._held, self._holds = held, self._holds + 1
        finally:
            self._turns.release(0.0)
        self._changed()

    def end(self, end: RunEnd) -> None:
        """Says how the training has ended."""
        self.run_end, self.is_starting = end, False
        self._changed()

    def train_again(self, trainer: Any | None) -> None:
        """Follows a trainer that continues the run; None: it is being made, and nothing is edited any more."""
        with self._status_lock:
            self.trainer, self.run_end, self._status_until = trainer or self.trainer, None, 0.0
        self.is_starting = trainer is None
        self._changed()

    def on_change(self, callback: Callable[[], object]) -> None:
        """Calls ``callback`` when the training ends or begins again, and when another scene is shown."""
        self._callbacks.append(callback)

    def _changed(self) -> None:
        for callback in self._callbacks:
            callback()

    @contextmanager
    def borrow(self, page: Hashable = None) -> Iterator[Scene]:
        """The scene of the present step, or what is shown instead; training waits until the context ends.

        Raises:
            LuxelError: the trainer did not finish a step in time.
        """
        used = 0.0
        self._turns.acquire(threading.get_ident() if page is None else page)
        try:
            if (held := self._held) is None:
                self._wait_for_budget()
            start = time.monotonic()
            try:
                with self.trained() if held is None else held.borrow(page) as scene:
                    start = time.monotonic()
                    yield scene
            finally:
                now = time.monotonic()
                used = now - start
                self._not_before = now + used * (1 / max(self.share_of_time, 1e-3) - 1)
        finally:
            self._turns.release(used)

    @contextmanager
    def trained(self) -> Iterator[Scene]:
        """The trainer's scene of the present step, whatever is shown; training waits until the context ends.

        Raises:
            LuxelError: the trainer did not finish a step in time.
        """
        if not self.trainer.lock.acquire(timeout=LOCK_PATIENCE):
            raise LuxelError(
                f"training has locked the scene for {LOCK_PATIENCE:.0f} s.", "The page tries again."
            )
        try:
            yield self._make(self.trainer.scene.detach(), about=self.about)
        finally:
            self.trainer.lock.release()

    def _wait_for_budget(self) -> None:
        while (left := self._not_before - time.monotonic()) > 0 and not self._idle():
            time.sleep(min(left, 0.05))  # short, as pausing or a larger share may end the wait

    def _idle(self) -> bool:
        return self.share_of_time >= 1 or self.paused or bool(self.status().get("done", False))

    def status(self) -> dict[str, Any]:
        """Trainer.status(), called at most five times a second, with the ``notices`` about the capture, and the numbers
        of what is shown instead of the trainer's scene."""
        with self._status_lock:
            if time.monotonic() >= self._status_until:
                self._status = {**self.trainer.status(), "notices": [str(notice) for notice in self.notices]}
                self._status_until = time.monotonic() + STATUS_LIFETIME
            status = self._status
        return status if (held := self._held) is None else {**status, **held.status()}

    def pause(self) -> None:
        """Pauses training after the present step."""
        self.trainer.pause()

    def resume(self) -> None:
        """Continues training."""
        self.trainer.resume_training()
