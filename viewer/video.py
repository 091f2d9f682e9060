"""Writes frames as an MP4 video or as numbered PNG files."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from luxel.render.errors import LuxelError

CONTAINERS = {".mp4": "mp4", ".mov": "mov", ".mkv": "matroska", ".webm": "webm"}
VIDEOS = tuple(CONTAINERS)
H264 = {"crf": "18", "movflags": "+faststart"}  # almost without visible loss
VP9 = {"crf": "24", "b": "0", "row-mt": "1", "deadline": "good", "cpu-used": "4"}
BT709, LIMITED = 1, 1  # FFmpeg's numbers of the colour space and the range of values


def write_video(
    path: Path, frames: Iterable[np.ndarray], fps: float, on_frame: Callable[[], None] = lambda: None
) -> int:
    """Writes all frames.

    Args:
        path: name of a video (.mp4, .mov, .mkv, .webm; H.264, in .webm VP9), else of a folder.
        frames: uint8 [H, W, 3], or [H, W, 4] for PNG files only; all of one size.
        fps: frames per second of a video.
        on_frame: called after each frame.

    Returns:
        Number of frames written.

    Raises:
        LuxelError: the path cannot be written, or there is no video encoder.
    """
    try:
        if path.suffix.lower() in VIDEOS:
            return _encode(path, frames, fps, on_frame)
        if path.suffix and not path.is_dir():
            raise LuxelError(
                f"{path}: frames cannot be written as {path.suffix}.",
                "Give a name that ends in .mp4, or a folder for PNG files.",
            )
        path.mkdir(parents=True, exist_ok=True)
        count = 0
        for count, frame in enumerate(frames, 1):
            Image.fromarray(frame).save(path / f"{count - 1:05d}.png")
            on_frame()
        return count
    except OSError as error:
        raise LuxelError(
            f"{path}: cannot be written ({error.strerror or str(error).splitlines()[0]}).",
            "Free some space, or write elsewhere: `luxel render SCENE --out PATH`.",
        ) from error


def _encode(path: Path, frames: Iterable[np.ndarray], fps: float, on_frame: Callable[[], None]) -> int:
    """Encodes with FFmpeg; the video gets its name when it is complete."""
    try:
        import av
        from av.error import FFmpegError
    except ImportError as error:
        raise LuxelError(
            "PyAV, which encodes videos, is not installed.",
            "Install it (pip install av), or write PNG files into a folder.",
        ) from error
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".part-{path.name}")
    try:
        with av.open(str(part), "w", format=CONTAINERS[path.suffix.lower()]) as container:
            count = _write_frames(container, iter(frames), fps, on_frame)
        os.replace(part, path)
    except FFmpegError as error:
        raise OSError(error.errno, error.strerror) from error
    finally:
        part.unlink(missing_ok=True)
    return count


def _write_frames(
    container: Any, source: Iterator[np.ndarray], fps: float, on_frame: Callable[[], None]
) -> int:
    import av

    first = next(source)
    height, width = first.shape[:2]
    even = (height + height % 2, width + width % 2)  # 4:2:0 chroma has no odd sizes
    codec, options = ("libvpx-vp9", VP9) if container.format.name == "webm" else ("libx264", H264)
    stream = container.add_stream(codec, rate=Fraction(fps).limit_denominator(1001), options=options)
    stream.height, stream.width, stream.pix_fmt = *even, "yuv420p"
    stream.codec_context.colorspace = stream.codec_context.color_primaries = BT709
    stream.codec_context.color_trc, stream.codec_context.color_range = BT709, LIMITED
    count = 0
    for image in itertools.chain([first], source):
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(_padded(image, even)), "rgb24")
        container.mux(
            stream.encode(frame.reformat(format="yuv420p", dst_colorspace=BT709, dst_color_range=LIMITED))
        )
        count += 1
        on_frame()
    container.mux(stream.encode(None))
    return count


def _padded(frame: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """The frame with its last row and column repeated up to ``size``."""
    down, right = size[0] - frame.shape[0], size[1] - frame.shape[1]
    return np.pad(frame, ((0, down), (0, right), (0, 0)), mode="edge") if down or right else frame
