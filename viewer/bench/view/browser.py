"""A headless Chromium, driven over its debugging protocol.

Playwright, which does the same, listens to the network of every page: each image of the stream would be copied to it
as text, which costs a page on two cores more than drawing the image.
"""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import connect

from luxel.render.errors import LuxelError
from luxel.render.storage.journal import scratch_folder

# Without a GPU and without access to other machines.
FLAGS = (
    *("--headless=new", "--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader-webgl"),
    *("--enable-unsafe-swiftshader", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-sync", "--disable-component-update", "--hide-scrollbars", "--remote-debugging-port=0"),
)
PATIENCE = 30.0  # seconds


class Tab:
    """A page of the browser.

    Args:
        address: of its websocket for debugging.
    """

    def __init__(self, address: str) -> None:
        self._socket = connect(address, max_size=None, proxy=None)
        self._numbers = itertools.count(1)

    def call(self, method: str, timeout: float = PATIENCE, **parameters: Any) -> dict[str, Any]:
        """Calls a method of the protocol and returns its result.

        Raises:
            RuntimeError: the browser reports an error.
            TimeoutError: it does not answer.
        """
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self._socket.recv(timeout=timeout))
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error'].get('message')}")
                return answer["result"]

    def evaluate(self, expression: str, timeout: float = PATIENCE) -> Any:
        """The value of a JavaScript expression, of a promise once it is resolved.

        Raises:
            RuntimeError: the expression throws.
        """
        result = self.call(
            "Runtime.evaluate", timeout, expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description") or details["text"])
        return result["result"].get("value")

    def wait_for(self, expression: str) -> None:
        """Returns when a JavaScript expression is true.

        Raises:
            RuntimeError: it stays false for half a minute.
        """
        deadline = time.monotonic() + PATIENCE
        while not self.evaluate(f"Boolean({expression})"):
            if time.monotonic() > deadline:
                raise RuntimeError(f"the page did not come to: {expression}")
            time.sleep(0.05)

    def close(self) -> None:
        """Ends the connection."""
        self._socket.close()


class Browser:
    """A running browser.

    Args:
        port: on which it takes debugging connections.
        size: width and height of its pages, pixels.
    """

    def __init__(self, port: int, size: tuple[int, int]) -> None:
        self._size = size
        self._address = f"http://127.0.0.1:{port}/json"
        self.version: str = self._get("/version")["Browser"]

    def _get(self, path: str, method: str = "GET") -> dict[str, Any]:
        request = urllib.request.Request(self._address + path, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.loads(answer.read())

    @contextmanager
    def tab(self, url: str, before: str = "") -> Iterator[Tab]:
        """A new page.

        Args:
            url: to open.
            before: script that runs in the page before those of the page itself.
        """
        target = self._get("/new?about:blank", "PUT")
        tab = Tab(target["webSocketDebuggerUrl"])
        try:
            tab.call("Page.enable")
            size = {"width": self._size[0], "height": self._size[1], "deviceScaleFactor": 1, "mobile": False}
            tab.call("Emulation.setDeviceMetricsOverride", **size)
            if before:
                tab.call("Page.addScriptToEvaluateOnNewDocument", source=before)
            tab.call("Page.navigate", url=url)
            yield tab
            tab.call("Page.close")
        finally:
            tab.close()


@contextmanager
def open_browser(executable: str, width: int, height: int) -> Iterator[Browser]:
    """Starts a browser with windows of a size in pixels.

    Raises:
        LuxelError: there is no such browser, or it does not start.
    """
    if shutil.which(executable) is None:
        raise LuxelError(
            f"There is no browser at {executable}.", "Install Chromium, or give its path: --browser PATH."
        )
    with scratch_folder() as folder:
        command = [executable, *FLAGS, f"--user-data-dir={folder}", f"--window-size={width},{height}"]
        process = subprocess.Popen(
            [*command, "about:blank"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            yield Browser(_port(folder / "DevToolsActivePort", process, executable), (width, height))
        finally:
            process.terminate()
            process.wait(10)


def _port(file: Path, process: subprocess.Popen[bytes], executable: str) -> int:
    """The port that a starting browser writes to a file."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        if file.exists() and (lines := file.read_text().split()):
            return int(lines[0])
        time.sleep(0.05)
    raise LuxelError(
        f"{executable} did not start as a headless browser.", "Give another Chromium: --browser PATH."
    )
