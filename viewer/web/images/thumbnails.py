"""Small versions of the views' images, made once for all pages."""

from __future__ import annotations

import threading

import cv2
import numpy as np

from luxel.render.geometry.camera import View

THUMBNAIL = 96  # pixels along the longer side


class Thumbnails:
    """Makes thumbnails on the first request, and keeps them by the name of the view."""

    def __init__(self) -> None:
        self._images: dict[str, np.ndarray | None] = {}
        self._lock = threading.Lock()

    def __call__(self, view: View) -> np.ndarray | None:
        """The image on white at THUMBNAIL pixels, uint8 [h, w, 3]; None if it cannot be read. May be slow."""
        with self._lock:
            if view.name not in self._images:
                self._images[view.name] = self._make(view)
            return self._images[view.name]

    def _make(self, view: View) -> np.ndarray | None:
        try:
            pixels = view.read()
        except Exception:  # a missing image costs its thumbnail, not the page
            return None
        rgb = pixels.rgb
        if pixels.alpha is not None:
            alpha = pixels.alpha[..., None].astype(np.float32) / 255
            rgb = (rgb * alpha + 255 * (1 - alpha)).astype(np.uint8)
        factor = THUMBNAIL / max(rgb.shape[:2])
        size = (max(1, round(rgb.shape[1] * factor)), max(1, round(rgb.shape[0] * factor)))
        return cv2.resize(rgb, size, interpolation=cv2.INTER_AREA)
