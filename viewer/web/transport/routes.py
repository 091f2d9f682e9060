"""What the viewer serves next to viser on viser's port: scripts, images, and the websockets of the image streams.

viser's page is a single file, which is taken apart. Scripts of ours are put in front of its own; they run before them.
"""

from __future__ import annotations

import gzip
import http
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import viser
import zstandard
from websockets.datastructures import Headers
from websockets.http11 import Response

from luxel.viewer.web.transport.viser_page import unpack
from luxel.viewer.web.transport.wire import STREAM_PATH

STATIC = Path(__file__).with_name("static")
PREFIX = "/luxel/"
TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".wasm": "application/wasm",
}
VISER_PAGE = Path(viser.__file__).parent / "client" / "build" / "index.html"
ZSTD_LEVEL = 9  # of viser's script: 0.2 s, a tenth smaller than by gzip
MODULES = (
    *("camera", "canvas", "client", "video"),
    *(
        "divider",
        "end-card",
        "focus",
        "folders",
        "help",
        "icons",
        "image-bar",
        "keep",
        "keys",
        "link",
        "mend",
        "page",
        "share",
        "status",
        "toolbar",
    ),
    "view",
)  # that the two modules of the page import, asked for at the same time as those
SCRIPTS = (
    '<script src="/luxel/hook.js"></script>'
    + "".join(f'<link rel="modulepreload" href="/luxel/{name}.js">' for name in MODULES)
    + '<script type="module" src="/luxel/stream.js"></script><script type="module" src="/luxel/shell.js"></script>'
).encode()


class WebsocketHandler(Protocol):
    """Serves websockets; see StreamServer."""

    async def handle(self, connection: Any) -> None:
        """Serves one websocket until it closes."""
        ...


class File:
    """A file that is served, compressed as the browser wants it.

    Args:
        kind: MIME type.
        content: of the file.
        fixed: whether the name changes with the content, so that browsers may store it for good.
    """

    def __init__(self, kind: str, content: bytes, fixed: bool = False) -> None:
        self._kind, self._cache = kind, "private, max-age=31536000, immutable" if fixed else "no-cache"
        self._encoded = {"": content, "gzip": gzip.compress(content, 9)}
        if fixed:
            self._encoded["zstd"] = zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress(content)

    def answer(self, accepted: str) -> Response:
        """The response to a browser with such an Accept-Encoding."""
        offered = {part.split(";")[0].strip() for part in accepted.split(",")}
        encoding = next((name for name in ("zstd", "gzip") if name in offered and name in self._encoded), "")
        response = _response(http.HTTPStatus.OK, self._encoded[encoding], self._kind, self._cache)
        response.headers["Vary"] = "Accept-Encoding"
        if encoding:
            response.headers["Content-Encoding"] = encoding
        return response


class Routes:
    """Adds paths to a server of viser.

    Args:
        streams: serves the websockets at STREAM_PATH.
        handlers: of further websockets, by path; each begins with PREFIX.
        folders: with further scripts.
        images: functions that make JPEG files, by path; each takes the query of the request and returns None while
            there is no image yet, raises ValueError for another query and LookupError if there will be none.
        head: HTML that comes before our scripts in the head of viser's page.
        answers: functions that answer requests for paths, by what these begin with.
    """

    def __init__(
        self,
        streams: WebsocketHandler,
        handlers: Mapping[str, WebsocketHandler] | None = None,
        folders: Sequence[Path] = (),
        images: Mapping[str, Callable[[str], bytes | None]] | None = None,
        head: bytes = b"",
        answers: Mapping[str, Callable[[str], Response]] | None = None,
    ) -> None:
        self._head = head + SCRIPTS
        self._images = dict(images or {})
        self._answers = dict(answers or {})
        self._handlers = {STREAM_PATH: streams, **(handlers or {})}
        # A fixed list: a request never becomes the name of a file.
        self._files = {
            PREFIX + path.name: File(TYPES[path.suffix], path.read_bytes())
            for folder in (STATIC, *folders)
            for path in folder.iterdir()
            if path.suffix in TYPES
        }
        self._packed = VISER_PAGE.read_bytes() if VISER_PAGE.is_file() else b""
        self._page = unpack(self._packed)
        self._files |= {
            PREFIX + name: File(TYPES[Path(name).suffix], content, fixed=True)
            for name, content in self._page.files.items()
        }
        self._pages: dict[bool, tuple[bytes, bytes]] = {}  # by whether compressed: viser's page, ours

    def wrap_request(self, inner: Any) -> Any:
        """A ``process_request`` for websockets' server that answers our paths and passes on all others."""

        def process_request(connection: Any, request: Any) -> Any:
            path, query = urlsplit(request.path)[2:4]
            if request.headers.get("Upgrade", "").lower() == "websocket":
                return None if path in self._handlers else inner(connection, request)
            if answer := next(
                (self._answers[start] for start in self._answers if path.startswith(start)), None
            ):
                return answer(path)
            if path.startswith(PREFIX):
                return self._image(path, query) if path in self._images else self._file(path, request)
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

    def _file(self, path: str, request: Any) -> Response:
        if path not in self._files:
            return _response(http.HTTPStatus.NOT_FOUND)
        return self._files[path].answer(request.headers.get("Accept-Encoding", ""))

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
            page = self._page.html if page == self._packed else page
            page = page.replace(b"<head>", b"<head>" + self._head, 1)
            ours = gzip.compress(page, 6) if compressed else page
            self._pages[compressed] = (body, ours)
        response.body = ours
        del response.headers["Content-Length"]
        response.headers["Content-Length"] = str(len(ours))
        response.headers["Cache-Control"] = "no-cache"


def _response(
    status: http.HTTPStatus, content: bytes = b"", kind: str = "text/plain", cache: str = "no-cache"
) -> Response:
    headers = {"Content-Type": kind, "Content-Length": str(len(content)), "Cache-Control": cache}
    return Response(status, status.phrase, Headers(headers), content)
