"""Draws two scenes under the camera of a page."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera
from luxel.render.metrics.image_metrics import psnr
from luxel.render.scene import Scene
from luxel.viewer.web.inspection.coverage import coverage_of
from luxel.viewer.web.pair.images import DIFFERENCES, divide, joined, write_name
from luxel.viewer.web.pair.session import PairSession, Side
from luxel.viewer.web.shading.emptiness import is_empty, why_empty, write_on
from luxel.viewer.web.shading.legend import Caption, legend_of
from luxel.viewer.web.shading.shading import (
    DisplaySettings,
    Sample,
    as_uint8,
    output_named,
    render_output,
    require_output,
    sample,
)

MISSING = 0.08  # grey level of an image that a scene does not have
MIN_WRITABLE = 60  # px: narrower parts have no room for a sentence


@dataclass(frozen=True)
class Part:
    """What was rendered of one scene.

    Args:
        side: the scene.
        frame: as the output of the page needs it; None: the scene has no such output.
        background: [3].
        message: why nothing is visible of it; empty where something is.
        ms: time of the render; 0 where the scene was not rendered.
    """

    side: Side
    frame: Any
    background: Tensor
    message: str
    ms: float


class PairPainter:
    """Draws the images of a page that shows two scenes; a `Painter`.

    Both scenes are rendered with the camera of the page in full, so that parts and differences fit together to the
    pixel; a scene of which nothing would be visible is not rendered. False colours have one scale for both.

    Args:
        session: the scenes.

    Attributes:
        split: share of the width that the left scene takes, in [0, 1].
        difference: whether the difference is shown instead.
        swapped: whether the scenes have changed sides.
        scale: difference of colours or alpha at the end of the colour bar.
        parts: left and right of the last image.
        caption: of the last image.
    """

    def __init__(self, session: PairSession) -> None:
        self.session = session
        self.split, self.difference, self.swapped, self.scale = 0.5, False, False, 0.2
        self.parts: tuple[Part, ...] = ()
        self.caption: str = ""

    @property
    def sides(self) -> tuple[Side, Side]:
        """Left and right as they are shown."""
        left, right = self.session.sides
        return (right, left) if self.swapped else (left, right)

    def paint(self, scene: Scene, camera: Camera, settings: DisplaySettings) -> tuple[Tensor, str]:
        """Both scenes in the pixels of ``camera``; ``scene`` is the main one, and borrowed."""
        if not self.difference:
            settings = settings.on_page()
        column = round(min(max(self.split, 0.0), 1.0) * camera.width)
        rendered = (self.difference or column > 0, self.difference or column < camera.width)
        with torch.no_grad():
            parts = tuple(
                self._part(side, scene, camera, settings, shown)
                for side, shown in zip(self.sides, rendered, strict=True)
            )
            shade = self._difference if self.difference else self._side_by_side
            image, caption = shade(parts, settings.output, column)
        self.parts, self.caption = parts, caption
        return image, caption

    def in_films(self) -> PairPainter:
        """The same: films show both scenes, too."""
        return self

    def sample(
        self,
        scene: Scene,
        camera: Camera,
        settings: DisplaySettings,
        column: int,
        row: int,
    ) -> Sample:
        """The pixel of the scene that is shown there, and of the other one."""
        on_left = self.difference or column < self.split * camera.width
        first, second = self.sides if on_left else self.sides[::-1]
        here, there = (self._sample(side, scene, camera, settings, column, row) for side in (first, second))
        return replace(here, others=(there,))

    def _sample(
        self, side: Side, main: Any, camera: Camera, settings: DisplaySettings, column: int, row: int
    ) -> Sample:
        with self._borrowed(side, main) as scene:
            own = replace(self._settings(side, settings), output="colour")
            return replace(sample(scene, camera, own, column, row), name=side.name)

    @contextmanager
    def _borrowed(self, side: Side, main: Any) -> Iterator[Any]:
        """The scene of a side; the main one is the page's already."""
        if side is self.session.sides[self.session.main]:
            yield main
        else:
            with side.session.borrow(self) as scene:
                yield scene

    def _settings(self, side: Side, settings: DisplaySettings) -> DisplaySettings:
        """Those of the page; antialiased as the scene was trained, unless the page's choice was changed."""
        chosen = settings.antialiased != self.session.antialiased
        views = len(side.session.training_views) > 0
        return replace(
            settings,
            painter=None,
            antialiased=settings.antialiased if chosen else side.session.antialiased,
            seen=coverage_of(side.session) if views else None,
        )

    def _part(self, side: Side, main: Any, camera: Camera, settings: DisplaySettings, shown: bool) -> Part:
        own = self._settings(side, settings)
        with self._borrowed(side, main) as scene:
            nothing = torch.full((3,), MISSING, device=scene.device)
            if not shown:
                return Part(side, None, nothing, "", 0.0)
            try:
                require_output(scene, own)
            except LuxelError as error:
                return Part(side, None, nothing, str(error), 0.0)
            start = time.monotonic()
            frame, background = render_output(scene, camera, own)
            if frame.rgb.is_cuda:
                torch.cuda.synchronize(frame.rgb.device)  # for the time, and before the scene is given back
            ms = (time.monotonic() - start) * 1e3
            empty = why_empty(scene, camera, settings.time) if is_empty(frame) else ""
            return Part(side, frame, background, empty, ms)

    def _side_by_side(self, parts: tuple[Part, ...], output: str, column: int) -> tuple[Tensor, str]:
        """The left scene left of a column, the right one right of it."""
        left, right = parts
        frames = [part.frame for part in parts if part.frame is not None]
        if not frames:
            raise LuxelError("; ".join(part.message for part in parts if part.message))
        width = frames[0].rgb.shape[1]
        frame = joined(left.frame, right.frame, column) if len(frames) == 2 else frames[0]
        rgb, caption = output_named(output).shade(
            frame, next(p.background for p in parts if p.frame is frames[0])
        )
        image = as_uint8(rgb)
        for part, start, end in ((left, 0, column), (right, column, width)):
            if part.frame is None and end > start:
                image[:, start:end] = round(255 * MISSING)
            if part.message and end - start >= MIN_WRITABLE:
                written = write_on(image[:, start:end].cpu().numpy(), f"{part.side.name}: {part.message}")
                image[:, start:end] = torch.from_numpy(written).to(image.device)
        divide(image, column)
        write_name(image, left.side.name, 0, column)
        write_name(image, right.side.name, column, width, at_right=True)
        notice = left.message if left.message and right.message else ""
        return image, Caption(caption, legend_of(caption), notice)

    def _difference(self, parts: tuple[Part, ...], output: str, column: int) -> tuple[Tensor, str]:
        """Right minus left."""
        left, right = parts
        names = f"{right.side.name} minus {left.side.name}"
        missing = [part for part in parts if part.frame is None]
        if missing:
            raise LuxelError(
                f"there is no difference of {output!r}: {missing[0].side.name}: {missing[0].message}",
                "Choose another output.",
            )
        rgb, legend = DIFFERENCES[output](left.frame, right.frame, self.scale)
        image = as_uint8(rgb)
        write_name(image, names, 0, image.shape[1])
        text = names
        if output == "colour":
            images = [part.frame.rgb.clamp(0, 1) for part in parts]
            text = f"{names}: PSNR {psnr(images[1], images[0]):.2f} dB"
        notice = left.message if left.message and right.message else ""
        return image, Caption(text, legend, notice)
