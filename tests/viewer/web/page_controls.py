"""The controls of a page by name, and how tests drive them in a browser."""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import viser
from page_driver import newest_client, until
from shown import ViewerApp

from luxel.viewer.web.panels.edit import EditPanel


@dataclass(frozen=True)
class Control:
    """A control of a page.

    Attributes:
        handle: viser's.
        button: which one, where the handle is a group of buttons.
    """

    handle: Any
    button: str | None = None


def controls_of(gui: Any, panels: Iterable[Any]) -> dict[str, Control]:
    """The controls of a page by name: ``Panel/Folder/Label``, those of an editing tool ``Edit/Tool/Label``.

    Args:
        gui: viser's GuiApi, of a page or of a server.
        panels: of the page; tells which tool a control belongs to.
    """
    tools: dict[str, str] = {}
    renamed: dict[str, str] = {}
    for panel in panels:
        if isinstance(panel, EditPanel):
            renamed[panel._resume._impl.uuid] = "Restore edits"  # its label has the number of edits
            for name, tool in panel._tools.items():
                tools.update({control._impl.uuid: name for control in tool.controls})
    folders, controls = gui._container_handle_from_uuid, {}
    for handle in list(gui._gui_input_handle_from_uuid.values()):
        if not hasattr(handle, "label"):  # a progress bar
            continue
        uuid = handle._impl.uuid
        path = [tools[uuid]] if uuid in tools else []
        parent = folders.get(handle._impl.parent_container_id)
        while parent is not None and hasattr(parent, "_impl"):
            path.insert(0, parent.label)
            parent = folders.get(parent._impl.parent_container_id)
        if isinstance(handle, viser.GuiButtonGroupHandle):
            for option in handle.options:
                controls["/".join([*path, option])] = Control(handle, option)
        else:
            controls["/".join([*path, renamed.get(uuid, handle.label)])] = Control(handle)
    return controls


class Controls:
    """The controls of the newest page of a viewer, as they were named when it was opened."""

    def __init__(self, page: Any, app: ViewerApp) -> None:
        self.page, self.client = page, newest_client(app)
        self.opened = app._pages[self.client.client_id]
        self._controls = {
            **controls_of(app.server.gui, ()),
            **controls_of(self.client.gui, self.opened.panels),
        }

    def panel(self, kind: type[Any]) -> Any:
        """The panel of a type."""
        return next(panel for panel in self.opened.panels if isinstance(panel, kind))

    def handle(self, name: str) -> Any:
        """viser's handle of a control."""
        return self._controls[name].handle

    def unfold(self, *folders: str) -> None:
        """Clicks the headings of folders, again where a busy page missed the click; an open one is folded."""
        for folder in folders:
            self._fold(folder, self._open(folder))

    def _fold(self, folder: str, before: bool) -> None:
        for _ in range(6):
            self.page.get_by_text(folder, exact=True).first.click()
            with suppress(AssertionError):
                until(lambda: self._open(folder) != before, f"{folder} stays as it was", 10)
                break

    def _open(self, folder: str) -> bool:
        """Whether a control of a folder is to be seen."""
        names = [name for name in self._controls if folder in name.split("/")[:-1]]
        return any(self.element(name).is_visible() for name in names)

    def _row(self, name: str) -> Any:
        """The label of a control and what stands beside it."""
        return self.page.locator(f'label[for="{self.handle(name)._impl.uuid}"]').locator("xpath=../../..")

    def element(self, name: str) -> Any:
        """What a person uses: the button, or the field."""
        control = self._controls[name]
        if control.button is not None:
            return self._row(name).get_by_role("button", name=control.button, exact=True)
        if isinstance(control.handle, viser.GuiTextHandle | viser.GuiRgbHandle | viser.GuiSliderHandle):
            return self._row(name).locator("input").last
        return self.page.locator(f'[id="{control.handle._impl.uuid}"]')

    def press(self, *names: str) -> None:
        """Clicks buttons."""
        for name in names:
            self.element(name).click(timeout=60_000)

    def set(self, name: str, value: Any) -> None:
        """Gives a control a value as a person does until the server has it: a busy page may lose one."""
        handle = self.handle(name)
        if isinstance(handle, viser.GuiMultiSliderHandle):
            self._drag_thumbs(name, value)
            step = 1.01 * handle.step  # thumbs move by pixels
            until(lambda: np.allclose(handle.value, value, rtol=0, atol=step), f"{name} has {handle.value}")
            return
        if isinstance(handle, viser.GuiUploadButtonHandle):
            self.page.locator(f'[id="file_upload_{handle._impl.uuid}"]').set_input_files(Path(value))
            return
        from playwright.sync_api import TimeoutError as NotYet

        for _ in range(4):
            with suppress(AssertionError, NotYet):
                self._enter(name, value)
                until(lambda: _same(handle.value, value), "not yet", 20)
                return
            self.page.keyboard.press("Escape")  # closes a list that shows too late
        raise AssertionError(f"{name} has {handle.value}, not {value}")

    def _enter(self, name: str, value: Any) -> None:
        """Types or chooses a value."""
        handle, element = self.handle(name), self.element(name)
        if isinstance(handle, viser.GuiDropdownHandle):
            element.click(timeout=20_000)
            self.page.get_by_role("option", name=value, exact=True).click(timeout=20_000)
        elif isinstance(handle, viser.GuiCheckboxHandle):
            element.set_checked(value, timeout=20_000)
        elif isinstance(handle, viser.GuiRgbHandle):
            element.fill("rgb({}, {}, {})".format(*value), timeout=20_000)
            element.press("Enter")
        elif isinstance(handle, viser.GuiVector3Handle):
            for place, number in enumerate(value):
                self._row(name).locator("input").nth(place).fill(str(number), timeout=20_000)
        else:
            element.fill(str(value), timeout=20_000)

    def _drag_thumbs(self, name: str, values: Iterable[float]) -> None:
        """Drags the thumbs of a slider with several to values; none passes another one on its path."""
        handle, row = self.handle(name), self._row(name)
        targets = list(enumerate(values))
        for place, value in targets if targets[0][1] < handle.value[0] else reversed(targets):
            thumb = row.locator(".multi-slider-thumb").nth(place)
            thumb.scroll_into_view_if_needed(timeout=60_000)
            track = row.locator(".multi-slider-track-container").bounding_box()
            x = track["x"] + track["width"] * (value - handle.min) / (handle.max - handle.min)
            for _ in range(10):  # a busy page may lose moves of the mouse
                here = thumb.bounding_box()
                start, y = here["x"] + here["width"] / 2, here["y"] + here["height"] / 2
                self.page.mouse.move(start, y)
                self.page.mouse.down()
                for part in (0.25, 0.5, 0.75, 1.0):
                    self.page.wait_for_timeout(200)
                    self.page.mouse.move(start + part * (x - start), y)
                self.page.wait_for_timeout(500)
                self.page.mouse.up()
                if math.isclose(handle.value[place], value, abs_tol=1.01 * handle.step):
                    break


def _same(actual: Any, expected: Any) -> bool:
    """Whether a control has a value; numbers as fields round them."""
    if isinstance(expected, tuple):
        return all(_same(a, b) for a, b in zip(actual, expected, strict=True))
    if isinstance(expected, int | float) and not isinstance(expected, bool):
        return math.isclose(actual, expected, rel_tol=1e-3, abs_tol=1e-4)
    return actual == expected
