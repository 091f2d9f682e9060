"""Pages that come and go leave nothing behind: no objects, no threads, no errors in the log."""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import socket
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import pytest
from page_client import PageClient, until
from page_driver import ball, ring
from shown import StaticSession, ViewerApp
from stream_sink import flat

from luxel.viewer.web.access.free_memory import HEAPS


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


HEAPS_OF_THREADS = """
import ctypes, sys, tempfile, threading

{before}
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
libc.fdopen.restype, libc.fdopen.argtypes = ctypes.c_void_p, [ctypes.c_int, ctypes.c_char_p]
libc.malloc_info.argtypes, libc.fflush.argtypes = [ctypes.c_int, ctypes.c_void_p], [ctypes.c_void_p]
all_there = threading.Barrier(16)


def work():
    all_there.wait()
    libc.free(libc.malloc(100_000))
    all_there.wait()


threads = [threading.Thread(target=work) for _ in range(16)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
with tempfile.TemporaryFile() as file:
    stream = libc.fdopen(file.fileno(), b"w")
    libc.malloc_info(0, stream)
    libc.fflush(stream)
    file.seek(0)
    print("heaps:", file.read().count(b"<heap"))
"""


def heaps_of_threads(before: str) -> int:
    """How many heaps the C library has in a new process that runs `before`, then 16 threads that allocate."""
    result = subprocess.run(
        [sys.executable, "-c", HEAPS_OF_THREADS.format(before=before)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},  # no threads before ours
    )
    assert result.returncode == 0, result.stderr
    return int(result.stdout.partition("heaps:")[2].split()[0])


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_info"), reason="the C library is not glibc")
def test_threads_of_a_process_that_serves_share_few_heaps() -> None:
    assert heaps_of_threads("") > HEAPS, "threads have no heaps of their own here: this test shows nothing"
    for command in ("view", "train"):
        start = f"from luxel.viewer.cli import main; assert main([{command!r}, 'missing']) == 2"
        assert heaps_of_threads(start) <= HEAPS
    start = "from luxel.viewer.web.app import ViewerApp; from luxel.viewer.web.session import StaticSession; "
    start += "from luxel.render.primitives import Gaussians; "
    start += "from luxel.render.raster.primitive_scene import primitive_scene; "
    start += "app = ViewerApp(StaticSession(primitive_scene(Gaussians.empty(0))), port=0)"
    assert heaps_of_threads(f"{start}; app.start()") < heaps_of_threads(start)
