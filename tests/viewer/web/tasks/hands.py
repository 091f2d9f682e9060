"""A person at a page of the viewer whose actions are counted, and what a task finds there."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from page_driver import at_rest, newest_client, until
from shown import ViewerApp

from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.panels.edit import EditPanel

Point = tuple[float, float]
MAX_TABS = 60  # from the beginning of the page to any control of the image


class Hands:
    """Does what a person does on a page and counts it: a click, a drag, a typed value and a key are one action each."""

    def __init__(self, page: Any) -> None:
        self.page, self.actions = page, 0

    def click(self, target: Any, *, held: str = "") -> None:
        """Clicks an element of the page, or a position of the image, with a key held."""
        self.actions += 1
        if isinstance(target, tuple):
            if held:
                self.page.keyboard.down(held)
            self.page.mouse.click(*target)
            if held:
                self.page.keyboard.up(held)
        else:
            target.click(timeout=60_000)

    def double_click(self, place: Point) -> None:
        """Two clicks in quick succession, one action."""
        self.actions += 1
        self.page.mouse.dblclick(*place)

    def drag(self, *path: Point) -> None:
        """Draws with the button held, from corner to corner."""
        self.actions += 1
        self.page.mouse.move(*path[0])
        self.page.mouse.down()
        for place in path[1:]:
            self.page.mouse.move(*place, steps=8)
        self.page.mouse.up()

    def type(self, field: Any, value: object) -> None:
        """Replaces what a field holds."""
        self.actions += 1
        field.fill(str(value), timeout=60_000)
        field.press("Enter")

    def choose(self, field: Any, option: str) -> None:
        """Opens a list and presses one of its entries: two actions."""
        self.click(field)
        self.click(self.page.get_by_role("option", name=option, exact=True))

    def key(self, *keys: str) -> None:
        """Presses keys or combinations of keys, each an action."""
        for key in keys:
            self.actions += 1
            self.page.keyboard.press(key)

    def tab_to(self, target: Any) -> None:
        """Goes to a control by Tab, one action, as often as it takes."""
        self.actions += 1
        for _ in range(MAX_TABS):
            self.page.keyboard.press("Tab")
            if target.evaluate("node => node === document.activeElement"):
                return
        raise AssertionError("Tab does not reach the control")

    def write(self, text: str) -> None:
        """Types where the focus is, one action."""
        self.actions += 1
        self.page.keyboard.type(text)


class Desk:
    """A page at which a task is done, and what the viewer knows of it.

    Args:
        page: of the browser, at the newest client of the viewer.
        app: the viewer.
    """

    def __init__(self, page: Any, app: ViewerApp) -> None:
        self.page, self.app, self.hands = page, app, Hands(page)
        self.page.locator(".luxel-buttons").wait_for(timeout=60_000)
        self.rest()

    @property
    def client(self) -> Any:
        return newest_client(self.app)

    @property
    def opened(self) -> Any:
        return self.app._pages[self.client.client_id]

    def panel(self, kind: type[Any]) -> Any:
        """The panel of a type."""
        return next(panel for panel in self.opened.panels if isinstance(panel, kind))

    def rest(self) -> None:
        """Waits until the image is there in full."""
        at_rest(self.app, self.client)

    def tool(self, label: str) -> Any:
        """An icon of the toolbar, by the beginning of its name."""
        return self.page.get_by_role("toolbar", name="Tools").get_by_role("button", name=label)

    def button(self, name: str) -> Any:
        """A button of the page by its exact name, the first where there are several."""
        return self.page.get_by_role("button", name=name, exact=True).first

    def offer(self, name: str) -> Any:
        """A button in the line of the active tool."""
        return self.page.locator(".luxel-toolline").get_by_role("button", name=name, exact=True)

    def heading(self, name: str) -> Any:
        """The heading of a folder of the panel."""
        return self.page.locator(".luxel-heading").get_by_text(name, exact=True)

    def field(self, label: str) -> Any:
        """A field of the panel by its exact name."""
        return self.page.get_by_label(label, exact=True).first

    def active(self) -> None:
        """Waits until drags and clicks belong to the tool that was chosen."""
        self.page.locator(".luxel-toolbar [aria-pressed=true]").first.wait_for(timeout=60_000)
        self.page.wait_for_timeout(600)  # for the connection of the tool

    @property
    def selected(self) -> int:
        return self.panel(EditPanel).editor.run(lambda document: int(document.selected.sum()))

    @property
    def count(self) -> int:
        return self.app.session.status()["count"]

    @property
    def hidden(self) -> int:
        return self.panel(EditPanel).editor.run(lambda document: document.numbers["hidden"])

    def select(self, mask: Any) -> None:
        """Selects primitives without an action, as the start of a task."""
        self.panel(EditPanel).editor.run(lambda document: document.select(mask))
        self.page.locator(".luxel-count:visible").wait_for(timeout=60_000)

    @property
    def position(self) -> np.ndarray:
        return Pose.of_client(self.client.camera).position.copy()

    @property
    def output(self) -> str:
        return self.opened.page.stream.settings.output

    def centre(self) -> Point:
        """The middle of the image, pixels of the page."""
        box = self.page.evaluate(
            "(() => { const b = window.__viserMutable.canvas.getBoundingClientRect();"
            " return [b.left + b.width / 2, b.top + b.height / 2] })()"
        )
        return float(box[0]), float(box[1])

    def at(self, x: float, y: float) -> Point:
        """A position of the image, pixels from its middle."""
        middle = self.centre()
        return middle[0] + x, middle[1] + y

    def on_page(self, point: tuple[float, float, float]) -> Point:
        """Where a point of the scene is on the page."""
        pose = self.opened.page.pose()
        x, y, z = pose.rotation.T @ (np.array(point) - pose.position)
        focal = 0.5 * pose.height / np.tan(0.5 * pose.fov_y)
        return self.at(focal * x / z, focal * y / z)

    def bounds(self, points: torch.Tensor) -> tuple[Point, Point]:
        """Left and right, top and bottom of what points of the scene, [N, 3], cover of the page."""
        x, y = np.array([self.on_page(tuple(point)) for point in points.tolist()]).T
        return (x.min(), x.max()), (y.min(), y.max())

    def reload(self) -> None:
        """Loads the page again; what stays is that of its next client."""
        before, server = self.client.client_id, self.app._server
        assert server is not None
        self.page.reload()
        until(lambda: max(server.get_clients(), default=-1) > before, "the page did not come again")
        until(lambda: self.client.client_id in self.app._pages, "the page has no panels")
        self.page.locator(".luxel-buttons").wait_for(timeout=60_000)
        self.rest()
