"""Strokes from a page to the tools, without a browser: messages, websockets, and what is selected."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import websockets.sync.client as websocket_client
from page_driver import ball, until
from shown import StaticSession, ViewerApp
from websockets.exceptions import ConnectionClosed

from luxel.render.geometry.camera import Camera
from luxel.render.primitives import Parameters
from luxel.viewer.web.editing.stroke_messages import (
    MAX_MESSAGE,
    MAX_POINTS,
    BrushRadius,
    StrokeCancelled,
    StrokePart,
    parse_stroke,
)
from luxel.viewer.web.navigate import Pose, orbit_point
from luxel.viewer.web.offline import OfflineCamera, OfflineClient
from luxel.viewer.web.panels.edit import EditPanel

POSE = Pose.of_camera(Camera.look_at((4.0, 0.0, 0.0), (0, 0, 0), fov_y=0.8))
WIDTH, HEIGHT = 320, 240
AROUND = [0.2, 0.1, 0.8, 0.1, 0.8, 0.9, 0.2, 0.9]  # of the middle of the image
STROKE = {"type": "stroke", "number": 1, "points": AROUND, "radius": 0, "mode": None, "last": True}


def test_messages_of_a_page_are_read() -> None:
    part = parse_stroke(json.dumps({**STROKE, "mode": "add"}))
    assert part == StrokePart(1, ((0.2, 0.1), (0.8, 0.1), (0.8, 0.9), (0.2, 0.9)), 0.0, "add", True)
    assert parse_stroke('{"type": "cancel", "number": 7}') == StrokeCancelled(7)
    assert parse_stroke('{"type": "radius", "pixels": 30}') == BrushRadius(30.0)


@pytest.mark.parametrize(
    "change",
    [
        {"points": []},
        {"points": [0.5]},
        {"points": [0.5, float("nan")]},
        {"points": [0.5, float("inf")]},
        {"points": [0.5, 1e9]},
        {"points": [0.5, "0.5"]},
        {"points": [0.5, True]},
        {"points": [0.5] * (2 * MAX_POINTS + 2)},
        {"points": {"0": 0.5}},
        {"radius": -0.1},
        {"radius": float("nan")},
        {"radius": None},
        {"mode": "replace all"},
        {"mode": ["add"]},
        {"last": 1},
        {"number": 0},
        {"number": True},
        {"number": 1.5},
        {"type": "radius", "pixels": 1e6},
        {"type": "cancel", "number": -1},
        {"type": "camera"},
    ],
)
def test_other_messages_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must|unknown"):
        parse_stroke(json.dumps({**STROKE, **change}))


def test_what_is_no_message_is_refused() -> None:
    for text in (b"{}", "[]", "1", "{", "[" * 10_000, " " * (MAX_MESSAGE + 1)):
        with pytest.raises(ValueError):
            parse_stroke(text)


class Client(OfflineClient):
    """A client of viser that takes the calls of the page's script."""

    def __init__(self, app: ViewerApp) -> None:
        camera = OfflineCamera(POSE, orbit_point(POSE, app.extent), WIDTH, HEIGHT)
        super().__init__(app.server, camera)
        self._websock_connection = self
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def queue_message(self, message: Any) -> None:
        """Takes a message."""
        if call := re.search(r"strokes\.(\w+)\((\{.*\})\)", getattr(message, "source", "")):
            self.calls.append((call[1], json.loads(call[2])))


Opened = tuple[EditPanel, Client, Callable[..., Any]]


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    """The Edit panel of a page, its client, and a function that connects as its script does."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with ViewerApp(StaticSession(ball(), folder=tmp_path), port=0, panels=(EditPanel,)) as app:
        client = Client(app)
        panel = app.open_page(client).panels[0]
        assert isinstance(panel, EditPanel)

        def connect(key: str | None = None) -> Any:
            key = client.calls[-1][1]["key"] if key is None else key
            url = app.url.replace("http", "ws") + f"luxel/strokes?key={key}"
            return websocket_client.connect(url, origin=app.url.rstrip("/"), proxy=None)  # pyright: ignore

        yield panel, client, connect


def send(socket: Any, **change: Any) -> None:
    """Sends a part of a stroke and waits until it was used."""
    socket.send(json.dumps({**STROKE, **change}))
    assert json.loads(socket.recv(timeout=10)) == {"done": change.get("number", 1)}


def selected(panel: EditPanel) -> torch.Tensor:
    return panel.editor.run(lambda document: document.selected)


def test_lasso_selects_within_its_outline(opened: Opened) -> None:
    panel, client, connect = opened
    panel._choose("Lasso")
    assert client.calls[-1][0] == "start" and client.calls[-1][1]["shape"] == "lasso"
    with connect() as socket:
        send(socket)
        near = selected(panel).clone()
        assert float((ball().means[near][:, 0] > 0).float().mean()) > 0.8, "mostly the side that is visible"
        panel._through.value = True
        send(socket, number=2)
        through = selected(panel)
        assert bool((through >= near).all()) and int(through.sum()) > int(near.sum())
        send(socket, number=3, mode="subtract")
        assert not selected(panel).any()
        send(socket, number=4, points=[0.5, 0.5])
        assert panel._message.visible and "outline" in panel._message.content
        send(socket, number=5)
        assert torch.equal(selected(panel), through) and not panel._message.visible


def test_brush_shows_a_stroke_and_makes_one_edit_of_it(opened: Opened) -> None:
    panel, client, connect = opened
    panel._through.value = True
    panel._choose("Brush")
    assert client.calls[-1][1]["radius"] == 30
    session = panel.page.session
    with connect() as socket:
        before = session.version
        send(socket, points=[0.3, 0.5], radius=0.1, last=False)
        send(socket, points=[0.3, 0.5, 0.5, 0.5, 0.7, 0.5], radius=0.1, last=False)
        assert session.version > before, "the stroke is shown while it is painted"
        assert not selected(panel).any() and not panel.editor.run(lambda d: d.history.undo_titles)
        with session.borrow() as shown:
            drawn = shown.parts[Parameters]
            tinted = (drawn.base_colours != ball().base_colours).any(-1)
        send(socket, points=[0.7, 0.5], radius=0.1, last=True)
        assert torch.equal(selected(panel), tinted) and 0 < int(tinted.sum()) < 250
        assert panel.editor.run(lambda d: list(d.history.undo_titles)) == ["Brush"]

        send(socket, number=2, points=[0.5, 0.1], radius=0.2, last=False)
        socket.send('{"type": "cancel", "number": 2}')
        send(socket, number=3, points=[1.9, 1.9], radius=0.01, mode="add")
        assert torch.equal(selected(panel), tinted), "neither a cancelled stroke nor one beside the image"
        with session.borrow() as shown:
            drawn = shown.parts[Parameters]
            assert torch.equal((drawn.base_colours != ball().base_colours).any(-1), tinted)

        socket.send('{"type": "radius", "pixels": 50.4}')
        until(lambda: panel._tools["Brush"]._radius.value == 50, "the slider does not follow the page")  # pyright: ignore
        calls = len(client.calls)
        panel._tools["Brush"]._radius.value = 60  # pyright: ignore
        until(lambda: len(client.calls) > calls, "the page does not follow the slider")
        assert client.calls[-1][0] == "change" and client.calls[-1][1]["radius"] == 60


def test_malformed_messages_and_unknown_keys_close_the_connection(opened: Opened) -> None:
    panel, client, connect = opened
    panel._choose("Lasso")
    key = client.calls[-1][1]["key"]
    for text in ("{}", json.dumps({**STROKE, "points": [float("nan")] * 8}), "x" * (MAX_MESSAGE + 1)):
        with connect(key) as socket:
            socket.send(text)
            with pytest.raises(ConnectionClosed):
                socket.recv(timeout=10)
    with connect("guess") as socket, pytest.raises(ConnectionClosed):
        socket.recv(timeout=10)
    with connect(key) as socket:
        send(socket)
        assert selected(panel).any(), "a page that failed before may draw again"
        panel._choose("off")
        assert client.calls[-1] == ("stop", {"key": key})
        socket.send(json.dumps({**STROKE, "number": 2, "mode": "subtract"}))
        with pytest.raises(ConnectionClosed):
            socket.recv(timeout=10)
    assert selected(panel).any()
