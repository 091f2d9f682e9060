"""The websockets of the image streams, beside those of viser."""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import websockets.exceptions

from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.transport.sinks import PageSink
from luxel.viewer.web.transport.wire import MAX_MESSAGE, CameraMessage, parse

log = logging.getLogger("luxel.viewer")

POLICY_VIOLATION = 1008  # close code; the script of a page does not connect again after it


@dataclass(frozen=True)
class StreamEnd:
    """The end of a stream on the server: what one page's websocket is connected with.

    Args:
        sink: sends its images.
        move: called with each camera and its sequence number.
        changed: called when the websocket has opened or closed.
    """

    sink: PageSink
    move: Callable[[Pose, int], None]
    changed: Callable[[], None]


class StreamServer:
    """Ties websockets to the pages that viser knows.

    Each viser client gets a random key in a message of its own (JavaScript that calls our script, if the page has it).
    The page's websocket names the key. A key is valid while its viser client is connected; where a second websocket
    names it, the first is closed.
    """

    def __init__(self) -> None:
        self._ends: dict[str, StreamEnd] = {}
        self._open: dict[str, Any] = {}
        self._lock = threading.Lock()

    def offer(self, client: Any, end: StreamEnd) -> str | None:
        """Sends a key to a viser client.

        Returns:
            The key for `withdraw`; None if the client cannot be sent one.
        """
        key = secrets.token_urlsafe(24)
        with self._lock:
            self._ends[key] = end
        try:
            from viser._messages import RunJavascriptMessage

            client._websock_connection.queue_message(
                RunJavascriptMessage(source=f'window.luxel?.connect("{key}")')
            )
        except Exception:  # another version of viser, or no browser: its own messages carry the images
            log.debug("a client has no stream of its own", exc_info=True)
            self.withdraw(key)
            return None
        return key

    def withdraw(self, key: str) -> None:
        """Makes a key invalid: its page is closed."""
        with self._lock:
            self._ends.pop(key, None)

    async def handle(self, connection: Any) -> None:
        """Serves one websocket until it closes."""
        key = parse_qs(urlsplit(connection.request.path).query).get("key", [""])[0]
        with self._lock:
            end = self._ends.get(key)
            before = self._open.get(key)
            if end is not None:
                self._open[key] = connection
        if end is None:
            await connection.close(POLICY_VIOLATION, "unknown page")
            return
        if before is not None:
            await before.close(POLICY_VIOLATION, "replaced")
        if hasattr(connection.protocol, "max_message_size"):  # viser allows 50 MB
            connection.protocol.max_message_size = MAX_MESSAGE
        post = _poster(connection, asyncio.get_running_loop())
        end.sink.stream.connect(post)
        try:
            await self._receive(connection, key, end)
        finally:
            with self._lock:
                if self._open.get(key) is connection:
                    del self._open[key]
            if end.sink.stream.disconnect(post):
                end.changed()

    async def _receive(self, connection: Any, key: str, end: StreamEnd) -> None:
        moved = False
        try:
            async for text in connection:
                message = parse(text)
                if key not in self._ends:
                    return
                if isinstance(message, CameraMessage):
                    end.move(message.pose, message.sequence)
                    if not moved:
                        moved = True
                        end.changed()
                else:
                    end.sink.drawn(message)
        except ValueError as error:
            await connection.close(POLICY_VIOLATION, str(error)[:100])
        except websockets.exceptions.ConnectionClosed:
            pass


def _poster(connection: Any, loop: asyncio.AbstractEventLoop) -> Callable[[bytes, Callable[[], None]], None]:
    """A function that sends a message from any thread and reports when it has left."""
    tasks: set[asyncio.Task[None]] = set()

    async def send(message: bytes, left: Callable[[], None]) -> None:
        try:
            await connection.send(message)
        except websockets.exceptions.ConnectionClosed:
            pass  # whoever waits is woken when the connection's handler ends
        finally:
            left()

    def start(message: bytes, left: Callable[[], None]) -> None:
        task = loop.create_task(send(message, left))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def post(message: bytes, left: Callable[[], None]) -> None:
        try:
            loop.call_soon_threadsafe(start, message, left)
        except RuntimeError:  # the server has stopped
            left()

    return post
