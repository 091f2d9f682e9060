"""What the viewer shows: a scene at rest, or one that is being trained."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import numpy as np

from luxel.render.camera import View
from luxel.render.errors import LuxelError
from luxel.viewer.web.drawable import Drawable
from luxel.viewer.web.playback import time_range

STATUS_LIFETIME = 0.2  # seconds for which one answer of the trainer serves everybody
LOCK_PATIENCE = 20.0  # seconds a render waits for a training step to end


class Session(Protocol):
    """What a page needs to know of the scene behind it; every method may be called from any thread.

    Attributes:
        name: shown as the title of the page.
        kind: what the scene is made of, which it keeps.
        views: posed photographs, for jumps and frustums; may be empty.
        times: first and last time of a scene that moves, in the unit of the views' times; None: nothing moves.
        up: world direction that points up, [3], or None to take it from the views.
        front: direction from the scene's middle to where a page without views begins, [3], or None for any side.
        background: colour in [0, 1] that a page starts with.
        antialiased: whether a page starts with Mip-Splatting's opacity compensation.
        share_of_time: most of the wall time that renders may keep training waiting, in (0, 1].
    """

    name: str
    kind: type[Drawable]
    views: Sequence[View]
    times: tuple[float, float] | None
    up: np.ndarray | None
    front: np.ndarray | None
    background: tuple[float, float, float]
    antialiased: bool
    share_of_time: float

    @property
    def trains(self) -> bool:
        """Whether there is a training to watch, pause and continue."""
        ...

    @property
    def paused(self) -> bool:
        """Whether training waits."""
        ...

    @property
    def version(self) -> int:
        """Changes whenever the scene did."""
        ...

    def borrow(self) -> AbstractContextManager[Any]:
        """The scene, unchanging until the context ends; waits for its turn."""
        ...

    def status(self) -> dict[str, Any]:
        """Numbers for the page, by the names that Trainer.status uses; at least ``count``."""
        ...

    def pause(self) -> None:
        """Lets training wait after the present step."""
        ...

    def resume(self) -> None:
        """Continues training."""
        ...


class StaticSession:
    """A finished scene.

    Args:
        scene: what is drawn, on the device that draws it.
        views: posed photographs of it, if there are any.
        name: title of the page.
        times: see Session; by default those of the views where they differ, else of the scene itself.
        up, front, background, antialiased: see Session.
    """

    trains = False
    paused = False

    def __init__(
        self,
        scene: Drawable,
        views: Sequence[View] = (),
        name: str = "scene",
        *,
        times: tuple[float, float] | None = None,
        up: np.ndarray | None = None,
        front: np.ndarray | None = None,
        background: tuple[float, float, float] = (0.0, 0.0, 0.0),
        antialiased: bool = False,
    ) -> None:
        self.name, self.up, self.front, self.background = name, up, front, background
        self.views: Sequence[View] = list(views)
        self.antialiased = antialiased
        self.share_of_time = 1.0
        self.version = 0
        self.kind: type[Drawable] = type(scene)
        self.times = (times or time_range(scene, self.views)) if scene.moves else None
        self._scene = scene.detach()
        self._turn = threading.Lock()

    @contextmanager
    def borrow(self) -> Iterator[Any]:
        """The scene; pages take turns, so that two of them never share a workspace."""
        with self._turn:
            yield self._scene

    def show(self, scene: Drawable) -> None:
        """Replaces the scene; every page redraws.

        Raises:
            ValueError: it is of another primitive, whose controls the pages do not have.
        """
        if type(scene) is not self.kind:
            raise ValueError(f"this session shows {self.kind.noun}, not {scene.noun}")
        with self._turn:
            self._scene = scene.detach()
            self.version += 1

    def status(self) -> dict[str, Any]:
        """How much the scene is made of."""
        return self._scene.numbers()

    def pause(self) -> None:
        """Nothing to pause."""

    def resume(self) -> None:
        """Nothing to continue."""


class TrainingSession:
    """A scene while it is trained.

    Renders hold ``trainer.lock``. After each the next waits until renders have held it for no more than
    ``share_of_time`` of the time since; while training is paused or done nothing is held back.

    Args:
        trainer: a luxel.render.runs.loop.TrainingLoop: lock, scene, status(), pause(), resume_training(), paused.
            Its lock must be fair (render/runs/fair_lock.py): training would keep an ordinary one to itself.
        views: photographs shown as frustums and offered for jumps.
        name, up, front, background: see Session; ``antialiased`` is what the trainer's configuration says.
        times: see Session; by default those of the views where they differ, else of the scene as it is now.
    """

    trains = True

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
    ) -> None:
        self.trainer = trainer
        self.name, self.up, self.front, self.background = name, up, front, background
        self.views: Sequence[View] = list(views)
        self.antialiased = bool(getattr(getattr(trainer, "config", None), "antialiased", False))
        self.share_of_time = 0.3
        self.kind: type[Drawable] = type(trainer.scene)
        self.times = times if self.kind.moves else None
        if self.kind.moves and times is None:
            with trainer.lock:
                self.times = time_range(trainer.scene, self.views)
        self._turn = threading.Lock()
        self._not_before = 0.0
        self._status: dict[str, Any] = {}
        self._status_until = 0.0
        self._status_lock = threading.Lock()

    @property
    def paused(self) -> bool:
        """Whether training waits."""
        return bool(self.trainer.paused)

    @property
    def version(self) -> int:
        """The training step."""
        return int(self.status().get("step", 0))

    @contextmanager
    def borrow(self) -> Iterator[Any]:
        """The scene of the present step; training waits until the context ends.

        Raises:
            LuxelError: the trainer did not finish a step in time.
        """
        with self._turn:
            self._wait_for_budget()
            if not self.trainer.lock.acquire(timeout=LOCK_PATIENCE):
                raise LuxelError(
                    f"training has held the scene for {LOCK_PATIENCE:.0f} s.", "The page tries again."
                )
            start = time.monotonic()
            try:
                yield self.trainer.scene.detach()
            finally:
                self.trainer.lock.release()
                now = time.monotonic()
                # A fraction s of the time means that a render of t is followed by t (1/s - 1) without one.
                self._not_before = now + (now - start) * (1 / max(self.share_of_time, 1e-3) - 1)

    def _wait_for_budget(self) -> None:
        while (left := self._not_before - time.monotonic()) > 0 and not self._idle():
            time.sleep(min(left, 0.05))  # in short naps, as pausing or a larger share may end the wait

    def _idle(self) -> bool:
        return self.share_of_time >= 1 or self.paused or bool(self.status().get("done", False))

    def status(self) -> dict[str, Any]:
        """Trainer.status(), asked at most five times a second."""
        with self._status_lock:
            if time.monotonic() >= self._status_until:
                self._status = dict(self.trainer.status())
                self._status_until = time.monotonic() + STATUS_LIFETIME
            return self._status

    def pause(self) -> None:
        """Lets training wait after the present step."""
        self.trainer.pause()

    def resume(self) -> None:
        """Continues training."""
        self.trainer.resume_training()
