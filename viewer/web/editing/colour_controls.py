"""Controls that change colours and opacity of the selection, whatever tool is active."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from luxel.viewer.edit import Document, operations


class ColourControls:
    """The controls of one page.

    Args:
        gui: viser's GuiApi; they are added at its present place.
        run: runs an action on the document, and shows a message where it fails.
    """

    def __init__(self, gui: Any, run: Callable[[Callable[[Document], object]], None]) -> None:
        tint = gui.add_rgb("Tint", (255, 255, 255), hint="Multiplies the colours; white changes nothing")
        brightness = gui.add_slider("Brightness", -0.5, 0.5, 0.01, 0.0)
        saturation = gui.add_slider("Saturation", 0.0, 2.0, 0.05, 1.0)
        recolour = gui.add_button("Apply colour")
        opacity = gui.add_number("Opacity factor", 1.0, min=0.01, max=100.0, step=0.05)
        fade = gui.add_button("Apply opacity")

        def change_colours(document: Document) -> None:
            edit = operations.recolour(
                document.state,
                tint=[c / 255 for c in tint.value],
                brightness=brightness.value,
                saturation=saturation.value,
            )
            document.apply(edit)

        recolour.on_click(lambda _: run(change_colours))
        fade.on_click(
            lambda _: run(lambda d: d.apply(operations.scale_opacity(d.state, float(opacity.value))))
        )
        self.buttons = [recolour, fade]
