"""Who may talk to the viewer: origins, hosts, tokens, ports."""

from __future__ import annotations

import errno
import http.client
import socket
from collections.abc import Iterator

import pytest
import viser
from shown import StaticSession, ViewerApp
from viser import _messages
from websockets.datastructures import Headers
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin, Subprotocol

from luxel.render.errors import LuxelError
from luxel.render.primitives.gaussians import Gaussians
from luxel.viewer.web.access import viser_events
from luxel.viewer.web.access.guard import Guard, bind, is_loopback

TOKEN = "a-long-enough-token"


def nothing(*_: object, **__: object) -> object:
    raise AssertionError("no page is open: nothing may be rendered")


def session() -> StaticSession:
    return StaticSession(Gaussians.empty(0))


@pytest.fixture
def app() -> Iterator[ViewerApp]:
    with ViewerApp(session(), port=0, render=nothing) as running:
        yield running


def port_of(app: ViewerApp) -> int:
    return int(app.url.split(":")[2].split("/")[0])


def get(app: ViewerApp, path: str = "/", **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port_of(app), timeout=10)
    connection.request("GET", path, headers=headers)
    response = connection.getresponse()
    return response.status, dict(response.getheaders()), response.read()


def handshake(app: ViewerApp, origin: str | None, **headers: str) -> int:
    """The status of a websocket handshake: 101 where it is accepted."""
    try:
        with connect(
            f"ws://127.0.0.1:{port_of(app)}",
            origin=None if origin is None else Origin(origin),
            subprotocols=[Subprotocol(f"viser-v{viser.__version__}")],
            additional_headers=headers,
            open_timeout=10,
        ) as websocket:
            websocket.recv(timeout=10)  # viser greets with the state of the page
            return 101
    except InvalidStatus as error:
        return error.response.status_code


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost", True),
        ("LOCALHOST.", True),
        ("0.0.0.0", False),
        ("::", False),
        ("", False),
        ("10.0.0.3", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
    ],
)
def test_loopback_names(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org", ""])
def test_open_host_needs_a_token(host: str) -> None:
    with pytest.raises(LuxelError, match="token") as caught:
        ViewerApp(session(), host=host)
    assert "127.0.0.1" in caught.value.remedy


@pytest.mark.parametrize("token", ["", "short", "with spaces in it", "semi;colon;in;it", "ünïcödé-token-é"])
def test_bad_token_is_refused(token: str) -> None:
    with pytest.raises(LuxelError, match="token"):
        ViewerApp(session(), token=token)


def test_same_origin_is_accepted_and_others_are_not(app: ViewerApp) -> None:
    port = port_of(app)
    assert handshake(app, f"http://127.0.0.1:{port}") == 101
    for origin in (None, "null", "http://evil.example", "http://127.0.0.1", f"http://localhost:{port}"):
        assert handshake(app, origin) == 403, origin
    assert handshake(app, f"http://127.0.0.1:{port + 1}") == 403, "another port is another site"


def test_foreign_host_name_is_refused(app: ViewerApp) -> None:
    """DNS rebinding: a site that points its own name at 127.0.0.1 has matching Origin and Host."""
    port = port_of(app)
    name = f"evil.example:{port}"
    assert get(app, Host=name)[0] == 403
    guard = Guard(loopback=True, token=None, port=port)
    headers = Headers({"Host": name, "Origin": f"http://{name}", "Upgrade": "websocket"})
    assert guard.refusal("/", headers) is not None
    good = Headers(
        {"Host": f"localhost:{port}", "Origin": f"http://localhost:{port}", "Upgrade": "websocket"}
    )
    assert guard.refusal("/", good) is None


def test_page_may_not_be_framed(app: ViewerApp) -> None:
    status, headers, body = get(app)
    assert status == 200 and b"<html" in body.lower()
    assert headers["X-Frame-Options"] == "SAMEORIGIN"


def test_token_opens_page_and_websocket() -> None:
    with ViewerApp(session(), host="0.0.0.0", port=0, token=TOKEN, render=nothing) as app:
        assert app.url.endswith(f"?token={TOKEN}")
        origin = f"http://127.0.0.1:{port_of(app)}"
        assert get(app)[0] == 403
        assert get(app, "/?token=a-wrong-enough-token")[0] == 403
        assert handshake(app, origin) == 403
        status, headers, _ = get(app, f"/?token={TOKEN}")
        cookie = headers["Set-Cookie"].split(";")[0]
        assert status == 303 and headers["Location"] == "/"
        assert "HttpOnly" in headers["Set-Cookie"] and "SameSite=Lax" in headers["Set-Cookie"]
        assert get(app, Cookie=cookie)[0] == 200
        assert get(app, Cookie=f'odd=[{{"; other; {cookie}; last=1')[0] == 200
        assert handshake(app, origin, Cookie=cookie) == 101
        assert handshake(app, "http://evil.example", Cookie=cookie) == 403, "a cookie is no excuse"
        assert handshake(app, origin, Cookie=cookie[:-1]) == 403


def test_taken_port_is_replaced_and_said(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with ViewerApp(session(), port=port, render=nothing) as app:
            assert port_of(app) != port
            assert get(app)[0] == 200
        assert f"Port {port} is in use" in caplog.text


@pytest.mark.parametrize("host", ["203.0.113.7", "no-such-host.invalid"])
def test_address_of_another_machine_is_refused(host: str) -> None:
    with pytest.raises(LuxelError, match="cannot listen"):
        bind(host, 8080)


def test_viser_that_escapes_the_guard_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("luxel.viewer.web.app._Server", lambda **_: None)
    app = ViewerApp(session(), port=0, render=nothing)
    with pytest.raises(LuxelError, match="viser"):
        app.start()


def test_nobody_can_ask_for_a_public_tunnel(app: ViewerApp, monkeypatch: pytest.MonkeyPatch) -> None:
    def tunnel(*_: object) -> None:
        raise AssertionError("a tunnel was opened")

    monkeypatch.setattr("viser._viser.ViserTunnel", tunnel)
    server = app._server
    assert server is not None
    assert server.request_share_url() is None
    handlers = server._websock_server._incoming_handlers[_messages.ShareUrlRequest]
    for handler in handlers:  # what a page can send although the button is hidden
        handler(0, _messages.ShareUrlRequest())
    server._thread_executor.shutdown(wait=True)
    assert server._share_tunnel is None


def test_empty_scene_is_served() -> None:
    with ViewerApp(StaticSession(Gaussians.empty(3)), port=0, render=nothing) as app:
        assert get(app)[0] == 200


def test_no_port_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    class Taken(socket.socket):
        def bind(self, address: object) -> None:
            raise OSError(errno.EADDRINUSE, "Address already in use")

    with monkeypatch.context() as patched:
        patched.setattr("luxel.viewer.web.access.guard.socket.socket", Taken)
        with pytest.raises(LuxelError, match=r"no free port on 127\.0\.0\.1\..*--port"):
            bind("127.0.0.1", 8080)
    bind("127.0.0.1", 0).close()


def test_message_buffers_of_another_viser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viser_events.inspect, "getsource", lambda function: "self.message_event.set()")
    with pytest.raises(LuxelError, match=r"message buffers of this version.*pip install 'viser==") as refused:
        viser_events.make_buffers_safe()
    assert viser.__version__ in refused.value.remedy, (
        "the version that the remedy names is the one tested here"
    )
