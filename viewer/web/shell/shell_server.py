"""The websockets of the scripts around the image, beside those of viser and of the image streams."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import websockets.exceptions

from luxel.viewer.web.shell.messages import MAX_MESSAGE, ShellMessage, parse_shell
from luxel.viewer.web.shell.page_shell import PageShell

log = logging.getLogger("luxel.viewer")

SCRIPTS_FOLDER = Path(__file__).with_name("static")
POLICY_VIOLATION = 1008  # close code; the script of a page does not connect again after it
THREADS = 4  # pages whose messages are worked on at the same time


class ShellServer:
    """Ties websockets to the pages that viser knows, as StreamServer does for images."""

    def __init__(self) -> None:
        self._shells: dict[str, PageShell] = {}
        self._open: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="luxel-shell")

    def offer(self, client: Any, shell: PageShell) -> str | None:
        """Sends a key to a viser client.

        Returns:
            The key for `withdraw`; None if the client cannot be sent one.
        """
        key = secrets.token_urlsafe(24)
        with self._lock:
            self._shells[key] = shell
        try:
            from viser._messages import RunJavascriptMessage

            source = f'window.luxelShell?.open("{key}")'
            client._websock_connection.queue_message(RunJavascriptMessage(source=source))
        except Exception:  # another version of viser, or no browser
            log.debug("a client has no scripts around its image", exc_info=True)
            self.withdraw(key)
            return None
        return key

    def withdraw(self, key: str) -> None:
        """Makes a key invalid: its page is closed."""
        with self._lock:
            self._shells.pop(key, None)

    def close(self) -> None:
        """Ends the threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def handle(self, connection: Any) -> None:
        """Serves one websocket until it closes."""
        key = parse_qs(urlsplit(connection.request.path).query).get("key", [""])[0]
        with self._lock:
            shell, before = self._shells.get(key), self._open.get(key)
            if shell is not None:
                self._open[key] = connection
        if shell is None:
            await connection.close(POLICY_VIOLATION, "unknown page")
            return
        if before is not None:
            await before.close(POLICY_VIOLATION, "replaced")
        if hasattr(connection.protocol, "max_message_size"):  # viser allows 50 MB
            connection.protocol.max_message_size = MAX_MESSAGE
        outbox = Outbox(connection)
        shell.connect(outbox.put)
        sending = asyncio.create_task(outbox.run())
        try:
            await self._receive(connection, key, shell)
        except ValueError as error:
            await connection.close(POLICY_VIOLATION, str(error)[:100])
        except websockets.exceptions.ConnectionClosed:
            pass
        finally:
            shell.disconnect(outbox.put)
            sending.cancel()
            with self._lock:
                if self._open.get(key) is connection:
                    del self._open[key]

    async def _receive(self, connection: Any, key: str, shell: PageShell) -> None:
        """One message is worked on at a time and the next is not read before, so that nothing queues here."""
        loop = asyncio.get_running_loop()
        async for text in connection:
            message = parse_shell(text)
            if key not in self._shells:
                return
            await loop.run_in_executor(self._pool, _guarded, shell, message)


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
