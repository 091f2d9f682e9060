"""Pages share the renderer fairly, and one that fails, is slow or stops reading holds up no other."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from page_client import CAMERA, PageClient
from page_client import until as wait_until
from page_driver import FakeTrainer
from shown import ClientStream, StaticSession, TrainingSession, ViewerApp
from stream_sink import Sink, flat, pose
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.primitives import Gaussians
from luxel.viewer.web.access.fair_queue import FairTurns
from luxel.viewer.web.session import Session
from luxel.viewer.web.transport.sinks import FrameInfo

RENDER = 0.003  # seconds


def take_turns(costs: dict[str, float], total: int, first: str = "") -> Counter[str]:
    """The number of turns of pages that always wait, after ``total`` turns of known cost.

    Args:
        first: page whose first turn takes 5 s more.
    """
    turns, counts = FairTurns(), Counter(dict.fromkeys(costs, 0))

    def page(name: str) -> None:
        while True:
            turns.acquire(name)
            done = counts.total() >= total
            counts[name] += not done
            turns.release(costs[name] + 5.0 * (name == first and counts[name] == 1))
            if done:
                return

    turns.acquire("gate")
    threads = [threading.Thread(target=page, args=(name,)) for name in costs]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(turns._waiting) == len(costs), "the pages do not wait")
    turns.release(0.0)
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    return counts


def test_pages_of_equal_cost_get_equal_numbers_of_turns() -> None:
    counts = take_turns({f"page {i}": 0.01 for i in range(16)}, 320)
    assert all(abs(count - 20) <= 1 for count in counts.values()), counts


def test_an_expensive_page_gets_no_more_time_than_others() -> None:
    counts = take_turns({"slow": 0.1, "a": 0.01, "b": 0.01}, 420)
    assert counts["slow"] == pytest.approx(20, abs=2) and counts["a"] == pytest.approx(200, abs=3)


def test_one_slow_turn_costs_a_page_no_more_than_its_others() -> None:
    counts = take_turns({"slow at first": 0.01, "a": 0.01, "b": 0.01}, 300, first="slow at first")
    assert counts["slow at first"] == pytest.approx(100, abs=3), counts


def test_a_page_that_was_away_saves_nothing_up() -> None:
    turns = FairTurns()
    for _ in range(100):
        turns.acquire("busy")
        turns.release(1.0)
    got: list[str] = []

    def page(name: str, times: int) -> None:
        for _ in range(times):
            turns.acquire(name)
            got.append(name)
            turns.release(1.0)

    turns.acquire("gate")
    threads = [threading.Thread(target=page, args=(name, 10)) for name in ("busy", "new")]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(turns._waiting) == 2, "the pages do not wait")
    turns.release(0.0)
    for thread in threads:
        thread.join(60)
    assert max(abs(got[:n].count("new") - got[:n].count("busy")) for n in range(1, 20)) <= 2, got
    assert not turns._used, "accounts of pages that have gone are forgotten"


class Restless(Sink):
    """A page that moves its camera with every image that it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.stream: ClientStream | None = None

    def send(self, image: np.ndarray | Tensor, quality: int, info: FrameInfo) -> None:
        super().send(image, quality, info)
        assert self.stream is not None
        self.stream.move(pose(float(len(self.images))))


class Deaf(Restless):
    """A page that never confirms an image."""

    def __init__(self, until: threading.Event) -> None:
        super().__init__()
        self.until_end = until

    def wait(self) -> None:
        if self.images:
            self.until_end.wait(60)


def slow(scene: Any, camera: Camera, **options: Any) -> Any:
    time.sleep(RENDER)
    return flat(scene, camera, **options)


def broken(*_: Any, **__: Any) -> Any:
    time.sleep(RENDER)
    raise RuntimeError("this page cannot be rendered")


@pytest.fixture
def run() -> Iterator[Callable[..., list[Restless]]]:
    streams: list[ClientStream] = []

    def run(session: Session, pages: list[tuple[Callable[..., Any], Restless]]) -> list[Restless]:
        for render, sink in pages:
            sink.stream = ClientStream(session, render, sink, lambda _: None)
            streams.append(sink.stream)
            sink.stream.move(pose())
        for stream in streams:
            stream.start()
        return [sink for _, sink in pages]

    yield run
    for stream in streams:
        stream.stop()
    for stream in streams:
        stream.stop(10.0)
        assert not stream._thread.is_alive()


@pytest.mark.parametrize("trains", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_many_pages_get_about_equal_numbers_of_images(
    run: Callable[..., list[Restless]], trains: bool
) -> None:
    trainer = FakeTrainer()
    session = TrainingSession(trainer) if trains else StaticSession(Gaussians.empty(0))
    trainer.thread.start()
    try:
        sinks = run(session, [(slow, Restless()) for _ in range(8)])
        wait_until(lambda: all(sink.images for sink in sinks), "a page has no image")
        before = [len(sink.images) for sink in sinks]  # their threads start one after another
        wait_until(lambda: max(len(sink.images) for sink in sinks) >= 24 + max(before), "there are no images")
        counts = [len(sink.images) - first for sink, first in zip(sinks, before, strict=True)]
        assert min(counts) >= 12, counts
    finally:
        trainer.done = True


def test_pages_that_fail_or_stop_reading_hold_up_no_other(run: Callable[..., list[Restless]]) -> None:
    end = threading.Event()
    pages = [(broken, Restless()), (slow, Deaf(end)), (slow, Restless()), (slow, Restless())]
    try:
        failing, deaf, one, two = run(StaticSession(Gaussians.empty(0)), pages)
        wait_until(lambda: min(len(one.images), len(two.images)) >= 20, "the good pages are held up")
        assert len(deaf.images) == 1 and not failing.images
    finally:
        end.set()


def test_a_browser_that_stops_reading_holds_up_no_other() -> None:
    with (
        ViewerApp(StaticSession(Gaussians.empty(0)), port=0, render=flat) as app,
        PageClient(app, reads=False),
        PageClient(app) as other,
    ):
        stream = app._pages[other.id].page.stream
        before = stream._rendered_at
        other.send(CAMERA | {"position": [1.0, 2.0, 3.0]})
        wait_until(lambda: stream._rendered_at > before, "the other page gets no images")
