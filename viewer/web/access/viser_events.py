"""viser's buffers of messages, made safe to use from the threads of pages.

viser 1.1.1 sets an asyncio event from whichever thread has a message, although asyncio's events belong to the thread of
their loop: with many pages, whose waiters come and go meanwhile, this raises "deque mutated during iteration" in the
thread of a panel. viser asks the loop to set the event, too, so that nothing is lost if other threads leave it alone.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect

from viser.infra import _infra
from viser.infra._async_message_buffer import AsyncMessageBuffer

from luxel.render.errors import LuxelError


class LoopEvent(asyncio.Event):
    """An event that only its loop sets; ``set`` in another thread does nothing.

    Args:
        loop: of those that wait.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._owner = loop

    def set(self) -> None:
        """Wakes those that wait."""
        try:
            if asyncio.get_running_loop() is self._owner:
                super().set()
        except RuntimeError:  # this thread has no loop
            pass


@dataclasses.dataclass
class SafeMessageBuffer(AsyncMessageBuffer):
    """viser's buffer whose event only its loop sets."""

    def __post_init__(self) -> None:
        self.message_event = LoopEvent(self.event_loop)


def make_buffers_safe() -> None:
    """Lets the servers of viser that start from now on use SafeMessageBuffer.

    Raises:
        LuxelError: the buffers of the installed viser do not ask their loop to set the event.
    """
    asks = "call_soon_threadsafe(self.message_event.set)"
    push, end = (inspect.getsource(f) for f in (AsyncMessageBuffer.push, AsyncMessageBuffer.atomic_end))
    if not (asks in push and asks in end and hasattr(_infra, "AsyncMessageBuffer")):
        raise LuxelError(
            "luxel cannot use the message buffers of this version of viser.",
            "Install the version that luxel is tested with: pip install 'viser==1.1.1'.",
        )
    _infra.AsyncMessageBuffer = SafeMessageBuffer  # type: ignore[misc]
