"""Records what commands do to files, in order, and replays it as a disk would after a power cut."""

from .commands import Commands, Result, compiler
from .events import Event, read_events

__all__ = ["Commands", "Event", "Result", "compiler", "read_events"]
