"""Bars on the image, without a browser."""

from __future__ import annotations

import json

import pytest

from luxel.viewer.web.image_bar import CLOSE, MAX_TEXT, ImageBars


def test_bars_stack_change_and_go() -> None:
    bars, sent = ImageBars(), list[int]()
    bars.on_change(lambda: sent.append(len(bars.state()["bars"])))
    bars.show("a", "first", [("Do", lambda: None)])
    bars.show("b", "second", seconds=9.0)
    bars.show("a", "first, again", [("Do", lambda: None), ("Leave", lambda: None)])
    assert json.loads(json.dumps(bars.state())) == {
        "bars": [
            {"name": "a", "text": "first, again", "buttons": ["Do", "Leave"], "seconds": 0.0},
            {"name": "b", "text": "second", "buttons": [], "seconds": 9.0},
        ]
    }
    bars.show("b", "second", seconds=9.0)
    assert sent == [1, 2, 2], "the same again is not sent twice"
    assert bars.has("a", "Leave") and not bars.has("b", "Leave") and not bars.has("c", "Leave")
    bars.hide("a")
    bars.hide("a")
    assert sent == [1, 2, 2, 1]
    bars.show("c", "x" * 1000)
    assert len(bars.state()["bars"][-1]["text"]) == MAX_TEXT + 2


def test_buttons_are_pressed_while_they_mean_what_the_page_shows() -> None:
    bars, done = ImageBars(), list[str]()
    bars.show("a", "Discard?", [("Discard", lambda: done.append("discard"))], lambda: done.append("closed"))
    for name, button, label in (("a", 0, "Restore"), ("a", 1, "Discard"), ("b", 0, "Discard"), ("a", -1, "")):
        bars.press(name, button, label)
    assert done == []
    bars.press("a", 0, "Discard")
    assert done == ["discard"] and bars.state()["bars"], "the bar stays until something hides it"
    bars.press("a", CLOSE)
    bars.press("a", CLOSE)
    assert done == ["discard", "closed"] and not bars.state()["bars"]


def test_a_bar_has_at_most_three_buttons_and_a_page_that_is_gone_harms_none() -> None:
    bars = ImageBars()

    def gone() -> None:
        raise RuntimeError("the page is gone")

    bars.on_change(gone)
    bars.show("a", "text")
    with pytest.raises(ValueError, match="at most 3, got 4"):
        bars.show("b", "text", [(str(i), lambda: None) for i in range(4)])
    assert [bar["name"] for bar in bars.state()["bars"]] == ["a"]
