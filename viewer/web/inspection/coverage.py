"""Depth maps of the training views, rendered in the background, to count which views see a surface."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from weakref import WeakKeyDictionary, proxy

import numpy as np
import torch
from torch import Tensor

from luxel.render.geometry.camera import View
from luxel.viewer.web.session import Session
from luxel.viewer.web.shading.shading import DisplaySettings, depth_map
from luxel.viewer.web.shading.visibility import DepthMap, VisibilityCount, count_views

log = logging.getLogger("luxel.viewer")

MAX_VIEWS = 256  # of more, every Nth
SIDE = 256  # pixels of a depth map along its longer side
REFRESH = 5.0  # seconds, at least, between two passes over the views
SHARE = 0.2  # of the time that passes may take while the scene changes
REDRAW = 0.5  # seconds between images while the first maps come


class Coverage:
    """Counts the training views of a session that see points; shared by its pages.

    The maps are rendered one at a time in a thread of their own, which waits for its turn like a page, when points
    are first counted. When the scene has changed since, they are rendered anew, at most every `REFRESH` seconds.

    Args:
        session: its training views and its scene.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._views = chosen(session.training_views)
        self._maps: list[DepthMap] = []
        self._version: int | None = None
        self._not_before = 0.0
        self._thread: threading.Thread | None = None
        self._listeners: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self._closed = threading.Event()

    @property
    def views(self) -> int:
        """How many views are counted."""
        return len(self._views)

    def count(self, points: Tensor) -> VisibilityCount:
        """The views that see points, [P, 3], by the newest maps; starts to render new ones where they are old."""
        with self._lock:
            if self._thread is None and self._session.version != self._version and self._listeners:
                self._thread = threading.Thread(target=self._run, name="luxel-coverage", daemon=True)
                self._thread.start()
            maps = list(self._maps)
        return VisibilityCount(count_views(points, maps), len(maps), len(self._views))

    def listen(self, changed: Callable[[], None]) -> None:
        """Calls ``changed`` from another thread when there are new maps; maps are rendered while anything listens."""
        with self._lock:
            self._closed.clear()
            self._listeners.append(changed)

    def unlisten(self, changed: Callable[[], None]) -> None:
        """Ends the calls; with the last one, the rendering of maps."""
        with self._lock:
            self._listeners = [each for each in self._listeners if each != changed]
            if not self._listeners:
                self._closed.set()

    def _run(self) -> None:
        """One pass over the views, when it is due."""
        try:
            if not self._closed.wait(max(0.0, self._not_before - time.monotonic())):
                self._render_maps()
        except Exception:
            self._not_before = time.monotonic() + REFRESH
            log.exception("The depth maps of the training views could not be rendered.")
        finally:
            self._thread = None
        self._notify()

    def _render_maps(self) -> None:
        first, start, shown = self._version is None, time.monotonic(), time.monotonic()
        version, maps = self._session.version, []
        for view in self._views:
            if self._closed.is_set():
                return
            maps.append(self._render_map(view))
            if first:
                self._maps = list(maps)
                if time.monotonic() - shown > REDRAW:
                    shown = time.monotonic()
                    self._notify()
        self._maps, self._version = maps, version
        now = time.monotonic()
        self._not_before = now + max(REFRESH, (now - start) * (1 / SHARE - 1))

    def _render_map(self, view: View) -> DepthMap:
        camera = view.camera.scaled(min(1.0, SIDE / max(view.camera.width, view.camera.height)))
        settings = DisplaySettings(antialiased=self._session.antialiased, time=view.time)
        with self._session.borrow(self) as scene, torch.no_grad():
            camera = replace(camera, near=settings.near, far=settings.far).to(scene.device)
            depth = depth_map(scene, camera, settings)
            assert depth is not None, "only scenes with depth have this output"
            if depth.is_cuda:
                torch.cuda.synchronize(depth.device)  # the scene may change as soon as it is given back
        return DepthMap.of(camera, depth)

    def _notify(self) -> None:
        for changed in list(self._listeners):
            changed()


def chosen(views: Sequence[View]) -> list[View]:
    """At most `MAX_VIEWS` of the views, evenly over their order."""
    if len(views) <= MAX_VIEWS:
        return list(views)
    return [views[int(i)] for i in np.linspace(0, len(views) - 1, MAX_VIEWS).round()]


_of_session: WeakKeyDictionary[Session, Coverage] = WeakKeyDictionary()
_lock = threading.Lock()


def coverage_of(session: Session) -> Coverage:
    """The coverage of a session, which its pages share."""
    with _lock:
        if session not in _of_session:
            _of_session[session] = Coverage(proxy(session))
        return _of_session[session]
