"""The Object tool in a real browser: the outline under the cursor, other candidates, and Alt-clicks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from objects_of_balls import two_balls
from page_driver import at_rest, canvas_width, newest_client, until
from segmenters import NestedSegmenter
from shown import StaticSession, ViewerApp
from test_object_tool import idle, selection

from luxel.viewer.web.editing import object_tool
from luxel.viewer.web.panels.edit import EditPanel

RED = (-1.0, 0.0, 0.0)  # the middle of the first ball
OUTLINE = "document.querySelector('.luxel-outline path').getAttribute('d') ?? ''"


@pytest.mark.slow
def test_the_object_under_the_cursor_is_outlined_and_clicked(
    open_page: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    segmenter = NestedSegmenter()
    monkeypatch.setattr(object_tool, "segmenter_for", lambda device: segmenter)
    torch.set_num_threads(1)
    with ViewerApp(StaticSession(two_balls(), folder=tmp_path), port=0) as app:
        page = open_page(app, width=1100, height=600)
        client = newest_client(app)
        opened = app._pages[client.client_id]
        panel = next(panel for panel in opened.panels if isinstance(panel, EditPanel))
        page.locator(".luxel-toolbar").wait_for()
        at_rest(app, client)

        def place_of(point: tuple[float, float, float], up: float = 0) -> tuple[float, float]:
            """Where a point of the scene is on the page, so many pixels further up."""
            pose = opened.page.pose()
            x, y, z = pose.rotation.T @ (np.array(point) - pose.position)
            focal = 300 / np.tan(0.5 * pose.fov_y)
            return canvas_width(page) / 2 + focal * x / z, 300 + focal * y / z - up

        page.keyboard.press("o")
        page.get_by_text("Alt-click what does not belong to it").wait_for()
        tool = panel._tool
        assert isinstance(tool, object_tool.ObjectTool)

        def outlined() -> bool:
            page.mouse.move(*place_of(RED, up=3 * np.random.rand()))
            page.wait_for_timeout(300)
            return len(page.evaluate(OUTLINE)) > 20

        until(outlined, "nothing is outlined")
        page.screenshot(path=str(tmp_path / "outline.png"))
        page.mouse.click(*place_of(RED))
        page.get_by_role("button", name="Smaller").wait_for()
        until(lambda: idle(opened, tool), "the search does not end")
        ball = selection(panel)
        assert ball[0] > 150 and ball[1] == 0
        page.get_by_role("button", name="Smaller").click()
        until(lambda: idle(opened, tool) and 0 < selection(panel)[0] < ball[0], "no smaller object")
        page.keyboard.down("Alt")
        page.mouse.click(*place_of(RED, up=14))
        page.keyboard.up("Alt")
        until(lambda: tool._target is not None and len(tool._target.clicked.beside) == 1, "no point beside")
        until(lambda: idle(opened, tool), "the search does not end")
        page.mouse.move(20, 590)
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Smaller").wait_for(state="hidden")
        assert page.evaluate(OUTLINE) == ""
