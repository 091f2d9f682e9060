"""What was noticed of films while they were read, and the sentences on it: one a kind of thing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from luxel.scenes.unused import LOST, OTHER, WRONG, Unused

COPY = "Copy or export it again."


@dataclass
class FilmState:
    """What was noticed of a film.

    Args:
        read: frames that were decoded and are not damaged.
        expected: frames that the file announces; 0: it announces none.
        damaged: frames that could not be decoded, or not completely.
        cut_short: whether the file ends before what it announces.
        other_size: frames of another size than that of the first ones, which are left out.
        streams: width and height of the video streams, the used one first.
        interlaced: whether frames were deinterlaced.
        transfer: "PQ" or "HLG" where the colours have a high dynamic range, otherwise empty.
        alpha_lost: whether there is an alpha channel that no decoder could read.
    """

    read: int = 0
    expected: int = 0
    damaged: int = 0
    cut_short: bool = False
    other_size: int = 0
    streams: list[tuple[int, int]] = field(default_factory=list)
    interlaced: bool = False
    transfer: str = ""
    alpha_lost: bool = False

    @property
    def lost(self) -> int:
        """Frames that should be there and could not be read."""
        if not (self.damaged or self.cut_short):
            return 0
        return max(self.expected, self.read + self.damaged + self.other_size) - self.read - self.other_size

    def as_json(self) -> dict[str, Any]:
        """For `from_json`."""
        return asdict(self)

    @staticmethod
    def from_json(values: Any) -> FilmState:
        """The state that `as_json` gave.

        Raises:
            ValueError: it is something else.
        """
        empty = FilmState()
        try:
            sizes = [(int(width), int(height)) for width, height in values["streams"]]
            state = FilmState(**{**values, "streams": sizes})
        except (TypeError, KeyError) as error:
            raise ValueError("this is no state of a film") from error
        if any(type(value) is not type(getattr(empty, key)) for key, value in vars(state).items()):
            raise ValueError("this is no state of a film")
        return state


def film_unused(states: Mapping[str, FilmState]) -> list[Unused]:
    """What films hold that is not used: frames that could not be read, other streams, alpha channels.

    Args:
        states: by the name of the film.
    """
    out = []
    if lost := _those(states, lambda state: state.lost > 0):
        name, state = max(lost.items(), key=lambda item: item[1].lost)
        share = f"{state.read} of {state.read + state.lost} frames could be read"
        what = "cut short" if state.cut_short else "damaged"
        out.append(
            Unused(
                "frames of films",
                sum(state.lost for state in lost.values()),
                name,
                f"{name}: {share}; the film is {what}."
                if len(lost) == 1
                else f"{len(lost)} films are cut short or damaged, such as {name}, which is {what} ({share}).",
                COPY if len(lost) == 1 else "Copy or export them again.",
                LOST,
            )
        )
    if other := _those(states, lambda state: state.other_size > 0):
        name, state = next(iter(other.items()))
        (width, height), count = state.streams[0], state.read + state.damaged + state.other_size
        out.append(
            Unused(
                "frames of another size",
                sum(state.other_size for state in other.values()),
                name,
                f"{name}{_more(other)}: {state.other_size} of {count} frames are not of {width}x{height} pixels "
                "as the others, and are left out.",
                "Convert the film to one size, or cut it where the size changes.",
                LOST,
            )
        )
    if several := _those(states, lambda state: len(state.streams) > 1):
        name, state = next(iter(several.items()))
        (width, height), *rest = state.streams
        out.append(
            Unused(
                "video streams",
                sum(len(state.streams) - 1 for state in several.values()),
                name,
                f"{name}{_more(several)}: of {len(state.streams)} video streams the largest, {width}x{height}, is "
                f"used; {', '.join(f'{w}x{h}' for w, h in rest[:3])} {'is' if len(rest) == 1 else 'are'} not.",
                f"To use another one, write it alone: ffmpeg -i {name} -map 0:v:N -c copy NEW.mkv (N from 0).",
                LOST if any(2 * w * h >= width * height for w, h in rest) else OTHER,
            )
        )
    if without := _those(states, lambda state: state.alpha_lost):
        name = next(iter(without))
        out.append(
            Unused(
                "alpha channels",
                len(without),
                name,
                f"{name}{_more(without)}: the alpha channel is not used, this FFmpeg has no decoder for it (libvpx).",
                f"Convert the film: ffmpeg -c:v libvpx-vp9 -i {name} -c:v prores_ks -pix_fmt yuva444p10le NEW.mov",
                WRONG,
            )
        )
    return out


def film_warnings(states: Mapping[str, FilmState]) -> list[str]:
    """Sentences on how films were read.

    Args:
        states: by the name of the film.
    """
    out = []
    if interlaced := _those(states, lambda state: state.interlaced):
        out.append(
            f"{next(iter(interlaced))}{_more(interlaced)}: the film is interlaced; its frames are deinterlaced."
        )
    if ranged := _those(states, lambda state: bool(state.transfer)):
        name, state = next(iter(ranged.items()))
        out.append(
            f"{name}{_more(ranged)}: colours of high dynamic range ({state.transfer}) are mapped to the standard range."
        )
    return out


def _those(states: Mapping[str, FilmState], condition: Callable[[FilmState], bool]) -> dict[str, FilmState]:
    return {name: state for name, state in states.items() if condition(state)}


def _more(films: Mapping[str, FilmState]) -> str:
    """How many films besides the first one, in words."""
    rest = len(films) - 1
    return f" and {rest} more film{'s' if rest > 1 else ''}" if rest else ""
