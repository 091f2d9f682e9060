"""The websockets of the scripts around the image, alongside those of viser and of the image streams."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import websockets.exceptions

from luxel.viewer.web.shell.messages import MAX_MESSAGE, ShellMessage, parse_shell
from luxel.viewer.web.shell.page_shell import PageShell
from luxel.viewer.web.transport.keyed_server import KeyedServer, run_script

log = logging.getLogger("luxel.viewer")

SCRIPTS_FOLDER = Path(__file__).with_name("static")
THREADS = 4  # pages whose messages are worked on at the same time


class ShellServer(KeyedServer[PageShell]):
    """The scripts around the image, of the pages that viser knows."""

    largest = MAX_MESSAGE

    def __init__(self) -> None:
        super().__init__()
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="luxel-shell")

    def offer(self, client: Any, shell: PageShell) -> str | None:
        """Sends a key to a viser client.

        Returns:
            The key for `withdraw`; None if the client cannot be sent one.
        """
        key = self.register(shell)
        if run_script(client, f'window.luxelShell?.open("{key}")'):
            return key
        self.withdraw(key)
        return None

    def close(self) -> None:
        """Ends the threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def serve(self, connection: Any, key: str, end: PageShell) -> None:
        """One message is worked on at a time and the next is not read before, so that nothing queues here."""
        loop = asyncio.get_running_loop()
        outbox = Outbox(connection)
        end.connect(outbox.put)
        sending = asyncio.create_task(outbox.run())
        try:
            async for text in connection:
                message = parse_shell(text)
                if not self.is_valid(key):
                    return
                await loop.run_in_executor(self._pool, _guarded, end, message)
        finally:
            end.disconnect(outbox.put)
            sending.cancel()


def _guarded(shell: PageShell, message: ShellMessage) -> None:
    try:
        shell.receive(message)
    except Exception:  # the page may be gone; the next message may succeed
        log.exception("A message of a page failed.")


class Outbox:
    """Messages to one page, in the order in which their types were first put; of each type only the newest waits.

    Args:
        connection: the websocket; the box is made on its event loop.
    """

    def __init__(self, connection: Any) -> None:
        self._connection, self._loop = connection, asyncio.get_running_loop()
        self._waiting: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()
        self._changed = asyncio.Event()

    def put(self, message: dict[str, Any]) -> None:
        """Sends a message; may be called from any thread."""
        with self._lock:
            self._waiting[message["type"]] = message
        try:
            self._loop.call_soon_threadsafe(self._changed.set)
        except RuntimeError:  # the server has stopped
            log.debug("a message came after the server had stopped")

    async def run(self) -> None:
        """Sends what is put until the connection closes."""
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                with self._lock:
                    messages, self._waiting = list(self._waiting.values()), {}
                for message in messages:
                    await self._connection.send(json.dumps(message))
        except websockets.exceptions.ConnectionClosed:
            pass
