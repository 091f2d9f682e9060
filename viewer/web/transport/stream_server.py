"""The websockets of the image streams, alongside those of viser."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import websockets.exceptions

from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.transport.keyed_server import KeyedServer, run_script
from luxel.viewer.web.transport.sinks import PageSink
from luxel.viewer.web.transport.wire import MAX_MESSAGE, CameraMessage, DecodersMessage, parse


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


class StreamServer(KeyedServer[StreamEnd]):
    """The image streams of pages. A page gets its key as JavaScript that calls our script, if the page has that."""

    largest = MAX_MESSAGE

    def offer(self, client: Any, end: StreamEnd) -> str | None:
        """Sends a key to a viser client.

        Returns:
            The key for `withdraw`; None if the client cannot be sent one: viser's messages carry its images.
        """
        key = self.register(end)
        if run_script(client, f'window.luxel?.connect("{key}")'):
            return key
        self.withdraw(key)
        return None

    async def serve(self, connection: Any, key: str, end: StreamEnd) -> None:
        """Takes cameras and acknowledgements; images are sent by the sink."""
        post = _poster(connection, asyncio.get_running_loop())
        end.sink.stream.connect(post)
        answer = asyncio.ensure_future(_round_trip(connection, end.sink))
        try:
            await self._receive(connection, key, end)
        finally:
            answer.cancel()
            if end.sink.stream.disconnect(post):
                end.changed()

    async def _receive(self, connection: Any, key: str, end: StreamEnd) -> None:
        moved = False
        async for text in connection:
            message = parse(text)
            if not self.is_valid(key):
                return
            if isinstance(message, CameraMessage):
                end.move(message.pose, message.sequence)
                if not moved:
                    moved = True
                    end.changed()
            elif isinstance(message, DecodersMessage):
                end.sink.stream.offer_video(message.video)
            else:
                end.sink.drawn(message)


async def _round_trip(connection: Any, sink: PageSink) -> None:
    """Measures how long an empty message and its answer take, for the estimate of the link's speed."""
    start = time.monotonic()
    try:
        await (await connection.ping())
    except websockets.exceptions.ConnectionClosed:
        return
    sink.stream.note_round_trip(time.monotonic() - start)


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
