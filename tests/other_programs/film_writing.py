"""Films as cameras and editors write them, of frames that a test draws; without the encoder the test is skipped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

UNIT = Fraction(1, 9000)  # seconds of a timestamp that is given


def require_encoder(codec: str) -> None:
    """Skips the test where this build of FFmpeg does not have an encoder."""
    try:
        av.codec.Codec(codec, "w")
    except ValueError:
        pytest.skip(f"this FFmpeg has no encoder {codec}: films of it were not tested")


def write_film(
    path: Path,
    frames: Iterable[np.ndarray],
    rate: float = 10,
    *,
    codec: str = "libx264",
    pix_fmt: str = "yuv420p",
    options: dict[str, str] | None = None,
    times: Sequence[float] | None = None,
    unit: Fraction = UNIT,
    matrix: Sequence[int] | None = None,
    container: str | None = None,
    mux: dict[str, str] | None = None,
    colours: tuple[int, int, int] | None = None,
    field_order: str = "",
) -> Path:
    """A film of frames uint8 [H, W, 3 or 4].

    Args:
        times: seconds of the frames; None: one after another at ``rate``.
        unit: seconds of a timestamp, where times are given.
        matrix: nine numbers of the display matrix.
        mux: options of the container.
        field_order: "tff" or "bff" of interlaced frames.
        colours: FFmpeg's numbers of primaries, transfer function and matrix, which the stream is marked with.
    """
    require_encoder(codec)
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w", format=container, options=mux or {}) as output:
        stream = None
        for number, pixels in enumerate(frames):
            if stream is None:
                stream = output.add_stream(codec, rate=Fraction(rate).limit_denominator(1000))
                stream.height, stream.width = pixels.shape[:2]
                stream.pix_fmt, stream.options = pix_fmt, options or {"crf": "4"}
                if times is not None:
                    stream.codec_context.time_base = unit
                if matrix is not None:
                    stream.set_display_matrix(list(matrix))
                if colours:
                    context = stream.codec_context
                    context.color_primaries, context.color_trc, context.colorspace = colours
            frame = _frame(pixels, pix_fmt, number, times, unit)
            output.mux(
                stream.encode(_marked(frame, field_order, 1 / Fraction(rate)) if field_order else frame)
            )
        output.mux(stream.encode(None))
    return path


def _frame(
    pixels: np.ndarray, pix_fmt: str, number: int, times: Sequence[float] | None, unit: Fraction
) -> Any:
    kind = "rgba" if pixels.shape[2] == 4 else "rgb24"
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), kind).reformat(format=pix_fmt)
    frame.pts = number if times is None else round(times[number] / unit)
    if times is not None:
        frame.time_base = unit
    return frame


def _marked(frame: Any, field_order: str, unit: Fraction) -> Any:
    """The frame, marked as interlaced."""
    graph = av.filter.Graph()
    source = graph.add_buffer(
        width=frame.width, height=frame.height, format=frame.format, time_base=Fraction(1, 1)
    )
    mark, sink = graph.add("setfield", f"mode={field_order}"), graph.add("buffersink")
    source.link_to(mark)
    mark.link_to(sink)
    graph.configure()
    graph.push(frame)
    marked = graph.pull()
    marked.time_base = frame.time_base or unit
    return marked


def packets_of(path: Path) -> list[tuple[int, int]]:
    """Where the packets of a film are in its file, and their sizes in bytes."""
    with av.open(str(path)) as container:
        return [(p.pos, p.size) for p in container.demux(container.streams.video[0]) if p.size]


def shade(*colour: float, size: tuple[int, int] = (48, 36)) -> np.ndarray:
    """A frame of one colour, uint8 [H, W, 3]."""
    return np.broadcast_to(np.round(colour).astype(np.uint8), (size[1], size[0], 3)).copy()


def texture(shift: int, size: tuple[int, int] = (96, 64)) -> np.ndarray:
    """A random texture of squares of four pixels that has moved to the left, uint8 [H, W, 3]."""
    squares = np.random.default_rng(0).integers(40, 216, (size[1] // 4, 64, 1), np.uint8).repeat(3, 2)
    return squares.repeat(4, 0).repeat(4, 1)[:, shift : shift + size[0]].copy()
