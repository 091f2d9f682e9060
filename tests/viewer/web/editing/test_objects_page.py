"""Objects in a real browser: select, solo, delete and undo, a new object, its colour, and the output of that name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from objects_of_balls import two_balls, with_objects
from page_driver import at_rest, canvas_width, newest_client, screenshot, until
from shown import StaticSession, ViewerApp

from luxel.render.geometry.camera import Camera, Pixels, View
from luxel.render.segment.objects import load_objects
from luxel.viewer.web.panels.edit import EditPanel
from luxel.viewer.web.panels.objects import ObjectsPanel


def front() -> list[View]:
    """One view, from which both balls are seen beside one another."""
    camera = Camera.look_at((0.0, -5.0, 0.6), (0, 0, 0), fov_y=0.8, width=80, height=60)
    pixels = Pixels(np.zeros((60, 80, 3), np.uint8))
    return [View("front", camera, lambda: pixels)]


def viewer_of_balls(folder: Path, monkeypatch: pytest.MonkeyPatch, *names: str) -> ViewerApp:
    """A viewer of the two balls as a run in a folder; ``names`` of the objects that it has."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    torch.set_num_threads(1)
    if names:
        with_objects(folder, None, *names)
    return ViewerApp(StaticSession(two_balls(), front(), "balls", folder=folder), port=0)


def opened(open_page: Callable[..., Any], app: ViewerApp) -> tuple[Any, Any, list[str]]:
    """A page with the Objects folder open, its client, and the errors of its scripts."""
    page = open_page(app, width=1100, height=1000)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    client = newest_client(app)
    for folder in ("Show", "Camera"):
        page.get_by_text(folder, exact=True).first.click()
    page.get_by_text("Objects", exact=True).click()
    at_rest(app, client)
    return page, client, errors


def panel_of(app: ViewerApp, client: Any, kind: type[Any]) -> Any:
    panels = app._pages[client.client_id].panels
    return next(panel for panel in panels if isinstance(panel, kind))


def mean_colour(page: Any, of_left: bool) -> np.ndarray:
    """Of the middle of a ball on the page, [3]."""
    image = screenshot(page)
    width = canvas_width(page)
    half = image[350:650, : width // 2] if of_left else image[350:650, width // 2 : width]
    bright = half[half.max(-1) > 60]
    return bright.mean(0) if len(bright) else np.zeros(3)


@pytest.mark.slow
def test_objects_are_selected_soloed_deleted_and_made_in_the_page(
    open_page: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with viewer_of_balls(tmp_path, monkeypatch, "green", "red") as app:
        page, client, errors = opened(open_page, app)
        panel, edit = panel_of(app, client, ObjectsPanel), panel_of(app, client, EditPanel)

        def numbers() -> dict[str, int]:
            return panel.editor.run(lambda document: document.numbers)

        page.get_by_role("button", name="Select object").click()
        until(lambda: numbers()["selected"] == 200, "the object is not selected")
        at_rest(app, client)
        page.screenshot(path=str(tmp_path / "selected.png"))
        page.get_by_role("combobox", name="Object").click()
        page.get_by_role("option", name="red", exact=True).click()
        page.get_by_test_id("floating-panel").get_by_role("button", name="Solo").click()
        until(lambda: numbers()["hidden"] == 200, "the other object is not hidden")
        at_rest(app, client)
        page.screenshot(path=str(tmp_path / "solo.png"))
        page.get_by_text("hidden", exact=True).wait_for()
        page.get_by_role("button", name="Show everything").click()
        until(lambda: numbers()["hidden"] == 0, "not everything is shown")
        at_rest(app, client)
        whole = screenshot(page)
        page.get_by_role("button", name="Delete object").click()
        until(lambda: app.session.status()["count"] == 200, "nothing was deleted")
        page.get_by_text("deleted", exact=True).wait_for()
        at_rest(app, client)
        page.screenshot(path=str(tmp_path / "deleted.png"))
        assert np.abs(screenshot(page) - whole)[350:650, :390].mean() > 5, "the deleted object is still shown"
        page.mouse.click(150, 900)
        page.keyboard.press("Control+z")
        until(lambda: app.session.status()["count"] == 400, "the key did not undo")
        until(lambda: not page.get_by_text("deleted", exact=True).count(), "the list does not follow")

        panel.editor.run(lambda document: document.select(torch.arange(400) >= 350))
        page.locator(".mantine-TextInput-input:visible").first.fill("tip")
        until(lambda: panel._new.value == "tip", "the name did not arrive")
        page.get_by_role("button", name="Add selection as an object").click()
        until(lambda: load_objects(tmp_path).named("tip") is not None, "the object is not saved")
        page.get_by_text("12.5 %").wait_for()
        assert edit._undo.label == "Undo: Add tip"
        assert not errors, errors


@pytest.mark.slow
def test_the_output_objects_has_their_colours(
    open_page: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with viewer_of_balls(tmp_path, monkeypatch) as app:
        page, client, errors = opened(open_page, app)
        panel = panel_of(app, client, ObjectsPanel)
        stream = app._pages[client.client_id].page.stream
        page.get_by_text("Show", exact=True).first.click()
        page.mouse.move(300, 300)
        page.keyboard.press("0")  # the tenth output
        until(lambda: stream.settings.output == "objects", "the key chose no output")
        at_rest(app, client)
        assert "no objects yet" in stream.last_report.caption
        page.screenshot(path=str(tmp_path / "none.png"))
        panel.editor.run(lambda document: document.select(torch.arange(400) < 200))
        page.get_by_role("button", name="Add selection as an object").click()
        until(lambda: stream.last_report.caption == "1 object", "the object is not shown")
        page.get_by_text("Overlay", exact=True).first.wait_for()
        page.get_by_text("Name and colour", exact=True).click()
        stream.change(overlay=1.0)
        until(lambda: panel._shown is not None, "the panel does not show the object")
        panel._colour.value = (20, 40, 250)
        page.get_by_role("button", name="Apply", exact=True).last.click()
        until(lambda: panel.editor.objects.objects[0].colour == (20, 40, 250), "the colour is not applied")
        panel.editor.run(lambda document: document.select_none())
        at_rest(app, client)
        page.screenshot(path=str(tmp_path / "objects.png"))
        red, green, blue = mean_colour(page, of_left=True)
        assert blue > 150 and red < 100 and green < 110, "not in the colour of the object"
        assert load_objects(tmp_path).objects[0].colour == (20, 40, 250)
        assert not errors, errors
