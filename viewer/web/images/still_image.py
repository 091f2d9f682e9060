"""A still image of what a page shows, at any size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from luxel.render.geometry.camera import Camera
from luxel.viewer.films.output_file import OutputFile
from luxel.viewer.films.still import TILE, write_still
from luxel.viewer.web.session import Session
from luxel.viewer.web.shading.film_frame import film_frame
from luxel.viewer.web.shading.shading import DisplaySettings, output_named

MAX_SIDE = 7680  # pixels: 8K is 7680 x 4320


def write_page_still(
    session: Session,
    camera: Camera,
    settings: DisplaySettings,
    output: OutputFile,
    *,
    transparent: bool = False,
    quality: int | None = None,
    on_progress: Callable[[float], None] = lambda share: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> None:
    """Renders one image and writes it; see `luxel.viewer.films.still.write_still`.

    A finished scene is rendered as it is at first, whatever is edited meanwhile, and pages get their images between two
    tiles. A training waits until the image is complete. Outputs whose colours span the range of the image, and two
    scenes under one camera, are rendered in one piece.

    Args:
        session: the scene.
        camera: of the whole image, at most MAX_SIDE pixels along a side; the settings have its clipping distances.
        settings: how it looks; what tools add to the images of a page is left out, see `film_frame`.
        output: .png, .jpg, .webp or .tif.
        transparent: write straight alpha instead of a background.
        quality, on_progress, cancelled: see `write_still`.

    Raises:
        ValueError: the camera has more pixels along a side.
        StillCancelledError: ``cancelled`` was true; nothing is left of the file.
        LuxelError: the scene has no such output or no alpha, or the file cannot be written.
    """
    if max(camera.width, camera.height) > MAX_SIDE:
        raise ValueError(
            f"camera must have at most {MAX_SIDE} pixels a side, got {camera.width}x{camera.height}"
        )
    camera = replace(camera, near=settings.near, far=settings.far)
    in_one = output_named(settings.output).ranged or (
        settings.painter is not None and settings.painter.in_films() is not None
    )

    def write(render: Callable[[Camera], np.ndarray]) -> None:
        write_still(
            output,
            camera,
            render,
            alpha=transparent,
            quality=quality,
            on_progress=on_progress,
            cancelled=cancelled,
            tile=camera.width * camera.height if in_one else TILE,
        )

    if session.trains:
        with session.borrow() as scene:
            write(lambda part: film_frame(scene, part.to(scene.device), settings, transparent=transparent))
        return
    with session.borrow() as scene:
        shown = scene  # an edit makes another one

    def render(part: Camera) -> np.ndarray:
        with session.borrow():
            return film_frame(shown, part.to(shown.device), settings, transparent=transparent)

    write(render)
