"""Frames of a video that are worth training on: the sharpest of each part of it, without blurred ones and repetitions.

A frame's sharpness is the variance of its Laplacian (Pech-Pacheco et al. 2000), measured at SMALL pixels. It depends on
what is visible, so that it is compared between neighbouring frames only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from luxel.scenes.captures.films.film import REMEDY, Film, opened_film, reformatter
from luxel.scenes.captures.films.film_state import FilmState
from luxel.scenes.errors import CaptureError

SMALL = 480  # pixels of the longer side at which sharpness is measured
THUMBNAIL = (32, 18)  # pixels in which frames are compared
SAME = 0.5  # mean difference of two thumbnails, of 255 levels, below which a frame repeats the one before
BLURRED = 0.35  # of the median sharpness of the frames around, below which a frame is left out
AROUND = 5  # frames before and after
PER_SECOND, FEWEST, MOST = 2.0, 60, 300  # frames that are taken where nothing else is asked for


@dataclass(frozen=True)
class FrameMeasure:
    """What is measured of a frame.

    Args:
        index: among all frames, from 0.
        time: seconds since the first frame.
        sharpness: variance of the Laplacian of its grey levels of 0 to 255.
        thumbnail: grey levels, float32 [18, 32].
    """

    index: int
    time: float
    sharpness: float
    thumbnail: np.ndarray


@dataclass(frozen=True)
class Selection:
    """The frames that were chosen of a video.

    Args:
        frames: in the order of their times.
        total: frames of the video.
        blurred, repeated: how many chosen ones were left out again.
        state: what was noticed of the film.
    """

    frames: list[FrameMeasure]
    total: int
    blurred: int = 0
    repeated: int = 0
    state: FilmState = field(default_factory=FilmState)


def default_count(seconds: float) -> int:
    """How many frames are chosen of a video of this length."""
    return round(min(max(PER_SECOND * seconds, FEWEST), MOST))


def choose_frames(
    path: Path, count: int | None = None, on_progress: Callable[[float], None] = lambda _: None
) -> Selection:
    """Frames of a video that show it evenly in time.

    Args:
        path: of the video.
        count: of parts of equal length of which the sharpest frame is chosen; None: see `default_count`.
        on_progress: called with the fraction done in [0, 1].

    Raises:
        CaptureError: it cannot be read, or has no frames.
    """
    measures: list[FrameMeasure] = []
    resize = reformatter()
    with opened_film(path) as film:
        for frame in film.frames():
            measures.append(_measured(film, frame, len(measures), resize))
            on_progress(min(1.0, measures[-1].time / film.seconds) if film.seconds else 0.0)
    if not measures:
        raise CaptureError(f"{path}: there are no frames in this video.", REMEDY)
    chosen, blurred, repeated = select(measures, count)
    return Selection(chosen, len(measures), blurred, repeated, film.state)


def select(measures: Sequence[FrameMeasure], count: int | None) -> tuple[list[FrameMeasure], int, int]:
    """The chosen frames, and how many were left out because they are blurred, or repeat another one.

    Args:
        measures: of all frames, by time.
        count: see `choose_frames`.
    """
    start, seconds = measures[0].time, measures[-1].time - measures[0].time
    parts = min(count or default_count(seconds), len(measures))
    best: dict[int, FrameMeasure] = {}
    for measure in measures:
        share = (measure.time - start) / seconds if seconds > 0 else measure.index / len(measures)
        part = min(int(share * parts), parts - 1)
        if part not in best or measure.sharpness > best[part].sharpness:
            best[part] = measure
    candidates = [best[part] for part in sorted(best)]
    values = np.array([measure.sharpness for measure in candidates])
    around = [np.median(values[max(0, i - AROUND) : i + AROUND + 1]) for i in range(len(values))]
    sharp = [m for m, usual in zip(candidates, around, strict=True) if m.sharpness >= BLURRED * usual]
    retained: list[FrameMeasure] = []
    for measure in sharp:
        if not retained or float(np.abs(measure.thumbnail - retained[-1].thumbnail).mean()) >= SAME:
            retained.append(measure)
    return retained, len(candidates) - len(sharp), len(sharp) - len(retained)


def decode_frames(path: Path, chosen: Sequence[FrameMeasure]) -> Iterator[tuple[FrameMeasure, np.ndarray]]:
    """The pixels of chosen frames, as `Film.pixels` gives them.

    Args:
        path: of the video.
        chosen: by index.

    Raises:
        CaptureError: the video cannot be read, or has changed.
    """
    by_index = {measure.index: measure for measure in chosen}
    left = len(by_index)
    with opened_film(path) as film:
        for index, frame in enumerate(film.frames()):
            if index in by_index:
                yield by_index[index], film.pixels(frame)
                left -= 1
            if not left:
                return
    raise CaptureError(f"{path}: the video has changed while it was read.", "Try again.")


def _measured(film: Film, frame: Any, index: int, resize: Any) -> FrameMeasure:
    import cv2

    scale = min(1.0, SMALL / max(frame.width, frame.height))
    width, height = (max(2, round(side * scale)) for side in (frame.width, frame.height))
    grey = resize.reformat(frame, width=width, height=height, format="gray").to_ndarray()
    thumbnail = cv2.resize(grey, THUMBNAIL, interpolation=cv2.INTER_AREA).astype(np.float32)
    return FrameMeasure(
        index, film.time_of(frame, index), float(cv2.Laplacian(grey, cv2.CV_32F).var()), thumbnail
    )
