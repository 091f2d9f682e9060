"""The editor of a session: one document that all pages of a finished scene share."""

from __future__ import annotations

import logging
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, TypeVar
from weakref import WeakKeyDictionary, WeakSet, proxy

from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.primitives import Parameters
from luxel.render.primitives.similarity import Similarity
from luxel.render.raster.primitive_scene import Remake
from luxel.render.segment.objects import Objects
from luxel.render.storage.places import cache_folder
from luxel.scenes.files.scene_format import SceneFacts
from luxel.viewer.edit import Autosave, Document, Edit, History, Mode, combine
from luxel.viewer.edit.document import FOREIGN
from luxel.viewer.edit.run_objects import RunObjects
from luxel.viewer.measure.shared_measurements import known_facts, measurements_of
from luxel.viewer.web.session import ForeignMarks, StaticSession, Unmarked

log = logging.getLogger("luxel.viewer")

Result = TypeVar("Result")

LOOK_EVERY = 2.0  # seconds between looks at objects.json


@dataclass(frozen=True)
class EarlierEdits:
    """What an earlier session of a scene left.

    Args:
        count: number of edits in effect.
        changed_at: of the last one, seconds since 1970.
        discarded: whether they were moved aside.
    """

    count: int
    changed_at: float
    discarded: bool = False


class SceneEditor:
    """Edits the scene of a session and shows every change on all pages; its methods may be called from any thread.

    Edits are also written into a folder of the user's cache, from which a later session of the same scene can be
    resumed. The file of the scene is never written to.

    Args:
        session: its scene must be of primitives.
        folder: of the autosave; None: ``edits`` in ~/.cache/luxel (or $XDG_CACHE_HOME/luxel).
    """

    _editors: ClassVar[WeakKeyDictionary[StaticSession, SceneEditor]] = WeakKeyDictionary()
    _editors_lock = threading.Lock()

    def __init__(self, session: StaticSession, folder: Path | None = None) -> None:
        self._session: StaticSession = proxy(session)  # the editor must not keep it
        self._measured = measurements_of(session)
        self._folder = folder or autosave_folder()
        self._lock = threading.RLock()
        self._callbacks: list[Callable[[], None]] = []
        self._callbacks_lock = threading.Lock()  # pages come and go in several threads
        self._preview_lock = threading.Lock()
        self._graph: Future[object] | None = None
        self._graph_pool = ThreadPoolExecutor(1, thread_name_prefix="luxel-neighbours")
        self._looking: Future[None] | None = None
        self._looked_at = 0.0
        self._pages: WeakSet[object] = WeakSet()  # that are open
        self._editing: WeakSet[object] = WeakSet()  # of those the ones that have edited
        self._selector: object | None = None  # the page that made the selection, while it is open
        self._author = threading.local()  # the page for which a thread works
        self._open()
        if self._measured is not None:
            self._measured.on_change(self._follow_measurements)

    @staticmethod
    def of(session: StaticSession) -> SceneEditor:
        """The editor of a session, made when it is first asked for."""
        with SceneEditor._editors_lock:
            if session not in SceneEditor._editors:
                SceneEditor._editors[session] = SceneEditor(session)
            return SceneEditor._editors[session]

    @staticmethod
    def present(session: StaticSession) -> SceneEditor | None:
        """The editor of a session, if it was asked for."""
        with SceneEditor._editors_lock:
            return SceneEditor._editors.get(session)

    def _open(self) -> None:
        """Begins a document of the scene that the session shows."""
        with self._session.borrow() as shown:
            scene, self._remake = shown.parts[Parameters].detach(), shown.parts[Remake].scene
            self._version = self._session.version
            self._records = RunObjects(self._session.objects_folder, scene)
            objects = self._records.read()
            self._document = Document(
                scene, self._note, History(self._folder), objects, self._records.keep, self._facts()
            )
        pool = ThreadPoolExecutor(1, thread_name_prefix="luxel-autosave")
        self._earlier: EarlierEdits | None = None
        self._autosave: Future[Autosave] = pool.submit(Autosave.within, self._folder, scene)
        pool.shutdown(wait=False)

    def _facts(self) -> SceneFacts:
        """What is known of the scene, with what is measured now."""
        return known_facts(self._session, self._measured)

    def _follow_measurements(self) -> None:
        """Saved scenes state what is measured."""
        self._document.facts = self._facts()

    def _note(self, edit: Edit | None, document: Document) -> None:
        self._autosave.result()(edit, document)

    def run(self, action: Callable[[Document], Result]) -> Result:
        """Calls ``action`` with the document, and shows on all pages what it changed.

        Raises:
            LuxelError: raised by the action; what it did before is shown nevertheless.
        """
        with self._lock:
            if self._session.version != self._version:  # another part of the program replaced the scene
                self._open()
            before, selected = self._document.version, self._document.selected
            try:
                return action(self._document)
            finally:
                if self._document.version != before:
                    self._note_author(self._document.selected is not selected)
                    self._notify()  # first, as the scene may be in use for a while
                    self._show(None)
                    self._prepare()

    @contextmanager
    def authored(self, page: object) -> Iterator[None]:
        """What this thread does until the context ends is done by a page."""
        before = getattr(self._author, "page", None)
        self._author.page = page
        try:
            yield
        finally:
            self._author.page = before

    def _note_author(self, selected: bool) -> None:
        page = getattr(self._author, "page", None)
        if page is not None:
            self._editing.add(page)
        if selected:
            self._selector = page

    def join(self, page: object) -> None:
        """A page that shows the scene is open, until `leave`."""
        self._pages.add(page)
        with self._lock:
            if len(self._pages) == 2 and bool(self._document.selected.any()):
                self._show(None)  # also in the colour of another page's selection

    def leave(self, page: object) -> None:
        """A page is closed: what it has done is no longer that of another page."""
        self._pages.discard(page)
        self._editing.discard(page)
        if self._selector is page:
            self._selector = None
        self._notify()

    def is_edited_beside(self, page: object) -> bool:
        """Whether another open page has edited the scene."""
        return any(other is not page for other in self._editing)

    def is_selected_beside(self, page: object) -> bool:
        """Whether another open page has made the selection."""
        return self._selector is not None and self._selector is not page

    def _prepare(self) -> None:
        """Builds the graph for `Document.grow` in a thread, as it takes seconds for a million primitives."""
        document = self._document
        if document.graph_due and (self._graph is None or self._graph.done()):
            self._graph = self._graph_pool.submit(document.graphs.of, document.state.scene, document.shown)

    def preview(self, similarity: Similarity, version: int) -> None:
        """Shows the selection transformed, without an edit.

        Dropped while another one is being made, and where the document is no longer of this ``version``.
        """
        if not self._preview_lock.acquire(blocking=False):
            return
        try:
            with self._lock:
                if self._document.version == version:
                    self._show(similarity)
        finally:
            self._preview_lock.release()

    def preview_selection(self, mask: Tensor, mode: Mode) -> None:
        """Shows what `Document.select` would select, without an edit; dropped while another preview is being made.

        Args:
            mask: bool [N].
            mode: how it joins the selection.
        """
        if not self._preview_lock.acquire(blocking=False):
            return
        try:
            with self._lock:
                if len(mask) == len(self._document.selected):
                    self._show(None, combine(self._document.selected, mask & self._document.shown, mode))
        finally:
            self._preview_lock.release()

    def show(self) -> None:
        """Shows the document as it is, instead of a preview."""
        with self._lock:
            self._show(None)

    def _show(self, preview: Similarity | None, selected: Tensor | None = None) -> None:
        document = self._document
        numbers = {"count": document.numbers["kept"], "sh_degree": document.state.scene.sh_degree}
        scene = self._remake(document.drawn(preview=preview, selected=selected))
        if preview is not None or selected is not None or bool(document.selected.any()):
            unmarked = Unmarked(self._remake(document.drawn(highlight=False)))
            scene = replace(scene, parts={**scene.parts, Unmarked: unmarked})
            if len(self._pages) > 1:
                foreign = document.drawn(preview=preview, selected=selected, colour=FOREIGN)
                marks = ForeignMarks(self._remake(foreign))
                scene = replace(scene, parts={**scene.parts, ForeignMarks: marks})
        self._session.show(scene, numbers)
        self._version = self._session.version

    def on_change(self, callback: Callable[[], None]) -> None:
        """Calls ``callback`` after each change, until `forget`."""
        with self._callbacks_lock:
            self._callbacks = [*self._callbacks, callback]

    def forget(self, callback: Callable[[], None]) -> None:
        """The reverse of `on_change`."""
        with self._callbacks_lock:
            self._callbacks = [c for c in self._callbacks if c != callback]

    def _notify(self) -> None:
        for callback in self._callbacks:
            try:
                callback()
            except Exception:  # a page that is being closed must not affect the others
                log.debug("a page could not show an edit", exc_info=True)

    @property
    def earlier(self) -> EarlierEdits | None:
        """What an earlier session left, once `look_for_earlier` has found it; None once this one has edits."""
        return None if self._document.version else self._earlier

    def look_for_earlier(self) -> EarlierEdits | None:
        """Looks for edits of an earlier session, else for those that were discarded; reads the complete scene the
        first time."""
        autosave = self._autosave.result()
        if count := autosave.resumable():
            self._earlier = EarlierEdits(count, autosave.changed_at)
        elif count := autosave.discarded():
            self._earlier = EarlierEdits(count, 0.0, discarded=True)
        else:
            self._earlier = None
        return self.earlier

    def resume(self) -> int:
        """Makes the edits of an earlier session again, also discarded ones; returns how many are in effect.

        Raises:
            LuxelError: there are none, or they cannot be read.
        """

        def resumed(document: Document) -> int:
            autosave = self._autosave.result()
            if document.version:
                raise LuxelError(
                    "this session has edits already.",
                    "Open the scene again, and restore the earlier ones first.",
                )
            if not autosave.resumable():
                autosave.bring_back()
            return autosave.resume(document)

        return self.run(resumed)

    def discard_earlier(self) -> None:
        """Moves the edits of an earlier session aside; `resume` still makes them, until this session has edits.

        Raises:
            LuxelError: they cannot be moved.
        """
        with self._lock:
            if not self._document.version:
                self._autosave.result().discard()
                self.look_for_earlier()
        self._notify()

    @property
    def objects(self) -> Objects:
        """The objects of the scene; never to be written to. Does not wait for an edit, nor for an image."""
        return self._document.state.objects

    @property
    def objects_problem(self) -> LuxelError | None:
        """Why the run's objects are not those of the scene, and cannot be changed; None: nothing is wrong."""
        return self._records.problem

    def voted(self, label: int) -> bool:
        """Whether prompts or label maps of the run have a label.

        Raises:
            LuxelError: its files cannot be read.
        """
        return self._records.voted(label)

    def follow_objects(self) -> None:
        """Takes over objects that another program has written, in a thread; to be called now and then."""
        now = time.monotonic()
        if now - self._looked_at < LOOK_EVERY or not (self._looking is None or self._looking.done()):
            return
        self._looked_at = now
        if self._records.outdated:
            self._looking = self._graph_pool.submit(self._read_objects)

    def _read_objects(self) -> None:
        with self._lock:
            if not self._records.differs:  # they were being written by this process
                return
            self._document.state.objects = self._records.read()
            self._notify()
            self._show(None)

    @property
    def problem(self) -> str:
        """Why the last edit could not be written, or empty."""
        return self._autosave.result().problem if self._autosave.done() else ""

    @property
    def save_folder(self) -> Path:
        """Where files are saved: the folder of the run, or else the one that the viewer was started in."""
        return self._session.folder or Path.cwd()


def autosave_folder() -> Path:
    """``edits`` in luxel's folder of the user's cache."""
    return (cache_folder() or Path(tempfile.gettempdir())) / "edits"
