"""Lasso and brush in a real browser: strokes, modifier keys, the camera, and the radius of the brush."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from page_driver import at_rest, ball, cut, newest_client, psnr, ring, screenshot, until
from shown import StaticSession, ViewerApp

from luxel.viewer.web.editing.freehand_tools import BrushTool
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.panels.edit import EditPanel

LASSO = [(330, 330), (380, 230), (460, 230), (500, 330), (420, 430)]


def choose(page: Any, tool: str) -> None:
    """Chooses a tool in the list."""
    page.get_by_role("combobox", name="Tool").click()
    page.get_by_role("option", name=tool, exact=True).click()
    page.locator("#luxel-strokes").wait_for()
    page.wait_for_timeout(300)  # for its connection


def stroke(page: Any, points: Sequence[tuple[float, float]], release: bool = True) -> None:
    """Draws with the left button."""
    page.mouse.move(*points[0])
    page.mouse.down()
    for point in points[1:]:
        page.mouse.move(*point, steps=6)
    if release:
        page.mouse.up()


def on_screen(app: ViewerApp, client: Any) -> np.ndarray:
    """Where the centres of the ball are on the page, [N, 2]."""
    pose = app._pages[client.client_id].page.pose()
    local = (ball().means.numpy() - pose.position) @ pose.rotation
    focal = 0.5 * pose.height / np.tan(0.5 * pose.fov_y)
    return focal * local[:, :2] / local[:, 2:] + [pose.width / 2, pose.height / 2]


@pytest.mark.slow
def test_lasso_and_brush(
    open_page: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    torch.set_num_threads(1)
    with ViewerApp(StaticSession(ball(), ring(), "ball", folder=tmp_path), port=0) as app:
        page = open_page(app, width=1100, height=700)
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        client = newest_client(app)
        for folder in ("Show", "Camera"):
            page.get_by_text(folder, exact=True).first.click()
        page.get_by_text("Edit", exact=True).click()
        at_rest(app, client)
        panel = next(p for p in app._pages[client.client_id].panels if isinstance(p, EditPanel))
        places, pose = on_screen(app, client), Pose.of_client(client.camera)

        def selected() -> np.ndarray:
            return panel.editor.run(lambda document: document.selected).numpy()

        choose(page, "Lasso")
        page.get_by_text("Through", exact=True).click()
        stroke(page, LASSO, release=False)
        page.wait_for_timeout(100)
        page.screenshot(path=str(tmp_path / "lasso.png"))
        page.mouse.up()
        until(lambda: bool(selected().any()), "the lasso selected nothing")
        middle = np.abs(places - [420, 315]).max(1) < 40
        assert selected()[middle].all() and not selected()[places[:, 0] > 505].any()

        before = selected()
        page.keyboard.down("Alt")
        stroke(page, [(380, 280), (460, 280), (460, 350), (380, 350)])
        page.keyboard.up("Alt")
        until(lambda: bool((selected() != before).any()), "Alt subtracted nothing")
        inner = (np.abs(places - [420, 315]) < [38, 33]).all(1)
        assert inner.any() and not selected()[inner].any() and (selected() <= before).all()

        choose(page, "Brush")
        brush = panel._tool
        assert isinstance(brush, BrushTool)
        page.mouse.move(420, 315)
        page.wait_for_timeout(1000)  # until the page has the tool: keys before that are lost
        page.keyboard.press("]")
        until(lambda: brush._radius.value == 35, "the key changed no radius")
        edits = panel.editor.run(lambda document: len(document.history.undo_titles))
        at_rest(app, client)
        plain = screenshot(page)
        page.keyboard.down("Shift")
        stroke(page, [(330, 315), (420, 315), (500, 400)], release=False)
        at_rest(app, client)
        page.mouse.move(530, 320)
        at_rest(app, client)
        page.screenshot(path=str(tmp_path / "brush.png"))
        assert psnr(cut(plain), cut(screenshot(page))) < 30, "the stroke is not highlighted while it is drawn"
        assert panel.editor.run(lambda document: len(document.history.undo_titles)) == edits
        page.mouse.up()
        page.keyboard.up("Shift")
        until(lambda: panel._undo.label == "Undo: Brush", "the stroke is no edit")
        assert panel.editor.run(lambda document: len(document.history.undo_titles)) == edits + 1
        touched = np.abs(places - [420, 315]).max(1) < 20
        assert touched.any() and selected()[touched].all()

        stroke(page, [(330, 315), (420, 315)], release=False)
        page.keyboard.press("Escape")
        page.mouse.up()
        page.wait_for_timeout(300)
        assert panel.editor.run(lambda document: len(document.history.undo_titles)) == edits + 1
        page.mouse.wheel(0, 300)
        page.wait_for_timeout(300)
        now = Pose.of_client(client.camera)
        assert np.array_equal(now.position, pose.position), "a stroke moved the camera"
        page.keyboard.down(" ")
        stroke(page, [(330, 315), (420, 315)])
        page.keyboard.up(" ")
        until(
            lambda: not np.allclose(Pose.of_client(client.camera).position, pose.position),
            "Space did not let go",
        )
        page.get_by_role("combobox", name="Tool").click()
        page.get_by_role("option", name="off", exact=True).click()
        page.locator("#luxel-strokes").wait_for(state="detached")
        assert not errors
