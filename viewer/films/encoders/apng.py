"""Animated PNG, by PyAV."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

from luxel.viewer.films.film_format import FilmOptions


@contextmanager
def encode_apng(
    path: Path, size: tuple[int, int], options: FilmOptions
) -> Iterator[Callable[[np.ndarray], None]]:
    """Lossless; each frame stores what differs from the one before."""
    form = "rgba" if options.alpha else "rgb24"
    rate = Fraction(options.fps).limit_denominator(1001)
    with av.open(str(path), "w", format="apng", options={"plays": str(options.loop or 0)}) as container:
        stream = container.add_stream("apng", rate=rate)
        stream.width, stream.height = size
        stream.pix_fmt = form

        def write(frame: np.ndarray) -> None:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), form)))

        yield write
        container.mux(stream.encode(None))
