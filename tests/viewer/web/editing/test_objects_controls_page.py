"""Controls of the panel Objects in a real browser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from objects_of_balls import two_balls
from page_controls import Controls
from page_driver import at_rest, click_until, until
from test_objects_page import mean_colour, viewer_of_balls

from luxel.render.segment.objects import load_objects
from luxel.scenes import load_primitives
from luxel.viewer.web.editing.object_tool import ObjectTool
from luxel.viewer.web.panels.edit import EditPanel
from luxel.viewer.web.panels.objects import ObjectsPanel


@pytest.mark.slow
def test_every_control_of_objects(
    open_page: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with viewer_of_balls(tmp_path, monkeypatch, "green", "red") as app:
        page = open_page(app, width=1100, height=1000)
        controls = Controls(page, app)
        panel = controls.panel(ObjectsPanel)
        stream = controls.opened.page.stream
        controls.unfold("Camera", "Objects")
        at_rest(app, controls.client)

        def numbers(name: str) -> int:
            return panel.editor.run(lambda document: document.numbers)[name]

        def labelled(label: int) -> int:
            return int((panel.editor.objects.labels == label).sum())

        def select(rows: Any) -> None:
            panel.editor.run(lambda document: document.select(rows))

        controls.set("Objects/Object", "red")
        controls.press("Objects/Hide object")
        until(lambda: numbers("hidden") == 200, "Hide object")
        controls.press("Objects/Show object")
        until(lambda: numbers("hidden") == 0, "Show object")
        controls.press("Objects/Select object")
        until(lambda: numbers("selected") == 200, "Select object")
        controls.press("Objects/Solo")
        until(lambda: numbers("hidden") == 200, "Solo")
        controls.press("Objects/Show everything")
        until(lambda: numbers("hidden") == 0, "Show everything")

        height = two_balls().centres[:, 2]
        select((torch.arange(400) < 200) & (height > 0.2))
        taken = numbers("selected")
        controls.press("Objects/Subtract")
        until(lambda: labelled(2) == 200 - taken, "Subtract")
        controls.press("Objects/Grow object")
        until(lambda: labelled(2) > 200 - taken, "Grow object")
        grown = labelled(2)
        controls.press("Objects/Shrink object")
        until(lambda: labelled(2) < grown, "Shrink object")
        select(torch.arange(400) < 200)
        until(lambda: numbers("selected") == 200, "nothing is selected")
        controls.set("Objects/Object", "red")
        controls.press("Objects/Add selection")
        until(lambda: labelled(2) == 200, "Add selection")

        select((torch.arange(400) < 200) & (height > 0.2))
        controls.set("Objects/New name", "cap")
        controls.press("Objects/Add selection as an object")
        until(
            lambda: (tmp_path / "objects.json").is_file() and load_objects(tmp_path).named("cap") is not None,
            "the object is not saved",
        )
        until(lambda: panel._name.value == "cap", "the new object is not chosen")
        controls.unfold("Name and colour")
        controls.set("Objects/Name and colour/Name", "lid")
        controls.set("Objects/Name and colour/Colour", (20, 40, 250))
        controls.press("Objects/Name and colour/Apply")
        until(lambda: load_objects(tmp_path).named("lid") is not None, "the name is not saved")
        entry = load_objects(tmp_path).named("lid")
        assert entry is not None and entry.colour == (20, 40, 250) and labelled(entry.label) == taken
        controls.press("Objects/Name and colour/Remove from list")
        until(lambda: load_objects(tmp_path).named("lid") is None, "the object is still in the list")

        controls.unfold("Export")
        controls.set("Objects/Object", "green")
        controls.set("Objects/Export/Format", ".safetensors")
        controls.press("Objects/Export/Save file")
        until(lambda: len(list(tmp_path.glob("*.safetensors"))) == 1, "Save file")
        [file] = tmp_path.glob("*.safetensors")
        assert torch.equal(load_primitives(file).centres, two_balls().centres[200:])
        controls.set("Objects/Export/What", "everything else")
        controls.set("Objects/Export/Format", ".ply")
        with page.expect_download(timeout=60_000) as download:
            controls.press("Objects/Export/Download file")
        download.value.save_as(tmp_path / "rest.ply")
        assert torch.equal(load_primitives(tmp_path / "rest.ply").centres, two_balls().centres[:200])
        controls.set("Objects/Export/What", "the object")
        page.screenshot(path=str(tmp_path / "export.png"))

        controls.set("Show/Output", "objects")
        controls.set("Show/Overlay", 100)
        until(lambda: stream.settings.overlay == 1.0, "the overlay did not arrive")
        at_rest(app, controls.client)
        colour = np.array(panel.editor.objects.named("green").colour, float)
        flat = np.abs(mean_colour(page, of_left=False) - colour).mean()
        controls.set("Show/Overlay", 0)
        at_rest(app, controls.client)
        assert flat < 40 and np.abs(mean_colour(page, of_left=False) - colour).mean() > flat + 5
        controls.set("Show/Output", "colour")

        controls.unfold("Show", "Edit")
        edit = controls.panel(EditPanel)
        select(torch.zeros(400, dtype=torch.bool))
        controls.set("Edit/Tool", "Object")
        until(lambda: isinstance(edit._tool, ObjectTool), "no tool")
        at_rest(app, controls.client)
        pose = controls.opened.page.pose()
        x, _, z = pose.rotation.T @ (np.array([1.0, 0, 0]) - pose.position)
        place = (0.5 * pose.height / np.tan(0.5 * pose.fov_y) * x / z + pose.width / 2, pose.height / 2 + 40)
        click_until(page, place, lambda: numbers("selected") == 200, "the clicked object is not selected")
        assert bool(panel.editor.run(lambda document: document.selected)[200:].all())
        page.screenshot(path=str(tmp_path / "object.png"))
        controls.press("Objects/Delete object")
        until(lambda: app.session.status()["count"] == 200, "Delete object")
