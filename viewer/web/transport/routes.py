"""What the viewer serves next to viser on viser's port: scripts, images, and the websockets of the image streams.

viser's page is a single file. One script of ours is put in front of its own; it runs before them.
"""

from __future__ import annotations

import gzip
import http
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from websockets.datastructures import Headers
from websockets.http11 import Response

from luxel.viewer.web.transport.wire import STREAM_PATH

STATIC = Path(__file__).with_name("static")
PREFIX = "/luxel/"
TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}
SCRIPTS = (
    b'<script src="/luxel/hook.js"></script><script src="/luxel/shell-start.js"></script>'
    b'<script src="/luxel/first.js"></script>'
    b'<script type="module" src="/luxel/stream.js"></script><script type="module" src="/luxel/shell.js"></script>'
)


class WebsocketHandler(Protocol):
    """Serves websockets; see StreamServer."""

    async def handle(self, connection: Any) -> None:
        """Serves one websocket until it closes."""
        ...


class Routes:
    """Adds paths to a server of viser.

    Args:
        streams: serves the websockets at STREAM_PATH.
        handlers: of further websockets, by path; each begins with PREFIX.
        folders: with further scripts.
        images: functions that make JPEG files, by path; each takes the query of the request and returns None while
            there is no image yet, raises ValueError for another query and LookupError if there will be none.
    """

    def __init__(
        self,
        streams: WebsocketHandler,
        handlers: Mapping[str, WebsocketHandler] | None = None,
        folders: Sequence[Path] = (),
        images: Mapping[str, Callable[[str], bytes | None]] | None = None,
    ) -> None:
        self._images = dict(images or {})
        self._handlers = {STREAM_PATH: streams, **(handlers or {})}
        # A fixed list: a request never becomes the name of a file.
        self._files = {
            PREFIX + path.name: (TYPES[path.suffix], path.read_bytes())
            for folder in (STATIC, *folders)
            for path in folder.iterdir()
            if path.suffix in TYPES
        }
        self._pages: dict[bool, tuple[bytes, bytes]] = {}  # by whether compressed: viser's page, ours

    def wrap_request(self, inner: Any) -> Any:
        """A ``process_request`` for websockets' server that answers our paths and passes on all others."""

        def process_request(connection: Any, request: Any) -> Any:
            path, query = urlsplit(request.path)[2:4]
            if request.headers.get("Upgrade", "").lower() == "websocket":
                return None if path in self._handlers else inner(connection, request)
            if path.startswith(PREFIX):
                return self._image(path, query) if path in self._images else self._file(path)
            response = inner(connection, request)
            if path in ("/", "/index.html") and response is not None and response.status_code == 200:
                self._add_scripts(response)
            return response

        return process_request

    def wrap_handler(self, inner: Any) -> Any:
        """A connection handler that serves our websockets and passes on all others."""

        async def serve(connection: Any) -> None:
            handler = self._handlers.get(urlsplit(connection.request.path).path)
            if handler is not None:
                await handler.handle(connection)
            else:
                await inner(connection)

        return serve

    def _file(self, path: str) -> Response:
        if path not in self._files:
            return _response(http.HTTPStatus.NOT_FOUND)
        kind, content = self._files[path]
        return _response(http.HTTPStatus.OK, content, kind)

    def _image(self, path: str, query: str) -> Response:
        try:
            image = self._images[path](query)
        except ValueError:
            return _response(http.HTTPStatus.BAD_REQUEST)
        except LookupError:
            return _response(http.HTTPStatus.NOT_FOUND)
        if image is None:
            return _response(http.HTTPStatus.ACCEPTED)
        return _response(http.HTTPStatus.OK, image, "image/jpeg")

    def _add_scripts(self, response: Response) -> None:
        """Puts our scripts into viser's page; one without a head stays as it is."""
        body = bytes(response.body or b"")
        compressed = response.headers.get("Content-Encoding") == "gzip"
        before, ours = self._pages.get(compressed, (None, b""))
        if before != body:
            page = gzip.decompress(body) if compressed else body
            page = page.replace(b"<head>", b"<head>" + SCRIPTS, 1)
            ours = gzip.compress(page, 6) if compressed else page
            self._pages[compressed] = (body, ours)
        response.body = ours
        del response.headers["Content-Length"]
        response.headers["Content-Length"] = str(len(ours))
        response.headers["Cache-Control"] = "no-cache"


def _response(status: http.HTTPStatus, content: bytes = b"", kind: str = "text/plain") -> Response:
    headers = {"Content-Type": kind, "Content-Length": str(len(content)), "Cache-Control": "no-cache"}
    return Response(status, status.phrase, Headers(headers), content)
