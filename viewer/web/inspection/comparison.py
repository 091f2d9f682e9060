"""A photograph and the render of its camera in one image, and the error between them."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera, View, poses_of
from luxel.render.metrics.evaluate import ground_truth
from luxel.render.metrics.image_metrics import psnr
from luxel.render.primitives import Parameters
from luxel.render.scene import Scene
from luxel.scenes.captures.true_ids import have_ids, read_ids
from luxel.viewer.segmenting import solid_ious, solid_overlaps
from luxel.viewer.web.chosen_view import ChosenView
from luxel.viewer.web.session import Session
from luxel.viewer.web.shading.legend import EMBER, SIGNED, Caption, Legend, false_colour
from luxel.viewer.web.shading.shading import (
    DisplaySettings,
    Painter,
    Sample,
    as_uint8,
    render_frame,
)

LUMINANCE = (0.2126, 0.7152, 0.0722)  # Rec. 709, of the colours as they are stored
BORDER = 0.08  # grey level around the image
SAME_POSITION = 2e-3  # distance from a view's camera, in radii of the scene, that still counts as its pose
SAME_TURN = 3e-3  # radians, likewise


@dataclass(frozen=True)
class Compared:
    """A view's image and the render of its camera.

    Args:
        name: of the view.
        truth, render: colours in [0, 1], [H, W, 3] in the image's pixels.
        psnr: dB, weighted as in `luxel.render.metrics.evaluate.evaluate`; NaN: no pixel counts.
        iou: mean IoU of the objects that are visible with the true solids, 0 to 1, as `luxel eval` has it; None: there
            are no objects, or no true ids of the view.
    """

    name: str
    truth: Tensor
    render: Tensor
    psnr: float
    iou: float | None = None

    @property
    def caption(self) -> str:
        """Name and scores in a line."""
        iou = "" if self.iou is None else f", mean IoU {100 * self.iou:.1f} %"
        psnr = "no pixel counts" if math.isnan(self.psnr) else f"PSNR {self.psnr:.2f} dB"
        return f"{self.name}: {psnr}{iou}"


@dataclass(frozen=True)
class ViewImage:
    """A view with its pixels in memory, and its true ids, uint8 [H, W], if it has any."""

    view: View
    ids: np.ndarray | None


def split_image(compared: Compared, split: float, scale: float) -> tuple[Tensor, Legend | None]:
    """The image left of a share ``split`` of the width, the render right of it."""
    column = round(split * compared.truth.shape[1])
    return torch.cat([compared.truth[:, :column], compared.render[:, column:]], dim=1), None


def difference_image(compared: Compared, split: float, scale: float) -> tuple[Tensor, Legend | None]:
    """Mean over the channels of |render - photograph|, from 0 to ``scale``."""
    error = (compared.render - compared.truth).abs().mean(-1)
    return false_colour(error / scale), Legend("0", f"{scale:.3g} absolute difference", EMBER)


def luminance_image(compared: Compared, split: float, scale: float) -> tuple[Tensor, Legend | None]:
    """Luminance of the render minus that of the image, from -``scale`` (too dark) to ``scale`` (too bright)."""
    weights = compared.truth.new_tensor(LUMINANCE)
    error = (compared.render - compared.truth) @ weights
    bar = Legend(f"-{scale:.3g} too dark", f"+{scale:.3g} too bright", SIGNED)
    return false_colour(0.5 + 0.5 * error / scale, SIGNED), bar


def squared_image(compared: Compared, split: float, scale: float) -> tuple[Tensor, Legend | None]:
    """Mean over the channels of the squared error, from 0 to the square of ``scale``."""
    error = (compared.render - compared.truth).square().mean(-1)
    return false_colour(error / scale**2), Legend("0", f"{scale**2:.3g} squared error", EMBER)


# What can be shown: (compared, split, error scale) -> colours [H, W, 3] and a colour bar. A new mode is one entry.
MODES: dict[str, Callable[[Compared, float, float], tuple[Tensor, Legend | None]]] = {
    "photograph | render": split_image,
    "|difference|": difference_image,
    "luminance error": luminance_image,
    "squared error": squared_image,
}

DIVIDED = next(name for name, image in MODES.items() if image is split_image)  # has both sides of a line


class Comparer:
    """Draws the comparison while the camera of a page stands at a view; a `Painter` of the page's images.

    The render is made with the view's own camera in the image's pixels, whatever the window, so that the PSNR is
    that of the evaluation. It is retained until the scene or its appearance changes. Images are read in a thread of
    their own: nothing waits for the disk.

    Args:
        session: its views, and the version of its scene.
        radius: of the scene, capture units.
        on_change: called when an image has been read; the page must draw again.
        chosen: the view of the page, which is meant where several have one camera; None: the first of them is.

    Attributes:
        mode, split, scale: which image of MODES, and what it is given.
        name: of the view where the camera stands; empty: at none.
        under: draws where the camera stands at no view; None: the output of the page.
    """

    def __init__(
        self,
        session: Session,
        radius: float,
        on_change: Callable[[], None],
        chosen: ChosenView | None = None,
    ) -> None:
        self.mode, self.split, self.scale = next(iter(MODES)), 0.5, 0.2
        self.name = ""
        self.under: Painter | None = None
        self._session, self._radius, self._on_change = session, radius, on_change
        self._chosen = chosen
        self._views: Sequence[View] = session.views
        self._poses = poses_of(self._views)
        self._view_images: dict[str, ViewImage | str] = {}
        self._key: Any = None
        self._compared: Compared | None = None
        self._lock = threading.Lock()

    def view_at(self, camera: Camera) -> View | None:
        """The view whose pose a camera has; None if it stands elsewhere."""
        if not len(self._poses):
            return None
        pose = camera.cam_to_world.detach().double().cpu().numpy()
        apart = np.linalg.norm(self._poses[:, :3, 3] - pose[:3, 3], axis=1)
        turns = (
            np.linalg.norm(self._poses[:, :3, :3] - pose[:3, :3], axis=(1, 2)) / 2**0.5
        )  # radians, if small
        near = (apart <= SAME_POSITION * self._radius) & (turns <= SAME_TURN)
        if not near.any():
            return None
        chosen = None if self._chosen is None else self._chosen.view
        if any(here and view is chosen for here, view in zip(near, self._views, strict=True)):
            return chosen
        return self._views[int(np.where(near, apart, np.inf).argmin())]

    def paint(self, scene: Scene, camera: Camera, settings: DisplaySettings) -> tuple[Tensor, str] | None:
        """The comparison in the pixels of ``camera``; None where it stands at no view, or until the file is read."""
        view = self.view_at(camera)
        view_image = None if view is None else self._view_image(view)
        self.name = "" if view is None else view.name
        if not isinstance(view_image, ViewImage):
            return None if self.under is None else self.under.paint(scene, camera, settings)
        compared = self._compare(scene, view_image, settings)
        image, legend = MODES[self.mode](compared, self.split, self.scale)
        caption = Caption(compared.caption, legend)
        divided = self.split if self.mode == DIVIDED else None
        return as_uint8(fitted(image, camera.width, camera.height, divided)), caption

    def in_films(self) -> Painter | None:
        """What draws where nothing is compared: a film that passes a view shows no photograph."""
        return None if self.under is None else self.under.in_films()

    def sample(
        self,
        scene: Scene,
        camera: Camera,
        settings: DisplaySettings,
        column: int,
        row: int,
    ) -> Sample | None:
        """The pixel of the page's own image, wherever the camera stands."""
        return None if self.under is None else self.under.sample(scene, camera, settings, column, row)

    def problem(self, name: str) -> str:
        """Why the image of a view cannot be shown; empty if it can, or is not known yet."""
        view_image = self._view_images.get(name)
        return view_image if isinstance(view_image, str) else ""

    def release(self) -> None:
        """Frees the images; they are made again when they are needed."""
        with self._lock:
            self._view_images = {}
        self._key = self._compared = None

    def _view_image(self, view: View) -> ViewImage | str | None:
        """The view with what is compared in memory, or why they cannot be read; None while they are being read."""
        with self._lock:
            if view.name not in self._view_images:
                self._view_images = {view.name: ""}  # one at a time: images are large
                threading.Thread(target=self._read, args=(view,), daemon=True).start()
            return self._view_images[view.name] or None

    def _read(self, view: View) -> None:
        try:
            pixels = view.read()
            ids = read_ids(view) if have_ids([view]) else None
            read: ViewImage | str = ViewImage(replace(view, read=lambda: pixels), ids)
        except Exception as error:  # a missing file costs its comparison, not the page
            read = f"{view.name} cannot be read: {error}"
        with self._lock:
            if view.name in self._view_images:
                self._view_images[view.name] = read
        self._on_change()

    def _compare(self, scene: Scene, view_image: ViewImage, settings: DisplaySettings) -> Compared:
        view = view_image.view
        appearance = (settings.background, settings.antialiased, settings.splat_scale)
        key = (self._session.version, view.name, settings.near, settings.far, *appearance)
        compared = self._compared
        if compared is None or key != self._key:
            with torch.no_grad():
                background = torch.tensor(settings.background, device=scene.device)
                truth, weight = ground_truth(view, background)
                own = replace(view.camera, near=settings.near, far=settings.far).to(scene.device)
                frame, _ = render_frame(scene, own, replace(settings, time=view.time))
                image = frame.rgb.clamp(0, 1)
                iou = mean_iou(scene.part(Parameters), view_image, settings)
                quality = psnr(image, truth, weight) if view.read().counts else math.nan
                compared = Compared(view.name, truth, image, quality, iou)
                self._key, self._compared = key, compared
        return compared


def mean_iou(scene: Parameters | None, view_image: ViewImage, settings: DisplaySettings) -> float | None:
    """Mean IoU of the objects that a view shows with the true solids, 0 to 1; None where that cannot be compared."""
    source = settings.objects
    if view_image.ids is None or source is None or scene is None:
        return None
    objects, options = source.objects, {"antialiased": settings.antialiased and scene.antialiases}
    if not objects.objects or len(objects.labels) != scene.count:
        return None
    overlaps = solid_overlaps(objects, scene, view_image.view, view_image.ids, **options)
    scores = solid_ious(objects, overlaps, visible_only=True)
    return None if scores is None else scores["mean"]


class Letterbox(NamedTuple):
    """Where an image lies in a larger window, pixels of the window."""

    top: int
    left: int
    rows: int
    columns: int


def letterbox(image_width: int, image_height: int, width: int, height: int) -> Letterbox:
    """The place of an image in the middle of width x height pixels, as large as fits."""
    factor = min(width / image_width, height / image_height)
    columns = min(width, max(1, round(image_width * factor)))
    rows = min(height, max(1, round(image_height * factor)))
    return Letterbox((height - rows) // 2, (width - columns) // 2, rows, columns)


def fitted(image: Tensor, width: int, height: int, split: float | None = None) -> Tensor:
    """An image [h, w, 3] in the middle of width x height pixels, as large as fits, [height, width, 3].

    With a share ``split`` of the image's width a line is drawn there.
    """
    top, left, rows, columns = letterbox(image.shape[1], image.shape[0], width, height)
    factor = columns / image.shape[1]
    small = torch.nn.functional.interpolate(
        image.permute(2, 0, 1)[None], (rows, columns), mode="bilinear", antialias=factor < 1
    )[0].permute(1, 2, 0)
    canvas = image.new_full((height, width, 3), BORDER)
    canvas[top : top + rows, left : left + columns] = small
    if split is not None and 0 < split < 1:
        column = left + round(split * columns)
        canvas[top : top + rows, max(0, column - 1) : column + 1] = 1.0
    return canvas
