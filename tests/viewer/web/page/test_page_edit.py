"""Editing in a real browser: select with a rectangle, delete, undo, move with the gizmo, save."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from page_driver import at_rest, ball, cut, newest_client, psnr, ring, screenshot, until
from shown import StaticSession, ViewerApp

from luxel.scenes import load_primitives
from luxel.viewer.web.panels.edit import EditPanel


def choose(page: Any, tool: str) -> None:
    """Chooses a tool in the list."""
    page.get_by_role("combobox", name="Tool").click()
    page.get_by_role("option", name=tool, exact=True).click()


def edit_panel(app: ViewerApp, client: Any) -> EditPanel:
    panels = app._pages[client.client_id].panels
    return next(panel for panel in panels if isinstance(panel, EditPanel))


def on_page(client: Any, app: ViewerApp, point: Any) -> tuple[float, float]:
    """Where a point of the world is on the image, pixels of the page."""
    pose = app._pages[client.client_id].page.pose()
    x, y, z = pose.rotation.T @ (np.asarray(point, float) - pose.position)
    focal = 0.5 * pose.height / np.tan(0.5 * pose.fov_y)
    return focal * x / z + pose.width / 2, focal * y / z + pose.height / 2


@pytest.mark.slow
def test_scene_is_edited_in_the_page(
    open_page: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    torch.set_num_threads(1)
    with ViewerApp(StaticSession(ball(), ring(), "ball", folder=tmp_path), port=0) as app:
        page = open_page(app, width=1100, height=1000)
        client = newest_client(app)
        for folder in ("Show", "Camera"):
            page.get_by_text(folder, exact=True).first.click()
        page.get_by_text("Edit", exact=True).click()
        at_rest(app, client)
        panel, whole = edit_panel(app, client), screenshot(page)
        choose(page, "Rectangle")
        until(lambda: panel._tool is not None, "no tool was chosen")
        page.get_by_text("Drag a rectangle").wait_for()
        page.mouse.move(320, 200)
        page.mouse.down()
        page.mouse.move(520, 480, steps=5)
        page.mouse.up()
        until(lambda: panel.editor.run(lambda d: bool(d.selected.any())), "the rectangle selected nothing")
        at_rest(app, client)
        highlighted = screenshot(page)
        assert psnr(cut(whole), cut(highlighted)) < 25, "the selection is not highlighted"
        mask = panel.editor.run(lambda document: document.selected)
        page.get_by_text(f"{int(mask.sum())} Gaussians", exact=True).wait_for()
        page.get_by_test_id("floating-panel").get_by_role("button", name="Delete", exact=True).last.click()
        until(lambda: app.session.status()["count"] == int((~mask).sum()), "nothing was deleted")
        at_rest(app, client)
        assert psnr(cut(whole), cut(screenshot(page))) < 22, "what was deleted is still shown"
        page.get_by_test_id("floating-panel").get_by_role("button", name="Undo: Delete").click()
        until(lambda: app.session.status()["count"] == 250, "the button did not undo")
        at_rest(app, client)
        assert psnr(cut(highlighted), cut(screenshot(page))) > 35, "undo does not show the same image"
        page.get_by_test_id("floating-panel").get_by_role("button", name="Redo: Delete").click()
        until(lambda: app.session.status()["count"] == int((~mask).sum()), "the button did not redo")
        page.mouse.click(150, 900)
        page.keyboard.press("Control+z")
        until(lambda: app.session.status()["count"] == 250, "the key did not undo")

        choose(page, "Transform")
        until(lambda: getattr(panel._tool, "_gizmo", None) is not None, "no gizmo")
        start = panel.editor.run(lambda document: np.array(document.pivot()))
        at_rest(app, client)
        reach = 0.1 * app.extent.radius  # on the arrow of the y axis
        x, y = on_page(client, app, start + np.array([0, reach, 0]))
        page.mouse.move(x, y)
        page.wait_for_timeout(300)
        page.mouse.down()
        page.mouse.move(x + 60, y, steps=6)
        page.mouse.up()
        until(lambda: panel._undo.label == "Undo: Move", "the gizmo moved nothing")
        moved = panel.editor.run(lambda document: document.state.scene.centres) - ball().means
        assert float(moved[~mask].abs().max()) == 0 and float(moved[mask][:, 1].abs().min()) > 0.05
        np.testing.assert_allclose(moved[mask][:, [0, 2]].numpy(), 0, atol=1e-5)
        at_rest(app, client)
        page.screenshot(path=str(tmp_path / "moved.png"))
        page.get_by_text("Files", exact=True).click()
        page.get_by_role("button", name="Save file").click()
        page.get_by_text("Saved 250 Gaussians").first.wait_for()
        page.screenshot(path=str(tmp_path / "saved.png"))
        saved = load_primitives(tmp_path / "edited.ply")
        assert torch.equal(saved.centres[~mask], ball().means[~mask])
        assert not torch.equal(saved.centres[mask], ball().means[mask])
