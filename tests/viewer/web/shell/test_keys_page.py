"""Keys of the page after clicks, choices and in fields, in a real browser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from page_driver import FakeTrainerRunning, newest_client, ring, until
from shown import TrainingSession, ViewerApp

from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.panels.edit import EditPanel

FOCUSED = "document.activeElement === document.body"


def _field(page: Any, label: str) -> Any:
    return page.get_by_label(label, exact=True).first


def test_a_dropdown_gives_the_keys_back_and_says_no_match(
    shown: ViewerApp, open_page: Callable[..., Any]
) -> None:
    page = open_page(shown)
    client = newest_client(shown)
    output, stream = _field(page, "Output"), shown._pages[client.client_id].page.stream
    output.click()
    page.get_by_role("option", name="depth").click()
    until(lambda: stream.settings.output == "depth", "the output was not chosen")
    until(lambda: page.evaluate(FOCUSED), "the dropdown keeps the keys")
    start = Pose.of_client(client.camera).position.copy()
    page.keyboard.press("w", delay=300)
    until(lambda: bool((Pose.of_client(client.camera).position != start).any()), "W moves nothing")
    assert output.input_value() == "depth"
    output.click()
    page.keyboard.type("offr")
    page.get_by_text("No match").wait_for()
    output.click()
    page.get_by_text("No match").wait_for()
    page.keyboard.press("Escape")
    until(lambda: page.evaluate(FOCUSED), "Escape does not leave the field")
    assert output.input_value() == "depth" and page.get_by_text("No match").count() == 0
    output.click()
    page.keyboard.type("alph")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    until(lambda: stream.settings.output == "alpha", "no choice by keyboard")
    until(lambda: page.evaluate(FOCUSED), "a choice by keyboard keeps the keys")


@pytest.mark.slow
def test_redo_has_the_keys_of_every_habit(shown: ViewerApp, open_page: Callable[..., Any]) -> None:
    page = open_page(shown)
    opened = shown._pages[newest_client(shown).client_id]
    editor = next(panel.editor for panel in opened.panels if isinstance(panel, EditPanel))
    selected = lambda: editor.run(lambda document: document.numbers["selected"])  # noqa: E731
    page.locator(".luxel-buttons").wait_for()
    start = Pose.of_client(newest_client(shown).camera).position.copy()
    page.keyboard.press("Control+Shift+a", delay=200)
    page.keyboard.press("Control+a", delay=200)
    until(lambda: selected() == 250, "no edit")
    page.wait_for_timeout(500)
    assert (Pose.of_client(newest_client(shown).camera).position == start).all(), "a command moves the camera"
    box = page.get_by_label("Show cameras").first
    box.focus()  # a check box that has the focus of the keyboard must not swallow them
    for keys in ("Control+y", "Control+Shift+z"):
        page.keyboard.press("Control+z")
        until(lambda: selected() == 0, "Ctrl+Z takes nothing back")
        page.keyboard.press(keys)
        until(lambda: selected() == 250, f"{keys} does not redo")
    page.keyboard.press("Control+z")


@pytest.mark.slow
def test_space_pauses_after_a_click_and_presses_what_the_keyboard_chose(
    open_page: Callable[..., Any],
) -> None:
    with FakeTrainerRunning() as trainer, ViewerApp(TrainingSession(trainer, ring()), port=0) as app:
        page = open_page(app)
        page.locator(".luxel-buttons").wait_for()
        button = page.get_by_role("button", name="Reset view").last
        button.click()
        until(lambda: page.evaluate(FOCUSED), "the button keeps the keys")
        for paused in (True, False):
            page.keyboard.press(" ")
            until(lambda paused=paused: trainer.paused is paused, "Space does not pause after a click")
        button.focus()
        page.keyboard.press(" ")
        page.wait_for_timeout(300)
        assert not trainer.paused, "Space is of the button that the keyboard chose"
        assert page.evaluate("document.activeElement.textContent") == "Reset view", "its place is kept"
