"""Firefox, driven by WebDriver BiDi (W3C), on a display of its own: without one it has no WebGL, which viser needs."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from luxel.render.errors import LuxelError
from luxel.render.storage.journal import scratch_folder
from luxel.viewer.bench.view.browser import PATIENCE, Tab

OLDEST = 128  # version with all commands used here, an extended support release
NAMES = ("firefox", "firefox-esr")
INSTALL = "Install Firefox (Debian: firefox-esr), or give its path: --browser /path/to/firefox."
PREFERENCES = {
    "app.update.disabledForTesting": True,
    "browser.aboutwelcome.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "webgl.force-enabled": True,
}


def is_firefox(browser: str) -> bool:
    """Whether a name or path of a browser is that of a Firefox."""
    return Path(browser).name.lower().startswith("firefox")


class FirefoxTab(Tab):
    """The one page of a Firefox.

    Args:
        connection: to its WebDriver BiDi session.
    """

    def __init__(self, connection: ClientConnection) -> None:
        self._socket = connection
        self._numbers = itertools.count(1)
        self.context = ""

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
                if answer["type"] != "success":
                    raise RuntimeError(f"{method}: {answer.get('message')}")
                return answer["result"]

    def evaluate(self, expression: str, timeout: float = PATIENCE) -> Any:
        """The value of a JavaScript expression, of a promise once it is kept.

        Raises:
            RuntimeError: the expression throws.
        """
        text = f"(async () => JSON.stringify((await ({expression})) ?? null))()"
        target = {"context": self.context}
        answer = self.call("script.evaluate", timeout, expression=text, target=target, awaitPromise=True)
        if answer["type"] != "success":
            raise RuntimeError(answer["exceptionDetails"]["text"])
        return json.loads(answer["result"]["value"])


class Firefox:
    """A running Firefox.

    Args:
        tab: its page.
        version: name and version.
    """

    def __init__(self, tab: FirefoxTab, version: str) -> None:
        self._tab = tab
        self.version = version

    @contextmanager
    def tab(self, url: str, before: str = "") -> Iterator[FirefoxTab]:
        """Opens an address on the page, and an empty page afterwards.

        Args:
            url: to open.
            before: script that runs in the page before those of the page itself.
        """
        tab = self._tab
        script = None
        if before:
            script = tab.call("script.addPreloadScript", functionDeclaration=f"() => {{ {before} }}")[
                "script"
            ]
        try:
            tab.call("browsingContext.navigate", context=tab.context, url=url, wait="interactive")
            yield tab
            tab.call("browsingContext.navigate", context=tab.context, url="about:blank", wait="none")
        finally:
            if script is not None:
                tab.call("script.removePreloadScript", script=script)


@contextmanager
def open_firefox(executable: str, width: int, height: int) -> Iterator[Firefox]:
    """Starts a Firefox with a page of a size in pixels.

    Raises:
        LuxelError: there is no such browser, it is too old, Xvfb is missing, or it does not start.
    """
    path = _path(executable)
    with scratch_folder() as folder:
        lines = [
            f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in PREFERENCES.items()
        ]
        (folder / "user.js").write_text("\n".join(lines))
        with _display(width, height) as display:
            port = _free_port()
            command = [path, "--no-remote", "--profile", str(folder), f"--remote-debugging-port={port}"]
            environment = {**os.environ, "DISPLAY": display, "LIBGL_ALWAYS_SOFTWARE": "1"}
            environment.pop("WAYLAND_DISPLAY", None)
            process = subprocess.Popen(
                command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            try:
                connection = _connected(port, process, path)
                with connection:
                    yield _start_session(connection, width, height)
            finally:
                _end(process)


def _path(executable: str) -> str:
    """The path of a Firefox that is new enough."""
    names = NAMES if executable in NAMES else (executable,)
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        raise LuxelError(f"There is no Firefox at {executable}.", INSTALL)
    try:
        answer = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=PATIENCE).stdout
    except (OSError, subprocess.TimeoutExpired):
        answer = ""
    version = re.search(r"Firefox (\d+)[\d.]*", answer)
    if version is None:
        raise LuxelError(f"{path} does not state a version of Firefox.", INSTALL)
    if int(version[1]) < OLDEST:
        raise LuxelError(
            f"{path} is {version[0]}, too old to be measured.", f"Install Firefox {OLDEST} or newer."
        )
    return path


@contextmanager
def _display(width: int, height: int) -> Iterator[str]:
    """Name of an X display that is larger than a page of a size in pixels."""
    if shutil.which("Xvfb") is None:
        raise LuxelError(
            "Firefox draws nothing without a display, and Xvfb is not installed.",
            "Install Xvfb (Debian: xvfb), or measure with Chromium: leave --browser out.",
        )
    screen = ["Xvfb", "-displayfd", "1", "-screen", "0", f"{width + 100}x{height + 200}x24"]
    process = subprocess.Popen(screen, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout is not None
        yield f":{process.stdout.readline().decode().strip()}"
    finally:
        _end(process)


def _start_session(connection: ClientConnection, width: int, height: int) -> Firefox:
    tab = FirefoxTab(connection)
    about = tab.call("session.new", capabilities={})["capabilities"]
    tab.context = tab.call("browsingContext.getTree")["contexts"][0]["context"]
    size = {"width": width, "height": height}
    tab.call("browsingContext.setViewport", context=tab.context, viewport=size, devicePixelRatio=1.0)
    return Firefox(tab, f"Firefox/{about['browserVersion']}")


def _connected(port: int, process: subprocess.Popen[bytes], path: str) -> ClientConnection:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        try:
            address = f"ws://127.0.0.1:{port}/session"
            return connect(address, max_size=None, compression=None, proxy=None)
        except (OSError, WebSocketException):
            time.sleep(0.1)
    raise LuxelError(f"{path} did not start as a browser that WebDriver BiDi drives.", INSTALL)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
