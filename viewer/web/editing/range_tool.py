"""Selection by opacity, size or colour."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from luxel.render.primitives import Parameters
from luxel.viewer.edit.regions import in_range, near_colour
from luxel.viewer.web.editing.tool import Tool

OPACITY, SIZE, COLOUR = "opacity", "size", "colour"


class RangeTool(Tool):
    """Selects the primitives with a property in a range."""

    name, hint = "Range", "Selects by a property, everywhere in the scene"
    icon, key, region_first = "range", "k", True
    persisted = ("Property", "Opacity", "Size", "Colour", "Distance")

    def build(self, gui: Any) -> None:
        """Adds the property, its range, and the button."""
        self._active = False
        self._property = gui.add_dropdown("Property", (OPACITY, SIZE, COLOUR))
        self._opacity = gui.add_multi_slider("Opacity", 0.0, 1.0, 0.01, (0.0, 0.1))
        self._size = gui.add_multi_slider(
            "Size",
            0,
            100,
            1,
            (90, 100),
            hint="Percentiles of the primitives that are shown: 90 to 100 are the largest",
        )
        self._colour = gui.add_rgb("Colour", (255, 255, 255))
        self._distance = gui.add_slider(
            "Distance", 0.01, 1.0, 0.01, 0.2, hint="Of colours in [0, 1], Euclidean"
        )
        self._select = gui.add_button("Select range")
        self._property.on_update(lambda _: self._arrange())
        self._select.on_click(lambda _: self.select())
        self.controls = [
            *(self._property, self._opacity, self._size, self._colour, self._distance, self._select),
        ]

    def start(self) -> None:
        """Shows the range of the chosen property."""
        self._active = True
        self._arrange()

    def stop(self) -> None:
        """Shows no range any more."""
        self._active = False

    def select(self) -> None:
        """Selects what is in the range."""
        self.workspace.select(self._region(), f"Select {self._property.value}")

    def _arrange(self) -> None:
        if not self._active:  # the property is set while another tool is chosen
            return
        chosen = self._property.value
        self._opacity.visible, self._size.visible = chosen == OPACITY, chosen == SIZE
        self._colour.visible = self._distance.visible = chosen == COLOUR

    def _region(self) -> Any:
        """The range as it is now, a function of the scene."""
        chosen = self._property.value
        if chosen == OPACITY:
            least, most = self._opacity.value
            return lambda scene: in_range(scene.opacities, least, most)
        if chosen == COLOUR:
            rgb, distance = [c / 255 for c in self._colour.value], self._distance.value
            return lambda scene: near_colour(scene.base_colours, rgb, distance)
        shares = [share / 100 for share in self._size.value]
        return lambda scene: in_percentiles(scene, shares)


def in_percentiles(scene: Parameters, shares: list[float]) -> Tensor:
    """Primitives whose size lies between two quantiles of all sizes, bool [N]; the shares are in [0, 1]."""
    sizes = scene.sizes
    ordered = sizes[sizes.isfinite()].sort().values
    if not len(ordered):
        return torch.zeros_like(sizes, dtype=torch.bool)
    least, most = (float(ordered[round(share * (len(ordered) - 1))]) for share in shares)
    return in_range(sizes, least, most)
