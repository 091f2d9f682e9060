"""Command lines that do what the Share menu does."""

from __future__ import annotations

import shlex

from luxel.viewer.web.session import Session, StaticSession, TrainingSession


def is_single(session: Session) -> bool:
    """Whether a session shows one scene, and not two."""
    return isinstance(session, StaticSession | TrainingSession)


def command_line(name: str, session: Session, *options: object) -> str:
    """A line for a shell that opens the scene of a session as it was opened; empty where no command can.

    Args:
        name: of the command of luxel.
        session: of one scene.
        options: further words.
    """
    if session.source is None or not is_single(session):
        return ""
    words = ["luxel", name, session.source, *session.source_options, *options]
    return shlex.join(str(word) for word in words)


def of_capture(session: Session) -> tuple[object, ...]:
    """The option that names the capture whose cameras a page shows, where the run does not name it."""
    return () if session.capture is None else ("--capture", session.capture)
