"""Tools in space: sphere, box and plane, each placed with a gizmo."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import torch
import viser.transforms as vtf
from torch import Tensor

from luxel.render.primitives import Parameters
from luxel.scenes.measuring.lengths import length_in_words
from luxel.viewer.edit.regions import above_plane, in_box, in_sphere
from luxel.viewer.measure.shared_measurements import SharedMeasurements, is_measurable
from luxel.viewer.web.editing.tool import Tool

COLOUR = (255, 184, 26)
START_SIZE = 0.15  # of a region, in radii of the scene
GIZMO_SIZE = 0.12  # in radii of the scene


class SpaceTool(Tool):
    """A region of space that is moved and turned with a gizmo, and selected with a button."""

    turns, region_first = True, True

    def build(self, gui: Any) -> None:
        """Adds the controls of the size, and the button."""
        self._gizmo: Any = None
        self._shape: Any = None
        sizes = self.sizes(gui)
        select = gui.add_button("Select region")
        select.on_click(lambda _: self.select())
        self.controls = [*sizes, select]

    def start(self) -> None:
        """Shows the gizmo in the centre of the scene, or where it was."""
        if self._gizmo is not None:
            self._gizmo.visible = True
            self.draw()
            return
        extent = self.page.extent
        self._gizmo = self.page.client.scene.add_transform_controls(
            f"/edit/{self.name}",
            scale=GIZMO_SIZE * extent.radius,
            depth_test=False,
            disable_rotations=not self.turns,
            position=extent.centre,
        )
        self.draw()

    def stop(self) -> None:
        """Hides the gizmo."""
        if self._gizmo is not None:
            self._gizmo.visible = False

    def select(self) -> None:
        """Selects the region."""
        self.workspace.select(self.region(), f"Select {self.name.lower()}")

    def draw(self) -> None:
        """Draws the outline again, in the size that the controls have."""
        if self._gizmo is not None:
            self._shape = self.outline(f"/edit/{self.name}/outline")

    @property
    def frame(self) -> np.ndarray:
        """Axes of the gizmo in the world as columns, and its position, [3, 4]."""
        rotation = vtf.SO3(np.asarray(self._gizmo.wxyz, np.float64)).as_matrix()
        return np.concatenate([rotation, np.asarray(self._gizmo.position, np.float64)[:, None]], 1)

    def in_metres(self, *lengths: float) -> str:
        """Lengths with their units; a dash where the length of a unit is not known."""
        session = self.page.session
        metres = SharedMeasurements.of(session).metres if is_measurable(session) else None
        return "–" if metres is None else " × ".join(length_in_words(x, metres) for x in lengths)

    @abstractmethod
    def sizes(self, gui: Any) -> list[Any]:
        """Adds the controls of the size."""
        ...

    @abstractmethod
    def region(self) -> Any:
        """The region as it is now, a function of the scene."""
        ...

    @abstractmethod
    def outline(self, name: str) -> Any:
        """Adds the outline to the page; one of the same name is replaced."""
        ...


class SphereTool(SpaceTool):
    """Selects within a sphere."""

    name, hint, turns = "Sphere", "Move the gizmo, set the radius, then select", False
    icon, key = "sphere", "g"
    persisted = ("Radius",)

    def sizes(self, gui: Any) -> list[Any]:
        """The radius."""
        radius = self.page.extent.radius
        self._radius = gui.add_number(
            "Radius", float(f"{START_SIZE * radius:.3g}"), min=1e-6, step=0.01 * radius, hint="Capture units"
        )
        self._radius.on_update(lambda _: self.draw())
        self._known = gui.add_text("In metres", "", disabled=True)
        return [self._radius, self._known]

    def region(self) -> Any:
        """Within the radius about the gizmo."""
        centre, radius = self.frame[:, 3].tolist(), float(self._radius.value)
        return lambda scene: in_sphere(scene.centres, centre, radius)

    def outline(self, name: str) -> Any:
        """A wire sphere."""
        self._known.value = self.in_metres(self._radius.value)
        return self.page.client.scene.add_icosphere(
            name, radius=self._radius.value, color=COLOUR, subdivisions=2, wireframe=True
        )


class BoxTool(SpaceTool):
    """Selects within a box."""

    name, hint = "Box", "Move and turn the gizmo, set the size, then select"
    icon, key = "box", "x"
    persisted = ("Size",)

    def sizes(self, gui: Any) -> list[Any]:
        """The lengths of the sides."""
        side = float(
            f"{2 * START_SIZE * self.page.extent.radius:.3g}"
        )  # digits for which its fields have room
        self._sides = gui.add_vector3(
            "Size", (side, side, side), min=(1e-6, 1e-6, 1e-6), step=0.05 * side, hint="Capture units"
        )
        self._sides.on_update(lambda _: self.draw())
        self._known = gui.add_text("In metres", "", disabled=True)
        return [self._sides, self._known]

    def region(self) -> Any:
        """Within the box."""
        frame, half = torch.from_numpy(self.frame), [side / 2 for side in self._sides.value]
        return lambda scene: in_box(scene.centres, frame, half)

    def outline(self, name: str) -> Any:
        """A wire box."""
        self._known.value = self.in_metres(*self._sides.value)
        return self.page.client.scene.add_box(
            name, color=COLOUR, dimensions=self._sides.value, wireframe=True
        )


class PlaneTool(SpaceTool):
    """Selects on one side of a plane."""

    name, hint = "Plane", "Turn the gizmo; the side of its blue axis is selected"
    icon, key = "plane", "n"

    def sizes(self, gui: Any) -> list[Any]:
        """A plane has no size."""
        return []

    def region(self) -> Any:
        """The side to which the z axis points."""
        frame = self.frame
        point, normal = frame[:, 3].tolist(), frame[:, 2].tolist()

        def above(scene: Parameters) -> Tensor:
            return above_plane(scene.centres, point, normal)

        return above

    def outline(self, name: str) -> Any:
        """A flat wire box."""
        side = 2 * START_SIZE * self.page.extent.radius
        return self.page.client.scene.add_box(
            name, color=COLOUR, dimensions=(side, side, 1e-3 * side), wireframe=True
        )
