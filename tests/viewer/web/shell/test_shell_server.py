"""What lies around the image, without a browser: messages, kept controls, actions, and the websocket."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import websockets.sync.client as websocket_client
from page_driver import FakeTrainerRunning, ball, ring, until
from shown import StaticSession, TrainingSession, ViewerApp
from websockets.exceptions import ConnectionClosed
from websockets.typing import Origin

from luxel.render.geometry.camera import Camera
from luxel.viewer.web.app import OpenPage
from luxel.viewer.web.images.stream import StreamReport
from luxel.viewer.web.navigate import Pose, orbit_point
from luxel.viewer.web.offline import OfflineCamera, OfflineClient, open_offline_page
from luxel.viewer.web.shell.messages import (
    MAX_MESSAGE,
    ActionMessage,
    BarMessage,
    DivideMessage,
    FocusMessage,
    HoverMessage,
    PressMessage,
    SchemeMessage,
    SeekMessage,
    SetMessage,
    ToolMessage,
    parse_shell,
)
from luxel.viewer.web.shell.page_shell import PageShell

POSE = Pose.of_camera(Camera.look_at((3.0, -2.0, 1.0), (0, 0, 0)))


@pytest.fixture(scope="module")
def app() -> Iterator[ViewerApp]:
    torch.set_num_threads(1)
    with ViewerApp(StaticSession(ball(), ring(), "ball"), port=0) as app:
        yield app


@pytest.fixture
def opened(app: ViewerApp) -> Iterator[OpenPage]:
    opened = open_offline_page(app, POSE)
    yield opened
    app._close(opened.page.client)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"type": "set", "name": "Show/Output", "value": [1]}', SetMessage("Show/Output", [1])),
        ('{"type": "seek", "time": 2}', SeekMessage(2.0)),
        ('{"type": "act", "name": "reset"}', ActionMessage("reset")),
        ('{"type": "focus", "u": 0, "v": 1}', FocusMessage(0.0, 1.0, False)),
        ('{"type": "scheme", "dark": true}', SchemeMessage(True)),
        ('{"type": "hover", "u": 0.5, "v": 1}', HoverMessage(0.5, 1.0)),
        ('{"type": "tool", "name": ""}', ToolMessage("")),
        ('{"type": "tool", "name": "Brush", "on": true}', ToolMessage("Brush", True)),
        ('{"type": "press", "name": "Delete"}', PressMessage("Delete")),
        ('{"type": "bar", "name": "a", "button": 2, "label": "Keep"}', BarMessage("a", 2, "Keep")),
        ('{"type": "bar", "name": "a", "button": "close"}', BarMessage("a", "close", "")),
        ('{"type": "divide", "value": 0.25}', DivideMessage(0.25)),
    ],
)
def test_messages_are_read(text: str, message: object) -> None:
    assert parse_shell(text) == message


@pytest.mark.parametrize(
    "text",
    [
        b"{}",
        "[]",
        "{",
        "[" * 4000,
        " " * (MAX_MESSAGE + 1),
        '{"type": "stop"}',
        '{"type": "set", "name": 3, "value": 1}',
        '{"type": "set", "name": "Show/Output"}',
        '{"type": "set", "name": "%s", "value": 1}' % ("x" * 300),
        '{"type": "seek", "time": NaN}',
        '{"type": "seek", "time": Infinity}',
        '{"type": "seek", "time": true}',
        '{"type": "act", "name": "delete"}',
        '{"type": "act", "name": ["reset"]}',
        '{"type": "focus", "u": 1.5, "v": 0}',
        '{"type": "tool"}',
        '{"type": "press", "name": ["Delete"]}',
        '{"type": "tool", "name": "%s"}' % ("x" * 300),
        '{"type": "divide", "value": 1.5}',
        '{"type": "bar", "name": "a"}',
        '{"type": "bar", "name": "a", "button": 3}',
        '{"type": "bar", "name": "a", "button": true}',
        '{"type": "bar", "name": "a", "button": 0, "label": 1}',
        '{"type": "bar", "name": "a", "button": 0, "label": "%s"}' % ("x" * 300),
        '{"type": "bar", "name": ["a"], "button": 0}',
        '{"type": "focus", "u": "0", "v": 0}',
        '{"type": "hover", "u": 0.5}',
        '{"type": "scheme", "dark": 1}',
    ],
)
def test_other_messages_are_refused(text: str | bytes) -> None:
    with pytest.raises(ValueError):
        parse_shell(text)


def test_kept_controls_get_only_values_that_fit_them(opened: OpenPage) -> None:
    shell, stream = PageShell(opened.page, opened.panels), opened.page.stream
    shell.receive(SetMessage("Show/Output", "depth"))
    until(lambda: stream.settings.output == "depth", "the output was not set")
    shell.receive(SetMessage("Show/Resolution", 1e9))
    until(lambda: stream.settings.resolution == 2.0, "the value was not clamped")
    shell.receive(SetMessage("Show/Background", "colour"))
    shell.receive(SetMessage("Show/Background colour", [0, 51, 255]))
    until(lambda: stream.settings.background == (0.0, 0.2, 1.0), "the colour was not set")
    before = stream.settings
    sent: list[dict[str, Any]] = []
    shell.connect(sent.append)
    for name, value in [
        ("Show/Output", "nothing"),
        ("Show/Output", ["depth"]),
        ("Show/Quality", float("nan")),
        ("Show/Antialiased", 1),
        ("Show/Background colour", [1, 2]),
        ("Camera/View", "photo_1<b>.png"),
        ("Camera/Reset view", True),
    ]:
        shell.receive(SetMessage(name, value))
    assert stream.settings == before
    assert sent[-1]["values"]["Show/Output"] == "depth", "the page learns that its value was refused"


def test_page_learns_what_its_scripts_need(opened: OpenPage) -> None:
    shell = PageShell(opened.page, opened.panels)
    hello = shell.hello()
    assert json.loads(json.dumps(hello)) == {
        **hello,
        "values": json.loads(json.dumps(hello["values"])),
        "commands": json.loads(json.dumps(hello["commands"])),
    }
    assert ("Ctrl Z", "Undo edit") in hello["commands"]
    assert hello["outputs"][:2] == ["colour", "alpha"] and not hello["flat"] and not hello["trains"]
    assert {"Show/Output", "Show/Near", "Camera/Show cameras", "/Inspect"} <= set(hello["values"])
    assert "token" not in json.dumps(hello)


def test_state_has_the_reduced_size_and_the_error_and_is_sent_when_it_changes(opened: OpenPage) -> None:
    shell = PageShell(opened.page, opened.panels)
    sent: list[dict[str, Any]] = []
    shell.connect(sent.append)
    shell.report(StreamReport(fps=20, width=160, height=120))
    assert sent[-1]["shown"] and sent[-1]["moving"] == [160, 120] and sent[-1]["full"] == [320, 240]
    count = len(sent)
    shell.report(StreamReport(fps=21, width=160, height=120))
    assert len(sent) == count
    shell.report(StreamReport(width=320, height=240, error="no memory"))
    assert sent[-1]["moving"] is None and sent[-1]["error"] == "no memory"


def test_focus_goes_half_way_to_the_surface(opened: OpenPage) -> None:
    page = opened.page
    start = page.pose()
    page.focus(0.5, 0.5)
    here = page.pose()
    point = np.asarray(page.client.camera.look_at)
    assert 0.5 < np.linalg.norm(point) < 1.3, "the point lies on the ball"
    assert np.linalg.norm(here.position - point) == pytest.approx(
        0.5 * np.linalg.norm(start.position - point), rel=1e-3
    )
    np.testing.assert_allclose(here.rotation, start.rotation, atol=1e-6)
    page.focus(0.01, 0.01)
    assert page.client.notifications[-1][0] == "There is no surface"
    np.testing.assert_allclose(page.pose().position, here.position)


def test_double_click_is_left_to_a_tool_that_takes_clicks(opened: OpenPage) -> None:
    shell, start = PageShell(opened.page, opened.panels), opened.page.pose()
    opened.page._clicks.append(lambda _: None)
    shell.receive(FocusMessage(0.5, 0.5, True))
    np.testing.assert_array_equal(opened.page.pose().position, start.position)


def test_the_cursor_is_followed_where_a_tool_asks_for_it(opened: OpenPage) -> None:
    shell, sent, places = PageShell(opened.page, opened.panels), list[dict[str, Any]](), list[Any]()
    shell.connect(sent.append)
    nothing = {"type": "marks", "follows": False, "outline": [], "busy": None}
    assert nothing in sent
    shell.receive(HoverMessage(0.5, 0.25))
    marks = opened.page.marks
    marks.follow(lambda u, v: places.append((u, v)))
    shell.receive(HoverMessage(0.5, 0.25))
    assert places == [(0.5, 0.25)] and sent[-1]["follows"]
    marks.outline([[(0, 0), (1, 0), (1 / 3, 1)]])
    marks.busy((0.5, 0.25))
    assert json.loads(json.dumps(sent[-1])) == {
        **{"type": "marks", "follows": True, "outline": [[0, 0, 1, 0, 0.3333, 1]], "busy": [0.5, 0.25]}
    }
    count = len(sent)
    marks.busy((0.5, 0.25))
    assert len(sent) == count
    marks.busy(None)
    marks.follow(None)
    assert sent[-1] == nothing


def test_training_is_paused_and_continued() -> None:
    with FakeTrainerRunning() as trainer, ViewerApp(TrainingSession(trainer, ring()), port=0) as app:
        opened = open_offline_page(app, POSE)
        shell = PageShell(opened.page, opened.panels)
        shell.receive(ActionMessage("pause"))
        assert trainer.paused
        shell.receive(ActionMessage("pause"))
        assert not trainer.paused
        app._close(opened.page.client)


class _Client(OfflineClient):
    """Takes the key of its websocket as a browser does."""

    def __init__(self, app: ViewerApp) -> None:
        super().__init__(app.server, OfflineCamera(POSE, orbit_point(POSE, app.extent), 64, 48))
        self._websock_connection = self
        self.key = ""

    def queue_message(self, message: Any) -> None:
        if key := re.search(r'luxelShell\?\.open\("([\w-]+)"\)', getattr(message, "source", "")):
            self.key = key[1]


def _connect(app: ViewerApp, key: str) -> Any:
    host = app.url.removeprefix("http://").rstrip("/")
    return websocket_client.connect(
        f"ws://{host}/luxel/shell?key={key}", origin=Origin(f"http://{host}"), open_timeout=20
    )


def test_websocket_greets_takes_values_and_ends_at_the_first_malformed_message(app: ViewerApp) -> None:
    client = _Client(app)
    app.open_page(client)
    try:
        with _connect(app, client.key) as socket:
            assert json.loads(socket.recv(20))["type"] == "hello"
            socket.send('{"type": "set", "name": "Show/Output", "value": "alpha"}')
            while (message := json.loads(socket.recv(20)))["type"] != "values":
                pass
            assert message["values"]["Show/Output"] == "alpha"
            socket.send('{"type": "stop"}')
            with pytest.raises(ConnectionClosed):
                while True:
                    socket.recv(20)
            assert socket.close_code == 1008
    finally:
        app._close(client)
    for key in (client.key, "", "guess"):  # of a page that is closed, none, and another
        with _connect(app, key) as socket, pytest.raises(ConnectionClosed):
            socket.recv(20)
