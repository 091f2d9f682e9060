"""The image stream as a page sees it, with a Python client in place of the page."""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import websockets.sync.client as websocket_client
from page_driver import until
from PIL import Image
from shown import StaticSession, ViewerApp
from stream_sink import Frame, pose
from websockets.exceptions import ConnectionClosed, InvalidStatus

from luxel.render.geometry.camera import Camera
from luxel.render.primitives import Gaussians
from luxel.viewer.web.navigate import Pose, orbit_point
from luxel.viewer.web.offline import OfflineCamera, OfflineClient
from luxel.viewer.web.page import Page
from luxel.viewer.web.transport.encoders import encode_png
from luxel.viewer.web.transport.sinks import IN_FLIGHT
from luxel.viewer.web.transport.wire import camera_text, rendered_text, split_image


class Slow:
    """Renders an image as grey as the camera is far along x, when ``gate`` lets it."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.rendered: list[float] = []

    def __call__(self, scene: Gaussians, camera: Camera, **_: Any) -> Frame:
        self.gate.wait(10)
        self.rendered.append(float(camera.position[0]))
        return Frame(camera, self.rendered[-1])


class Client(OfflineClient):
    """A client of viser that takes messages, among them the key of its stream."""

    def __init__(self, app: ViewerApp) -> None:
        here = pose(0.0)
        super().__init__(app.server, OfflineCamera(here, orbit_point(here, app.extent), 64, 48))
        self._websock_connection = self
        self.keys: list[str] = []
        self.image: Any = None

    def queue_message(self, message: Any) -> None:
        """Takes a message."""
        key = re.search(r'connect\("([\w-]+)"\)', getattr(message, "source", ""))
        self.keys += [key[1]] if key else []


@pytest.fixture
def viewer() -> Iterator[tuple[ViewerApp, Slow]]:
    render = Slow()
    session = StaticSession(Gaussians.empty(0), name="stream")
    with ViewerApp(session, port=0, render=render, panels=()) as app:
        yield app, render
        render.gate.set()


def _open(app: ViewerApp) -> tuple[Page, str]:
    client = Client(app)
    page = app.open_page(client).page
    return page, client.keys[0]


def _connect(app: ViewerApp, key: str, **options: Any) -> Any:
    url = app.url.replace("http", "ws") + f"luxel/stream?key={key}"
    given = {"origin": app.url.rstrip("/"), "max_size": None, "proxy": None, **options}
    return websocket_client.connect(url, **given)


def _image(socket: Any, timeout: float = 10.0) -> tuple[Any, int]:
    """The next image: its header and its grey value."""
    header, file = split_image(socket.recv(timeout=timeout))
    return header, int(np.asarray(Image.open(io.BytesIO(file)).convert("RGB"))[..., 0].mean().round())


def _shown(socket: Any, sequence: int) -> tuple[Any, int]:
    """Acknowledges images until one shows this camera."""
    while True:
        header, grey = _image(socket)
        socket.send(rendered_text(header.image))
        if header.sequence == sequence:
            return header, grey


def test_image_shows_the_camera_that_was_sent(
    viewer: tuple[ViewerApp, Slow], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "luxel.viewer.web.images.stream.MOVING_RENDER", 1e3
    )  # no smaller image on a busy machine
    app, _ = viewer
    page, key = _open(app)
    with _connect(app, key) as socket:
        for sequence, x in ((1, 0.25), (2, 0.75)):
            socket.send(camera_text(sequence, pose(x)))
            header, grey = _shown(socket, sequence)
            assert abs(grey - 255 * x) < 3
            assert (header.width, header.height) == (64, 48)
        until(lambda: page.sink.stream.figures.summary() is not None, "no figures")


def test_newest_camera_wins_and_at_most_two_images_are_on_their_way(
    viewer: tuple[ViewerApp, Slow],
) -> None:
    app, render = viewer
    page, key = _open(app)
    with _connect(app, key) as socket:
        socket.send(camera_text(1, pose(0.1)))
        _shown(socket, 1)
        until(lambda: page.stream._rendered_in_full and not page.stream._dirty, "it did not come to rest")
        render.gate.clear()
        for k in range(2, 60):
            socket.send(camera_text(k, pose(k / 100)))
        until(lambda: page.stream._sequence == 59, "cameras did not arrive")
        render.gate.set()
        received = []
        with pytest.raises(TimeoutError):
            while True:
                received.append(_image(socket, timeout=0.8)[0])
                socket.send(camera_text(100 + len(received), pose(len(received) / 10)))
        assert 1 <= len(received) <= IN_FLIGHT, "images were sent without an acknowledgement"
        skipped = set(range(3, 59)) - {header.sequence for header in received}
        assert len(skipped) >= 54, "a camera was rendered after a newer one had come"
        socket.send(rendered_text(received[-1].image))
        assert _shown(socket, 100 + len(received))


def test_client_that_stops_reading_holds_up_nobody(viewer: tuple[ViewerApp, Slow]) -> None:
    app, _ = viewer
    stuck_page, stuck_key = _open(app)
    _, key = _open(app)
    large = Pose(pose().wxyz, np.zeros(3), 1.0, 1600, 1200)
    with _connect(app, stuck_key) as stuck, _connect(app, key) as socket:
        for k in range(1, 30):
            stuck.send(camera_text(k, Pose(large.wxyz, np.array([k / 50, 0, 0]), 1.0, 1600, 1200)))
        until(lambda: len(stuck_page.sink.stream._not_displayed) == IN_FLIGHT, "nothing was sent")
        for k in range(1, 6):
            socket.send(camera_text(k, pose(k / 10)))
            _, grey = _shown(socket, k)
            assert abs(grey - 25.5 * k) < 3
        stopping = threading.Thread(target=app.stop, daemon=True)
        stopping.start()
        stopping.join(60)
        assert not stopping.is_alive(), "a page that reads nothing keeps the viewer from stopping"
    until(lambda: not stuck_page.stream._thread.is_alive(), "the loop of the stuck page went on")


def test_page_falls_back_to_viser_when_its_socket_closes(viewer: tuple[ViewerApp, Slow]) -> None:
    app, _ = viewer
    client = Client(app)
    page = app.open_page(client).page
    until(lambda: len(client.images) >= 1, "no image before the stream was there")
    with _connect(app, client.keys[0]) as socket:
        socket.send(camera_text(1, pose(0.5)))
        _shown(socket, 1)
        until(lambda: client.images[-1] is None, "viser's image covers the stream")
    until(lambda: client.images[-1] is not None, "no image after the stream had gone")
    assert not page.sink.stream.connected


def test_second_socket_replaces_the_first(viewer: tuple[ViewerApp, Slow]) -> None:
    app, _ = viewer
    page, key = _open(app)
    with _connect(app, key) as first:
        first.send(camera_text(1, pose(0.2)))
        _shown(first, 1)
        with _connect(app, key) as second:
            second.send(camera_text(2, pose(0.4)))
            assert abs(_shown(second, 2)[1] - 102) < 3
            with pytest.raises(ConnectionClosed):
                while True:
                    first.recv(timeout=5)
            assert page.sink.stream.connected, "the end of the first took the second with it"


def test_socket_without_a_key_of_an_open_page_is_closed(viewer: tuple[ViewerApp, Slow]) -> None:
    app, _ = viewer
    page, key = _open(app)
    app._close(page.client)
    for wrong in ("", "guess", key):
        with _connect(app, wrong) as socket, pytest.raises(ConnectionClosed) as closed:
            socket.recv(timeout=5)
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1008


@pytest.mark.parametrize(
    "message", ["{}", b"\x00", camera_text(1, pose()).replace("1.0", "NaN"), "x" * 10**6]
)
def test_malformed_message_closes_the_socket_only(viewer: tuple[ViewerApp, Slow], message: Any) -> None:
    app, _ = viewer
    page, key = _open(app)
    with _connect(app, key) as socket, pytest.raises(ConnectionClosed):
        socket.send(message)
        while True:
            socket.recv(timeout=5)
    until(lambda: not page.sink.stream.connected, "the socket is still there")
    with _connect(app, key) as socket:
        socket.send(camera_text(2, pose(0.5)))
        _shown(socket, 2)


def test_guard_comes_before_the_stream(viewer: tuple[ViewerApp, Slow]) -> None:
    app, _ = viewer
    _, key = _open(app)
    for origin in ("http://evil.example", None):
        with pytest.raises(InvalidStatus) as refused:
            _connect(app, key, origin=origin)
        assert refused.value.response.status_code == 403


def test_lossless_image_comes_at_rest_and_is_dropped_for_a_newer_one(
    viewer: tuple[ViewerApp, Slow], monkeypatch: pytest.MonkeyPatch
) -> None:
    app, _ = viewer
    page, key = _open(app)
    hold = threading.Event()
    encoding = threading.Event()

    def slowly(image: Any) -> bytes:
        encoding.set()
        hold.wait(10)
        return encode_png(image)

    monkeypatch.setattr("luxel.viewer.web.transport.sinks.encode_png", slowly)
    with _connect(app, key) as socket:
        socket.send(camera_text(1, pose(0.1)))
        _shown(socket, 1)
        page.stream.change(quality=100)
        assert encoding.wait(10), "no lossless image was made"
        for k in range(2, 5):
            socket.send(camera_text(k, pose(k / 10)))
            header, _ = _shown(socket, k)
            assert not header.png, "a moving image waited for PNG"
        hold.set()
        while not (header := _image(socket)[0]).png:
            socket.send(rendered_text(header.image))
        assert header.sequence == 4, "a lossless image of an old camera was shown"


def test_offline_client_has_no_stream(viewer: tuple[ViewerApp, Slow]) -> None:
    app, _ = viewer
    here = pose(0.3)
    client = OfflineClient(app.server, OfflineCamera(here, orbit_point(here, app.extent), 64, 48))
    opened = app.open_page(client)
    assert opened.key is None
    until(lambda: len(client.images) > 0, "no image")
    assert torch.from_numpy(client.images[-1]).float().mean() == pytest.approx(77, abs=1)
