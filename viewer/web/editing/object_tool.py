"""Selection of complete objects: those that `luxel segment` has found, and others by a click."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera
from luxel.render.raster.primitive_scene import Remake
from luxel.render.segment import Segmenter
from luxel.render.segment.label_image import label_image
from luxel.render.segment.options import VOTING_VIEWS
from luxel.viewer.edit import Document, Mode
from luxel.viewer.edit.object_edits import select_object
from luxel.viewer.segmenting import make_segmenter
from luxel.viewer.web.editing.find_object import ClickedView, ObjectSearch
from luxel.viewer.web.editing.screen_tools import ClickedTool
from luxel.viewer.web.page import Click
from luxel.viewer.web.shading.shading import DisplaySettings, draw, raster_options
from luxel.viewer.web.transport.encoders import as_array

log = logging.getLogger("luxel.viewer")

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


class ObjectTool(ClickedTool):
    """Selects the object under the cursor: by its label where the run has objects, else with a segmenter.

    The segmenter finds the object in the image of the page, whose primitives are selected at once; then a thread looks
    at further views, and the selection becomes what they agree on.
    """

    name, hint = "Object", "Click an object: it is selected as the image shows it, then all around"
    icon, key = "object", "o"

    def build(self, gui: Any) -> None:
        """Adds the progress of a search."""
        self._progress = gui.add_markdown("")
        self.controls = [self._progress]
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="luxel-object")
        self._searches = 0

    def start(self) -> None:
        """Listens to clicks.

        Raises:
            LuxelError: the run's objects are of another scene, or cannot be read.
        """
        super().start()
        self._progress.visible = False
        if self.workspace.editor.objects_problem is not None:
            raise self.workspace.editor.objects_problem

    def stop(self) -> None:
        """Listens no more, and ends a search."""
        super().stop()
        self._searches += 1

    def _clicked(self, click: Click) -> None:
        self._searches += 1
        number = self._searches
        unknown: list[ClickedView] = []
        self.workspace.guard(lambda: unknown.extend(self._find(click)))
        for clicked in unknown:  # once the guard has cleared the last message
            self._say("Looking at the image…")
            self._pool.submit(self._search, clicked, number, self.workspace.mode())

    def _find(self, click: Click) -> list[ClickedView]:
        """Selects what has a label; returns what is to be searched for."""
        clicked = self._view(click)
        if label := self._label_at(clicked):
            mode = self.workspace.mode()
            self.workspace.editor.run(lambda document: select_object(document, label, mode))
            return []
        if click.point is None:
            raise LuxelError("nothing opaque enough is under the cursor.", "Click a solid part of the image.")
        return [clicked]

    def _view(self, click: Click) -> ClickedView:
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
            click.pixel,
            click.point,
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

    def _search(self, clicked: ClickedView, number: int, mode: Mode) -> None:
        """Runs in a thread: selects what the page's image shows, then what all views agree on."""

        def current(looked: int = 0) -> None:
            if number != self._searches:
                raise _Outdated
            if looked:
                self._say(f"Looking at view {looked} of {VOTING_VIEWS}…")

        def search() -> None:
            with suppress(_Outdated):
                views = self.page.session.views
                job = ObjectSearch(segmenter_for(clicked.scene.device), clicked, views)
                current()
                version = self._selected(job.first(), mode, None)
                mask = job.everywhere(current)
                current()
                self._selected(mask, mode, version)

        self.workspace.guard(search)
        if number == self._searches:
            self._say("")

    def _selected(self, mask: Tensor, mode: Mode, instead_of: int | None) -> int:
        """Selects an object; instead of the edit that led to version ``instead_of``, if nothing came after it."""

        def select(document: Document) -> int:
            if instead_of is not None:
                if document.version != instead_of:
                    raise _Outdated
                document.undo()
            document.select(mask.to(document.selected.device), mode, "Select object")
            return document.version

        return self.workspace.editor.run(select)

    def _say(self, text: str) -> None:
        self._progress.content, self._progress.visible = text, bool(text)
        self.page.toolbar.say(text, "busy" if text else "")
