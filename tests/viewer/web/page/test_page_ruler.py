"""The panel Ruler in a real browser: rulers, scale and level with the mouse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from page_controls import Controls
from page_driver import at_rest, ball, canvas_width, click_until, newest_client, ring, until
from shown import StaticSession, ViewerApp

from luxel.viewer.web.panels.ruler import RulerPanel


@pytest.mark.slow
def test_rulers_scale_and_level_with_the_mouse(open_page: Callable[..., Any], tmp_path: Path) -> None:
    with ViewerApp(StaticSession(ball(), ring(), "ball", folder=tmp_path), port=0) as app:
        page = open_page(app, width=1100, height=1000)
        at_rest(app, newest_client(app))
        controls = Controls(page, app)
        panel = controls.panel(RulerPanel)
        shared, middle = panel.shared, canvas_width(page) // 2
        controls.unfold("Ruler", "Level")

        def click(x: int, y: int, condition: Callable[[], bool]) -> None:
            click_until(page, (middle + x, 500 + y), condition, f"no click arrived at {x}, {y}")

        controls.press("Ruler/New ruler")
        click(-60, 0, lambda: len(panel._points) == 1)
        click(60, 30, lambda: len(shared.present.rulers) == 1)
        for button in ("Ruler/Move start", "Ruler/Move end"):
            before = shared.present
            controls.press(button)
            click(
                20 if button == "Ruler/Move start" else -90,
                -80,
                lambda before=before: shared.present != before,
            )
        controls.set("Ruler/Handles", True)
        until(lambda: len(panel._lines._handles) == 2, "there are no handles")
        controls.set("Ruler/Name", "door")
        controls.press("Ruler/Rename")
        until(lambda: controls.handle("Ruler/Ruler").value == "door", "it has its old name")
        controls.set("Ruler/Scale/This is", 42.0)
        controls.set("Ruler/Scale/Unit", "cm")
        controls.press("Ruler/Scale/Set scale")
        until(lambda: controls.handle("Ruler/Length").value == "42.00 cm", "there is no scale")
        controls.press("Ruler/Copy")
        for button in ("Ruler/Save JSON", "Ruler/Save CSV"):
            with page.expect_download(timeout=60_000):
                controls.press(button)
        controls.press("Ruler/Level/Level by three points")
        for number, (x, y) in enumerate(((-60, 20), (60, 20), (0, -60))):
            done = lambda number=number: len(panel._points) > number or shared.present.up is not None  # noqa: E731
            click(x, y, done)
        until(lambda: shared.present.up is not None, "nothing is level")
        controls.press("Ruler/Level/Remove level")
        until(lambda: shared.present.up is None, "it stays level")
        controls.press("Ruler/Undo")
        until(lambda: shared.present.up is not None, "nothing was undone")
        controls.press("Ruler/Redo")
        until(lambda: shared.present.up is None, "nothing was done again")
        for tool in ("Sphere", "Box"):
            controls.unfold("Edit")
            controls.set("Edit/Tool", tool)
            known = controls.handle(f"Edit/{tool}/In metres")
            until(lambda known=known: "m" in known.value, f"the size of the {tool} has no unit")
            controls.set("Edit/Tool", "off")
            controls.unfold("Edit")
        assert controls.handle("Edit/Sphere/In metres") is not controls.handle("Edit/Box/In metres")
        controls.press("Ruler/Scale/Remove scale")
        until(lambda: controls.handle("Ruler/Length").value.endswith(" units"), "the scale stays")
        controls.set("Ruler/Show rulers", False)
        until(lambda: panel._lines._lines is None, "rulers are shown")
        controls.press("Ruler/Delete")
        until(lambda: not shared.present.rulers, "the ruler is still there")
