"""A page without a browser: a websocket that speaks viser's messages, the good ones and others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec
import viser
from shown import ViewerApp
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.typing import Origin, Subprotocol

CAMERA = {
    "type": "ViewerCameraMessage",
    "wxyz": [1, 0, 0, 0],
    "position": [0.0, 0.0, -4.0],
    "fov": 0.9,
    "near": 0.01,
    "far": 1000,
    "image_height": 48,
    "image_width": 64,
    "look_at": [0, 0, 0],
    "up_direction": [0, 0, 1],
}


def port_of(app: ViewerApp) -> int:
    return int(app.url.split(":")[2].split("/")[0])


def until(condition: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
    """Waits for what a busy machine may take long to do."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


class PageClient:
    """Connects, sends its camera, and waits until it is a page.

    Args:
        app: a started viewer on 127.0.0.1.
        reads: whether it reads what is sent to it.
    """

    def __init__(self, app: ViewerApp, reads: bool = True) -> None:
        self.app = app
        before = set(app._pages)
        self.socket = connect(
            f"ws://127.0.0.1:{port_of(app)}",
            origin=Origin(f"http://127.0.0.1:{port_of(app)}"),
            subprotocols=[Subprotocol(f"viser-v{viser.__version__}")],
            open_timeout=20,
            max_size=None,
        )
        self.send(CAMERA)
        until(lambda: bool(set(app._pages) - before), "the page did not open")
        self.id = (set(app._pages) - before).pop()
        self.closed = threading.Event()
        if reads:
            threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            for _ in self.socket:
                pass
        except ConnectionClosed:
            pass
        self.closed.set()

    def send(self, *messages: dict[str, Any] | bytes | str) -> None:
        """Sends messages; bytes and texts as they are."""
        for message in messages:
            self.socket.send(msgspec.msgpack.encode(message) if isinstance(message, dict) else message)

    def set(self, control: Any, value: Any) -> None:
        """Sends a new value of a control."""
        self.update(control, value=value)

    def update(self, control: Any, **updates: Any) -> None:
        """Sends new properties of a control."""
        self.send({"type": "GuiUpdateMessage", "uuid": control._impl.uuid, "updates": updates})

    def synchronize(self) -> None:
        """Returns when the server has read all that was sent: messages of a page are handled in their order."""
        turn = CAMERA | {"near": time.monotonic()}
        self.send(turn)
        camera = self.app.server.get_clients()[self.id].camera
        until(lambda: camera.near == turn["near"], "the messages were not read")

    def control(self, label: str) -> Any:
        """The control of this page or of all pages with a label, which may still be about to get it."""
        client = self.app.server.get_clients()[self.id]
        guis = (client.gui, self.app.server.gui)

        def labelled() -> list[Any]:
            handles = [handle for gui in guis for handle in list(gui._gui_input_handle_from_uuid.values())]
            return [handle for handle in handles if getattr(handle._impl.props, "label", None) == label]

        until(lambda: bool(labelled()), f"there is no control {label}")
        return labelled()[0]

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> PageClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
