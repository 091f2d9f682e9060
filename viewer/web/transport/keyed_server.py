"""Websockets of the viewer's own alongside viser's: each names a key that its page got through viser."""

from __future__ import annotations

import logging
import secrets
import threading
from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar
from urllib.parse import parse_qs, urlsplit

import websockets.exceptions

log = logging.getLogger("luxel.viewer")

POLICY_VIOLATION = 1008  # close code; the script of a page does not connect again after it

T = TypeVar("T")


class KeyedServer(ABC, Generic[T]):
    """Ties websockets to what they belong to in the pages that viser knows.

    A key is random and valid until it is withdrawn. Where a second websocket names it, the first is closed. A message
    that is not of the protocol ends the connection with POLICY_VIOLATION.

    Attributes:
        noun: what a key belongs to; unknown keys are refused with it.
        largest: bytes of a message, at most.
    """

    noun = "page"
    largest: int

    def __init__(self) -> None:
        self._ends: dict[str, T] = {}
        self._open: dict[str, Any] = {}
        self._lock = threading.Lock()

    def register(self, end: T) -> str:
        """A new key for ``end``."""
        key = secrets.token_urlsafe(24)
        with self._lock:
            self._ends[key] = end
        return key

    def withdraw(self, key: str | None) -> bool:
        """Makes a key invalid: its websocket ends at the next message. False if it was not valid."""
        with self._lock:
            return key is not None and self._ends.pop(key, None) is not None

    def is_valid(self, key: str | None) -> bool:
        """Whether a key was registered and not withdrawn."""
        return key in self._ends

    async def handle(self, connection: Any) -> None:
        """Serves one websocket until it closes."""
        key = parse_qs(urlsplit(connection.request.path).query).get("key", [""])[0]
        with self._lock:
            end, before = self._ends.get(key), self._open.get(key)
            if end is not None:
                self._open[key] = connection
        if end is None:
            await connection.close(POLICY_VIOLATION, f"unknown {self.noun}")
            return
        if before is not None:
            await before.close(POLICY_VIOLATION, "replaced")
        if hasattr(connection.protocol, "max_message_size"):  # viser allows 50 MB
            connection.protocol.max_message_size = self.largest
        try:
            await self.serve(connection, key, end)
        except ValueError as error:
            await connection.close(POLICY_VIOLATION, str(error)[:100])
        except websockets.exceptions.ConnectionClosed:
            pass
        finally:
            with self._lock:
                if self._open.get(key) is connection:
                    del self._open[key]

    @abstractmethod
    async def serve(self, connection: Any, key: str, end: T) -> None:
        """Receives and sends messages until the connection closes, or the key is withdrawn.

        Raises:
            ValueError: a message is not of the protocol.
        """


def run_script(client: Any, source: str) -> bool:
    """Runs JavaScript in the page of a viser client; false where that is not possible."""
    try:
        from viser._messages import RunJavascriptMessage

        client._websock_connection.queue_message(RunJavascriptMessage(source=source))
    except Exception:  # another version of viser, or no browser
        log.debug("a client runs no script", exc_info=True)
        return False
    return True
