"""What an entry of the Share menu offers, and what it makes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from luxel.render.errors import LuxelError

if TYPE_CHECKING:
    from luxel.viewer.web.page import Page

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")

Chosen = Mapping[str, str | bool]
Work = Callable[[Path, Callable[[float], None], Callable[[], bool]], str]
"""Writes a file: called with its path, a function that takes the share that is done, and one that says whether the job
was cancelled; returns what there is to know about the file, a sentence or nothing."""


class CancelledError(Exception):
    """The job was cancelled."""


@dataclass(frozen=True)
class Option:
    """A control of an entry.

    Args:
        name: unique in the entry.
        label: as people read it.
        values: to choose from, with their labels; empty: a text, or a switch.
        value: at first; its type is that of the control.
        when: names of other options with the values at which this one is there.
    """

    name: str
    label: str
    value: str | bool
    values: tuple[tuple[str, str], ...] = ()
    when: Mapping[str, tuple[str, ...]] | None = None

    def describe(self) -> dict[str, Any]:
        """The control as JSON has it."""
        return {
            "name": self.name,
            "label": self.label,
            "value": self.value,
            "values": [list(pair) for pair in self.values],
            "when": {name: list(values) for name, values in (self.when or {}).items()},
        }


@dataclass(frozen=True)
class Offer:
    """What an entry offers now.

    Args:
        options: its controls.
        problem: why it makes nothing, and how that is changed; empty: it can.
        start: label of the button that begins; empty: there is none.
        about: what is made, a sentence.
        link: address that is opened in a window of its own; empty: none.
    """

    options: tuple[Option, ...] = ()
    problem: str = ""
    start: str = ""
    about: str = ""
    link: str = ""


@dataclass(frozen=True)
class Plan:
    """A file to be made.

    Args:
        entry: name of the entry.
        title: what it is, for the list of jobs.
        name, suffix: of the file.
        begin: takes what is needed of the scene as it is now, and returns what makes the file of it.
        command: the command that does the same, given the companion that was written; empty: there is none.
        note: what sets the command apart from the job, a sentence; empty: nothing.
        rate, units: what the time depends on where the work does not report its progress: a name of `Estimates` and a
            number.
        policy: with which the file may be opened in a browser, see `SharedFiles`; empty: it may not.
        companion: suffix and content of a file that is written next to it.
    """

    entry: str
    title: str
    name: str
    suffix: str
    begin: Callable[[], Work]
    command: Callable[[Path | None], str] = lambda companion: ""
    note: str = ""
    rate: str = ""
    units: int = 0
    policy: str = ""
    companion: tuple[str, bytes] | None = None


class Entry(Protocol):
    """An entry of the menu.

    Attributes:
        name: unique.
        label: as people read it.
    """

    name: str
    label: str

    def offer(self, page: Page) -> Offer:
        """What is offered for the scene of a page now."""
        ...

    def plan(self, page: Page, chosen: Chosen) -> Plan:
        """What is made with these choices; those that are missing or not offered are as at first.

        Raises:
            LuxelError: it cannot be made.
        """
        ...


def choices(offer: Offer, given: Chosen) -> dict[str, str | bool]:
    """The value of each option of an offer: the one that is given where it is possible, else that of the offer.

    Raises:
        LuxelError: a name of a file is none.
    """
    chosen: dict[str, str | bool] = {}
    for option in offer.options:
        value = given.get(option.name, option.value)
        possible = [name for name, _ in option.values]
        if type(value) is not type(option.value) or (possible and value not in possible):
            value = option.value
        chosen[option.name] = value
    name = chosen.get("name")
    if isinstance(name, str) and not NAME.fullmatch(name):
        raise LuxelError(f"{name[:80]!r} is not a name of a file.", "Use letters, digits and . _ - only.")
    return chosen
