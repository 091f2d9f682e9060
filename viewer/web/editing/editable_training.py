"""The scene of a training as pages edit it: a copy while it is paused, and the result of the run when it has ended."""

from __future__ import annotations

import logging
import math
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import ClassVar
from weakref import ReferenceType, WeakKeyDictionary, ref

import torch

from luxel.render.errors import LuxelError
from luxel.render.primitives import Parameters
from luxel.render.raster.primitive_scene import Remake
from luxel.render.replay import release_memory
from luxel.render.runs.memory import is_out_of_memory
from luxel.render.scene import Scene
from luxel.scenes.loading.run_results import load_run_scene
from luxel.viewer.edit import Document
from luxel.viewer.measure.shared_measurements import SharedMeasurements, is_measurable
from luxel.viewer.scene_loading.runs import unused_path
from luxel.viewer.web.editing.editor import SceneEditor
from luxel.viewer.web.session import StaticSession, TrainingSession

log = logging.getLogger("luxel.viewer")

PATIENCE = 60.0  # seconds that the present step may take after a pause
TRY_EVERY = 5.0  # seconds between attempts to save edits, where that failed
MOMENT = 5.0  # seconds for which pages that fit their panels say that edits were saved
WAIT = "Pause or wait for the end to edit"
COPY = "You edit a copy of step {step:,}. When the training goes on, it is saved as a file if you changed it."


class EditableTraining:
    """Makes the scene of a training editable; its methods may be called from any thread.

    Edits never reach the trainer, which never changes what is edited: where a training goes on, the edited scene is
    first written as a new file into the run folder.

    Args:
        session: of the training; its scene must be of primitives.

    Attributes:
        message: what happened to the edits last, for the pages; empty: nothing did.
    """

    _all: ClassVar[WeakKeyDictionary[TrainingSession, EditableTraining]] = WeakKeyDictionary()
    _all_lock = threading.Lock()

    def __init__(self, session: TrainingSession) -> None:
        self._of: ReferenceType[TrainingSession] = ref(session)  # must not keep it
        self.message = ""
        self._step = 0  # of the scene that is edited
        self._tried_at, self._saved_at = 0.0, -math.inf
        self._lock = threading.RLock()

    @property
    def _session(self) -> TrainingSession:
        session = self._of()
        assert session is not None, "its pages are gone"
        return session

    @staticmethod
    def of(session: TrainingSession) -> EditableTraining:
        """That of a session, made when it is first asked for."""
        with EditableTraining._all_lock:
            if session not in EditableTraining._all:
                EditableTraining._all[session] = EditableTraining(session)
            return EditableTraining._all[session]

    @property
    def has_just_saved(self) -> bool:
        """Whether edits were saved a moment ago."""
        return time.monotonic() - self._saved_at < MOMENT

    def open(self) -> None:
        """Makes the scene editable, if it is not.

        Raises:
            LuxelError: it is being trained, or there is no memory for a copy.
        """
        with self._lock:
            session = self._session
            if session.editable is not None:
                return
            if session.trains and not session.paused and not session.is_starting:
                raise LuxelError("The scene is being trained.", f"{WAIT}.")
            if session.is_starting or (session.trains and session.trainer.status().get("reason")):
                raise LuxelError("The result of the training is not there yet.", "Try again in a moment.")
            if session.trains:
                self._wait_for_the_step()
            try:
                scene = self._copy() if session.trains else self._result()
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                scene = None
            if scene is None:  # after the handler, which keeps the frames of what failed alive
                release_memory()
                raise LuxelError("There is no memory for a copy of the scene.", "Wait for the end to edit.")
            self.message = COPY.format(step=self._step) if session.trains else ""
            session.hold(self._held(scene))

    def _wait_for_the_step(self) -> None:
        """Returns when the trainer has noticed the pause."""
        between_steps = getattr(self._session.trainer, "between_steps", None)
        if between_steps is not None:
            try:
                between_steps(lambda: None).result(PATIENCE)
            except TimeoutError as error:
                raise LuxelError("The present step has not ended yet.", "Try again in a moment.") from error

    def _copy(self) -> Scene:
        with self._session.trained() as scene, torch.no_grad():
            self._step = int(self._session.trainer.status().get("step", 0))
            copied = scene.parts[Parameters].detach().map(torch.clone)
            return replace(scene.parts[Remake].scene(copied), about=scene.about)

    def _result(self) -> Scene:
        """The scene as `luxel view` opens it, so that both have the same edits; where it was not saved, a copy."""
        folder = self._session.folder
        if folder is None:
            return self._copy()
        try:
            saved = load_run_scene(folder)
        except LuxelError as error:
            log.warning("The saved scene cannot be opened for editing: %s", error)
            return self._copy()
        with self._session.trained() as scene:
            self._step = int(self._session.trainer.status().get("step", 0))
            remade = scene.parts[Remake].scene(saved.to(scene.device))
            return replace(remade, about=scene.about)

    def _held(self, scene: Scene) -> StaticSession:
        session = self._session
        held = StaticSession(
            scene,
            session.views,
            session.name,
            times=session.times,
            up=session.up,
            front=session.front,
            background=session.background,
            free_background=session.free_background,
            antialiased=session.antialiased,
            folder=session.folder,
            trained_on=len(session.training_views),
        )
        if session.trains:  # objects of a scene that will be gone are not those of the run
            held.objects_folder = None
        if is_measurable(held):
            SharedMeasurements.of_both(session, held)
        return held

    def follow(self) -> None:
        """Shows the trainer's scene again where it has gone on since it was paused; to be called now and then."""
        session = self._session
        if session.editable is None or not session.trains:
            return
        step = int(session.trainer.status().get("step", 0))
        if session.paused and step == self._step:
            return
        if time.monotonic() - self._tried_at < TRY_EVERY or not self._lock.acquire(blocking=False):
            return
        try:
            self._tried_at = time.monotonic()
            self.close()
            self._tried_at = 0.0
        except LuxelError as error:
            self.message = f"{error} Until then the edited scene of step {self._step:,} is shown."
        finally:
            self._lock.release()

    def close(self) -> None:
        """Saves the edits, if there are any, and shows the trainer's scene again.

        Raises:
            LuxelError: they cannot be saved; nothing changes.
        """
        with self._lock:
            session = self._session
            if (held := session.editable) is None:
                return
            self.message = ""
            if (editor := SceneEditor.present(held)) is not None:
                self._save(editor)
            session.hold(None)

    def _save(self, editor: SceneEditor) -> None:
        folder = self._session.folder or Path.cwd()

        def save(document: Document) -> Path | None:
            if not document.changed:
                return None
            path = unused_path(folder, f"edited-step-{self._step}", ".ply")
            document.save(path)
            return path

        try:
            path = editor.run(save)
        except LuxelError as error:
            raise LuxelError(f"The edits could not be saved: {error.problem}", error.remedy) from error
        if path is not None:
            self.message = f"Your edits of step {self._step:,} are saved in {path.name}"
            self._saved_at = time.monotonic()
