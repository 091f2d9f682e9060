"""Files that pages may open in a window of their own, over HTTP under unguessable addresses."""

from __future__ import annotations

import http
import secrets
import threading
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote

from websockets.datastructures import Headers
from websockets.http11 import Response

SHARED_PATH = "/luxel/shared/"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".jpg": "image/jpeg",
    ".json": "application/json",
    ".png": "image/png",
    ".webp": "image/webp",
}
MAX_OFFERED = 64  # addresses; of more, the oldest become invalid

# What a browser lets the files do, whose origin is that of the viewer: an exported page runs its script in a sandbox,
# from where it cannot reach the viewer; a report shows its images and runs none.
SCRIPTED = "sandbox allow-scripts allow-popups allow-downloads allow-pointer-lock"
IMAGES = (
    "default-src 'none'; img-src 'self' data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)


class SharedFiles:
    """Serves the files that were offered, and no others: a request never becomes the name of a file."""

    def __init__(self) -> None:
        self._offered: dict[str, tuple[Mapping[str, Path], str]] = {}
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[int, str]] = {}

    def keep(self, name: str, stamp: int, files: Mapping[str, Path], first: str, policy: str) -> str:
        """As `offer`, with the same address for a name until there is another stamp, such as the time of a change."""
        before, address = self._kept.get(name, (0, ""))
        if before != stamp or self._key(address) not in self._offered:
            self.withdraw(address)
            address = self.offer(files, first, policy)
            self._kept[name] = stamp, address
        return address

    def offer(self, files: Mapping[str, Path], first: str, policy: str) -> str:
        """An address for files that refer to each other by name.

        Args:
            files: by their names.
            first: the name of the one that is opened.
            policy: SCRIPTED or IMAGES.
        """
        key = secrets.token_urlsafe(24)
        with self._lock:
            self._offered[key] = files, policy
            for old in list(self._offered)[:-MAX_OFFERED]:
                del self._offered[old]
        return f"{SHARED_PATH}{key}/{first}"

    def withdraw(self, address: str) -> None:
        """Makes an address invalid."""
        with self._lock:
            self._offered.pop(self._key(address), None)

    @staticmethod
    def _key(address: str) -> str:
        return address.removeprefix(SHARED_PATH).partition("/")[0]

    def answer(self, path: str) -> Response:
        """The response to a request for a path below SHARED_PATH."""
        key, _, name = unquote(path).removeprefix(SHARED_PATH).partition("/")
        with self._lock:
            files, policy = self._offered.get(key, ({}, ""))
        file = files.get(name)
        kind = TYPES.get("" if file is None else file.suffix.lower())
        try:
            content = b"" if file is None or kind is None else file.read_bytes()
        except OSError:  # it was deleted meanwhile
            file, content = None, b""
        status = http.HTTPStatus.NOT_FOUND if file is None or kind is None else http.HTTPStatus.OK
        headers = {
            "Content-Type": kind or "text/plain",
            "Content-Length": str(len(content)),
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Content-Security-Policy": policy or "default-src 'none'",
        }
        return Response(status, status.phrase, Headers(headers), content)
