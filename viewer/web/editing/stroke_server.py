"""The websockets over which pages send what is drawn on the image with the freehand tools."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from luxel.viewer.web.editing.stroke_messages import MAX_MESSAGE, StrokeMessage, StrokePart, parse_stroke
from luxel.viewer.web.transport.keyed_server import POLICY_VIOLATION, KeyedServer, run_script

log = logging.getLogger("luxel.viewer")

SCRIPTS_FOLDER = Path(__file__).with_name("static")
SCRIPT = "/luxel/strokes.js"
THREADS = 4  # pages whose strokes are worked on at the same time

Receive = Callable[[StrokeMessage], None]


class StrokeServer(KeyedServer[Receive]):
    """The freehand tools that are active in pages.

    An active tool has a key, which its page gets in a message of viser that also starts the script. One message of a
    page is worked on at a time and the next is not read before, so that nothing queues here.
    """

    noun = "tool"
    largest = MAX_MESSAGE

    def __init__(self) -> None:
        super().__init__()
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
        key = self.register(receive)
        if _call(client, "start", {"key": key, **tool}):
            return key
        self.withdraw(key)
        return None

    def change(self, client: Any, key: str | None, **tool: Any) -> None:
        """Changes properties of a tool that was started."""
        if self.is_valid(key):
            _call(client, "change", {"key": key, **tool})

    def stop(self, client: Any, key: str | None) -> None:
        """Ends a tool; its key is not valid any more."""
        if self.withdraw(key):
            _call(client, "stop", {"key": key})

    async def serve(self, connection: Any, key: str, end: Receive) -> None:
        """Passes on what is drawn, and answers when a part of a stroke has been used."""
        loop = asyncio.get_running_loop()
        async for text in connection:
            message = parse_stroke(text)
            if not self.is_valid(key):
                await connection.close(POLICY_VIOLATION, f"unknown {self.noun}")
                return
            await loop.run_in_executor(self._pool, _guarded, end, message)
            if isinstance(message, StrokePart):
                await connection.send(json.dumps({"done": message.number}))


def _guarded(receive: Receive, message: StrokeMessage) -> None:
    try:
        receive(message)
    except Exception:  # the page may be gone; the next stroke may succeed
        log.exception("A stroke could not be used.")


def _call(client: Any, function: str, options: dict[str, Any]) -> bool:
    """Calls a function of the script in the page of a client; false if that is not possible."""
    return run_script(
        client, f'import("{SCRIPT}").then((strokes) => strokes.{function}({json.dumps(options)}))'
    )


STROKES = StrokeServer()  # of all viewers of this program: keys are random
