"""Controls of the panel Edit in a real browser: tools, buttons, named selections and files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from page_controls import Controls
from page_driver import at_rest, ball, click_until, ring, until
from shown import StaticSession, ViewerApp

from luxel.render.primitives import Gaussians, Parameters
from luxel.scenes import load_primitives
from luxel.viewer.edit.regions import in_sphere, near_colour
from luxel.viewer.web.panels.edit import EditPanel


def varied() -> Gaussians:
    """The ball with ten sizes and ten opacities."""
    scene = ball()
    steps = (torch.arange(scene.count) % 10) / 10
    return replace(
        scene, log_scales=scene.log_scales + 0.5 * steps[:, None], opacity_logits=4 * steps.flip(0) + 1
    )


class EditedPage:
    """A page with the panel Edit open."""

    def __init__(self, page: Any, app: ViewerApp) -> None:
        self.page, self.app = page, app
        self.controls = Controls(page, app)
        self.controls.unfold("Show", "Camera", "Edit")
        at_rest(app, self.controls.client)
        self.panel: EditPanel = self.controls.panel(EditPanel)

    @property
    def selected(self) -> np.ndarray:
        return self.panel.editor.run(lambda document: document.selected).numpy()

    @property
    def scene(self) -> Parameters:
        return self.panel.editor.run(lambda document: document.state.scene)

    def number(self, name: str) -> int:
        return self.panel.editor.run(lambda document: document.numbers)[name]

    def selects(self, expected: Any, what: str) -> None:
        """Waits until exactly these are selected: a mask, or their number."""
        if isinstance(expected, int):
            until(lambda: int(self.selected.sum()) == expected, f"{what}: not {expected}")
        else:
            until(lambda: bool((self.selected == np.asarray(expected)).all()), what)

    def keeps(self, count: int, what: str) -> None:
        """Waits until the scene has so many primitives."""
        until(lambda: self.app.session.status()["count"] == count, f"{what}: not {count}")

    def places(self) -> np.ndarray:
        """Where the centres are on the page, pixels [N, 2]."""
        pose = self.controls.opened.page.pose()
        local = (self.scene.centres.numpy() - pose.position) @ pose.rotation
        focal = 0.5 * pose.height / np.tan(0.5 * pose.fov_y)
        return focal * local[:, :2] / local[:, 2:] + [pose.width / 2, pose.height / 2]

    def click_until(self, place: Any, condition: Callable[[], bool], what: str) -> None:
        """Clicks the image until a condition holds."""
        click_until(self.page, tuple(place), condition, what)


@pytest.fixture
def edited(
    open_page: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[ViewerApp], EditedPage]:
    """Opens a page of a viewer, and the panel Edit on it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    torch.set_num_threads(1)
    return lambda app: EditedPage(open_page(app, width=1100, height=1000), app)


def viewer(folder: Path) -> ViewerApp:
    return ViewerApp(StaticSession(varied(), ring(), "ball", folder=folder), port=0)


@pytest.mark.slow
def test_every_tool_on_the_image(edited: Callable[..., EditedPage], tmp_path: Path) -> None:
    with viewer(tmp_path) as app:
        on = edited(app)
        controls, places = on.controls, on.places()
        middle = places.mean(0)
        low, high = places.min(0) - 12, places.max(0) + 12
        controls.set("Edit/Tool", "Click")
        on.click_until(middle, lambda: int(on.selected.sum()) == 1, "the click selected nothing")
        one = int(on.selected.argmax())
        assert np.linalg.norm(places[one] - middle) < 130, "not what was clicked"
        controls.set("Edit/Click/Radius", 15)
        on.click_until(middle, lambda: int(on.selected.sum()) > 1, "the radius selects no more")
        near, count = on.selected, int(on.selected.sum())
        controls.set("Edit/Selection", "subtract")
        on.click_until(middle, lambda: not on.selected.any(), "subtract")
        controls.press("Edit/All")
        on.selects(250, "All")
        on.click_until(middle, lambda: int(on.selected.sum()) == 250 - count, "subtract from all")
        controls.set("Edit/Selection", "add")
        on.click_until(middle, lambda: int(on.selected.sum()) == 250, "add")
        controls.set("Edit/Selection", "intersect")
        on.click_until(middle, lambda: (on.selected == near).all(), "intersect")
        controls.set("Edit/Selection", "replace")
        controls.press("Edit/Invert")
        on.selects(~near, "Invert")
        on.click_until(middle, lambda: (on.selected == near).all(), "replace")

        def rectangle() -> None:
            on.page.mouse.move(*low)
            on.page.mouse.down()
            on.page.mouse.move(*high, steps=5)
            on.page.mouse.up()

        controls.set("Edit/Tool", "Rectangle")
        until(lambda: on.panel._tool is on.panel._tools["Rectangle"], "no tool")
        on.page.wait_for_timeout(500)
        rectangle()
        until(lambda: bool((on.selected != near).any()), "the rectangle selected nothing")
        assert 5 < on.selected.sum() < 200, "the back of the ball is not visible"
        controls.set("Edit/Through", True)
        rectangle()
        on.selects(250, "Through")
        controls.press("Edit/None")
        on.selects(0, "None")

        controls.set("Edit/Tool", "Polygon")
        on.page.locator("#luxel-strokes").wait_for()
        on.page.wait_for_timeout(500)  # for its connection
        corners = [(low[0], low[1]), (middle[0], low[1]), (middle[0], high[1]), (low[0], high[1])]
        for corner in [(middle[0], middle[1]), *corners]:
            on.page.mouse.click(*corner)
        on.page.keyboard.press("Escape")  # gives the polygon up, not the tool
        for corner in corners:
            on.page.mouse.click(*corner)  # without a pause between them
        on.page.screenshot(path=str(tmp_path / "polygon.png"))
        assert not on.selected.any()
        on.page.keyboard.press("Enter")
        clear = np.abs(places[:, 0] - middle[0]) > 3  # corners are whole pixels
        left = places[:, 0] < middle[0]
        until(lambda: bool((on.selected[clear] == left[clear]).all()), "the polygon")

        touched = []
        controls.set("Edit/Tool", "Brush")
        on.page.locator("#luxel-strokes").wait_for()
        for radius in (30, 90):
            controls.set("Edit/Brush/Brush radius", radius)
            controls.press("Edit/None")
            on.selects(0, "None")
            on.page.wait_for_timeout(500)  # for the radius to be on the page
            on.page.mouse.move(*(middle - np.array([40, 0])))
            on.page.mouse.down()
            on.page.mouse.move(*(middle + np.array([40, 0])), steps=6)
            on.page.mouse.up()
            until(lambda: bool(on.selected.any()), "the brush selected nothing")
            within = np.abs(places[on.selected] - middle).max(0)
            assert (within <= [40 + radius + 3, radius + 3]).all(), "beyond the brush"
            touched.append(int(on.selected.sum()))
        assert touched[1] > 2 * touched[0], "the radius changed nothing"
        controls.set("Edit/Tool", "off")
        on.page.locator("#luxel-strokes").wait_for(state="detached")


@pytest.mark.slow
def test_every_tool_in_space(edited: Callable[..., EditedPage], tmp_path: Path) -> None:
    with viewer(tmp_path) as app:
        on = edited(app)
        controls, scene = on.controls, on.scene
        centre = np.asarray(app.extent.centre, float)
        apart = scene.centres.numpy() - centre
        controls.set("Edit/Tool", "Sphere")
        radius = float(np.median(np.linalg.norm(apart, axis=1)))
        controls.set("Edit/Sphere/Radius", round(radius, 4))
        controls.press("Edit/Sphere/Select region")
        value = controls.handle("Edit/Sphere/Radius").value
        inside = in_sphere(scene.centres, tuple(centre.tolist()), value).numpy()
        assert 20 < inside.sum() < 230
        on.selects(inside, "Sphere")
        controls.set("Edit/Tool", "Box")
        controls.set("Edit/Box/Size", (4, 4, 0.8))
        controls.press("Edit/Box/Select region")
        on.selects(np.abs(apart[:, 2]) <= 0.4, "Box")
        on.page.screenshot(path=str(tmp_path / "box.png"))
        controls.set("Edit/Tool", "Plane")
        controls.press("Edit/Plane/Select region")
        on.selects(apart[:, 2] > 0, "Plane")

        controls.set("Edit/Tool", "Range")
        controls.set("Edit/Range/Property", "size")
        controls.set("Edit/Range/Size", (0, 45))
        controls.press("Edit/Range/Select range")
        on.selects(np.arange(250) % 10 < 5, "the lower half of the sizes")
        controls.set("Edit/Range/Property", "opacity")
        opacities = scene.opacities.numpy()
        controls.set("Edit/Range/Opacity", (0.9, 1.0))
        controls.press("Edit/Range/Select range")
        least, most = controls.handle("Edit/Range/Opacity").value
        on.selects((opacities >= least) & (opacities <= most), "the most opaque")
        assert 20 < on.selected.sum() < 230
        on.page.screenshot(path=str(tmp_path / "range.png"))
        controls.set("Edit/Range/Property", "colour")
        controls.set("Edit/Range/Colour", (230, 128, 128))
        controls.set("Edit/Range/Distance", 0.45)
        controls.press("Edit/Range/Select range")
        near = near_colour(scene.base_colours, (230 / 255, 128 / 255, 128 / 255), 0.45).numpy()
        assert 10 < near.sum() < 200
        on.selects(near, "near a colour")


@pytest.mark.slow
def test_every_button_that_changes_the_scene(edited: Callable[..., EditedPage], tmp_path: Path) -> None:
    with viewer(tmp_path) as app:
        on = edited(app)
        controls = on.controls
        above = on.scene.centres[:, 2] > 0
        on.panel.editor.run(lambda document: document.select(above))
        some = int(above.sum())
        controls.press("Edit/Grow")
        until(lambda: int(on.selected.sum()) > some, "Grow")
        grown = int(on.selected.sum())
        controls.press("Edit/Shrink")
        until(lambda: int(on.selected.sum()) < grown, "Shrink")
        few = int(on.selected.sum())
        controls.press("Edit/Hide")
        until(lambda: on.number("hidden") == few, "Hide")
        controls.press("Edit/Show all")
        until(lambda: on.number("hidden") == 0, "Show all")
        on.panel.editor.run(lambda document: document.select(above))
        controls.press("Edit/Delete")
        on.keeps(250 - some, "Delete")
        controls.press("Edit/Undo")
        on.keeps(250, "Undo")
        controls.press("Edit/Crop")
        on.keeps(some, "Crop")
        controls.press("Edit/Undo")
        on.keeps(250, "Undo")
        controls.press("Edit/Redo")
        on.keeps(some, "Redo")
        controls.press("Edit/Undo")
        on.keeps(250, "Undo")

        mask = above.numpy()
        controls.set("Edit/Tool", "Transform")

        def changed(button: str, value: Callable[[], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
            """Values of the selection before and after a button."""
            edits = on.panel.editor.run(lambda document: document.version)
            before = value()
            controls.press(button)
            until(lambda: on.panel.editor.run(lambda d: d.version) > edits, f"{button} is no edit")
            after = value()
            np.testing.assert_allclose(after[~mask], before[~mask], atol=1e-6)
            return before[mask], after[mask]

        controls.set("Edit/Transform/Scale", 0.5)
        before, after = changed("Edit/Transform/Apply scale", lambda: on.scene.centres.numpy())
        np.testing.assert_allclose(np.ptp(after, axis=0), 0.5 * np.ptp(before, axis=0), rtol=1e-3)
        until(lambda: getattr(on.panel._tool, "_gizmo", None) is not None, "no gizmo")
        at_rest(app, controls.client)
        on.page.screenshot(path=str(tmp_path / "transform.png"))
        controls.unfold("Colours")
        colours = lambda: on.scene.base_colours.numpy()  # noqa: E731
        controls.set("Edit/Colours/Tint", (128, 255, 255))
        before, after = changed("Edit/Colours/Apply colour", colours)
        np.testing.assert_allclose(after, before * [128 / 255, 1, 1], atol=0.01)
        controls.set("Edit/Colours/Tint", (255, 255, 255))
        controls.set("Edit/Colours/Brightness", 0.2)
        before, after = changed("Edit/Colours/Apply colour", colours)
        np.testing.assert_allclose(after, before + 0.2, atol=0.01)
        controls.set("Edit/Colours/Brightness", 0)
        controls.set("Edit/Colours/Saturation", 0)
        before, after = changed("Edit/Colours/Apply colour", colours)
        assert np.ptp(before, axis=1).max() > 0.2 and np.ptp(after, axis=1).max() < 0.01, "not grey"
        controls.set("Edit/Colours/Opacity factor", 0.5)
        before, after = changed("Edit/Colours/Apply opacity", lambda: on.scene.opacities.numpy())
        np.testing.assert_allclose(after, 0.5 * before, rtol=0.02)
        on.page.screenshot(path=str(tmp_path / "grey.png"))


@pytest.mark.slow
def test_named_selections_files_and_earlier_edits(edited: Callable[..., EditedPage], tmp_path: Path) -> None:
    with viewer(tmp_path) as app:
        on = edited(app)
        controls = on.controls
        above = on.scene.centres[:, 2] > 0
        some = int(above.sum())
        on.panel.editor.run(lambda document: document.select(above))
        controls.unfold("Named selections", "Files")
        for name in ("above", "everything"):
            controls.set("Edit/Named selections/Name", name)
            controls.press("Edit/Named selections/Store selection")
            until(lambda name=name: name in controls.handle("Edit/Named selections/Stored").options, "stored")
            controls.press("Edit/All")
            on.selects(250, "All")
        controls.set("Edit/Named selections/Stored", "above")
        controls.press("Edit/Named selections/Select")
        on.selects(above.numpy(), "the stored selection")
        controls.press("Edit/Named selections/Remove")
        stored = lambda: tuple(controls.handle("Edit/Named selections/Stored").options)  # noqa: E731
        until(lambda: stored() == ("everything",), "Remove")

        controls.set("Edit/Files/What", "selection")
        controls.set("Edit/Files/File name", "part")
        controls.set("Edit/Files/Format", ".safetensors")
        controls.press("Edit/Files/Save file")
        on.page.get_by_text(f"Saved {some} Gaussians").first.wait_for(timeout=60_000)
        assert torch.equal(load_primitives(tmp_path / "part.safetensors").centres, on.scene.centres[above])
        controls.set("Edit/Files/What", "edited scene")
        controls.set("Edit/Files/Format", ".ply")
        controls.press("Edit/Files/Save file")
        on.page.get_by_text("Saved 250 Gaussians").first.wait_for(timeout=60_000)
        assert load_primitives(tmp_path / "part.ply").count == 250
        controls.press("Edit/Delete")
        on.keeps(250 - some, "Delete")
        edits = on.panel.editor.run(lambda document: len(document.history.undo_titles))
        on.page.screenshot(path=str(tmp_path / "files.png"))
        on.panel.editor._autosave.result().close()  # as the end of the process does
    with viewer(tmp_path) as app:
        on = edited(app)
        on.page.get_by_role("button", name=f"Restore {edits} edits").wait_for(timeout=60_000)
        on.controls.press("Edit/Restore edits")
        on.keeps(250 - some, "the edits are not restored")
        assert on.panel.editor.run(lambda document: len(document.history.undo_titles)) == edits
