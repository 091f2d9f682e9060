"""Every tool once, in three windows, light and dark: nothing lies outside of the window, nothing serious for axe-core.

build/tour.webp has the screenshots.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from axe import findings, source
from page_driver import ball, ring
from shown import StaticSession, ViewerApp
from tour import OUTSIDE, SCHEMES, WINDOWS, Screen, Visitor, screenshot, sheet, visiting, write_sheet

SHEET = Path(__file__).resolve().parents[4] / "build" / "tour.webp"


@pytest.fixture(scope="module")
def screens() -> Iterator[list[Screen]]:
    """Those of all walks; they become one sheet."""
    screens: list[Screen] = []
    yield screens
    if screens:
        write_sheet(sheet(screens), SHEET)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("window", WINDOWS)
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

        Visitor(page, look, pace=0.4).walk()
        assert not errors
    assert len(states) == len(set(states)) >= 19
