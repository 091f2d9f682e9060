"""Command lines that do what the Share menu does."""

from __future__ import annotations

import shlex
from pathlib import Path

from luxel.viewer.web.session import Session, StaticSession, TrainingSession


def is_single(session: Session) -> bool:
    """Whether a session shows one scene, and not two."""
    return isinstance(session, StaticSession | TrainingSession)


def source_of(session: Session) -> Path | None:
    """The run folder or file of a session, as commands open it; None: it is not known."""
    return session.source


def command_line(name: str, scene: Path, *options: object) -> str:
    """A line for a shell.

    Args:
        name: of the command of luxel.
        scene: that it opens.
        options: further words; None is left out.
    """
    words = ["luxel", name, str(scene), *(str(option) for option in options if option is not None)]
    return shlex.join(words)


def of_capture(session: Session) -> tuple[object, ...]:
    """The option that names the capture whose cameras a page shows, where the run does not name it."""
    return () if session.capture is None else ("--capture", session.capture)
