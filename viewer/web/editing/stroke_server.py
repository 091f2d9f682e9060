"""The websockets over which pages send what is drawn on the image with the freehand tools."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import websockets.exceptions

from luxel.viewer.web.editing.stroke_messages import MAX_MESSAGE, StrokeMessage, StrokePart, parse_stroke

log = logging.getLogger("luxel.viewer")

SCRIPTS_FOLDER = Path(__file__).with_name("static")
SCRIPT = "/luxel/strokes.js"
POLICY_VIOLATION = 1008  # close code; the script of a page does not connect again after it
THREADS = 4  # pages whose strokes are worked on at the same time

Receive = Callable[[StrokeMessage], None]


class StrokeServer:
    """Ties websockets to the freehand tools that are active in pages.

    An active tool has a random key, which its page gets in a message of viser that also starts the script; the page's
    websocket names it. One message of a page is worked on at a time and the next is not read before, so that nothing
    queues here.
    """

    def __init__(self) -> None:
        self._tools: dict[str, Receive] = {}
        self._open: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="luxel-strokes")

    def start(self, client: Any, receive: Receive, **tool: Any) -> str | None:
        """Starts a tool in the page of a viser client.

        Args:
            client: viser ClientHandle.
            receive: called with each message, in a thread.
            tool: for ``start`` of the script: ``shape`` is "lasso" or "brush", ``radius`` in pixels.

        Returns:
            The key for `change` and `stop`; None if the client runs no script.
        """
        key = secrets.token_urlsafe(24)
        with self._lock:
            self._tools[key] = receive
        if not _call(client, "start", {"key": key, **tool}):
            self.stop(client, key)
            return None
        return key

    def change(self, client: Any, key: str | None, **tool: Any) -> None:
        """Changes properties of a tool that was started."""
        if key in self._tools:
            _call(client, "change", {"key": key, **tool})

    def stop(self, client: Any, key: str | None) -> None:
        """Ends a tool; its key is not valid any more."""
        with self._lock:
            known = key is not None and self._tools.pop(key, None) is not None
        if known:
            _call(client, "stop", {"key": key})

    async def handle(self, connection: Any) -> None:
        """Serves one websocket until it closes."""
        key = parse_qs(urlsplit(connection.request.path).query).get("key", [""])[0]
        with self._lock:
            receive, before = self._tools.get(key), self._open.get(key)
            if receive is not None:
                self._open[key] = connection
        if receive is None:
            await connection.close(POLICY_VIOLATION, "unknown tool")
            return
        if before is not None:
            await before.close(POLICY_VIOLATION, "replaced")
        if hasattr(connection.protocol, "max_message_size"):  # viser allows 50 MB
            connection.protocol.max_message_size = MAX_MESSAGE
        try:
            await self._receive(connection, key, receive)
        except ValueError as error:
            await connection.close(POLICY_VIOLATION, str(error)[:100])
        except websockets.exceptions.ConnectionClosed:
            pass
        finally:
            with self._lock:
                if self._open.get(key) is connection:
                    del self._open[key]

    async def _receive(self, connection: Any, key: str, receive: Receive) -> None:
        loop = asyncio.get_running_loop()
        async for text in connection:
            message = parse_stroke(text)
            if key not in self._tools:
                await connection.close(POLICY_VIOLATION, "unknown tool")
                return
            await loop.run_in_executor(self._pool, _guarded, receive, message)
            if isinstance(message, StrokePart):
                await connection.send(json.dumps({"done": message.number}))


def _guarded(receive: Receive, message: StrokeMessage) -> None:
    try:
        receive(message)
    except Exception:  # the page may be gone; the next stroke may succeed
        log.exception("A stroke could not be used.")


def _call(client: Any, function: str, options: dict[str, Any]) -> bool:
    """Calls a function of the script in the page of a client; false if that is not possible."""
    try:
        from viser._messages import RunJavascriptMessage

        source = f'import("{SCRIPT}").then((strokes) => strokes.{function}({json.dumps(options)}))'
        client._websock_connection.queue_message(RunJavascriptMessage(source=source))
    except Exception:  # another version of viser, or no browser
        log.debug("a client cannot run the script of the freehand tools", exc_info=True)
        return False
    return True


STROKES = StrokeServer()  # of all viewers of this program: keys are random
