"""When the frames of a film are shown, by the timestamps of its packets, without decoding it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from luxel.scenes.captures.films.film import REMEDY, Film, opened_film
from luxel.scenes.captures.films.film_state import FilmState
from luxel.scenes.errors import CaptureError

CLOCKED = ("mov", "matroska")  # formats whose time 0 is that of the film; that of MPEG-TS is any


@dataclass(frozen=True)
class FilmTimes:
    """When the frames of a film are shown.

    Args:
        times: seconds of all frames, ascending; the first is when the film says that it begins, mostly 0.
        first: seconds of the first frame on the clock of its timestamps.
        state: what was noticed of the file; its frames are not decoded yet.
        timed: whether frames have timestamps; otherwise ``times`` are those of their packets.
    """

    times: list[float]
    first: float
    timed: bool
    state: FilmState

    def of_frame(self, film: Film, frame: object, index: int) -> float:
        """The time of a decoded frame of the film, the index-th, as in ``times``."""
        if not self.timed:
            return self.times[min(index, len(self.times) - 1)]
        return film.time_of(frame, index) - self.first + self.times[0]

    def as_json(self) -> dict[str, Any]:
        """For `from_json`."""
        return {**vars(self), "state": self.state.as_json()}

    @staticmethod
    def from_json(values: Any) -> FilmTimes:
        """The times that `as_json` gave.

        Raises:
            ValueError: they are something else.
        """
        try:
            times = [float(time) for time in values["times"]]
            first, timed, state = float(values["first"]), bool(values["timed"]), values["state"]
        except (TypeError, KeyError) as error:
            raise ValueError("these are no times of a film") from error
        if not times or times != sorted(times) or not all(map(math.isfinite, [*times, first])):
            raise ValueError("these are no times of a film")
        return FilmTimes(times, first, timed, FilmState.from_json(state))


def film_times(path: Path) -> FilmTimes:
    """The times of the frames of a film; frames that its edit list leaves out have none.

    A film that begins later than time 0 of its file (an empty edit, a delayed start) begins there. That B-frames delay
    the first frame, which is decoded at 0, is no such time.

    Raises:
        CaptureError: it cannot be read, or has no frames.
    """
    stamps, decoding, first_decoding = [], [], None
    with opened_film(path) as film:
        unit = film.stream.time_base
        for packet in film.packets():
            first_decoding = packet.dts if first_decoding is None else first_decoding
            if packet.is_discard:
                continue
            if packet.pts is not None:
                stamps.append(packet.pts)
            if packet.dts is not None:
                decoding.append(packet.dts)
        clocked = film.format.split(",")[0] in CLOCKED
    timed = len(stamps) >= len(decoding)
    ordered = sorted(set(stamps if timed else decoding))
    if not ordered:
        raise CaptureError(f"{path}: there are no frames in this film.", REMEDY)
    delayed = first_decoding == 0 < ordered[0]
    begin = float(ordered[0] * unit) if clocked and timed and not delayed else 0.0
    return FilmTimes(
        [float((stamp - ordered[0]) * unit) + begin for stamp in ordered],
        float(ordered[0] * unit),
        timed,
        film.state,
    )
