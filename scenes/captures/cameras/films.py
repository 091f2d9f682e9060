"""Frames of one camera: of a film, from which they are written once into the cache, or of a folder of images."""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from luxel.scenes.captures.caching.capture_cache import CaptureCache, content_key
from luxel.scenes.captures.contents import image_files
from luxel.scenes.captures.films.film import opened_film
from luxel.scenes.captures.films.film_state import FilmState
from luxel.scenes.captures.films.timestamps import FilmTimes, film_times
from luxel.scenes.captures.images.images import check_images
from luxel.scenes.captures.unposed.video import ENDS, SUFFIXES, save_frame
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.reading import read_bytes

TIMES = "times.json"
VERSION = 2  # increased when a change invalidates cached frames
REMEDY = "Copy the film again, or remove the camera."
FRAME_FOLDERS = ("images", "input", "frames", "rgb", "color")  # in the folder of a camera


@dataclass(frozen=True)
class CameraFrames:
    """Frames of a camera.

    Args:
        files: their images, in the order of their times.
        times: as the film or the names of the images have them.
        state: what was noticed of the film; None of a folder.
    """

    files: list[Path]
    times: list[float]
    state: FilmState | None = None


def is_film(entry: Path) -> bool:
    """Whether a path is a video file."""
    return entry.suffix.lower() in SUFFIXES and entry.is_file() and not entry.name.startswith(".")


def frames_source(entry: Path) -> Path | None:
    """The film or folder of images that a camera's entry is, or has in it; None: it has neither."""
    if entry.is_file():
        return entry if is_film(entry) else None
    if not entry.is_dir():
        return None
    for folder in (entry, *(entry / name for name in FRAME_FOLDERS)):
        if folder.is_dir() and image_files(folder):
            return folder
    films = [film for film in entry.iterdir() if is_film(film)]
    return films[0] if len(films) == 1 else None


def times_of_film(film: Path, cache: CaptureCache) -> FilmTimes:
    """The times of the frames of a film, for which all of it is read once.

    Raises:
        CaptureError: it cannot be read, or has no frames.
    """

    def make(folder: Path) -> None:
        (folder / TIMES).write_text(json.dumps(film_times(film).as_json()))

    return cache.result(
        f"camera-{_key(film, 'times')}",
        lambda folder: FilmTimes.from_json(json.loads(read_bytes(folder / TIMES))),
        make,
    )


def frames_of_film(
    film: Path,
    times: FilmTimes,
    chosen: Sequence[int],
    cache: CaptureCache,
    on_progress: Callable[[float], None] = lambda _: None,
) -> CameraFrames:
    """Frames of a film, which are written into the cache where they are not there yet.

    Args:
        film: its path.
        times: of all of its frames.
        chosen: indices of the frames among them, ascending.
        cache: of the capture.
        on_progress: called with the fraction done in [0, 1].

    Raises:
        CaptureError: the film cannot be read, or has none of these frames.
    """
    return cache.result(
        f"camera-{_key(film, *chosen)}",
        _read,
        lambda folder: _extract(film, times, chosen, folder, on_progress),
        check=lambda folder: check_images(image_files(folder)),
    )


def _read(folder: Path) -> CameraFrames:
    """The frames in a folder of the cache; raises ValueError where they are not what was written there."""
    stored = json.loads(read_bytes(folder / TIMES))
    times = stored["times"]
    if not times or set(times) != {file.name for file in image_files(folder)}:
        raise ValueError(f"{folder} does not have the frames that it names")
    if not all(isinstance(time, (int, float)) and math.isfinite(time) for time in times.values()):
        raise ValueError(f"{folder} has no times")
    state = FilmState.from_json(stored["film"])
    return CameraFrames([folder / name for name in times], [float(time) for time in times.values()], state)


def _key(film: Path, *parts: object) -> str:
    """A hash of a film, by its size and ends, and of what is made of it."""
    size = film.stat().st_size
    with film.open("rb") as file:
        head = file.read(ENDS)
        file.seek(max(0, size - ENDS))
        return content_key(["camera", VERSION, parts, size, head, file.read(ENDS)])


def _extract(
    path: Path,
    times: FilmTimes,
    chosen: Sequence[int],
    folder: Path,
    on_progress: Callable[[float], None],
) -> None:
    """Writes frames of a film as images, one in memory at a time, and their times.

    A frame is known by its time, so that those before it may be damaged.
    """
    written: dict[str, float] = {}
    left = {index: times.times[index] for index in chosen}
    with opened_film(path) as film:
        for number, frame in enumerate(film.frames()):
            time = times.of_frame(film, frame, number)
            index = _nearest(times.times, time)
            if index in left:
                name = save_frame(film.pixels(frame), folder, f"{index:06d}")
                written[name] = left.pop(index)
                on_progress(len(written) / len(chosen))
            if not left:
                break
    if not written:
        raise CaptureError(f"{path}: there are no frames in this film.", REMEDY)
    state = film.state
    if (
        times.state.cut_short and not state.cut_short
    ):  # the frames that are missing are after the last one needed
        expected = times.state.expected
        state = replace(state, cut_short=True, expected=expected, read=len(times.times) - state.damaged)
    stored = {"times": dict(sorted(written.items())), "film": state.as_json()}
    (folder / TIMES).write_text(json.dumps(stored))


def _nearest(values: Sequence[float], value: float) -> int:
    """The index of the nearest of ascending values."""
    at = bisect_left(values, value)
    return min(range(max(0, at - 1), min(len(values), at + 1)), key=lambda index: abs(values[index] - value))
