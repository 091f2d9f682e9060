"""Fingers on the image: a tap is a click of the active tool, a drag turns the camera or draws."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from objects_of_balls import two_balls
from page_driver import at_rest, newest_client, until
from segmenters import NestedSegmenter
from shown import StaticSession, ViewerApp

from luxel.viewer.web.editing import object_tool
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.panels.edit import EditPanel


@pytest.mark.slow
def test_taps_and_drags_of_fingers(browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    segmenter = NestedSegmenter()
    monkeypatch.setattr(object_tool, "segmenter_for", lambda device: segmenter)
    torch.set_num_threads(1)
    context = browser.new_context(viewport={"width": 800, "height": 600}, has_touch=True, is_mobile=True)
    with ViewerApp(StaticSession(two_balls(), folder=tmp_path), port=0) as app:
        page = context.new_page()
        page.goto(app.url)
        tools = page.get_by_role("toolbar", name="Tools")
        tools.wait_for(timeout=60_000)
        client = newest_client(app)
        at_rest(app, client)
        opened = app._pages[client.client_id]
        editor = next(panel for panel in opened.panels if isinstance(panel, EditPanel)).editor
        selected = lambda: editor.run(lambda document: int(document.selected.sum()))  # noqa: E731
        pose = Pose.of_client(client.camera)
        left = np.array([-1.0, 0.0, 0.0])

        def place(u: float = 0.0, v: float = 0.0) -> tuple[float, float]:
            x, y, z = pose.rotation.T @ (left - pose.position)
            focal = 0.5 * pose.height / np.tan(0.5 * pose.fov_y)
            box = page.evaluate(
                "(({ left, top }) => [left, top])(window.__viserMutable.canvas.getBoundingClientRect())"
            )
            return box[0] + pose.width / 2 + focal * x / z + u, box[1] + pose.height / 2 + focal * y / z + v

        def choose(name: str) -> None:
            tools.get_by_role("button", name=name).tap()
            page.locator(".luxel-toolbar [aria-pressed=true]").wait_for()
            page.wait_for_timeout(600)  # for viser to ask for clicks

        def drag(start: tuple[float, float], end: tuple[float, float]) -> None:
            session = context.new_cdp_session(page)
            for kind, points in (
                ("touchStart", [start]),
                *(
                    ("touchMove", [tuple(np.array(start) + (np.array(end) - start) * s)])
                    for s in (0.3, 0.6, 1.0)
                ),
                ("touchEnd", []),
            ):
                touches = [{"x": float(x), "y": float(y)} for x, y in points]
                session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": touches})
                page.wait_for_timeout(40)

        choose("Inspect (I)")
        page.touchscreen.tap(*place())
        page.locator(".luxel-toolmessage", has_text=re.compile(r"Depth \d")).wait_for(timeout=60_000)
        choose("Object (O)")
        page.touchscreen.tap(*place())
        until(lambda: selected() > 100, "a tap selects no object")
        page.get_by_role("button", name="Deselect").first.tap()
        until(lambda: selected() == 0, "the selection is still there")
        choose("Rectangle (R)")
        drag(place(-90, -90), place(20, 90))
        until(lambda: 0 < selected() < 200, "a finger draws no rectangle")
        choose("Inspect (I)")
        drag(place(), place(60, 10))
        moved = lambda: not np.allclose(Pose.of_client(client.camera).position, pose.position, atol=1e-2)  # noqa: E731
        until(moved, "a finger does not turn the camera")
    context.close()
