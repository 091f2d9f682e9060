"""Tasks at the page, each with the actions that it may take; docs/viewer.md has the same table.

A tool is chosen by one action; then every point, stroke and typed value that the geometry of the task needs is one, and
one more confirms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from hands import Desk
from page_driver import until
from task_scenes import FLOATERS, tankard

from luxel.viewer.web.editing.object_tool import ObjectTool
from luxel.viewer.web.panels.camera_path import CameraPathPanel
from luxel.viewer.web.panels.compare import ComparePanel
from luxel.viewer.web.panels.edit import EditPanel
from luxel.viewer.web.panels.ruler import RulerPanel

By = Literal["mouse", "keys"]
Shown = Literal["ball", "pair", "balls", "demo", "ended"]
Stays = Callable[[Desk], bool]  # what must hold after a reload, too


@dataclass(frozen=True)
class Task:
    """What somebody wants of the page.

    Args:
        name: as in docs/viewer.md.
        by: with what it is done, and with nothing else.
        actions: how many it may take.
        run: does it and asserts that it is done; returns what must hold after a reload.
        scene: which scene is shown: a ball with its cameras; two scenes side by side; two balls without cameras; the
            tankard of the demo with floaters around it; a training that has ended.
    """

    name: str
    by: By
    actions: int
    run: Callable[[Desk], Stays | None]
    scene: Shown = "ball"


TASKS: list[Task] = []


def task(
    name: str, by: By, actions: int, scene: Shown = "ball"
) -> Callable[[Callable[[Desk], Stays | None]], None]:
    """Adds a task to the list."""

    def add(run: Callable[[Desk], Stays | None]) -> None:
        TASKS.append(Task(name, by, actions, run, scene))

    return add


def half(desk: Desk) -> int:
    """Selects about half of the scene; how many that is."""
    chosen = np.arange(desk.count) % 2 == 0
    import torch

    desk.select(torch.from_numpy(chosen))
    return int(chosen.sum())


def download(desk: Desk, act: Callable[[], None]) -> bytes:
    """What the browser gets from an action."""
    with desk.page.expect_download(timeout=120_000) as arriving:
        act()
    return Path(arriving.value.path()).read_bytes()


def select_left(desk: Desk) -> None:
    """Selects the left of the ball with a rectangle: two actions."""
    desk.hands.click(desk.tool("Rectangle (R)"))
    desk.active()
    desk.hands.drag(desk.at(-300, -300), desk.at(0, 300))
    until(lambda: 20 < desk.selected < 230, "nothing is selected")


def add_two_keyframes(desk: Desk) -> None:
    """Records two views of a camera path: four actions."""
    desk.hands.click(desk.heading("Camera path"))
    desk.hands.click(desk.button("Add keyframe"))
    desk.hands.drag(desk.at(-100, 0), desk.at(100, 20))
    desk.rest()
    desk.hands.click(desk.button("Add keyframe"))


def rulers(desk: Desk) -> Any:
    """Rulers, scale and level of the scene."""
    return desk.panel(RulerPanel).shared.present


def measure(desk: Desk) -> None:
    """Makes a ruler: three actions."""
    desk.hands.click(desk.tool("Ruler (M)"))
    desk.active()
    desk.hands.click(desk.at(-60, 0))
    until(lambda: len(desk.panel(RulerPanel)._points) == 1, "no click arrived")
    desk.hands.click(desk.at(60, 30))
    until(lambda: len(rulers(desk).rulers) == 1, "there is no ruler")


def _leaves(desk: Desk, button: str, count: int) -> Stays:
    """Presses a button on the image that deletes all but so many Gaussians, and waits until they are gone."""
    desk.hands.click(desk.button(button))
    until(lambda: desk.count == count, f"{button} did not leave {count}")
    return lambda desk: desk.count == count


@task("Delete what lies in a rectangle", "mouse", 3)
def _(desk: Desk) -> Stays:
    select_left(desk)
    left = desk.count - desk.selected
    return _leaves(desk, "Delete", left)


@task("Clean up the floaters of the demo: keep what an outline holds", "mouse", 4, "demo")
def _(desk: Desk) -> Stays:
    desk.hands.click(desk.tool("Lasso (L)"))
    desk.hands.click(desk.field("Through"))
    desk.active()
    (left, right), (top, bottom) = ((edge - 12, other + 12) for edge, other in desk.bounds(tankard()))
    desk.hands.drag((left, top), (right, top), (right, bottom), (left, bottom), (left, top + 5))
    until(lambda: desk.selected == desk.count - FLOATERS, "the outline does not hold the tankard")
    return _leaves(desk, "Crop", desk.selected)


@task("Keep only what a rectangle holds", "mouse", 3)
def _(desk: Desk) -> Stays:
    select_left(desk)
    return _leaves(desk, "Crop", desk.selected)


@task("Select what a sphere holds", "mouse", 3)
def _(desk: Desk) -> None:
    desk.hands.click(desk.tool("Sphere (G)"))
    desk.hands.type(desk.field("Radius"), 1.2)
    desk.hands.click(desk.offer("Select"))
    until(lambda: desk.selected == desk.count, "the sphere around the ball does not hold it")


@task("Select what a box of a size holds", "mouse", 4)
def _(desk: Desk) -> None:
    desk.hands.click(desk.tool("Box (X)"))
    for axis in "xy":
        desk.hands.type(desk.field(f"Size, {axis}"), 4)
    desk.hands.click(desk.offer("Select"))
    until(lambda: 50 < desk.selected < 200, "the box holds another part of the ball")


@task("Hide what a polygon of four corners holds", "mouse", 7)
def _(desk: Desk) -> None:
    desk.hands.click(desk.tool("Polygon (P)"))
    desk.active()
    for corner in ((-200, -200), (0, -200), (0, 200), (-200, 200), (-200, -200)):
        desk.hands.click(desk.at(*corner))
    until(lambda: desk.selected > 10, "nothing is selected")
    chosen = desk.selected
    desk.hands.click(desk.button("Hide"))
    until(lambda: desk.hidden == chosen, "nothing is hidden")


@task("Look at a painted part alone", "mouse", 3)
def _(desk: Desk) -> None:
    desk.hands.click(desk.tool("Brush (B)"))
    desk.active()
    desk.hands.drag(desk.at(-60, 0), desk.at(60, 10))
    until(lambda: desk.selected > 0, "nothing is painted")
    rest = desk.count - desk.selected
    desk.hands.click(desk.button("Solo"))
    until(lambda: desk.hidden == rest, "the rest is to be seen")


@task("Take an edit back, and make it again", "mouse", 2)
def _(desk: Desk) -> None:
    chosen = half(desk)
    desk.hands.click(desk.tool("Undo"))
    until(lambda: desk.selected == 0, "the selection is still there")
    desk.hands.click(desk.tool("Redo"))
    until(lambda: desk.selected == chosen, "the selection did not come back")


@task("Export a selection", "mouse", 1)
def _(desk: Desk) -> None:
    chosen = half(desk)
    content = download(desk, lambda: desk.hands.click(desk.button("Export")))
    assert f"element vertex {chosen}".encode() in content


@task("Select one primitive", "mouse", 2)
def _(desk: Desk) -> None:
    desk.hands.click(desk.tool("Click (V)"))
    desk.active()
    desk.hands.click(desk.at(0, 0))
    until(lambda: desk.selected == 1, "not one is selected")


@task("Measure a distance", "mouse", 3)
def _(desk: Desk) -> Stays:
    measure(desk)
    length = desk.panel(RulerPanel)._length.value
    assert length.endswith(" units")
    return lambda desk: desk.panel(RulerPanel)._length.value == length


@task("Set the scale by a known length", "mouse", 5)
def _(desk: Desk) -> Stays:
    measure(desk)
    desk.hands.type(desk.field("This is"), 0.42)
    desk.hands.click(desk.button("Set scale"))
    until(lambda: desk.panel(RulerPanel)._length.value == "42.00 cm", "there is no scale")
    return lambda desk: desk.panel(RulerPanel)._length.value == "42.00 cm"


@task("Level the floor by three points", "mouse", 4)
def _(desk: Desk) -> Stays:
    desk.hands.click(desk.tool("Level by three points (J)"))
    desk.active()
    for number, place in enumerate(((-60, 20), (60, 20), (0, -60))):
        desk.hands.click(desk.at(*place))
        done = lambda number=number: (  # noqa: E731
            len(desk.panel(RulerPanel)._points) > number or rulers(desk).up is not None
        )
        until(done, "no click arrived")
    until(lambda: rulers(desk).up is not None, "nothing is level")
    up = rulers(desk).up
    return lambda desk: np.allclose(rulers(desk).up, up)


@task("Compare a photograph with its render", "mouse", 2)
def _(desk: Desk) -> None:
    desk.hands.click(desk.tool("Compare"))
    line = desk.page.get_by_role("slider", name="Line between")
    line.wait_for(timeout=60_000)
    desk.rest()
    box = line.bounding_box()
    x = box["x"] + box["width"] / 2
    desk.hands.drag((x, 200), (x - 150, 205))
    until(lambda: float(desk.panel(ComparePanel)._split.value) < 45, "the line was not moved")


@task("See what lies under a pixel", "mouse", 2)
def _(desk: Desk) -> None:
    desk.hands.click(desk.tool("Inspect (I)"))
    desk.active()
    desk.hands.click(desk.at(0, 0))
    desk.page.get_by_text("contribut").first.wait_for(timeout=60_000)


@task("Show the depth", "mouse", 2)
def _(desk: Desk) -> Stays:
    desk.hands.choose(desk.field("Output"), "depth")
    until(lambda: desk.output == "depth", "the output is the old one")
    return lambda desk: desk.output == "depth"


@task("Return to where the page began", "mouse", 1)
def _(desk: Desk) -> None:
    start = desk.position
    desk.page.keyboard.press("w", delay=400)
    until(lambda: not np.allclose(desk.position, start, atol=1e-3), "the camera has not moved")
    desk.hands.click(desk.page.locator(".luxel-buttons").get_by_role("button", name="Reset the view"))
    until(lambda: np.allclose(desk.position, start, atol=1e-3), "the camera is elsewhere")


@task("Fly to a point", "mouse", 1)
def _(desk: Desk) -> None:
    start = desk.position
    desk.hands.double_click(desk.at(30, 10))
    until(lambda: not np.allclose(desk.position, start, atol=1e-2), "the camera has not moved")


@task("Go to the next photograph", "mouse", 1)
def _(desk: Desk) -> Stays:
    start = desk.position
    desk.hands.click(desk.button("Next ▶"))
    place = desk.app.session.views[1].camera.cam_to_world[:3, 3].numpy()
    until(lambda: np.allclose(desk.position, place, atol=1e-3), "the camera is not at the next view")
    assert not np.allclose(start, place, atol=1e-2)
    return lambda desk: np.allclose(desk.position, place, atol=1e-2)


@task("Make a camera path of two views", "mouse", 4)
def _(desk: Desk) -> Stays:
    add_two_keyframes(desk)
    until(lambda: len(desk.panel(CameraPathPanel)._keyframes) == 2, "there are no two keyframes")
    return lambda desk: len(desk.panel(CameraPathPanel)._keyframes) == 2


@task("Make a film of two views", "mouse", 7)
def _(desk: Desk) -> None:
    add_two_keyframes(desk)
    desk.panel(CameraPathPanel).shared.apply(
        "Duration", lambda path: replace(path, seconds=0.5)
    )  # a short one
    desk.hands.click(desk.button("Film …"))
    assert shared(desk, "Make film")[4:8] == b"ftyp", "it is no film"


def share(desk: Desk) -> Any:
    """The menu Share."""
    return desk.page.get_by_role("dialog", name="Share")


def shared(desk: Desk, start: str) -> bytes:
    """The file that the chosen entry of Share makes."""
    desk.hands.click(share(desk).get_by_role("button", name=start))
    ready = share(desk).get_by_role("button", name="Download: ").first
    return download(desk, lambda: desk.hands.click(ready))


@task("Save an image of the view", "mouse", 3)
def _(desk: Desk) -> None:
    desk.hands.click(desk.page.get_by_role("button", name="Share (Y)"))
    assert shared(desk, "Save image").startswith(b"\x89PNG")


@task("Export the scene as a web page", "mouse", 4)
def _(desk: Desk) -> None:
    desk.hands.click(desk.page.get_by_role("button", name="Share (Y)"))
    desk.hands.click(share(desk).get_by_role("tab", name="Web page"))
    assert b"<!doctype html>" in shared(desk, "Make web page")[:100]


@task("Export the scene in another format", "mouse", 5)
def _(desk: Desk) -> None:
    desk.hands.click(desk.page.get_by_role("button", name="Share (Y)"))
    desk.hands.click(share(desk).get_by_role("tab", name="Scene file"))
    desk.hands.actions += 1
    share(desk).get_by_label("Format").select_option(".splat")
    assert len(shared(desk, "Save scene")) == 32 * desk.count


@task("Compare two scenes", "mouse", 1, "pair")
def _(desk: Desk) -> None:
    line = desk.page.get_by_role("slider", name="Line between")
    line.wait_for(timeout=60_000)
    desk.rest()
    before = desk.page.evaluate("document.querySelector('[role=slider][aria-label^=Line]').ariaValueNow")
    box = line.bounding_box()
    x = box["x"] + box["width"] / 2
    desk.hands.drag((x, 200), (x - 150, 205))
    until(lambda: line.get_attribute("aria-valuenow") != before, "the line was not moved")


@task("Select an object, leaving out a part", "mouse", 3, "balls")
def _(desk: Desk) -> None:
    desk.hands.click(desk.tool("Object (O)"))
    desk.active()
    tool = desk.panel(EditPanel)._tool
    assert isinstance(tool, ObjectTool)
    x, y = desk.on_page((-1.0, 0.0, 0.0))
    desk.hands.click((x, y))
    until(lambda: desk.selected > 100 and tool._target is not None, "nothing is selected")
    desk.hands.click((x, y - 14), held="Alt")
    until(lambda: tool._target is not None and len(tool._target.clicked.beside) == 1, "no point beside")


@task("Clean up after a training: delete what an outline holds", "mouse", 3, "ended")
def _(desk: Desk) -> Stays:
    desk.hands.click(desk.page.get_by_role("region", name="Stopped").get_by_role("button", name="Clean up"))
    desk.active()
    desk.hands.drag(*(desk.at(*corner) for corner in ((-200, -200), (0, -200), (0, 200), (-200, 200))))
    until(lambda: 20 < desk.selected < 230, "nothing is selected")
    left = desk.count - desk.selected
    desk.hands.click(desk.button("Delete"))
    until(lambda: desk.count == left, "nothing was deleted")
    return lambda desk: desk.count == left and not desk.page.locator(".luxel-end").is_visible()


@task("Delete the selection", "keys", 2)
def _(desk: Desk) -> Stays:
    desk.hands.key("Control+a")
    until(lambda: desk.selected == 250, "not all is selected")
    desk.hands.key("Delete")
    until(lambda: desk.count == 0, "nothing was deleted")
    return lambda desk: desk.count == 0


@task("Hide all but the selection", "keys", 1)
def _(desk: Desk) -> None:
    chosen = half(desk)
    desk.hands.key("Shift+O")
    until(lambda: desk.hidden == 250 - chosen, "the rest is to be seen")


@task("Undo and redo", "keys", 2)
def _(desk: Desk) -> None:
    chosen = half(desk)
    desk.hands.key("Control+z")
    until(lambda: desk.selected == 0, "nothing was taken back")
    desk.hands.key("Control+y")
    until(lambda: desk.selected == chosen, "nothing was made again")


@task("Show another output", "keys", 1)
def _(desk: Desk) -> Stays:
    desk.hands.key("3")
    until(lambda: desk.output == "depth", "the output is the old one")
    return lambda desk: desk.output == "depth"


@task("Move the line of a comparison", "keys", 3)
def _(desk: Desk) -> None:
    desk.hands.key("c")
    line = desk.page.get_by_role("slider", name="Line between")
    line.wait_for(timeout=60_000)
    desk.rest()
    desk.hands.tab_to(line)
    split = float(desk.panel(ComparePanel)._split.value)
    desk.hands.key("ArrowLeft")
    until(lambda: float(desk.panel(ComparePanel)._split.value) < split, "the line was not moved")


@task("Save an image of the view", "keys", 5)
def _(desk: Desk) -> None:
    desk.hands.key("y")
    desk.hands.tab_to(share(desk).get_by_role("button", name="Save image"))
    desk.hands.key("Enter")
    ready = share(desk).get_by_role("button", name="Download: ").first
    ready.wait_for(timeout=60_000)
    desk.hands.tab_to(ready)
    assert download(desk, lambda: desk.hands.key("Enter")).startswith(b"\x89PNG")


@task("Move, and return to where the page began", "keys", 2)
def _(desk: Desk) -> None:
    start = desk.position
    desk.hands.actions += 1
    desk.page.keyboard.press("w", delay=400)
    until(lambda: not np.allclose(desk.position, start, atol=1e-3), "the camera has not moved")
    desk.hands.key("Home")
    until(lambda: np.allclose(desk.position, start, atol=1e-3), "the camera is elsewhere")


@task("Copy a link to the view", "keys", 1)
def _(desk: Desk) -> None:
    desk.hands.key("u")
    desk.page.get_by_text("The link to this view is copied.").wait_for(timeout=60_000)
    text = desk.page.evaluate("navigator.clipboard.readText()")
    assert "position=" in text and text.startswith(desk.app.url.rstrip("/"))


@task("Hide the panel and bring it back", "keys", 2)
def _(desk: Desk) -> None:
    shown = lambda: desk.page.locator(".luxel-heading:visible").count()  # noqa: E731
    before = shown()
    desk.hands.key("h")
    until(lambda: shown() == 0, "the panel is still there")
    desk.hands.key("h")
    until(lambda: shown() == before, "the panel is gone")


@task("Run a command by its name", "keys", 3)
def _(desk: Desk) -> None:
    desk.hands.key("Control+k")
    desk.page.get_by_role("dialog", name="All commands").wait_for(timeout=60_000)
    desk.hands.write("Select all")
    desk.page.wait_for_timeout(500)
    desk.hands.key("Enter")
    until(lambda: desk.selected == 250, "the command was not run")


@task("See all keys", "keys", 1)
def _(desk: Desk) -> None:
    desk.hands.key("?")
    card = desk.page.get_by_role("dialog", name="Controls")
    card.wait_for(timeout=60_000)
    for words in ("Rectangle", "Ruler", "Compare", "Redo"):
        assert words in card.inner_text()


@task("Leave a tool", "keys", 2)
def _(desk: Desk) -> None:
    desk.hands.key("r")
    desk.active()
    desk.hands.key("Escape")
    desk.page.locator("#luxel-strokes").wait_for(state="detached")


def table() -> str:
    """The tasks as docs/viewer.md lists them."""
    rows = [f"| {task.name} | {task.by} | {task.actions} |" for task in TASKS]
    return "\n".join(["| task | with | actions |", "|---|---|---|", *rows])
