"""Bars on the image of one page: a sentence, up to three buttons, and a cross that closes it. Several stack."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

log = logging.getLogger("luxel.viewer")

Act = Callable[[], object]
MAX_BUTTONS = 3
MAX_TEXT = 400  # characters of a bar; more is cut
CLOSE = "close"  # what a page sends instead of the number of a button


@dataclass(frozen=True)
class ImageBar:
    """A bar.

    Args:
        text: plain text, one or two sentences.
        buttons: labels, and what is called when one is pressed; the bar stays until something hides it.
        closed: called when it was closed by its cross; the bar is hidden then in any case.
        seconds: after which the page closes it; 0: it stays.
    """

    text: str
    buttons: tuple[tuple[str, Act], ...] = ()
    closed: Act = lambda: None
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if len(self.buttons) > MAX_BUTTONS:
            raise ValueError(f"buttons must be at most {MAX_BUTTONS}, got {len(self.buttons)}")

    @property
    def labels(self) -> list[str]:
        """Of the buttons."""
        return [label for label, _ in self.buttons]


class ImageBars:
    """The bars of one page, in the order in which they were shown; its methods may be called from any thread."""

    def __init__(self) -> None:
        self._bars: dict[str, ImageBar] = {}
        self._callbacks: list[Act] = []
        self._lock = threading.Lock()

    def on_change(self, callback: Act) -> None:
        """Calls ``callback`` whenever `state` may have changed."""
        self._callbacks.append(callback)

    def state(self) -> dict[str, Any]:
        """``bars``: name, text, labels of the buttons and seconds of each; as JSON has it."""
        with self._lock:
            return {
                "bars": [
                    {"name": name, "text": bar.text, "buttons": bar.labels, "seconds": bar.seconds}
                    for name, bar in self._bars.items()
                ]
            }

    def show(
        self,
        name: str,
        text: str,
        buttons: Sequence[tuple[str, Act]] = (),
        closed: Act = lambda: None,
        seconds: float = 0.0,
    ) -> None:
        """Shows a bar, or changes the one of this name.

        Args:
            name: unique on the page.
            text, buttons, closed, seconds: see `ImageBar`.
        """
        text = text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + " …"
        bar = ImageBar(text, tuple(buttons), closed, seconds)
        with self._lock:
            before, self._bars[name] = self._bars.get(name), bar
        if before is None or (before.text, before.labels) != (bar.text, bar.labels):
            self._changed()

    def has(self, name: str, label: str) -> bool:
        """Whether there is a bar of a name with a button of a label."""
        with self._lock:
            bar = self._bars.get(name)
        return bar is not None and label in bar.labels

    def hide(self, name: str) -> None:
        """Hides a bar, if it is there."""
        with self._lock:
            if self._bars.pop(name, None) is None:
                return
        self._changed()

    def press(self, name: str, button: int | str, label: str = "") -> None:
        """A button of the page was pressed; nothing happens where there is none.

        Args:
            name: of the bar.
            button: its number, from 0, or CLOSE.
            label: what the page shows on it: a button that has another meaning by now is not pressed.
        """
        with self._lock:
            bar = self._bars.get(name)
        if bar is None:
            return
        if button == CLOSE:
            self.hide(name)
            bar.closed()
        elif isinstance(button, int) and 0 <= button < len(bar.buttons) and bar.labels[button] == label:
            bar.buttons[button][1]()

    def _changed(self) -> None:
        for callback in self._callbacks:
            try:
                callback()
            except Exception:  # the page may be gone
                log.debug("a bar of a page could not be shown", exc_info=True)
