"""Animated PNG, by imageio."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import imageio.v3 as imageio
import numpy as np
from imageio.plugins.pyav import PyAVPlugin

from luxel.viewer.films.film_format import FilmOptions


@contextmanager
def encode_apng(
    path: Path, size: tuple[int, int], options: FilmOptions
) -> Iterator[Callable[[np.ndarray], None]]:
    """Lossless; each frame stores what differs from the one before."""
    form = "rgba" if options.alpha else "rgb24"
    with imageio.imopen(path, "w", plugin=PyAVPlugin, options={"plays": str(options.loop or 0)}) as film:
        film.init_video_stream("apng", fps=options.fps, pixel_format=form)

        def write(frame: np.ndarray) -> None:
            film.write_frame(frame, pixel_format=form)

        yield write
