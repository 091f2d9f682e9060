"""Animated GIF, by PyAV: each frame with a palette of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.error import BlockingIOError as NoFrameYetError
from av.error import EOFError as EndOfFramesError
from av.filter import Graph

from luxel.viewer.films.film_format import FilmOptions


@contextmanager
def encode_gif(
    path: Path, size: tuple[int, int], options: FilmOptions
) -> Iterator[Callable[[np.ndarray], None]]:
    """256 colours a frame; with alpha a pixel is opaque from an alpha of 1/2 on, and else transparent."""
    width, height = size
    rate = Fraction(options.fps).limit_denominator(1001)
    with av.open(str(path), "w", format="gif", options={"loop": str(_repeats(options.loop))}) as container:
        stream = container.add_stream("gif", rate=rate)
        stream.width, stream.height, stream.pix_fmt = width, height, "pal8"
        form = "rgba" if options.alpha else "rgb24"
        graph = _palettes(width, height, form, 1 / rate, options.alpha)
        count = 0

        def write(image: np.ndarray) -> None:
            nonlocal count
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(image), form)
            frame.pts, frame.time_base = count, 1 / rate
            count += 1
            graph.push(frame)
            drain()

        def drain() -> None:
            while True:
                try:
                    container.mux(stream.encode(graph.pull()))  # type: ignore[arg-type]
                except (NoFrameYetError, EndOfFramesError):
                    return

        yield write
        graph.push(None)
        drain()
        container.mux(stream.encode(None))


def _repeats(loop: int | None) -> int:
    """What FFmpeg and the format call loop: how often the film is played again; -1: never, 0: for ever."""
    if not loop:
        return 0
    return -1 if loop == 1 else loop - 1


def _palettes(width: int, height: int, form: str, time_base: Fraction, alpha: bool) -> Graph:
    """The filter that gives each frame the 256 colours that suit it, one of them transparent where there is alpha."""
    graph = Graph()
    source = graph.add_buffer(width=width, height=height, format=av.VideoFormat(form), time_base=time_base)
    split = graph.add("split")
    generate = graph.add("palettegen", f"stats_mode=single:reserve_transparent={int(alpha)}")
    use = graph.add("paletteuse", "new=1:alpha_threshold=128")
    sink = graph.add("buffersink")
    source.link_to(split)
    split.link_to(use, 0, 0)
    split.link_to(generate, 1, 0)
    generate.link_to(use, 0, 1)
    use.link_to(sink)
    graph.configure()
    return graph
