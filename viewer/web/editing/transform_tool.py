"""Moves, turns and scales the selection with a gizmo."""

from __future__ import annotations

from typing import Any

import numpy as np

from luxel.render.errors import LuxelError
from luxel.render.primitives.similarity import Similarity
from luxel.viewer.edit import Document, operations
from luxel.viewer.web.editing.tool import Tool

GIZMO_SIZE = 0.12  # in radii of the scene
REACH = 0.16  # of the scale handle from the middle of the selection at rest, in radii of the scene
DIAGONAL = np.full(3, 3**-0.5)  # direction of the scale handle
TO_DIAGONAL = (0.888073834, 0.0, -0.325057584, 0.325057584)  # turns the x axis there
LEAST, MOST = 0.01, 100.0  # factors of one drag


class TransformTool(Tool):
    """A gizmo in the middle of the selection; each drag is one edit."""

    name, icon, key = "Transform", "transform", "t"
    hint = "Drag the gizmo to move and turn the selection, the single arrow to scale it"

    def build(self, gui: Any) -> None:
        """Adds the scale."""
        self._gizmo: Any = None
        self._handle: Any = None  # scales
        self._label: Any = None
        self._start = np.zeros(3)
        self._dragging, self._version = False, 0
        scale = gui.add_number("Scale", 1.0, min=0.001, max=1000.0, step=0.05, hint="About the gizmo")
        resize = gui.add_button("Apply scale")
        resize.on_click(lambda _: self._edit(lambda document: self._scale(document, float(scale.value))))
        self.controls, self._resize = [scale, resize], resize

    def start(self) -> None:
        """Shows the gizmo where the selection is."""
        self._gizmo = self.page.client.scene.add_transform_controls(
            "/edit/transform", scale=GIZMO_SIZE * self.page.extent.radius, depth_test=False, visible=False
        )
        self._gizmo.on_update(self._dragged)
        self._handle = self.page.client.scene.add_transform_controls(
            "/edit/scale",
            scale=0.6 * GIZMO_SIZE * self.page.extent.radius,
            active_axes=(True, False, False),
            disable_sliders=True,
            disable_rotations=True,
            depth_test=False,
            visible=False,
        )
        self._handle.on_update(self._scaled)
        self._label = self.page.client.scene.add_label("/edit/scale/label", "scale")
        self.refresh()

    def stop(self) -> None:
        """Removes the gizmo."""
        if self._gizmo is not None:
            self._gizmo.remove()
            self._label.remove()
            self._handle.remove()
            self._gizmo = self._handle = self._label = None

    def refresh(self) -> None:
        """Puts the gizmo upright into the middle of the selection, or hides it."""
        gizmo = self._gizmo
        if gizmo is None or self._dragging:
            return
        try:
            pivot, self._version = self.workspace.editor.run(
                lambda document: (document.pivot(), document.version)
            )
        except LuxelError:
            gizmo.visible = self._handle.visible = False
            self._resize.disabled = True
            return
        self._resize.disabled = False
        self._start = np.array(pivot)
        gizmo.wxyz, gizmo.position, gizmo.visible = (1.0, 0.0, 0.0, 0.0), self._start, True
        handle, rest = self._handle, self._start + REACH * self.page.extent.radius * DIAGONAL
        handle.wxyz, handle.position, handle.visible = TO_DIAGONAL, rest, True

    def _dragged(self, event: Any) -> None:
        """Previews a move, and makes it an edit when it ends."""
        self._follow(self._similarity(event.target), event.phase == "end", "Move")

    def _scaled(self, event: Any) -> None:
        """Previews a scale, and makes it an edit when the drag ends."""
        x, y, z = self._start.tolist()
        along = float((np.asarray(event.target.position, np.float64) - self._start) @ DIAGONAL)
        factor = min(max(along / (REACH * self.page.extent.radius), LEAST), MOST)
        self._follow(
            Similarity.about((x, y, z), scale=factor), event.phase == "end", f"Scale by {factor:.3g}"
        )

    def _follow(self, similarity: Similarity, last: bool, title: str) -> None:
        """Previews a drag, and makes it an edit when it ends."""
        self._dragging = not last
        if not last:
            self.workspace.guard(lambda: self.workspace.editor.preview(similarity, self._version))
        elif similarity != Similarity():
            self._edit(lambda document: operations.transform(document.state, similarity, title))

    def _similarity(self, gizmo: Any) -> Similarity:
        """From where the gizmo was to where it is."""
        w, x, y, z = (float(v) for v in gizmo.wxyz)
        dx, dy, dz = (np.asarray(gizmo.position, np.float64) - self._start).tolist()
        px, py, pz = self._start.tolist()
        return Similarity.about((px, py, pz), quat=(w, x, y, z), shift=(dx, dy, dz))

    @staticmethod
    def _scale(document: Document, factor: float) -> Any:
        return operations.transform(
            document.state, Similarity.about(document.pivot(), scale=factor), f"Scale by {factor:g}"
        )

    def _edit(self, make: Any) -> None:
        self.workspace.guard(
            lambda: self.workspace.editor.run(lambda document: document.apply(make(document)))
        )
