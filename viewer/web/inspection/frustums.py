"""The frustums of views on a page: coloured by PSNR, clickable, out of the sight of the page's own camera."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from luxel.render.geometry.camera import View
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.page import Page
from luxel.viewer.web.shading.legend import Legend, false_colour

MAX_FRUSTUMS = 64
NEAR = 2.0  # sizes of a frustum within which it is hidden: its thumbnail would lie before the scene
THIN, MEDIUM, THICK = 1.5, 2.0, 4.0  # pixels of lines: of frustums, of those with a score, of the chosen one
PLAIN = (250, 150, 40)  # where no view has a score
UNSCORED = (130, 130, 135)  # of a view without a score where others have one
SCORES = np.array([[225, 45, 50], [250, 190, 60], [70, 200, 235]], np.float32)  # low to high


class Frustums:
    """The frustums of one page.

    Args:
        page: its session's views are shown.
    """

    def __init__(self, page: Page) -> None:
        self._page = page
        self._handles: dict[str, Any] = {}  # by the name of the view
        self._positions = np.zeros((0, 3))
        self._scale = 1.0
        self._on = False
        self._scores: Mapping[str, float] = {}
        self._lock = threading.Lock()
        page.chosen_view.on_change(self._emphasize)

    def show(self, on: bool, scores: Mapping[str, float] | None = None) -> None:
        """Shows or hides all; those within sight of the page's camera stay hidden.

        Args:
            on: whether they are shown.
            scores: PSNR in dB by the name of the view; None: as before.
        """
        with self._lock:
            self._on = on
            self._scores = self._scores if scores is None else dict(scores)
            if on and not self._handles:
                self._add()
            for name, handle in self._handles.items():
                colour = score_colour(self._scores, name)
                if tuple(handle.color) != colour:
                    handle.color = colour
        self.follow()
        self._emphasize()

    def _emphasize(self) -> None:
        """Draws the frustum of the page's chosen view with thicker lines."""
        chosen = self._page.chosen_view.view
        with self._lock:
            for name, handle in self._handles.items():
                is_chosen = chosen is not None and name == chosen.name
                thickness = THICK if is_chosen else MEDIUM if name in self._scores else THIN
                if handle.thickness != thickness:
                    handle.thickness = thickness

    def follow(self) -> None:
        """Hides the frustums that the page's camera stands in, and shows the others."""
        with self._lock:
            if not self._handles:
                return
            apart = np.linalg.norm(self._positions - self._page.pose().position, axis=1)
            for handle, distance in zip(self._handles.values(), apart, strict=True):
                visible = bool(self._on and distance > NEAR * self._scale)
                if handle.visible != visible:
                    handle.visible = visible

    def legend(self) -> Legend | None:
        """The colour bar of the scores; None where there are none."""
        low, high = score_range(self._scores)
        return Legend(f"{low:.1f} dB", f"{high:.1f} dB", SCORES) if self._scores else None

    def _add(self) -> None:
        page = self._page
        shown = chosen_views(page.session.views, self._scores)
        self._scale = frustum_scale([view for _, view in shown], page.extent.radius)
        self._positions = np.stack([view.camera.position.double().numpy() for _, view in shown])
        for index, view in shown:
            pose = Pose.of_camera(view.camera)
            frustum = page.client.scene.add_camera_frustum(
                f"/cameras/{index:05d}",
                fov=pose.fov_y,
                aspect=view.camera.width / view.camera.height,
                scale=self._scale,
                thickness=THIN,
                thickness_units="screen",
                color=score_colour(self._scores, view.name),
                image=page.thumbnails(view),
                wxyz=pose.wxyz,
                position=pose.position,
                cast_shadow=False,
                receive_shadow=False,
            )
            frustum.on_click(lambda _, view=view, frustum=frustum: self._fly(view, frustum))
            self._handles[view.name] = frustum

    def _fly(self, view: View, frustum: Any) -> None:
        frustum.visible = False  # before the camera is there, not after
        self._page.go_to(view)


def score_range(scores: Mapping[str, float]) -> tuple[float, float]:
    """Least and largest finite score, at least 1 dB apart; (0, 1) of none."""
    finite = [score for score in scores.values() if math.isfinite(score)]
    if not finite:
        return 0.0, 1.0
    return min(finite), max(max(finite), min(finite) + 1.0)


def score_colour(scores: Mapping[str, float], name: str) -> tuple[int, int, int]:
    """Colour of a view's frustum, 0..255: red for the least PSNR, blue for the largest, grey without one."""
    score = scores.get(name, math.nan)
    if math.isnan(score):
        return UNSCORED if scores else PLAIN
    low, high = score_range(scores)
    value = min(1.0, (score - low) / (high - low))
    red, green, blue = (false_colour(torch.tensor(value), SCORES) * 255).round().int().tolist()
    return red, green, blue


def chosen_views(views: Sequence[View], scores: Mapping[str, float]) -> list[tuple[int, View]]:
    """At most MAX_FRUSTUMS views with their indices: those with scores first, of both evenly many along their order."""
    indices = {view.name: index for index, view in enumerate(views)}
    scored = evenly([view for view in views if view.name in scores], MAX_FRUSTUMS)
    others = evenly([view for view in views if view.name not in scores], MAX_FRUSTUMS - len(scored))
    return sorted(((indices[view.name], view) for _, view in scored + others), key=lambda entry: entry[0])


def evenly(views: Sequence[View], limit: int) -> list[tuple[int, View]]:
    """At most ``limit`` of the views, evenly over their order, with their indices."""
    if len(views) <= limit:
        return list(enumerate(views))
    return [(int(i), views[int(i)]) for i in np.linspace(0, len(views) - 1, limit).round()]


def frustum_scale(views: Sequence[View], radius: float) -> float:
    """Size of frustums that leaves room between neighbours, a 30th to an 8th of the scene's radius."""
    if len(views) < 2:
        return radius / 8
    centres = torch.stack([view.camera.position for view in views]).double()
    apart = torch.cdist(centres, centres) + torch.diag(centres.new_full((len(views),), torch.inf))
    gap = float(apart.min(dim=1).values.median())
    return min(max(0.3 * gap, radius / 30), radius / 8)
