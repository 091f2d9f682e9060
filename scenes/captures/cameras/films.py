"""Frames of one camera: of a film, from which they are written once into the cache, or of a folder of images."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from luxel.scenes.captures.caching.capture_cache import CaptureCache, content_key
from luxel.scenes.captures.contents import image_files
from luxel.scenes.captures.images.images import check_images
from luxel.scenes.captures.images.video_frames import opened_video, reformatter, upright
from luxel.scenes.captures.unposed.video import ENDS, QUALITY, SUFFIXES
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.reading import read_bytes

VERSION = 1  # increased when a change invalidates cached frames
REMEDY = "Copy the film again, or remove the camera."


@dataclass(frozen=True)
class CameraFrames:
    """Frames of a camera.

    Args:
        files: their images, in the order of their times.
        times: seconds since the first frame, or in [0, 1] where the rate is not known.
    """

    files: list[Path]
    times: list[float]


def is_film(entry: Path) -> bool:
    """Whether a path is a video file."""
    return entry.suffix.lower() in SUFFIXES and entry.is_file() and not entry.name.startswith(".")


def frame_count(source: Path) -> int:
    """How many frames a film or a folder has; of a film, as its header says, or by its packets.

    Raises:
        CaptureError: it cannot be read.
    """
    if source.is_dir():
        return len(image_files(source))
    with opened_video(source) as (stream, _):
        if stream.frames > 0:
            return int(stream.frames)
        return sum(1 for packet in stream.container.demux(stream) if packet.size)


def frames_of(
    source: Path,
    count: int,
    every: int,
    cache: CaptureCache,
    *,
    rate: float | None = None,
    on_progress: Callable[[float], None] = lambda _: None,
) -> CameraFrames:
    """Every Nth frame of a film or a folder, beginning with the first.

    Args:
        source: a film, whose frames are written into the cache where they are not there yet, or a folder of images.
        count: of frames, at most.
        every: N.
        cache: of the capture, for the frames of films.
        rate: frames a second of a folder; None: times are in [0, 1].
        on_progress: called with the fraction done in [0, 1].

    Raises:
        CaptureError: the film cannot be read, or has no frames.
    """
    if source.is_dir():
        files = image_files(source)
        step = 1 / rate if rate else 1 / max(1, len(files) - 1)
        rows = range(0, len(files), every)[:count]
        return CameraFrames([files[row] for row in rows], [row * step for row in rows])
    return cache.result(
        f"camera-{_key(source, count, every)}",
        _read,
        lambda folder: _extract(source, count, every, folder, on_progress),
        check=lambda folder: check_images(image_files(folder)),
    )


def _read(folder: Path) -> CameraFrames:
    """The frames in a folder of the cache; raises ValueError where they are not what was written there."""
    times = json.loads(read_bytes(folder / "times.json"))
    if not times or set(times) != {file.name for file in image_files(folder)}:
        raise ValueError(f"{folder} does not have the frames that it names")
    if not all(isinstance(time, (int, float)) and math.isfinite(time) for time in times.values()):
        raise ValueError(f"{folder} has no times")
    return CameraFrames([folder / name for name in times], [float(time) for time in times.values()])


def _key(film: Path, count: int, every: int) -> str:
    size = film.stat().st_size
    with film.open("rb") as file:
        head = file.read(ENDS)
        file.seek(max(0, size - ENDS))
        return content_key(["camera", VERSION, count, every, size, head, file.read(ENDS)])


def _extract(film: Path, count: int, every: int, folder: Path, on_progress: Callable[[float], None]) -> None:
    """Writes frames of a film as images, one in memory at a time, and their times."""
    times: dict[str, float] = {}
    start, convert = math.nan, reformatter()
    with opened_video(film) as (stream, frames):
        for index, frame in enumerate(frames):
            if len(times) >= count:
                break
            if index % every:
                continue
            time = float(frame.time) if frame.time is not None else float(index)
            start = time if math.isnan(start) else start
            name = f"{index:06d}.jpg"
            pixels = upright(frame, stream, convert)
            Image.fromarray(pixels).save(folder / name, quality=QUALITY, subsampling=0)
            times[name] = time - start
            on_progress(len(times) / count)
    if not times:
        raise CaptureError(f"{film}: there are no frames in this film.", REMEDY)
    (folder / "times.json").write_text(json.dumps(times))
