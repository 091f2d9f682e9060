"""What captures and scene files hold that luxel does not use: one entry a kind, most harmful first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

WRONG = 3  # what is left out changes the result: another lens, masks, times, opacities
LOST = 2  # part of the user's data has no effect: images without a pose, depth maps
OTHER = 1  # nothing that a result depends on, as far as luxel knows
MAX_LINES = 8


@dataclass(frozen=True)
class Unused:
    """Things of one kind that are not used.

    Args:
        kind: a name, such as "masks", "keys of frames", "columns".
        count: of these things, at least 1.
        example: one of them: a path relative to the capture, a key, a column.
        problem: a sentence with the count and the example.
        remedy: what to do, a sentence; empty: nothing.
        harm: WRONG, LOST or OTHER.
    """

    kind: str
    count: int
    example: str
    problem: str
    remedy: str = ""
    harm: int = OTHER

    def sentence(self) -> str:
        """The problem and the remedy."""
        return f"{self.problem} {self.remedy}".rstrip()

    def as_json(self) -> dict[str, Any]:
        """All that is known, for programs; harm is "wrong", "lost" or "other"."""
        return asdict(self) | {"harm": {WRONG: "wrong", LOST: "lost"}.get(self.harm, "other")}


def things_are(names: Sequence[str], noun: str, plural: str = "", of: str = "") -> str:
    """The beginning of a sentence: "The entry x of meta.json is", or "3 entries of meta.json, such as x, are".

    Args:
        names: at least one; of each no more than 60 characters are shown.
        noun: one of them.
        plural: several; empty: the noun with an s.
        of: what they are of, such as " of meta.json".
    """
    if len(names) == 1:
        return f"The {noun} {names[0][:60]}{of} is"
    return f"{len(names)} {plural or noun + 's'}{of}, such as {names[0][:60]}, are"


def in_order(entries: Iterable[Unused]) -> list[Unused]:
    """Most harmful first, of equal harm the most things first."""
    return sorted(entries, key=lambda entry: (-entry.harm, -entry.count, entry.kind))


def unused_lines(entries: Iterable[Unused], more: str) -> list[str]:
    """At most `MAX_LINES` sentences, most harmful first.

    Args:
        more: the command that lists all, for the last line where some are left out.
    """
    ordered = in_order(entries)
    if len(ordered) <= MAX_LINES:
        return [entry.sentence() for entry in ordered]
    shown, rest = ordered[: MAX_LINES - 1], ordered[MAX_LINES - 1 :]
    kinds = ", ".join(dict.fromkeys(entry.kind for entry in rest[:4]))
    return [entry.sentence() for entry in shown] + [
        f"{len(rest)} more kinds of things are not used ({kinds}{', ...' if len(rest) > 4 else ''}); "
        f"{more} lists all."
    ]


class ReadKeys(dict[str, Any]):
    """A JSON object that records which of its keys are read; objects in it, also those in lists, do the same."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__({key: recorded(value) for key, value in values.items()})
        self.read: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.read.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, which counts as read."""
        self.read.add(key)
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self.read.add(str(key))
        return super().__contains__(key)

    def unread(self) -> Iterator[str]:
        """Keys that nothing has read, in their order."""
        return (key for key in self.keys() if key not in self.read)


def recorded(value: Any) -> Any:
    """A JSON value whose objects are `ReadKeys`."""
    if isinstance(value, dict):
        return ReadKeys(value)
    return [recorded(item) for item in value] if isinstance(value, list) else value
