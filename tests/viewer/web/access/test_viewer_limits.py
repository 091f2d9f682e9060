"""Limits of the server: malformed requests, guessed tokens, pages, slow connections; sources of the token; TLS."""

from __future__ import annotations

import contextlib
import http.client
import logging
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from page_client import PageClient, port_of, until
from shown import StaticSession, ViewerApp
from stream_sink import flat
from websockets.exceptions import InvalidStatus

from luxel.render.errors import LuxelError
from luxel.render.primitives.gaussians import Gaussians
from luxel.viewer.options import Serve
from luxel.viewer.web.access.credentials import reachable, read_token, tls_context
from luxel.viewer.web.access.guard import bind
from luxel.viewer.web.access.limits import REMEMBERED, Limits, Throttle
from luxel.viewer.web.serving import check_serving

TOKEN = "a-long-enough-token"


def viewer(**options: Any) -> ViewerApp:
    return ViewerApp(StaticSession(Gaussians.empty(0)), port=0, render=flat, **options)


@pytest.fixture(scope="module")
def app() -> Iterator[ViewerApp]:
    with viewer() as running:
        yield running


def answer(app: ViewerApp, request: bytes) -> bytes:
    """The first line of the response to raw bytes."""
    with socket.create_connection(("127.0.0.1", port_of(app)), timeout=10) as sock:
        sock.sendall(request)
        return sock.makefile("rb").readline().strip()


def get(app: ViewerApp, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port_of(app), timeout=10)
    connection.request("GET", path)
    response = connection.getresponse()
    response.read()
    return response.status


HOST = b"Host: 127.0.0.1\r\n"


@pytest.mark.parametrize(
    ("line", "headers"),
    [
        (b"GET /?token=\xff\xfe HTTP/1.1", HOST),
        (b"GET /?token=%00 HTTP/1.1", HOST),
        (b"GET /\xe9 HTTP/1.1", HOST),
        (b"GET /" + b"x" * 3000 + b" HTTP/1.1", HOST),
        (b"GET //[ HTTP/1.1", HOST),
        (b"GET / HTTP/1.1", b""),
        (b"GET / HTTP/1.1", b"Host: [::1\r\n"),
        (b"GET / HTTP/1.1", b"Host: 127.0.0.1:99999\r\n"),
        (b"GET / HTTP/1.1", b"Host: 127.0.0.1:x\r\n"),
        (b"GET / HTTP/1.1", b"Host: a@127.0.0.1\r\n"),
        (b"GET / HTTP/1.1", b"Host: \xff\r\n"),
        (b"GET / HTTP/1.1", HOST + HOST),
        (b"GET / HTTP/1.1", HOST + b"Cookie: \xff\xfe\r\n"),
        (b"GET / HTTP/1.1", HOST + b"Cookie: a=1\r\nCookie: b=2\r\n"),
        (b"GET / HTTP/1.1", HOST + b"Upgrade: websocket\r\nOrigin: http://[\r\n"),
    ],
)
def test_malformed_requests_are_the_fault_of_their_sender(
    app: ViewerApp, line: bytes, headers: bytes
) -> None:
    assert answer(app, line + b"\r\n" + headers + b"\r\n").startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize(
    "path", ["/%2e%2e/%2e%2e/etc/passwd", "/../setup.py", "/..%5c..%5cx", "/" + "y" * 300, "/none"]
)
def test_no_file_outside_of_the_page_is_read(app: ViewerApp, path: str) -> None:
    assert get(app, path) == 404


def test_what_is_not_http_is_closed_and_not_logged(app: ViewerApp, caplog: pytest.LogCaptureFixture) -> None:
    for garbage in (b"\x16\x03\x01\x02\x00\r\n\r\n", b"POST / HTTP/1.1\r\n\r\n", b"\r\n" * 9):
        with contextlib.suppress(ConnectionError):
            answer(app, garbage)
    assert get(app, "/") == 200 and not caplog.records


def test_guessing_tokens_is_throttled_and_open_pages_are_not() -> None:
    with viewer(token=TOKEN, limits=Limits(wrong_tokens=5, wrong_token_seconds=1000.0)) as app:
        port = port_of(app)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", f"/?token={TOKEN}")
        response = connection.getresponse()
        response.read()
        cookie = response.headers["Set-Cookie"].split(";")[0]
        assert TOKEN not in cookie, "the browser keeps no secret that outlives the viewer"
        statuses = [get(app, f"/?token=guess-number-{i}-of-many") for i in range(8)]
        assert statuses == [403] * 5 + [429] * 3
        assert get(app, f"/?token={TOKEN}") == 429, "a right guess is not confirmed either"
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", "/", headers={"Cookie": cookie})
        response = connection.getresponse()
        assert response.status == 200 and response.read(), "a page that is known is not affected"


def test_throttle_forgets_and_is_bounded() -> None:
    now = [0.0]
    throttle = Throttle(1 / 3.0, 2, clock=lambda: now[0])
    for _ in range(2):
        assert throttle.allows("a")
        throttle.count("a")
    assert not throttle.allows("a") and throttle.allows("b")
    now[0] = 3.5
    assert throttle.allows("a")
    for i in range(REMEMBERED + 10):
        throttle.count(str(i))
    assert len(throttle._buckets) == REMEMBERED


def test_one_page_too_many_is_refused() -> None:
    with viewer(limits=Limits(max_pages=2)) as app, PageClient(app) as first, PageClient(app):
        with pytest.raises(InvalidStatus) as refused:
            PageClient(app)
        assert refused.value.response.status_code == 503
        assert b"--max-pages" in refused.value.response.body
        first.close()
        until(lambda: app.pages == 1, "the page did not close")
        PageClient(app).close()


def test_slow_connections_are_closed_and_block_nobody(caplog: pytest.LogCaptureFixture) -> None:
    with viewer(limits=Limits(handshakes=4, request_seconds=0.5)) as app:
        slow = [socket.create_connection(("127.0.0.1", port_of(app)), timeout=20) for _ in range(12)]
        for sock in slow:
            sock.sendall(b"GET / HTTP/1.1\r\nHost:")
        assert get(app, "/") == 200
        for sock in slow:
            with contextlib.suppress(ConnectionError):
                assert sock.recv(1) == b""
            sock.close()
    assert not caplog.records


@pytest.mark.parametrize(("host", "family"), [("0.0.0.0", "."), ("::", ":")])
def test_the_address_of_all_interfaces_can_be_opened(host: str, family: str) -> None:
    shown = reachable(host)
    assert shown != host and family in shown
    assert reachable("10.1.2.3") == "10.1.2.3" and reachable("localhost") == "localhost"


def test_token_comes_from_option_file_or_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\nnot this\n")
    monkeypatch.delenv("LUXEL_TOKEN", raising=False)
    assert read_token(None, None) is None
    assert read_token(None, file) == TOKEN
    monkeypatch.setenv("LUXEL_TOKEN", "token-of-the-environment")
    assert read_token(None, None) == "token-of-the-environment"
    assert read_token(None, file) == TOKEN and read_token("option", None) == "option"
    check_serving(Serve(host="0.0.0.0"))
    with pytest.raises(LuxelError, match="only one"):
        read_token(TOKEN, file)
    with pytest.raises(LuxelError, match="--token-file"):
        read_token(None, tmp_path / "none")
    file.write_text("\n")
    with pytest.raises(LuxelError, match="no token in it"):
        read_token(None, file)


def test_options_out_of_range_are_refused() -> None:
    with pytest.raises(LuxelError, match=r"--share-of-time 0: .*above 0 and at most 1"):
        viewer(share_of_time=0)
    with pytest.raises(LuxelError, match=r"max_pages 0: .* from 1 to"):
        Serve(max_pages=0)
    with pytest.raises(LuxelError, match=r"port 70000: .* from 0 to 65535"):
        bind("127.0.0.1", 70000)
    with pytest.raises(LuxelError, match="one is missing"):
        check_serving(Serve(tls_cert=Path("cert.pem")))
    with pytest.raises(LuxelError, match="--tls-cert"):
        check_serving(Serve(tls_cert=Path("none.pem"), tls_key=Path("none.pem")))


def test_pages_are_served_over_tls(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    names = ["-subj", "/CN=localhost", "-days", "2", "-keyout", str(key), "-out", str(cert)]
    try:
        subprocess.run([*command, *names], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("TLS test not run: there is no openssl to make a certificate")
    trust = ssl.create_default_context(cafile=str(cert))
    caplog.set_level(logging.INFO)
    with viewer(token=TOKEN, tls=tls_context(cert, key)) as app:
        assert app.url.startswith("https://")
        connection = http.client.HTTPSConnection("localhost", port_of(app), context=trust, timeout=10)
        connection.request("GET", f"/?token={TOKEN}")
        response = connection.getresponse()
        assert response.status == 303 and "; Secure" in response.headers["Set-Cookie"] and not response.read()
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            get(app, "/")
