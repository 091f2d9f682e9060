"""The image that a page shows while its scripts load."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from urllib.parse import parse_qs

import numpy as np

from luxel.viewer.web.navigate import Pose, SceneExtent, clamped_size, start_pose
from luxel.viewer.web.session import Session
from luxel.viewer.web.shading.backdrop import backdrop
from luxel.viewer.web.shading.shading import DisplaySettings, draw
from luxel.viewer.web.transport.encoders import encode_jpeg

log = logging.getLogger("luxel.viewer")

FIRST_IMAGE_PATH = "/luxel/first.jpg"
PREPARED = (1280, 720)  # pixels of the image that is rendered before anyone asks
MAX_IMAGES = 4  # images
FRESH = 2.0  # seconds for which an image of a scene that changes is served
QUALITY = 85

_Asked = tuple[int, int, bool]
"""Width and height of a canvas, pixels, and whether the colours of the page are dark."""


@dataclass(frozen=True)
class _Prepared:
    """A rendered image: its pose with its size, its colours, the version of the scene, and when it was rendered."""

    pose: Pose
    dark: bool
    file: bytes
    version: int
    at: float


def _fits(made: Pose, asked: Pose) -> bool:
    """Whether an image of the pose ``made``, its sides cut off, shows what a canvas with the pose ``asked`` will."""
    wide = made.width * asked.height >= asked.width * made.height
    sharp = 2 * made.height >= asked.height
    near = bool(
        np.allclose(made.position, asked.position, atol=1e-9 + 1e-6 * float(np.abs(asked.position).max()))
    )
    return wide and sharp and near and abs(made.fov_y - asked.fov_y) < 1e-6


class FirstImage:
    """Renders the view at which pages begin, as JPEG files.

    A browser needs a second or more until viser's page has its canvas and its connection; until then, the page shows
    this image. Requests never wait: while an image is rendered there is none.

    Args:
        session: the scene.
        extent: of the scene.
    """

    def __init__(self, session: Session, extent: SceneExtent) -> None:
        self._session, self._extent = session, extent
        self._turn = object()  # among the pages that share the renderer
        self._images: OrderedDict[_Asked, _Prepared] = OrderedDict()
        self._pending: set[_Asked] = set()
        self._failed = False
        self._lock = threading.Lock()
        self._renderer = ThreadPoolExecutor(1, thread_name_prefix="luxel-first-image")

    def prepare(self) -> None:
        """Begins to render the image of a usual window, where that takes no time from training."""
        if not self._session.trains:
            self._ask((*PREPARED, False))

    def answer(self, query: str) -> bytes | None:
        """The image for a canvas; None while it is rendered.

        Args:
            query: of the request, ``width=956&height=720``: the canvas, pixels; with ``dark=1`` the colours of the
                page are dark.

        Raises:
            ValueError: the query has no such numbers.
            LookupError: the scene cannot be rendered.
        """
        fields = parse_qs(query)
        width, height = (_side(fields.get(name, [""])[-1]) for name in ("width", "height"))
        asked = self._pose(*clamped_size(width, height))
        dark = fields.get("dark") == ["1"] and backdrop(self._session, True) is not None
        with self._lock:
            if self._failed:
                raise LookupError
            for image in self._images.values():
                if image.dark == dark and _fits(image.pose, asked) and self._is_fresh(image):
                    return image.file
            if any(d == dark and _fits(self._pose(w, h), asked) for w, h, d in self._pending):
                return None
        self._ask((asked.width, asked.height, dark))
        return None

    def close(self) -> None:
        """Ends the thread after the present image."""
        self._renderer.shutdown(wait=True, cancel_futures=True)

    def _is_fresh(self, image: _Prepared) -> bool:
        if self._session.trains:  # asking for the version might wait for a training step
            return time.monotonic() - image.at < FRESH
        return image.version == self._session.version

    def _pose(self, width: int, height: int) -> Pose:
        """The view at which a page with such a canvas begins."""
        pose = start_pose(self._session.views, self._extent, width / height)
        return replace(pose, width=width, height=height)

    def _ask(self, asked: _Asked) -> None:
        with self._lock:
            if asked in self._pending or len(self._pending) >= MAX_IMAGES:
                return
            self._pending.add(asked)
        try:
            self._renderer.submit(self._make, asked)
        except RuntimeError:  # closed
            return

    def _make(self, asked: _Asked) -> None:
        width, height, dark = asked
        try:
            pose, session = self._pose(width, height), self._session
            settings = DisplaySettings(background=session.background, antialiased=session.antialiased)
            settings.backdrop = backdrop(session, dark)
            if session.times is not None:
                settings.time = session.views[0].time if session.views else session.times[0]
            with session.borrow(self._turn) as scene:
                version = session.version
                camera = pose.camera(width, height, settings.near, settings.far).to(scene.device)
                image, _ = draw(scene, camera, settings)
                pixels = image.cpu().numpy()  # waits for the render: the scene may change afterwards
            made = _Prepared(pose, dark, encode_jpeg(pixels, QUALITY), version, time.monotonic())
            with self._lock:
                self._images.pop(asked, None)
                self._images[asked] = made
                while len(self._images) > MAX_IMAGES:
                    self._images.popitem(last=False)
        except Exception:  # the page's own images will say what is wrong
            log.debug("the first image could not be rendered", exc_info=True)
            self._failed = True
        finally:
            with self._lock:
                self._pending.discard(asked)


def _side(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 6):
        raise ValueError(f"width and height must be integers, in pixels, got {text[:20]!r}")
    return int(text)
