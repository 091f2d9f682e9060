"""Interlaced frames, whose odd and even rows are of two times, to frames of one time, by FFmpeg's filter bwdif."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

FILTER = "mode=send_frame:parity=auto:deint=interlaced"  # a frame for each, of the time of its first field


def deinterlaced(frames: Iterator[Any], stream: Any) -> Iterator[Any]:
    """As many frames, of the same times, in the same order; those that are not interlaced are as they were.

    Args:
        frames: av.VideoFrame of one size.
        stream: that they are of.
    """
    graph, kind = None, ""
    for frame in frames:
        if graph is not None and frame.format.name != kind:
            yield from _pulled(graph, None)
            graph = None
        if graph is None and frame.interlaced_frame:
            graph, kind = _graph(stream, frame), frame.format.name
        if graph is None:
            yield frame
        else:
            yield from _pulled(graph, frame)
    if graph is not None:
        yield from _pulled(graph, None)


def _graph(stream: Any, frame: Any) -> Any:
    from av.filter import Graph

    graph = Graph()
    source = graph.add_buffer(
        width=frame.width, height=frame.height, format=frame.format, time_base=stream.time_base
    )
    bwdif, sink = graph.add("bwdif", FILTER), graph.add("buffersink")
    source.link_to(bwdif)
    bwdif.link_to(sink)
    graph.configure()
    return graph


def _pulled(graph: Any, frame: Any) -> Iterator[Any]:
    """Gives a frame, or None at the end, to a graph, and yields what it has finished."""
    graph.push(frame)
    while True:
        try:
            done = graph.pull()
        except (BlockingIOError, EOFError):
            return
        yield done
