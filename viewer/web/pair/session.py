"""The session of a page that shows two scenes."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from luxel.render.geometry.camera import View
from luxel.viewer.measure.shared_measurements import measured_up
from luxel.viewer.web.navigate import SceneExtent, find_extent
from luxel.viewer.web.pair.checks import Bounds, bounds_of, find_problems
from luxel.viewer.web.run_end import RunEnd
from luxel.viewer.web.session import Session, StaticSession


@dataclass(frozen=True)
class Side:
    """One of the two scenes.

    Args:
        name: shown on the image.
        session: the scene.
        extent: centre, size and up direction; of a scene that trains as they were at first.
        bounds: of its primitives; None: there are none.
    """

    name: str
    session: Session
    extent: SceneExtent
    bounds: Bounds | None

    @staticmethod
    def of(name: str, session: Session) -> Side:
        """A side whose extent and bounds are those of its scene now."""
        up = session.up if (measured := measured_up(session)) is None else measured
        with session.borrow() as scene:
            extent = find_extent(session.views, scene.centres, up, session.front)
            return Side(name, session, extent, bounds_of(scene.centres()))

    @property
    def up(self) -> np.ndarray | None:
        """Up direction, [3]; None where nothing says which it is."""
        known = (
            self.session.up is not None
            or len(self.session.views) > 0
            or measured_up(self.session) is not None
        )
        return self.extent.up if known else None


class PairSession:
    """Two scenes as one session: the pages' controls are those of the main scene, which `borrow` gives.

    Args:
        left, right: the scenes, both on one device.
        main: 0 or 1, the side with the controls; the one that trains, if one does.

    Attributes:
        sides: left and right.
        problems: why the two may not fit together, sentences.
    """

    def __init__(self, left: Side, right: Side, main: int = 0) -> None:
        self.sides, self.main = (left, right), main
        self._own, self._other = self.sides[main].session, self.sides[1 - main].session
        own, other = self._own, self._other
        self.name = f"{left.name} | {right.name}"
        self.seconds_per_pixel = 0.0
        self.about, self.primitives = own.about, own.primitives
        source = own if own.views else other
        self.views: Sequence[View] = source.views
        self.training_views: Sequence[View] = source.training_views
        spans = [session.times for session in (own, other) if session.times is not None]
        ends = [end for span in spans for end in span]
        self.times: tuple[float, float] | None = (min(ends), max(ends)) if ends else None
        self.up = other.up if own.up is None else own.up
        self.front = other.front if own.front is None else own.front
        self.background, self.antialiased, self.folder = own.background, own.antialiased, own.folder
        self.source, self.source_options, self.capture = own.source, own.source_options, own.capture
        self.free_background = own.free_background and other.free_background
        self.share_of_time = own.share_of_time
        self.problems = find_problems((left.name, left.bounds, left.up), (right.name, right.bounds, right.up))

    @property
    def trains(self) -> bool:
        """Whether the main scene is being trained."""
        return self._own.trains

    @property
    def has_training(self) -> bool:
        """Whether the main scene is trained by this program, or was."""
        return self._own.has_training

    @property
    def run_end(self) -> RunEnd | None:
        """How its training ended; None: it has not, or there was none."""
        return self._own.run_end

    @property
    def editable(self) -> StaticSession | None:
        """Two scenes are not edited."""
        return None

    @property
    def paused(self) -> bool:
        """Whether its training is paused."""
        return self._own.paused

    @property
    def version(self) -> int:
        """A number that changes whenever one of the scenes does."""
        return self._own.version + self._other.version

    @contextmanager
    def borrow(self, page: Hashable = None) -> Iterator[Any]:
        """The main scene; the other one is borrowed after it, never before."""
        self._own.share_of_time = self.share_of_time
        with self._own.borrow(page) as scene:
            yield scene

    def status(self) -> dict[str, Any]:
        """Numbers of the main scene, which they name."""
        status = dict(self._own.status())
        status.setdefault("noun", f"{self.about.noun}, {self.sides[self.main].name}")
        return status

    def pause(self) -> None:
        """Pauses the training of the main scene."""
        self._own.pause()

    def resume(self) -> None:
        """Continues it."""
        self._own.resume()

    def __getattr__(self, name: str) -> Any:
        """What else the main session has, such as its trainer."""
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name}")
        return getattr(self._own, name)


def sides_of(session: Session) -> list[tuple[str, Session]]:
    """Names and sessions of the scenes that a page shows; the name of a single one is empty."""
    if isinstance(session, PairSession):
        return [(side.name, side.session) for side in session.sides]
    return [("", session)]


def distinct_names(left: Path, right: Path) -> tuple[str, str]:
    """Short names of two scenes: with as many folders in front as tell them apart, without suffix where that does."""
    parts, stems = zip(*[(path.resolve().parts, path.resolve().stem) for path in (left, right)], strict=True)
    if stems[0] != stems[1] and all(path.is_file() for path in (left, right)):
        return stems[0], stems[1]
    for depth in range(1, max(map(len, parts)) + 1):
        first, second = ("/".join(each[-depth:]) for each in parts)
        if first != second:
            return first, second
    return f"{left.name}, left", f"{right.name}, right"
