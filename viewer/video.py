"""Writes frames as an MP4 video or as numbered PNG files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from luxel.render.errors import LuxelError

VIDEOS = (".mp4", ".mov", ".mkv", ".webm")


def write_video(
    path: Path, frames: Iterable[np.ndarray], fps: float, on_frame: Callable[[], None] = lambda: None
) -> int:
    """Writes all frames.

    Args:
        path: name of a video (.mp4, .mov, .mkv, .webm; H.264 where the container allows it), else of a folder.
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
    """Encodes with ffmpeg; the video gets its name when it is complete."""
    import imageio_ffmpeg

    source: Iterator[np.ndarray] = iter(frames)
    first = next(source)
    height, width = first.shape[:2]
    even = (height + height % 2, width + width % 2)  # H.264 with 4:2:0 chroma has no odd sizes
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".part-{path.name}")
    try:
        writer = imageio_ffmpeg.write_frames(
            str(part),
            (even[1], even[0]),
            fps=fps,  # pyright: ignore[reportArgumentType] - takes fractions too
            quality=8,
            macro_block_size=1,
            ffmpeg_log_level="quiet",  # its lines would stand between ours
            ffmpeg_timeout=0,
        )
        writer.send(None)
        process = writer.gi_frame.f_locals["p"]
    except RuntimeError as error:
        raise LuxelError(
            "ffmpeg, which encodes videos, is not installed.",
            "Install it (pip install imageio-ffmpeg), or write PNG files into a folder.",
        ) from error
    count = 0
    try:
        frame: np.ndarray | None = first
        while frame is not None:
            writer.send(np.ascontiguousarray(_padded(frame, even)))
            count += 1
            on_frame()
            frame = next(source, None)
        writer.close()
        if process.returncode:  # when ffmpeg writes what it has buffered, for example on a full disk
            raise OSError(f"ffmpeg ended with status {process.returncode}")
        os.replace(part, path)
    finally:
        writer.close()
        part.unlink(missing_ok=True)
    return count


def _padded(frame: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """The frame with its last row and column repeated up to ``size``."""
    down, right = size[0] - frame.shape[0], size[1] - frame.shape[1]
    return np.pad(frame, ((0, down), (0, right), (0, 0)), mode="edge") if down or right else frame
