"""Selection of complete objects: those that `luxel segment` has found, and others by a click."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera
from luxel.render.raster.primitive_scene import Remake
from luxel.render.segment import Segmenter
from luxel.render.segment.label_image import label_image
from luxel.render.segment.objects import Objects
from luxel.render.segment.options import VOTING_VIEWS
from luxel.viewer.edit import Document, Mode
from luxel.viewer.edit.object_edits import select_object
from luxel.viewer.segmenting import make_segmenter
from luxel.viewer.web.editing.find_object import ClickedView, ObjectSearch
from luxel.viewer.web.editing.object_preview import ObjectPreview
from luxel.viewer.web.editing.screen_tools import ClickedTool
from luxel.viewer.web.editing.tool import need_point
from luxel.viewer.web.page import Click
from luxel.viewer.web.shading.shading import DisplaySettings, draw, raster_options
from luxel.viewer.web.toolbar import ToolbarAction
from luxel.viewer.web.transport.encoders import as_array

log = logging.getLogger("luxel.viewer")

HUGE = 0.5  # of what is visible, above which an object is not added unseen
SMALLER, LARGER, HUGE_ONE = "smaller object", "larger object", "huge object"  # numbers of the toolbar

_segmenters: dict[torch.device, Segmenter] = {}  # shared by all pages: loading one takes a second
_loading = threading.Lock()


def segmenter_for(device: torch.device) -> Segmenter:
    """The segmenter of clicks, loaded when it is first asked for.

    Raises:
        LuxelError: there is none.
    """
    with _loading:
        if device not in _segmenters:
            _segmenters[device] = make_segmenter("mobile-sam", (), device)
        return _segmenters[device]


class _Outdated(Exception):
    """A later click, or another tool, has replaced this search."""


@dataclass(frozen=True)
class _Edit:
    """The selection of a search.

    Args:
        version: of the document after it.
        made: whether it changed the selection, and can be undone.
    """

    version: int
    made: bool


@dataclass
class _Target:
    """The last search, with which Smaller, Larger and points beside the object go on.

    Args:
        search: for the object.
        clicked: where it was clicked.
        mode: how the object joins the selection.
        edit: that selected it; None: there is none yet.
    """

    search: ObjectSearch
    clicked: ClickedView
    mode: Mode
    edit: _Edit | None = None


class ObjectTool(ClickedTool):
    """Selects the object under the cursor: by its label where the run has objects, else with a segmenter.

    The segmenter finds the object in the image of the page, whose primitives are selected at once; then a thread looks
    at further views, and the selection becomes what they agree on. What would add more than `HUGE` of what is visible
    to the selection is shown first, and added when that is confirmed.
    """

    name, icon, key = "Object", "object", "o"
    hint = "Click an object; Alt-click what does not belong to it"

    def build(self, gui: Any) -> None:
        """Adds the progress of a search."""
        self._progress = gui.add_markdown("")
        self.controls = [self._progress]
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="luxel-object")
        self._searches = 0
        self._job: Future[None] | None = None
        self._target: _Target | None = None
        self._accept: Callable[[], None] | None = None
        self._preview = ObjectPreview(
            self.page, self._key, self._look, lambda device: segmenter_for(device), lambda: self._running
        )
        for name, label, act, needs in (
            ("Smaller object", "Smaller", lambda: self._step(-1), SMALLER),
            ("Larger object", "Larger", lambda: self._step(1), LARGER),
            ("Add huge object", "Add it", self._confirm, HUGE_ONE),
            ("Leave huge object", "Do not add it", self._decline, HUGE_ONE),
        ):
            self.page.toolbar.add_action(ToolbarAction(name, label, "", act, needs, "line"))

    def start(self) -> None:
        """Listens to clicks.

        Raises:
            LuxelError: the run's objects are of another scene, or cannot be read.
        """
        super().start()
        self.page.listen(self._beside, True, alt=True)
        self._progress.visible = False
        self._preview.start()
        if self.workspace.editor.objects_problem is not None:
            raise self.workspace.editor.objects_problem

    def stop(self) -> None:
        """Listens no more, and ends a search."""
        super().stop()
        self.page.listen(self._beside, False, alt=True)
        self._begin()
        self._preview.stop()

    def refresh(self) -> None:
        """Offers no other candidates once the selection is another one."""
        edit = None if self._target is None or self._running else self._target.edit
        version = self.workspace.editor.run(lambda document: document.version)
        if edit is not None and edit.version != version:
            self._target = None
            self._offer()

    @property
    def _running(self) -> bool:
        """Whether the tool's thread is searching."""
        return self._job is not None and not self._job.done()

    def _begin(self) -> int:
        """The number of a new search; ends what there is of the one before."""
        self._searches += 1
        self._target = None
        self._offer()
        self._forget()
        self.page.marks.busy(None)
        return self._searches

    def _clicked(self, click: Click) -> None:
        number = self._begin()
        clicked, mode = self._view(click.pixel, click.point), self.workspace.mode()
        unknown: list[bool] = []
        self.workspace.guard(lambda: unknown.append(not self._has_label(clicked, mode)))
        if any(unknown):  # once the guard has cleared the last message
            self._submit(clicked, number, lambda: self._new(clicked, mode))

    def _beside(self, click: Click) -> None:
        """Takes what is at a point from the object that was clicked last."""
        self.workspace.guard(lambda: self._exclude(click))

    def _exclude(self, click: Click) -> None:
        target = self._target
        if target is None:
            raise LuxelError(
                "there is no clicked object that this could be beside.",
                "Click an object first; then Alt-click what does not belong to it.",
            )
        point = _pixel_of(target.clicked.camera, need_point(click.point))
        if point is None:
            raise LuxelError(
                "the point is outside of the view in which the object was clicked.", "Click the object here."
            )
        clicked = replace(target.clicked, beside=(*target.clicked.beside, point))

        def again() -> _Target:
            return replace(self._new(clicked, target.mode), edit=target.edit)

        self._submit(clicked, self._begin(), again)

    def _step(self, by: int) -> None:
        """Means the next smaller or larger candidate instead."""
        target = self._target
        if target is None:
            return

        def again() -> _Target:
            target.search.choose(target.search.place + by)
            return target

        self._submit(target.clicked, self._begin(), again)

    def _new(self, clicked: ClickedView, mode: Mode) -> _Target:
        search = ObjectSearch(segmenter_for(clicked.scene.device), clicked, self.page.session.views)
        return _Target(search, clicked, mode)

    def _submit(self, clicked: ClickedView, number: int, make: Callable[[], _Target]) -> None:
        """Searches in the tool's thread."""
        self._say("Looking at the image…")
        x, y = clicked.beside[-1] if clicked.beside else clicked.point
        self.page.marks.busy((x / clicked.camera.width, y / clicked.camera.height))
        self._job = self._pool.submit(self._search, number, make)

    def _has_label(self, clicked: ClickedView, mode: Mode) -> bool:
        """Selects the object of the run under the cursor; false: there is none, which is to be searched for.

        Raises:
            LuxelError: nothing is there.
        """
        if label := self._label_at(clicked):
            self.workspace.editor.run(lambda document: select_object(document, label, mode))
            return True
        need_point(clicked.surface)
        return False

    def _key(self) -> Hashable:
        """Of what the page shows, for the preview."""
        pose, stream = self.page.pose(), self.page.stream
        version = self.workspace.editor.run(lambda document: document.version)
        shown = (version, id(self.workspace.editor.objects), stream.time, *pose.position, *pose.wxyz)
        return *shown, pose.fov_y, pose.width, pose.height, stream.settings.near, stream.settings.far

    def _look(self) -> tuple[ClickedView, Objects]:
        return self._view((0.0, 0.0), None), self.workspace.editor.objects

    def _view(self, pixel: tuple[float, float], point: np.ndarray | None) -> ClickedView:
        """What the page shows where it was clicked."""
        page, stream = self.page, self.page.stream
        pose, settings = page.pose(), stream.settings
        scene = self.workspace.editor.run(lambda document: document.drawn(highlight=False))
        render = raster_options(scene, settings.antialiased, stream.time)
        render.pop("time", None)
        plain = DisplaySettings(near=settings.near, far=settings.far, antialiased=settings.antialiased)

        def image(camera: Camera, time: float) -> np.ndarray:
            with page.session.borrow() as shown:
                drawn = shown.parts[Remake].scene(scene)
                return as_array(draw(drawn, camera.to(scene.device), replace(plain, time=time))[0]).copy()

        return ClickedView(
            scene,
            pose.camera(pose.width, pose.height, settings.near, settings.far),
            stream.time,
            pixel,
            point,
            page.extent.up,
            image,
            render,
        )

    def _label_at(self, clicked: ClickedView) -> int:
        """The label of the object under the cursor; 0 where there is none."""
        objects = self.workspace.editor.objects
        if not objects.objects:
            return 0
        camera = clicked.camera
        around = camera.cropped(int(clicked.point[0]), int(clicked.point[1]), 1, 1)
        scene = clicked.scene
        time = clicked.time if scene.moves else None
        labels = objects.labels.to(scene.device)
        count = 1 + max(entry.label for entry in objects.objects)
        with self.page.session.borrow():
            shown_labels = label_image(scene, around.to(scene.device), labels, count, time, **clicked.render)
        label = int(shown_labels.labels[0, 0])
        return label if 0 < label < count and float(shown_labels.transmittance[0, 0]) < 0.5 else 0

    def _search(self, number: int, make: Callable[[], _Target]) -> None:
        """Runs in a thread: selects what the page's image shows, then what all views agree on."""

        def current(looked: int = 0) -> None:
            if number != self._searches:
                raise _Outdated
            if looked:
                self._say(f"Looking at view {looked} of {VOTING_VIEWS}…")

        def search() -> None:
            with suppress(_Outdated):
                current()
                target = make()
                current()
                self._target = target
                self._offer()
                mask = target.search.first()
                current()
                if target.mode == "add" and target.search.share() > HUGE:
                    self._ask(mask, target, lambda: self._everywhere(target, mask, current, confirmed=True))
                else:
                    self._everywhere(target, mask, current)

        self.workspace.guard(search)
        self._ended(number)

    def _ended(self, number: int) -> None:
        """Says so, unless another search has begun or an answer is awaited."""
        if number == self._searches:
            self.page.marks.busy(None)
            if self._accept is None:
                self._say("")

    def _everywhere(
        self, target: _Target, mask: Tensor, current: Callable[..., None], confirmed: bool = False
    ) -> None:
        """Selects the mask of the first view, and then that of all views.

        Raises:
            _Outdated: another search has begun, or another edit was made.
        """
        target.edit = self._selected(mask, target.mode, target.edit)
        final = target.search.everywhere(current)
        current()

        def select() -> None:
            target.edit = self._selected(final, target.mode, target.edit)

        shown = self.workspace.editor.run(lambda document: document.shown)
        huge = float((final.to(shown.device) & shown).sum()) > HUGE * float(shown.sum())
        if target.mode == "add" and huge and not confirmed:
            self._ask(final, target, select)
        else:
            select()

    def _selected(self, mask: Tensor, mode: Mode, instead_of: _Edit | None) -> _Edit:
        """Selects an object, instead of the edit before, if nothing came after that."""

        def select(document: Document) -> _Edit:
            if instead_of is not None:
                if document.version != instead_of.version:
                    raise _Outdated
                if instead_of.made:
                    document.undo()
            made = document.select(mask.to(document.selected.device), mode, "Select object")
            return _Edit(document.version, made)

        return self.workspace.editor.run(select)

    def _ask(self, mask: Tensor, target: _Target, accept: Callable[[], object]) -> None:
        """Shows what would be selected, and calls ``accept`` once that is confirmed; nothing waits for it."""
        number = self._searches
        self.workspace.editor.preview_selection(mask, target.mode)

        def confirmed() -> None:
            with suppress(_Outdated):
                if number == self._searches:
                    accept()

        def run() -> None:
            self.workspace.guard(confirmed)
            self._ended(number)

        self._accept = run
        self.page.toolbar.update(**{HUGE_ONE: True})
        self._progress.visible = False
        self.page.toolbar.say("This is more than half of what is visible.")

    def _confirm(self) -> None:
        """Adds what was shown."""
        accept, self._accept = self._accept, None
        if accept is not None:
            self.page.toolbar.update(**{HUGE_ONE: False})
            self._say("Looking at the image…")
            self._job = self._pool.submit(accept)

    def _decline(self) -> None:
        """Leaves the selection as it was."""
        self._forget()
        self.page.toolbar.say("")

    def _forget(self) -> None:
        """Takes back what was shown for confirmation."""
        accept, self._accept = self._accept, None
        if accept is not None:
            self.page.toolbar.update(**{HUGE_ONE: False})
            self.workspace.editor.show()

    def _offer(self) -> None:
        """Offers the candidates next to the chosen one."""
        target = self._target
        place = 0 if target is None else target.search.place
        last = 0 if target is None else len(target.search.candidates.sizes) - 1
        self.page.toolbar.update(**{SMALLER: place > 0, LARGER: place < last})

    def _say(self, text: str) -> None:
        """Shows what is being done, or, empty, nothing more of it; why it failed stays."""
        self._progress.content, self._progress.visible = text, bool(text)
        toolbar = self.page.toolbar
        if text or toolbar.state()["kind"] == "busy":
            toolbar.say(text, "busy" if text else "")


def _pixel_of(camera: Camera, point: np.ndarray) -> tuple[float, float] | None:
    """Where a camera sees a point [3], x and y in pixels; None: outside of its image."""
    world_to_cam = camera.world_to_cam.double().cpu().numpy()
    x, y, z = world_to_cam[:3, :3] @ point + world_to_cam[:3, 3]
    fx, fy, cx, cy = camera.intrinsics.double().tolist()
    if z <= 0:
        return None
    column, row = float(fx * x / z + cx), float(fy * y / z + cy)
    return (column, row) if 0 <= column < camera.width and 0 <= row < camera.height else None
