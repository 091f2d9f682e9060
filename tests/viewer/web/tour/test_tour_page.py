"""Every tool once: nothing lies outside of the window, nothing is serious for axe-core.

`make tour` walks through three windows, each light and dark, in six minutes of both cores: too long beside other tests,
which skip it. build/tour.webp gets the screenshots.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from axe import findings, source
from page_driver import ball, ring
from shown import StaticSession, ViewerApp
from tour import OUTSIDE, SCHEMES, WINDOWS, Screen, Visitor, screenshot, sheet, visiting, write_sheet

ALL = [(window, scheme) for window in WINDOWS for scheme in SCHEMES]
pytestmark = pytest.mark.skipif(
    "LUXEL_TOUR" not in os.environ, reason="the tour has minutes of its own: make tour"
)
SHEET = Path(__file__).resolve().parents[4] / "build" / "tour.webp"


@pytest.fixture(scope="module")
def screens() -> Iterator[list[Screen]]:
    """Those of all walks; they become one sheet."""
    screens: list[Screen] = []
    yield screens
    if screens:
        write_sheet(sheet(screens), SHEET)


@pytest.mark.slow
@pytest.mark.parametrize(("window", "scheme"), ALL)
def test_tour(
    browser: Any,
    screens: list[Screen],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    window: str,
    scheme: str,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    torch.set_num_threads(1)
    states: list[str] = []
    with (
        ViewerApp(StaticSession(ball(), ring(), "ball", folder=tmp_path), port=0) as app,
        visiting(browser, app.url, window, scheme) as page,
    ):
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))

        def look(state: str) -> None:
            states.append(state)
            screens.append(Screen(window, scheme, state, screenshot(page)))
            assert page.evaluate(OUTSIDE) == [], f"{state}: outside of the window"
            if (axe := source()) is not None:  # test_accessibility_page.py says aloud where it is missing
                assert findings(page, axe) == [], state

        Visitor(page, look, pace=0.25).walk()
        assert not errors
    assert len(states) == len(set(states)) >= 19
