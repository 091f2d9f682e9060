"""Bounds of options: they stand in the dataclasses of options, and one rule checks the numbers of all of them."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import functools
import numbers
import sys
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Annotated, Any, TypeVar

from luxel.render.errors import LuxelError

LONGEST_NAME, LONGEST_TEXT = 255, 4096  # bytes of a file name, and of a path or another text


T = TypeVar("T")
Naming = Callable[[Any, str, str], str]


@dataclass(frozen=True)
class Bounds:
    """The numbers that an option takes, as metadata of its type: ``Annotated[float, Bounds(0, 1)]``.

    They hold for every number of the option, also where it is a tuple or may be None.

    Args:
        low, high: the least and the largest number; both finite.
        above: ``low`` itself is not allowed.
        below: ``high`` itself is not allowed.
        stated: whether help texts state the bounds; False where they only exclude numbers that no one means.
    """

    low: float
    high: float
    above: bool = False
    below: bool = False
    stated: bool = True

    def allow(self, value: Any) -> bool:
        """Whether a number is within the bounds; NaN never is."""
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            return False
        number: Any = value  # an integer of any size stays one
        low = self.low < number if self.above else self.low <= number
        high = number < self.high if self.below else number <= self.high
        return bool(low and high)

    def require(self, name: str, value: Any, whole: bool = False) -> None:
        """Raises OutOfBounds unless the option ``name`` is a number within the bounds, and ``whole`` if it must be."""
        if not self.allow(value) or (whole and not isinstance(value, numbers.Integral)):
            raise OutOfBounds(name, value, self, whole)

    def __str__(self) -> str:
        low, high = _as_text(self.low), _as_text(self.high)
        if not (self.above or self.below):
            return f"{low} to {high}"
        least, most = ("above" if self.above else "at least"), ("below" if self.below else "at most")
        return f"{least} {low} and {most} {high}"


@dataclass(frozen=True)
class Folder:
    """Metadata of a path that names a folder, existing or to be made: ``Annotated[Path, Folder()]``."""

    def require(self, name: str, path: Path) -> None:
        """Raises LuxelError where a file is instead of the folder ``path`` of the option ``name``."""
        for position in (path, *path.parents):
            with contextlib.suppress(
                OSError
            ):  # such as a loop of links, which the reader of the folder reports
                if position.exists():
                    if not position.is_dir():
                        raise LuxelError(
                            f"{name} {path}: {position} is a file.", "Give the name of a folder."
                        )
                    return


class OutOfBounds(LuxelError):
    """A number of an option is not within its bounds, or not a number.

    Args:
        name: of the option, such as rates.means, or --rates.means on the command line.
        value: what was given.
        bounds: of the option.
        whole: whether the option takes integers only.
    """

    def __init__(self, name: str, value: Any, bounds: Bounds, whole: bool = False) -> None:
        kind = "an integer" if whole else "a number"
        within = f"{bounds}" if bounds.above or bounds.below else f"from {bounds}"
        super().__init__(f"{name} {_shortened(value)}: this is out of bounds.", f"Give {kind} {within}.")
        self.name, self.value, self.bounds, self.whole = name, value, bounds, whole

    def within(self, prefix: str) -> OutOfBounds:
        """The same error with ``prefix`` before the name of the option."""
        return OutOfBounds(prefix + self.name, self.value, self.bounds, self.whole)


FINITE = Bounds(
    -sys.float_info.max, sys.float_info.max, stated=False
)  # of numbers that have no bounds of their own


class Options:
    """Base of the dataclasses of options: their numbers and texts are checked when one is made."""

    def __post_init__(self) -> None:
        """Checks the fields of this dataclass itself; those that it holds were checked when they were made."""
        if _checks.get():
            check_own(self)


# The command line makes its dataclasses unchecked, and checks the whole of them, as only then options have names.
_checks = contextvars.ContextVar("luxel_checks_options", default=True)


@contextlib.contextmanager
def unchecked() -> Iterator[None]:
    """While it is open, `Options` are made without being checked; `check_all` is then due."""
    token = _checks.set(False)
    try:
        yield
    finally:
        _checks.reset(token)


def plain_name(hint: Any, name: str, prefix: str) -> str:
    """The name of a field in errors, such as rates.means."""
    return prefix + name


def check_all(options: Any, prefix: str = "", naming: Naming = plain_name) -> None:
    """Checks the fields of a dataclass, and of the dataclasses that it holds.

    Args:
        options: the dataclass.
        prefix: of the names in errors.
        naming: gives the name of a field in errors, from its type, its name and the prefix.

    Raises:
        OutOfBounds: a number is not within its bounds.
        LuxelError: a text is empty, too long or has a character that no name may have.
    """
    check_own(options, prefix, naming)
    hints = option_types(type(options))
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            group = naming(hints[field.name], field.name, prefix)
            check_all(value, group and f"{group}.", naming)


def check_own(options: Any, prefix: str = "", naming: Naming = plain_name) -> None:
    """`check_all` without the dataclasses that it holds."""
    hints = option_types(type(options))
    for field in dataclasses.fields(options):
        hint = hints[field.name]
        name, bounds = (
            naming(hint, field.name, prefix),
            bounds_of(hint) or (FINITE if takes(hint, float) else None),
        )
        for value in _single_values(getattr(options, field.name)):
            text = isinstance(value, str) and takes(hint, str)  # beside numbers, as in VIEW X Y
            if bounds is not None and not text and not (value is None and takes(hint, type(None))):
                bounds.require(name, value, whole=takes(hint, int) and not takes(hint, float))
            elif isinstance(value, str | PurePath):
                check_text(name, str(value))
                if isinstance(value, Path) and (folder := _metadata(hint, Folder)) is not None:
                    folder.require(name, value)


def check_text(name: str, text: str) -> None:
    """Raises LuxelError for a text or path of an option that is empty, too long, or that no file can be named by."""
    longest = max(len(part.encode(errors="surrogatepass")) for part in text.split("/"))
    if not text:
        raise LuxelError(f"{name} is empty.", "Give it a value, or leave it out.")
    if "\0" in text:
        raise LuxelError(f"{name} has a NUL character in it.", "Give it without.")
    if longest > LONGEST_NAME or len(text) > LONGEST_TEXT:
        raise LuxelError(
            f"{name} {_shortened(text)}: it is too long.",
            f"A name has at most {LONGEST_NAME} bytes, a path {LONGEST_TEXT}.",
        )


@functools.lru_cache(maxsize=256)
def option_types(kind: type) -> dict[str, Any]:
    """The types of the fields of a dataclass, with their metadata."""
    return typing.get_type_hints(kind, include_extras=True)


def bounds_of(hint: Any) -> Bounds | None:
    """The bounds that stand in the type of an option, at any depth; None: there are none."""
    return _metadata(hint, Bounds)


def _metadata(hint: Any, kind: type[T]) -> T | None:
    """The first entry of a type among the metadata of the type of an option, at any depth."""
    own = (entry for entry in getattr(hint, "__metadata__", ()) if isinstance(entry, kind))
    inner = (entry for part in typing.get_args(hint) if (entry := _metadata(part, kind)) is not None)
    return next(own, None) or next(inner, None)


def takes(hint: Any, kind: type) -> bool:
    """Whether the type of an option names ``kind`` at any depth."""
    return hint is kind or any(takes(part, kind) for part in typing.get_args(hint))


def _single_values(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple | list):
        for entry in value:
            yield from _single_values(entry)
    else:
        yield value


def _as_text(number: float) -> str:
    """A bound as help texts show it: 0.5, 1,000,000, 2^24, 2^63 - 1."""
    if number == int(number) and abs(number) < 10**20:
        whole = int(number)
        if whole >= 2**20 and whole & (whole - 1) == 0:
            return f"2^{whole.bit_length() - 1}"
        if whole >= 2**20 and whole & (whole + 1) == 0:
            return f"2^{whole.bit_length()} - 1"
        if abs(whole) < 10**10:
            return f"{whole:,}" if abs(whole) >= 100_000 else str(whole)
    return f"{number:g}"


def _shortened(value: Any) -> str:
    """A value in a message; an integer of thousands of digits by its size."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**40:
        return f"({value.bit_length():,} bits)"
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


# Types of options that many dataclasses have.
Steps = Annotated[int, Bounds(1, 10**9, stated=False)]
StepsOrNever = Annotated[int, Bounds(0, 10**9, stated=False)]
Seed = Annotated[int, Bounds(0, 2**63 - 1, stated=False)]
Count = Annotated[int, Bounds(1, 2**31 - 1, stated=False)]  # of primitives or pixels; kernels count in int32
Pixels = Annotated[int, Bounds(1, 10**6, stated=False)]  # along a side of an image that is read
PORT = Bounds(0, 65535)
SIDE = Bounds(1, 16384)
ImageSide = Annotated[int, SIDE]  # of an image that is rendered
Megapixels = Annotated[float, Bounds(0, 10**5, above=True, stated=False)]  # of an image that is read
Repeats = Annotated[int, Bounds(1, 10**6, stated=False)]
Every = Annotated[int, Bounds(0, 10**6, stated=False)]  # every Nth of something; 0: none
Rate = Annotated[float, Bounds(0, 100, stated=False)]
FinalRate = Annotated[float, Bounds(0, 100, above=True, stated=False)]
Weight = Annotated[float, Bounds(0, 10**6, stated=False)]
Positive = Annotated[float, Bounds(0, 10**6, above=True, stated=False)]
Share = Annotated[float, Bounds(0, 1)]
PositiveShare = Annotated[float, Bounds(0, 1, above=True)]
OpenShare = Annotated[float, Bounds(0, 1, above=True, below=True)]
ShareBelow1 = Annotated[float, Bounds(0, 1, below=True)]
Time = Annotated[float, Bounds(-(10**12), 10**12, stated=False)]  # in the unit of a capture
