"""A film of a camera path, as a page shows the scene."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from luxel.scenes.paths import CameraPath
from luxel.viewer.films.film import write_film
from luxel.viewer.films.output_file import OutputFile
from luxel.viewer.web.session import Session
from luxel.viewer.web.shading.film_frame import film_frame
from luxel.viewer.web.shading.shading import DisplaySettings


def write_page_film(
    session: Session,
    path: CameraPath,
    settings: DisplaySettings,
    output: OutputFile | Path,
    on_frame: Callable[[float], None] = lambda share: None,
) -> int:
    """Renders a camera path to a film; pages and training go on between its frames.

    Args:
        session: the scene; each frame shows it as it is then.
        path: cameras of the size of the film, and times.
        settings: how the frames look; what tools add to the images of a page is left out, see `film_frame`.
        output: of the film, in any format; see `luxel.viewer.films.film.write_film`.
        on_frame: called with the share that is done after each frame; an exception of it ends the film, and nothing is
            left of the file.

    Returns:
        Number of frames.

    Raises:
        LuxelError: as `film_frame` and `write_film`.
    """
    done, count = 0, len(path.cameras)

    def advance() -> None:
        nonlocal done
        done += 1
        on_frame(done / count)

    return write_film(output, _images(session, path, settings), path.fps, advance)


def _images(session: Session, path: CameraPath, settings: DisplaySettings) -> Iterator[np.ndarray]:
    """The frames, uint8 [H, W, 3]."""
    times = path.times or [settings.time] * len(path.cameras)
    for camera, time in zip(path.cameras, times, strict=True):
        clipped = replace(camera, near=settings.near, far=settings.far)
        with session.borrow() as scene:
            yield film_frame(scene, clipped.to(scene.device), replace(settings, time=time))
