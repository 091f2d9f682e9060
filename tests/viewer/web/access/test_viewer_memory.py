"""Pages that come and go leave nothing behind: no objects, no threads, no errors in the log."""

from __future__ import annotations

import gc
import logging
import socket
import threading
import weakref
from pathlib import Path

import pytest
from page_client import PageClient, until
from page_driver import ball, ring
from stream_sink import flat

from luxel.viewer.web.app import ViewerApp
from luxel.viewer.web.session import StaticSession


def visit(app: ViewerApp, number: int) -> list[weakref.ref]:
    """Opens a page and closes it: politely, by a lost connection while it is busy, or without having read anything."""
    client = PageClient(app, reads=number % 3 != 2)
    page = app._pages[client.id].page
    made = [weakref.ref(thing) for thing in (page, page.stream, page.client)]
    del page
    if number % 3 == 0:
        client.synchronize()
        client.close()
    else:
        if number % 3 == 1:
            client.set(client.control("View"), "photo_2<b>.png")  # a flight of half a second
            client.set(client.control("Show cameras"), True)
            client.synchronize()
        client.socket.socket.shutdown(socket.SHUT_RDWR)
    until(lambda: client.id not in app._pages, "a page that has gone is still open")
    return made


def test_pages_that_have_gone_are_forgotten(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.WARNING)
    with ViewerApp(StaticSession(ball(), ring(), "ball"), port=0, render=flat) as app:
        made = [thing for number in range(12) for thing in visit(app, number)]

        def forgotten() -> bool:
            gc.collect()
            return not any(thing() is not None for thing in made)

        until(forgotten, "pages that have gone are kept")
        assert app.guard is not None and not app.guard.messages.open
        names = [thread.name for thread in threading.enumerate()]
        assert not any(name.startswith(("luxel-stream", "luxel-sink")) for name in names), names
    errors = [r.getMessage() for r in caplog.records if r.name != "websockets.client"]
    assert not errors, errors
    assert "Traceback" not in capfd.readouterr().err


def resident() -> float:
    """Memory of this process, MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


@pytest.mark.slow
def test_memory_returns_after_300_connects() -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("memory test not run: there is no /proc here")
    with ViewerApp(StaticSession(ball(), ring(), "ball"), port=0, render=flat) as app:
        for number in range(20):
            visit(app, number)
        gc.collect()
        before = resident()
        for number in range(300):
            visit(app, number)
        gc.collect()
        assert resident() < 1.1 * before
