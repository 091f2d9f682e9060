"""The outline of what a click of the Object tool would select, while the cursor moves over the image."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import cv2
import numpy as np
import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.segment import Segmenter
from luxel.render.segment.label_image import label_image
from luxel.render.segment.mask_choice import best_for
from luxel.render.segment.objects import Objects
from luxel.render.segment.segmenter import on_cpu
from luxel.viewer.web.editing.find_object import ClickedView, limited
from luxel.viewer.web.page import Page

log = logging.getLogger("luxel.viewer")

REST = 0.25  # seconds for which the camera must not have moved before its image is prepared
MAX_POLYGONS, MAX_CORNERS = 8, 400  # of an outline
COARSE = 1.2  # pixels by which an outline may differ from its mask
SMALL = 0.01  # of the largest part, below which a part has no outline


class _Prepared:
    """One view of the page, of which the mask at any pixel can be had at once."""

    def __init__(self, key: Hashable, view: ClickedView, objects: Objects, page: Page) -> None:
        self.key = key
        self._view, self._camera = view, limited(view.camera)
        self._embedding: Any = None
        device = view.scene.device
        count = 1 + max((entry.label for entry in objects.objects), default=0)
        labels = objects.labels if objects.objects else torch.zeros(view.scene.count, dtype=torch.uint8)
        time = view.time if view.scene.moves else None
        with page.session.borrow():
            shown = label_image(
                view.scene, self._camera.to(device), labels.to(device), count, time, **view.render
            )
        opaque = shown.transmittance < 0.5
        self._opaque = opaque.cpu()
        self._labels = shown.labels.masked_fill(~opaque | (shown.labels >= count), 0).cpu()

    def mask(self, u: float, v: float, segmenter: Callable[[torch.device], Segmenter]) -> Tensor | None:
        """The mask at a place in [0, 1] of the image, bool [H, W]; None where a click selects nothing.

        Raises:
            LuxelError: there is no segmenter.
        """
        height, width = self._opaque.shape
        column, row = min(int(u * width), width - 1), min(int(v * height), height - 1)
        if not bool(self._opaque[row, column]):
            return None
        if label := int(self._labels[row, column]):
            return self._labels == label
        finder = segmenter(self._view.scene.device)
        if self._embedding is None:
            self._embedding = finder.embed(self._view.draw(self._camera, self._view.time))
        point = (u * width, v * height, True)
        choice = on_cpu(finder.masks(self._embedding, [point]))
        return choice.masks[best_for(choice, [point])]


class ObjectPreview:
    """Answers the cursor of a page with outlines; at most one is being computed.

    Args:
        page: its marks are drawn.
        key: of what the page shows now: equal for two of which the same can be said.
        look: what the page shows now, and the objects of the scene.
        segmenter: that for a device; it may have to be loaded.
        hindered: whether something else is being computed, so that there is no outline.
    """

    def __init__(
        self,
        page: Page,
        key: Callable[[], Hashable],
        look: Callable[[], tuple[ClickedView, Objects]],
        segmenter: Callable[[torch.device], Segmenter],
        hindered: Callable[[], bool],
    ) -> None:
        self._page, self._key, self._look = page, key, look
        self._segmenter, self._hindered = segmenter, hindered
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="luxel-object-preview")
        self._stopped = threading.Event()
        self._prepared: _Prepared | None = None
        self._newest = (0.5, 0.5)
        self._pending = False
        self._lock = threading.Lock()

    def start(self) -> None:
        """Follows the cursor."""
        self._stopped.clear()
        self._page.marks.follow(self._hover)

    def stop(self) -> None:
        """Follows it no more, and takes the outline away."""
        self._stopped.set()
        self._prepared = None
        self._page.marks.follow(None)

    def _hover(self, u: float, v: float) -> None:
        with self._lock:
            self._newest = (u, v)
            if self._pending:
                return
            self._pending = True
        self._pool.submit(self._answer)

    def _answer(self) -> None:
        polygons: list[list[tuple[float, float]]] = []
        try:
            polygons = self._polygons()
        except LuxelError as error:  # without a segmenter a click says so
            log.debug("no preview of an object: %s", error)
        except Exception:  # the page may be gone, or the scene another one meanwhile
            log.debug("an object could not be previewed", exc_info=True)
        with self._lock:
            self._pending = False
        if not self._stopped.is_set():
            self._page.marks.outline(polygons)

    def _polygons(self) -> list[list[tuple[float, float]]]:
        if self._hindered() or self._page.stream.playing:
            return []
        key, prepared = self._key(), self._prepared
        if prepared is None or prepared.key != key:
            if self._stopped.wait(REST) or self._key() != key or self._hindered():
                return []
            prepared = self._prepared = _Prepared(key, *self._look(), self._page)
        mask = prepared.mask(*self._newest, self._segmenter)
        return [] if mask is None or self._key() != key else outline(mask.numpy())


def outline(mask: np.ndarray) -> list[list[tuple[float, float]]]:
    """The borders of a mask, bool [H, W], as polygons with corners in [0, 1]; small parts are left out."""
    height, width = mask.shape
    # OpenCV's corners are centres of pixels, half a pixel inside of the border.
    contours, _ = cv2.findContours(mask.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    parts = sorted(contours, key=cv2.contourArea, reverse=True)[:MAX_POLYGONS]
    least = SMALL * cv2.contourArea(parts[0]) if parts else 0
    polygons, coarse = [], COARSE
    while True:
        polygons = [
            cv2.approxPolyDP(part, coarse, True)[:, 0] for part in parts if cv2.contourArea(part) >= least
        ]
        if sum(map(len, polygons)) <= MAX_CORNERS:
            break
        coarse *= 2
    return [[((x + 0.5) / width, (y + 0.5) / height) for x, y in polygon.tolist()] for polygon in polygons]
