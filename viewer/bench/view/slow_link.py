"""A link of limited speed between a browser and the viewer, on this machine."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

CHUNK = 4096  # bytes that pass at a time


class TokenBucket:
    """A link of limited speed.

    Args:
        bytes_per_s: its speed.
        burst: bytes that pass at once after a pause.
    """

    def __init__(self, bytes_per_s: float, burst: float = 1500.0) -> None:
        self._speed, self._burst = bytes_per_s, burst
        self._tokens, self._at = burst, 0.0

    def delay(self, size: int, now: float) -> float:
        """Seconds from ``now`` until ``size`` more bytes have passed."""
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._speed) - size
        self._at = now
        return max(0.0, -self._tokens / self._speed)


class SlowLink:
    """Passes connections on to a port of this machine; what the server sends shares one limited speed.

    Attributes:
        port: on which it listens on 127.0.0.1.

    Args:
        to: port of the server.
    """

    port: int

    def __init__(self, to: int) -> None:
        self._to = to
        self._bucket: TokenBucket | None = None

    def limit(self, megabits: float | None) -> None:
        """Limits the speed from now on, Mbit/s; None: unlimited, as at the start."""
        self._bucket = None if megabits is None else TokenBucket(megabits * 125_000)

    async def serve(self, ready: threading.Event, end: asyncio.Event) -> None:
        """Listens until ``end``; sets ``ready`` once `port` is known."""
        tasks: set[asyncio.Task[None]] = set()

        async def passes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            tasks.add(task)
            try:
                with suppress(OSError, asyncio.CancelledError):
                    await self._pass(reader, writer)
            finally:
                writer.close()
                tasks.discard(task)

        server = await asyncio.start_server(passes, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await end.wait()
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection("127.0.0.1", self._to)
        upward = asyncio.ensure_future(_copy(reader, to_server))
        try:
            await self._copy_slowly(from_server, writer)
        finally:
            upward.cancel()
            await asyncio.gather(upward, return_exceptions=True)
            to_server.close()

    async def _copy_slowly(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK):
            bucket = self._bucket
            if bucket is not None and (delay := bucket.delay(len(data), time.monotonic())) > 0:
                await asyncio.sleep(delay)
            writer.write(data)
            await writer.drain()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


@contextmanager
def slow_link(to: int) -> Iterator[SlowLink]:
    """A link to a port of this machine, served by a thread."""
    link, ready = SlowLink(to), threading.Event()
    loop, end = asyncio.new_event_loop(), asyncio.Event()
    thread = threading.Thread(
        target=lambda: loop.run_until_complete(link.serve(ready, end)), name="luxel-link", daemon=True
    )
    thread.start()
    ready.wait()
    try:
        yield link
    finally:
        loop.call_soon_threadsafe(end.set)
        thread.join(5)
        if not thread.is_alive():
            loop.close()
