"""What is served beside viser on its port."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
import zstandard
from page_driver import until
from shown import StaticSession, ViewerApp
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from luxel.render.primitives import Gaussians
from luxel.viewer.web.transport.routes import SCRIPTS, Routes
from luxel.viewer.web.transport.stream_server import StreamServer


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with ViewerApp(StaticSession(Gaussians.empty(0)), port=0, panels=()) as app:
        yield urlsplit(app.url).netloc


def _get(address: str, path: str, **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection(address, timeout=10)
    connection.request("GET", path, headers=headers)
    response = connection.getresponse()
    return response, response.read()


@pytest.mark.parametrize(
    ("query", "status"), [("width=64&height=48", 200), ("width=1", 400), ("width=0x9&height=3", 400)]
)
def test_first_image_is_served_and_malformed_sizes_are_refused(address: str, query: str, status: int) -> None:
    until(lambda: _get(address, f"/luxel/first.jpg?{query}")[0].status == status, "another status")
    response, body = _get(address, f"/luxel/first.jpg?{query}")
    assert (response.getheader("Content-Type") == "image/jpeg" and body[:2] == b"\xff\xd8") == (status == 200)


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
@pytest.mark.parametrize("path", ["/", "/index.html?x=1"])
def test_page_of_viser_begins_with_our_scripts(address: str, encoding: str, path: str) -> None:
    response, body = _get(address, path, **{"Accept-Encoding": encoding})
    assert response.status == 200
    assert response.getheader("Content-Encoding") == encoding
    assert response.getheader("Cache-Control") == "no-cache"
    page = gzip.decompress(body) if encoding == "gzip" else body
    assert page.count(SCRIPTS) == 1
    assert page.index(b"window.luxelStart") < page.index(SCRIPTS) < page.index(b"import("), (
        "viser's script runs first"
    )
    assert b"data-p=" not in page and len(page) < 30_000, "viser's script is still packed into its page"


@pytest.mark.parametrize("encoding", ["zstd", "gzip", "identity"])
def test_parts_of_visers_page_are_served_compressed_and_for_good(address: str, encoding: str) -> None:
    page = _get(address, "/", **{"Accept-Encoding": "identity"})[1].decode()
    names = set(re.findall(r"/luxel/(viser-[0-9a-f]{12}\.(?:js|css|wasm))", page))
    assert len(names) == 3
    unpack = {"zstd": zstandard.ZstdDecompressor().decompress, "gzip": gzip.decompress, "identity": bytes}
    for name in names:
        response, body = _get(address, f"/luxel/{name}", **{"Accept-Encoding": f"br, {encoding};q=0.8"})
        assert response.getheader("Content-Encoding", "identity") == encoding
        assert "immutable" in response.getheader("Cache-Control", "")
        content = unpack[encoding](body)
        assert hashlib.sha256(content).hexdigest()[:12] in name
        if name.endswith("wasm"):
            assert content[:4] == b"\0asm" and response.getheader("Content-Type") == "application/wasm"


def test_scripts_are_served_with_type_and_without_caching(address: str) -> None:
    for name in ("hook.js", "stream.js", "camera.js?x", "canvas.js"):
        response, body = _get(address, f"/luxel/{name}")
        assert response.status == 200 and body
        assert response.getheader("Content-Type") == "text/javascript; charset=utf-8"
        assert response.getheader("Cache-Control") == "no-cache"


@pytest.mark.parametrize(
    "path", ["/luxel/", "/luxel/none.js", "/luxel/../routes.py", "/luxel/%2e%2e/routes.py", "/luxel/stream"]
)
def test_nothing_else_is_served(address: str, path: str) -> None:
    assert _get(address, path)[0].status == 404


def test_guard_comes_before_the_scripts(address: str) -> None:
    assert _get(address, "/luxel/stream.js", Host="evil.example")[0].status == 403


def test_page_without_a_head_and_other_answers_stay_as_they_are() -> None:
    def inner(connection: object, request: Request) -> Response:
        return Response(200, "OK", Headers({"Content-Length": "4"}), b"text")

    answer = Routes(StreamServer()).wrap_request(inner)
    for path in ("/", "/other"):
        assert answer(None, Request(path, Headers())).body == b"text"
