"""The tools on the image in a real browser: by icon and by key, a polygon, the line of Compare, and a phone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from page_driver import at_rest, ball, newest_client, ring, until
from shown import StaticSession, ViewerApp

from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.panels.compare import ComparePanel
from luxel.viewer.web.panels.edit import EditPanel


def panel_of(app: ViewerApp, kind: Any) -> Any:
    return next(p for p in app._pages[newest_client(app).client_id].panels if isinstance(p, kind))


@pytest.mark.slow
def test_tools_by_icon_and_key(
    open_page: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    torch.set_num_threads(1)
    with ViewerApp(StaticSession(ball(), ring(), "ball", folder=tmp_path), port=0) as app:
        page = open_page(app, width=1100, height=700)
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        client, bar = newest_client(app), page.get_by_role("toolbar", name="Tools")
        panel = panel_of(app, EditPanel)
        panel._through.value = True
        at_rest(app, client)
        bar.get_by_role("button", name="Polygon (P)").click()
        page.locator("#luxel-strokes").wait_for()
        assert bar.get_by_role("button", name="Polygon (P)").get_attribute("aria-pressed") == "true"
        page.get_by_text("Click the corners").wait_for()
        page.wait_for_timeout(500)  # for the connection of the tool

        corners = [(330, 120), (560, 120), (560, 560), (330, 560)]
        for corner in corners:
            page.mouse.click(*corner)
        page.mouse.dblclick(*corners[-1])
        until(lambda: panel._undo.label == "Undo: Select polygon", "a double click closed no polygon")
        selected = int(panel.editor.run(lambda document: document.selected).sum())
        page.get_by_text(f"{selected} Gaussians selected").wait_for()

        for corner in corners[:2]:
            page.mouse.click(*corner)
        page.keyboard.press("Escape")
        assert page.locator("#luxel-strokes").count() == 1, "the first Escape leaves the polygon alone"
        page.keyboard.press("Escape")
        page.locator("#luxel-strokes").wait_for(state="detached")

        page.get_by_role("button", name="Delete", exact=True).first.click()
        until(lambda: app.session.status()["count"] == 250 - selected, "nothing was deleted")
        bar.get_by_role("button", name="Undo: Delete").click()
        until(lambda: app.session.status()["count"] == 250, "nothing was undone")
        page.keyboard.press("Shift+O")
        until(lambda: panel._undo.label == "Undo: Solo", "the key hid nothing")
        bar.get_by_role("button", name="Show all").click()
        until(lambda: panel._undo.label == "Undo: Show all", "nothing came back")
        assert not errors


@pytest.mark.slow
def test_the_line_of_compare_is_dragged(open_page: Callable[..., Any], tmp_path: Path) -> None:
    torch.set_num_threads(1)
    with ViewerApp(StaticSession(ball(), ring(), "ball"), port=0) as app:
        page = open_page(app, width=1100, height=700)
        client, line = newest_client(app), page.get_by_role("slider", name="Line between")
        page.locator(".luxel-toolbar").wait_for()
        page.keyboard.press("c")
        line.wait_for()
        at_rest(app, client)
        compare, before = panel_of(app, ComparePanel), Pose.of_client(client.camera)
        box = line.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, 200)
        page.mouse.down()
        page.mouse.move(260, 210, steps=8)
        page.mouse.up()
        until(lambda: float(compare._split.value) < 40, "the drag moved no line")
        assert np.array_equal(Pose.of_client(client.camera).position, before.position), "the camera moved"
        split = float(compare._split.value)
        line.focus()
        page.keyboard.press("ArrowRight")
        until(lambda: compare._split.value == pytest.approx(split + 1, abs=0.11), "the key moved no line")
        line.evaluate("node => node.blur()")
        page.mouse.move(500, 500)
        page.mouse.down()
        page.mouse.move(600, 480, steps=4)
        page.mouse.up()
        page.get_by_text("stands at no photograph").wait_for()
        page.get_by_role("button", name="Go to it").click()
        line.wait_for()


@pytest.mark.slow
def test_the_tools_of_a_phone_lie_at_the_lower_edge(open_page: Callable[..., Any], tmp_path: Path) -> None:
    torch.set_num_threads(1)
    with ViewerApp(StaticSession(ball(), ring(), "ball", folder=tmp_path), port=0) as app:
        page = open_page(app, width=390, height=844)
        bar = page.get_by_role("toolbar", name="Tools")
        bar.wait_for()
        box = bar.bounding_box()
        assert box["width"] <= 390 and box["y"] > 600 and box["height"] < 100, "two rows"
