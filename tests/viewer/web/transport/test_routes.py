"""What is served beside viser on its port."""

from __future__ import annotations

import gzip
import http.client
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
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
    assert page.index(SCRIPTS) < page.index(b"<script data-p"), "viser's script runs first"


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
