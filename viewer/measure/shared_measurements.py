"""The measurements of a session: those that all pages of a scene share, with undo, saved after each change."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import ClassVar
from weakref import WeakKeyDictionary

import numpy as np

from luxel.scenes.files.scene_format import SceneFacts
from luxel.scenes.measuring.measurements import Measurements, Point
from luxel.scenes.measuring.measurements_file import MeasurementsFile
from luxel.viewer.scene_loading.scene_facts import as_up
from luxel.viewer.shared_value import SharedValue
from luxel.viewer.web.session import Session, StaticSession, TrainingSession

MeasurableSession = StaticSession | TrainingSession


class SharedMeasurements(SharedValue[Measurements]):
    """Changes the measurements of a scene and saves them; see `SharedValue`.

    They belong to the run, or to the scene file, and are saved with it; a scene that is being trained has them too.

    Args:
        session: of the scene, as it was opened.
    """

    _all: ClassVar[WeakKeyDictionary[Session, SharedMeasurements]] = WeakKeyDictionary()
    _all_lock = threading.Lock()

    def __init__(self, session: MeasurableSession) -> None:
        self.shift: Point = session.about.shift or (0.0, 0.0, 0.0)
        self._stated_metres = session.about.metres
        if session.measured_in is not None:
            file: MeasurementsFile | None = MeasurementsFile.of_run(session.measured_in)
        else:
            with session.borrow() as scene:
                file = MeasurementsFile.of_scene(scene)
        no_file = "The measurements are not saved: there is no folder for them."
        super().__init__(file, Measurements(), no_file)

    @staticmethod
    def of(session: Session) -> SharedMeasurements:
        """Those of a session that `is_measurable`, read when they are first asked for."""
        assert isinstance(session, MeasurableSession)
        with SharedMeasurements._all_lock:
            if session not in SharedMeasurements._all:
                SharedMeasurements._all[session] = SharedMeasurements(session)
            return SharedMeasurements._all[session]

    @staticmethod
    def of_both(session: MeasurableSession, other: MeasurableSession) -> None:
        """Gives another session of the same scene the measurements of a session."""
        own = SharedMeasurements.of(session)
        with SharedMeasurements._all_lock:
            SharedMeasurements._all[other] = own

    @property
    def metres(self) -> float | None:
        """Length of a unit: measured, else what the scene's file states; None: it is not known."""
        return self._present.metres or self._stated_metres

    def to_capture(self, point: np.ndarray) -> np.ndarray:
        """A point of the scene in the coordinates of the capture, float64 [3]."""
        return np.asarray(point, np.float64) + np.array(self.shift)

    def to_scene(self, point: Sequence[float]) -> np.ndarray:
        """A point of the capture in the coordinates of the scene, float64 [3]."""
        return np.asarray(point, np.float64) - np.array(self.shift)


def is_measurable(session: Session) -> bool:
    """Whether a session has measurements: one scene, in space."""
    return isinstance(session, MeasurableSession) and not session.about.flat


def known_facts(session: Session, measured: SharedMeasurements | None) -> SceneFacts:
    """What is known of the scene of a session as files hold it, with the present measurements if it has such."""
    about = session.about
    antialiased = (session.antialiased or None) if about.antialiased is None else about.antialiased
    facts = SceneFacts(antialiased, as_up(session.up), about.metres, about.shift)
    return facts if measured is None else measured.present.over(facts)


def measurements_of(session: Session) -> SharedMeasurements | None:
    """The measurements of a session; None: it has none, see `is_measurable`."""
    return SharedMeasurements.of(session) if is_measurable(session) else None


def measured_up(session: Session) -> np.ndarray | None:
    """The up direction that was measured in the scene of a session, [3]; None: there is none."""
    up = SharedMeasurements.of(session).present.up if is_measurable(session) else None
    return None if up is None else np.array(up)
