"""Limits of the server: pages, messages, requests, connections without a request, wrong tokens."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from websockets.asyncio.server import ServerConnection
from websockets.protocol import State

REMEMBERED = 4096  # addresses of which something is counted
STREAM_BYTES = 1024  # a longer message of an image stream counts as several


@dataclass(frozen=True)
class Limits:
    """What one server bears.

    Args:
        max_pages: pages open at a time.
        message_bytes: size of one message of a page; a longer one closes the connection before it is read.
        message_rate, message_burst: messages a second of one page, and how many may come at once.
        stream_rate, stream_burst: the same for a page's image stream, which carries the camera of each frame that the
            page draws and an answer to each image.
        request_rate, request_burst: requests a second of one address, websockets included, and how many may come at
            once. All pages behind one proxy or tunnel have one address.
        handshakes: connections that send a request or get its response; of more, the oldest are closed.
        request_seconds, response_seconds: time for sending a request, and for that and getting the response.
        wrong_tokens, wrong_token_seconds: wrong tokens that one address may try at once, and the seconds after which
            it may try another.
    """

    max_pages: int = 64
    message_bytes: int = 1 << 20
    message_rate: float = 200.0
    message_burst: float = 400.0
    stream_rate: float = 600.0
    stream_burst: float = 600.0
    request_rate: float = 50.0
    request_burst: float = 800.0
    handshakes: int = 128
    request_seconds: float = 5.0
    response_seconds: float = 30.0
    wrong_tokens: int = 10
    wrong_token_seconds: float = 2.0

    def options(self) -> dict[str, Any]:
        """Options of websockets' ``serve``."""
        return {
            "max_size": self.message_bytes,
            "max_queue": 4,
            "open_timeout": self.response_seconds,
            "close_timeout": self.response_seconds,
            "create_connection": limited_connections(self),
            "logger": quiet_logger(),
        }


class TokenBucket:
    """A budget that refills at ``rate`` a second up to ``burst``.

    Args:
        clock: seconds.
    """

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._left, self._at = burst, clock()

    @property
    def left(self) -> float:
        """What may be taken now without a wait; negative while there is a debt."""
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now
        return self._left

    def take(self, cost: float = 1.0) -> float:
        """Takes ``cost`` and returns the seconds to wait until it is paid for."""
        self._left = self.left - cost
        return max(0.0, -self._left / self._rate)


class Throttle:
    """Counts what comes from each address.

    Args:
        rate: how many a second may come from one address.
        burst: how many may come at once.
        clock: seconds.
    """

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def allows(self, address: str) -> bool:
        """Whether another one may come from this address now."""
        with self._lock:
            bucket = self._buckets.get(address)
            return bucket is None or bucket.left >= 1

    def count(self, address: str) -> None:
        """Counts one."""
        with self._lock:
            bucket = self._buckets.pop(address, None)
            if bucket is None:
                bucket = TokenBucket(self._rate, self._burst, self._clock)
            bucket.take()
            self._buckets[address] = bucket
            while len(self._buckets) > REMEMBERED:
                self._buckets.popitem(last=False)


class PacedConnection:
    """The websocket of an image stream, read no faster than the limits allow; all else is that of websockets.

    What waits to be read waits at the sender: websockets stops reading from the network.
    """

    def __init__(self, connection: Any, limits: Limits) -> None:
        self._connection = connection
        self._budget = TokenBucket(limits.stream_rate, limits.stream_burst)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def __aiter__(self) -> AsyncIterator[str | bytes]:
        async for message in self._connection:
            if wait := self._budget.take(1 + len(message) // STREAM_BYTES):
                await asyncio.sleep(wait)
            yield message


def limited_connections(limits: Limits) -> type[ServerConnection]:
    """A class of connections that are closed if they do not send their request in time, or if they are the oldest of
    too many that are no open websocket."""
    waiting: OrderedDict[Any, None] = OrderedDict()

    def make_room() -> None:
        for connection in [c for c in waiting if c.protocol.state is State.OPEN]:
            del waiting[connection]
        while len(waiting) > limits.handshakes:
            waiting.popitem(last=False)[0].transport.abort()

    class LimitedConnection(ServerConnection):
        _timer: asyncio.TimerHandle

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            waiting[self] = None
            if len(waiting) > limits.handshakes:
                make_room()
            self._timer = self.loop.call_later(limits.request_seconds, transport.abort)

        def process_event(self, event: Any) -> None:
            self._timer.cancel()  # the first event is the request
            super().process_event(event)

        def connection_lost(self, exc: Exception | None) -> None:
            self._timer.cancel()
            waiting.pop(self, None)
            super().connection_lost(exc)

    return LimitedConnection


class _OncePerKind(logging.Filter):
    """Passes one short line per kind of failure, without a traceback."""

    def __init__(self) -> None:
        super().__init__()
        self._known: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if record.getMessage() == "opening handshake failed":
            return False  # whatever connects and does not speak HTTP
        kind = f"{record.getMessage()}: {type(error).__name__}"
        if error is not None and kind in self._known:
            return False
        self._known.add(kind)
        if error is not None:
            record.msg, record.args = f"{kind}: {str(error)[:200]}", None
            record.exc_info = record.exc_text = None
        return True


def _is_of_the_server(record: logging.LogRecord) -> bool:
    return record.getMessage() != "socket.send() raised exception."  # to a client that has gone


def quiet_logger() -> logging.Logger:
    """The log of websockets' server: failures of a kind once, nothing about single connections.

    asyncio's warning about each answer to a client that has gone is dropped, too.
    """
    logging.getLogger("asyncio").addFilter(_is_of_the_server)  # the same filter is added only once
    logger = logging.getLogger("luxel.viewer.connections")
    logger.setLevel(logging.WARNING)
    if not any(isinstance(f, _OncePerKind) for f in logger.filters):
        logger.addFilter(_OncePerKind())
    return logger
