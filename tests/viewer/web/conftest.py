"""A browser, a page that shows a ball, and the loop behind one page."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from page_driver import CHROMIUM, FLAGS, WINDOW, ball, ring
from shown import ClientStream, StaticSession, ViewerApp
from stream_sink import Sink, flat

from luxel.render.primitives import Gaussians


@pytest.fixture(autouse=True)
def own_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept of a scene without a run, which is the same in many tests, is that of one test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="page test not run: playwright is not installed")
    if shutil.which(CHROMIUM) is None:
        pytest.skip(f"page test not run: there is no {CHROMIUM}")
    with api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    contexts: list[Any] = []

    def open_page(app: ViewerApp, **size: int) -> Any:
        contexts.append(browser.new_context(viewport={**WINDOW, **size}))
        page = contexts[-1].new_page()
        page.goto(app.url)
        page.get_by_text("Render", exact=True).wait_for(state="attached", timeout=60_000)
        return page

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def shown() -> Iterator[ViewerApp]:
    torch.set_num_threads(1)
    with ViewerApp(StaticSession(ball(), ring(), "ball"), port=0) as app:
        yield app
        assert app.guard is not None
        assert not app.guard.messages.dropped, "something that browsers send is refused"


@pytest.fixture
def streams() -> Any:
    started: list[ClientStream] = []

    def start(render: Callable[..., Any] = flat, session: StaticSession | None = None, **options: Any):
        sink, reports = Sink(), []
        session = session or StaticSession(Gaussians.empty(0))
        stream = ClientStream(session, render, sink, reports.append, **options)
        started.append(stream)
        stream.start()
        return stream, sink, reports

    yield start
    for stream in started:
        stream.stop(5.0)
        assert not stream._thread.is_alive()
