"""Finds the primitives of an object from a click on the image of a page, by a segmenter and votes through the scene."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera, Pixels, View
from luxel.render.primitives import Parameters
from luxel.render.segment import Prompt, PropagateOptions, Propagation, Segmenter, SolveOptions, Votes
from luxel.render.segment.label_image import label_image
from luxel.render.segment.mask_choice import best_for
from luxel.render.segment.segmenter import MaskChoice, Point, on_cpu

SIDE = 1024  # pixels, at most, of an image for the segmenter
TURNS = (
    -40.0,
    40.0,
    -80.0,
    80.0,
    180.0,
)  # degrees about the clicked point, of cameras where a scene has no views
STEEP = math.cos(math.radians(30))
CHOICE = 60  # views that are offered, evenly spread over those of the capture
HERE = "the view of the page"
ALIKE = 0.85  # IoU from which two masks are offered as one

Draw = Callable[[Camera, float], np.ndarray]
"""The image of a camera at a time, uint8 [H, W, 3]."""


@dataclass(frozen=True)
class ClickedView:
    """Where the page was clicked.

    Args:
        scene: what is rendered: N primitives, hidden ones invisible.
        camera: of the page, on the CPU.
        time: that the page shows.
        point: x, y in pixels of the camera.
        surface: the clicked point of the scene, world coordinates; None where nothing is opaque enough.
        up: unit vector of the scene, [3].
        draw: gives images of the scene.
        render: options of `rasterize` that change alpha.
        beside: x, y in pixels of the camera of points that are not on the object.
    """

    scene: Parameters
    camera: Camera
    time: float
    point: tuple[float, float]
    surface: np.ndarray | None
    up: np.ndarray
    draw: Draw
    render: dict[str, Any]
    beside: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class Candidates:
    """The masks that a segmenter has for the points of an object.

    Args:
        choice: all of them, on the CPU.
        sizes: places in ``choice`` of those that differ, by area.
        best: place in ``sizes`` of the one that `best_for` takes.
    """

    choice: MaskChoice
    sizes: tuple[int, ...]
    best: int

    @staticmethod
    def of(choice: MaskChoice, points: Sequence[Point]) -> Candidates:
        """Those that agree with as many points as the best one, and of those that are nearly the same one."""
        best = best_for(choice, points)
        height, width = choice.masks.shape[-2:]

        def agreeing(mask: Tensor) -> int:
            at = ((min(int(y), height - 1), min(int(x), width - 1), on) for x, y, on in points)
            return sum(bool(mask[row, column]) == on for row, column, on in at)

        kept, needed = [best], agreeing(choice.masks[best])
        for index, mask in enumerate(choice.masks):
            if agreeing(mask) >= needed and all(_iou(mask, choice.masks[k]) < ALIKE for k in kept):
                kept.append(index)
        kept.sort(key=lambda index: int(choice.masks[index].sum()))
        return Candidates(choice, tuple(kept), kept.index(best))

    def mask(self, place: int) -> Tensor:
        """The mask at a place of ``sizes``, bool [H, W]."""
        return self.choice.masks[self.sizes[place]]


class ObjectSearch:
    """The search for one clicked object.

    Args:
        segmenter: finds masks in images.
        clicked: where.
        views: of the capture; where there are none, cameras turn about the clicked point.
    """

    def __init__(self, segmenter: Segmenter, clicked: ClickedView, views: Sequence[View] = ()) -> None:
        self._segmenter, self._clicked = segmenter, clicked
        self._camera = limited(clicked.camera)
        ratio = self._camera.width / clicked.camera.width
        self._points: list[Point] = [
            (x * ratio, y * ratio, on)
            for (x, y), on in ((clicked.point, True), *((p, False) for p in clicked.beside))
        ]
        self._image = clicked.draw(self._camera, clicked.time)
        self._embedding: Any = None
        self._candidates: Candidates | None = None
        self._place: int | None = None
        self._views = [self._as_view(HERE, self._camera), *self._others(views)]

    @property
    def place(self) -> int:
        """Which of the candidates is meant, from the smallest, 0, on; at first the best."""
        return self.candidates.best if self._place is None else self._place

    @property
    def candidates(self) -> Candidates:
        """The masks in the page's own view."""
        if self._candidates is None:
            choice = on_cpu(self._segmenter.masks(self._embed(), self._points))
            self._candidates = Candidates.of(choice, self._points)
        return self._candidates

    def choose(self, place: int) -> None:
        """Means another candidate, of the places 0 to the number of `Candidates.sizes` less one; the nearest counts."""
        self._place = min(max(place, 0), len(self.candidates.sizes) - 1)

    def share(self) -> float:
        """The fraction of what the page's own view shows that the mask covers, 0 to 1."""
        scene, camera = self._clicked.scene, self._camera.to(self._clicked.scene.device)
        none = torch.zeros(scene.count, dtype=torch.uint8, device=scene.device)
        shown = (
            label_image(scene, camera, none, 1, self._time, **self._clicked.render).transmittance.cpu() < 0.5
        )
        return float((self.candidates.mask(self.place) & shown).sum()) / max(1, int(shown.sum()))

    def first(self) -> Tensor:
        """The primitives below the mask in the page's own view, bool [N].

        Raises:
            LuxelError: there is no mask, or there are no primitives below it.
        """
        mask = self.candidates.mask(self.place)
        votes = Votes(self._clicked.scene.count, 2, self._clicked.scene.device)
        camera = self._camera.to(self._clicked.scene.device)
        votes.add(
            self._clicked.scene,
            camera,
            mask.to(camera.world_to_cam.device, torch.uint8),
            self._time,
            **self._clicked.render,
        )
        chosen = votes.leaders().label == 1  # what no pixel shows stays out
        if not bool(chosen.any()):
            raise LuxelError(
                "no object is found there.", "Click inside an object that the image shows clearly."
            )
        return chosen

    def everywhere(self, on_view: Callable[[int], None]) -> Tensor:
        """The primitives of the object after the search through further views, bool [N].

        Args:
            on_view: called with the number of each view before it is looked at, from 1 on; what it raises ends the
                search.
        """
        looked: list[str] = []

        def count(name: str) -> None:
            looked.append(name)
            on_view(len(looked))

        propagation = Propagation(
            self._clicked.scene,
            self._views,
            self,
            [Prompt(1, HERE, tuple(self._points))],
            PropagateOptions(),
            SolveOptions(),
            look=self._look,
            on_view=count,
            render=self._clicked.render,
        )
        return propagation.run().solution.labels == 1

    def embed(self, image: np.ndarray) -> Any:
        """As of the segmenter; that of the page's own image is retained."""
        return self._embed() if image is self._image else self._segmenter.embed(image)

    def masks(self, embedding: Any, points: Any, box: Any = None) -> Any:
        """As of the segmenter; of the page's own image the chosen mask alone, where it is not the best."""
        proposed = self._candidates
        own = (
            proposed is not None
            and embedding is self._embedding
            and list(points) == self._points
            and box is None
        )
        if proposed is None or not own or self.place == proposed.best:
            return self._segmenter.masks(embedding, points, box)
        index = proposed.sizes[self.place]
        one = slice(index, index + 1)
        return MaskChoice(
            proposed.choice.masks[one],
            proposed.choice.logits[one],
            proposed.choice.predicted_iou[one],
            single=True,
        )

    def _embed(self) -> Any:
        if self._embedding is None:
            self._embedding = self._segmenter.embed(self._image)
        return self._embedding

    @property
    def _time(self) -> float | None:
        return self._clicked.time if self._clicked.scene.moves else None

    def _look(self, view: View) -> np.ndarray:
        return self._image if view.name == HERE else self._clicked.draw(view.camera, view.time)

    def _as_view(self, name: str, camera: Camera) -> View:
        plain = replace(camera, world_to_cam=camera.world_to_cam.cpu(), intrinsics=camera.intrinsics.cpu())
        return View(
            name, plain, lambda: Pixels(self._clicked.draw(plain, self._clicked.time)), self._clicked.time
        )

    def _others(self, views: Sequence[View]) -> list[View]:
        """Views of the capture at the page's size at most, else cameras about the clicked point."""
        if views:
            step = math.ceil(len(views) / CHOICE)
            return [
                self._as_view(
                    f"view {k}",
                    view.camera.scaled(min(1.0, SIDE / max(view.camera.width, view.camera.height))),
                )
                for k, view in enumerate(views[::step])
            ]
        point = self._clicked.surface
        if point is None:
            return []
        return [self._as_view(f"turn {turn:g}", self._turned(math.radians(turn), point)) for turn in TURNS]

    def _turned(self, angle: float, point: np.ndarray) -> Camera:
        """The page's camera after a turn about an axis through a point [3]."""
        _, down, forward = self._camera.world_to_cam[:3, :3].double().cpu().numpy()
        level = (
            abs(self._clicked.up @ forward) < STEEP
        )  # else a turn about the scene's axis would show little more
        axis = self._clicked.up if level else -down
        cross = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]])
        turn = np.eye(3) + math.sin(angle) * cross + (1 - math.cos(angle)) * cross @ cross
        around = np.eye(4)
        around[:3, :3], around[:3, 3] = turn, point - turn @ point
        inverse = torch.from_numpy(np.linalg.inv(around)).to(self._camera.world_to_cam)
        return replace(self._camera, world_to_cam=self._camera.world_to_cam @ inverse)


def _iou(a: Tensor, b: Tensor) -> float:
    return float((a & b).sum()) / max(1.0, float((a | b).sum()))


def limited(camera: Camera) -> Camera:
    """The camera with at most SIDE pixels along the longer side."""
    return camera.scaled(min(1.0, SIDE / max(camera.width, camera.height)))
