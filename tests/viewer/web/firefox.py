"""Firefox on a display of its own (Xvfb, as it has no WebGL without one), driven by WebDriver BiDi (W3C)."""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

BINARIES = ("firefox-esr", "firefox")
PREFERENCES = {
    "browser.shell.checkDefaultBrowser": False,
    "browser.aboutwelcome.enabled": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "app.update.disabledForTesting": True,
    "webgl.force-enabled": True,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
}


def missing() -> str:
    """What is not installed of what a FirefoxPage needs; empty: nothing."""
    programs = {"Firefox": any(map(shutil.which, BINARIES)), "Xvfb": shutil.which("Xvfb")}
    return ", ".join(name for name, path in programs.items() if not path)


class FirefoxPage:
    """One page of a Firefox of its own.

    Args:
        folder: for the profile.
        width, height: of the page in CSS pixels.
    """

    def __init__(self, folder: Path, width: int = 900, height: int = 520) -> None:
        lines = (
            f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in PREFERENCES.items()
        )
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "user.js").write_text("\n".join(lines))
        self._log = open(folder / "log.txt", "w")  # noqa: SIM115 - closed with the browser
        screen = ["Xvfb", "-displayfd", "1", "-screen", "0", f"{width + 100}x{height + 200}x24"]
        self._display = subprocess.Popen(screen, stdout=subprocess.PIPE, stderr=self._log)
        assert self._display.stdout is not None
        environment = {**os.environ, "DISPLAY": f":{self._display.stdout.readline().decode().strip()}"}
        environment["LIBGL_ALWAYS_SOFTWARE"] = "1"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        binary = next(path for name in BINARIES if (path := shutil.which(name)))
        command = [binary, "--no-remote", "--profile", str(folder), f"--remote-debugging-port={port}"]
        self._process = subprocess.Popen(command, env=environment, stdout=self._log, stderr=self._log)
        self._socket = self._connect(port)
        self._count = 0
        self.call("session.new", capabilities={})
        self._context = self.call("browsingContext.getTree")["contexts"][0]["context"]
        size = {"width": width, "height": height}
        self.call("browsingContext.setViewport", context=self._context, viewport=size)

    def _connect(self, port: int, seconds: float = 30.0) -> ClientConnection:
        deadline = time.monotonic() + seconds
        while True:
            try:
                return connect(f"ws://127.0.0.1:{port}/session", max_size=None, compression=None)
            except (OSError, WebSocketException):
                assert self._process.poll() is None and time.monotonic() < deadline, "Firefox does not answer"
                time.sleep(0.1)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Result of a command; events are dropped."""
        self._count += 1
        self._socket.send(json.dumps({"id": self._count, "method": method, "params": params}))
        while True:
            answer = json.loads(self._socket.recv(timeout=30))
            if answer.get("id") == self._count:
                assert answer["type"] == "success", answer
                return answer["result"]

    def open(self, url: str) -> None:
        """Opens an address and waits until it is loaded."""
        self.call("browsingContext.navigate", context=self._context, url=url, wait="complete")

    def evaluate(self, expression: str) -> Any:
        """Value of an expression: a number, a string, a boolean or None."""
        answer = self.call(
            "script.evaluate", expression=expression, target={"context": self._context}, awaitPromise=True
        )
        assert answer["type"] == "success", answer
        return answer["result"].get("value")

    def drag(self, start: tuple[int, int], by: tuple[int, int]) -> None:
        """Presses the left button, moves the mouse and releases it."""
        x, y = start
        moves = [
            {"type": "pointerMove", "x": x + by[0] * k // 4, "y": y + by[1] * k // 4, "duration": 30}
            for k in range(1, 5)
        ]
        actions = [
            {"type": "pointerMove", "x": x, "y": y},
            {"type": "pointerDown", "button": 0},
            *moves,
            {"type": "pointerUp", "button": 0},
        ]
        mouse = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": actions}
        self.call("input.performActions", context=self._context, actions=[mouse])

    def screenshot(self, path: Path | None = None) -> np.ndarray:
        """What the page shows, float32 [H, W, 3] in 0 to 255; written to ``path`` too."""
        data = self.call("browsingContext.captureScreenshot", context=self._context)["data"]
        image = Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")
        if path is not None:
            image.save(path)
        return np.asarray(image, np.float32)

    def close(self) -> None:
        """Ends the browser."""
        self._socket.close()
        for process in (self._process, self._display):
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
        self._log.close()
