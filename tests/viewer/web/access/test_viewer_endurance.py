"""The viewer outlives hostile clients and pages that come and go, and no address or stream gets more than its share."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import logging
import threading
from collections.abc import AsyncIterator
from typing import Any

import chaos
import pytest
import viser
from page_client import until
from page_driver import ball
from shown import StaticSession, ViewerApp
from stream_client import Address, StreamClient, still_image
from stream_sink import flat, pose
from websockets.exceptions import ConnectionClosedError

from luxel.render.primitives.gaussians import Gaussians
from luxel.viewer.web.access.free_memory import EVERY, GAP, FreeMemory, trim
from luxel.viewer.web.access.limits import Limits, PacedConnection
from luxel.viewer.web.access.viser_events import LoopEvent

SLOW = {
    chaos.slow_request,
    chaos.stops_reading,
    chaos.stream_flood,
    chaos.foreign_controls,
    chaos.two_streams,
}


def viewer(**options: Any) -> ViewerApp:
    return ViewerApp(StaticSession(Gaussians.empty(0)), port=0, render=flat, **options)


def page_threads() -> list[str]:
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith(("luxel-stream", "luxel-encode", "luxel-sink"))]


def survive(app: ViewerApp, count: int, actions: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Runs actions, and asserts that a good page gets the image that it got before, and that nothing is left."""
    caplog.set_level(logging.WARNING, logger="luxel")
    address, shown = Address.of(app.url), pose(0.5)
    before = asyncio.run(still_image(address, shown))
    poses = [pose(0.1 * i) for i in range(8)]
    outcomes = asyncio.run(chaos.run_chaos(address, count, poses, actions=actions))
    assert outcomes.total() == count
    assert asyncio.run(still_image(address, shown)) == before
    until(lambda: not app.pages, "pages that have gone are still open")
    assert not app._streams._ends and not app._streams._open
    until(lambda: not page_threads(), "threads of pages that have gone are still there")
    records = [r for r in caplog.records if r.name.startswith("luxel")]  # of the server, not of the clients
    tracebacks = [r.getMessage() for r in records if r.exc_info]
    assert not tracebacks, tracebacks
    assert len(records) < 40, "the log is flooded"


def test_hostile_clients_change_nothing(caplog: pytest.LogCaptureFixture) -> None:
    quick = [action for action in chaos.ACTIONS if action not in SLOW]
    with viewer(panels=()) as app:
        survive(app, 40, quick, caplog)


@pytest.mark.slow
def test_a_thousand_hostile_clients_change_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with ViewerApp(StaticSession(ball()), port=0, render=flat, token="a-long-enough-token") as app:
        survive(app, 1000, chaos.ACTIONS, caplog)


def test_sixty_pages_leave_nothing() -> None:
    async def visit(app: ViewerApp) -> None:
        address = Address.of(app.url)
        for i in range(12):
            async with asyncio.TaskGroup() as group:
                for k in range(5):
                    group.create_task(still_image(address, pose(0.1 * i + 0.01 * k)))

    with viewer(panels=()) as app:
        asyncio.run(visit(app))
        until(lambda: not app.pages, "pages that have gone are still open")
        assert not app._streams._ends and not app._streams._open
        assert app.guard is not None and not app.guard.messages.open
        until(lambda: not page_threads(), "threads of pages that have gone are still there")


def test_many_pages_get_images_at_a_time() -> None:
    async def watch(app: ViewerApp) -> list[StreamClient]:
        address, end = Address.of(app.url), asyncio.Event()
        clients = [StreamClient(address, [pose(0.1 * i), pose(0.2 * i + 1)], 60) for i in range(4)]
        tasks = [asyncio.create_task(client.run(end)) for client in clients]
        async with asyncio.timeout(30):
            while min(len(client.times) for client in clients) < 10:
                await asyncio.sleep(0.01)
        end.set()
        await asyncio.gather(*tasks)
        return clients

    with viewer(panels=()) as app:
        assert not any(client.lost for client in asyncio.run(watch(app)))


def test_a_stream_is_read_no_faster_than_its_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    class Connection:
        name = "inner"

        async def __aiter__(self) -> AsyncIterator[str]:
            for text in ["a"] * 10 + ["b" * 5000]:
                yield text

    monkeypatch.setattr(asyncio, "sleep", sleep)
    paced = PacedConnection(Connection(), Limits(stream_rate=0.01, stream_burst=8))

    async def read() -> list[str]:
        return [text async for text in paced]

    assert len(asyncio.run(read())) == 11 and paced.name == "inner"
    assert len(waits) == 3, "a burst is read at once"
    assert waits[0] == pytest.approx(100, abs=5) and waits[2] == pytest.approx(700, abs=5), "bytes count, too"


def test_one_address_can_ask_only_so_often() -> None:
    def get(app: ViewerApp, cookie: str = "") -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(*app.url.split("/")[2].split(":"), timeout=10)
        connection.request("GET", "/luxel/hook.js")
        response = connection.getresponse()
        response.read()
        return response

    with viewer(limits=Limits(request_rate=0.001, request_burst=5)) as app:
        answers = [get(app) for _ in range(8)]
        assert [answer.status for answer in answers] == [200] * 5 + [429] * 3
        assert int(answers[-1].headers["Retry-After"]) == 1000


def test_pages_of_another_version_are_refused_without_a_line(capfd: pytest.CaptureFixture[str]) -> None:
    async def visit(app: ViewerApp, protocol: str | None) -> int:
        async with Address.of(app.url).connect(subprotocols=protocol and [protocol]) as page:
            with contextlib.suppress(ConnectionClosedError):
                await page.recv()
            return page.close_code

    with viewer() as app:
        for protocol in ("viser-v0.0.1", "x" * 1000, None):
            assert asyncio.run(visit(app, protocol)) == 1002
        assert not app.pages
    out, err = capfd.readouterr()
    assert "mismatch" not in (out + err).lower() and viser.__version__ not in out


def test_memory_is_given_back_after_pages_and_not_too_often() -> None:
    now, trims = [100.0], []
    memory = FreeMemory(lambda: trims.append(now[0]), lambda: now[0])
    memory.trim_when_due()
    assert not trims, "no page has closed"
    for _ in range(40):
        memory.page_closed()
        memory.trim_when_due()
        now[0] += GAP / 8
    assert trims == [100.0 + GAP * i for i in range(5)]
    trims.clear()
    now[0] = 1000.0
    for _ in range(31):
        memory.trim_when_due(16)
        now[0] += EVERY / 10
    assert trims == [1000.0 + EVERY * i for i in range(4)], "pages are open"
    now[0] += EVERY
    memory.trim_when_due(0)
    assert len(trims) == 4, "no page is open, and none has closed"
    trim()  # of this process: whatever the C library is, it works


def test_threads_leave_the_events_of_the_loop_alone() -> None:
    async def woken() -> bool:
        loop, event = asyncio.get_running_loop(), LoopEvent(asyncio.get_running_loop())
        waiter = asyncio.create_task(event.wait())
        await asyncio.to_thread(event.set)
        await asyncio.sleep(0)
        alone = not event.is_set() and not waiter.done()
        await asyncio.to_thread(loop.call_soon_threadsafe, event.set)
        return await asyncio.wait_for(waiter, 10) and alone

    assert asyncio.run(woken())
    with viewer() as app:
        assert isinstance(app.server._websock_server._broadcast_buffer.message_event, LoopEvent)
