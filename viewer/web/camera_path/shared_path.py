"""The camera path of a session: one that all pages of a scene share, with undo, saved after each change."""

from __future__ import annotations

import threading
from typing import ClassVar
from weakref import WeakKeyDictionary

from luxel.viewer.shared_value import SharedValue
from luxel.viewer.web.camera_path.keyframes import KeyframePath
from luxel.viewer.web.camera_path.path_file import PathFile
from luxel.viewer.web.pair.session import PairSession
from luxel.viewer.web.session import Session, StaticSession, TrainingSession


class SharedPath(SharedValue[KeyframePath]):
    """Changes the camera path of a scene and saves it; see `SharedValue`.

    It belongs to the run, or to the scene file. That of two scenes under one camera lasts as long as the viewer.

    Args:
        session: of the scene, as it was opened.
    """

    _all: ClassVar[WeakKeyDictionary[Session, SharedPath]] = WeakKeyDictionary()
    _all_lock = threading.Lock()

    def __init__(self, session: Session) -> None:
        no_file = (
            "" if isinstance(session, PairSession) else "The keyframes are not saved: there is no folder."
        )
        super().__init__(_file_of(session), KeyframePath(), no_file)

    @staticmethod
    def of(session: Session) -> SharedPath:
        """That of a session, read when it is first asked for."""
        with SharedPath._all_lock:
            if session not in SharedPath._all:
                SharedPath._all[session] = SharedPath(session)
            return SharedPath._all[session]


def _file_of(session: Session) -> PathFile | None:
    if not isinstance(session, StaticSession | TrainingSession):
        return None
    shift = session.about.shift or (0.0, 0.0, 0.0)
    if session.measured_in is not None:
        return PathFile.of_run(session.measured_in, shift)
    with session.borrow() as scene:
        return PathFile.of_scene(scene, shift)
