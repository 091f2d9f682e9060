"""Moves, turns and scales the selection with a gizmo, and changes its colours and opacity."""

from __future__ import annotations

from typing import Any

import numpy as np

from luxel.render.errors import LuxelError
from luxel.render.primitives.similarity import Similarity
from luxel.viewer.edit import Document, operations
from luxel.viewer.web.editing.tool import Tool

GIZMO_SIZE = 0.12  # in radii of the scene


class TransformTool(Tool):
    """A gizmo in the middle of the selection; each drag is one edit."""

    name, hint = "Transform", "Drag the gizmo to move and turn the selection"

    def build(self, gui: Any) -> None:
        """Adds scale, colours and opacity."""
        self._gizmo: Any = None
        self._start = np.zeros(3)
        self._dragging, self._version = False, 0
        scale = gui.add_number("Scale", 1.0, min=0.001, max=1000.0, step=0.05, hint="About the gizmo")
        resize = gui.add_button("Apply scale")
        tint = gui.add_rgb("Tint", (255, 255, 255), hint="Multiplies the colours; white changes nothing")
        brightness = gui.add_slider("Brightness", -0.5, 0.5, 0.01, 0.0)
        saturation = gui.add_slider("Saturation", 0.0, 2.0, 0.05, 1.0)
        recolour = gui.add_button("Apply colour")
        opacity = gui.add_number("Opacity factor", 1.0, min=0.01, max=100.0, step=0.05)
        fade = gui.add_button("Apply opacity")
        resize.on_click(lambda _: self._edit(lambda document: self._scale(document, float(scale.value))))
        recolour.on_click(
            lambda _: self._edit(
                lambda document: operations.recolour(
                    document.state,
                    tint=[c / 255 for c in tint.value],
                    brightness=brightness.value,
                    saturation=saturation.value,
                )
            )
        )
        fade.on_click(
            lambda _: self._edit(lambda document: operations.scale_opacity(document.state, opacity.value))
        )
        self.controls = [scale, resize, tint, brightness, saturation, recolour, opacity, fade]

    def start(self) -> None:
        """Shows the gizmo where the selection is."""
        self._gizmo = self.page.client.scene.add_transform_controls(
            "/edit/transform", scale=GIZMO_SIZE * self.page.extent.radius, depth_test=False, visible=False
        )
        self._gizmo.on_update(self._dragged)
        self.refresh()

    def stop(self) -> None:
        """Removes the gizmo."""
        if self._gizmo is not None:
            self._gizmo.remove()
            self._gizmo = None

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
            gizmo.visible = False
            return
        self._start = np.array(pivot)
        gizmo.wxyz, gizmo.position, gizmo.visible = (1.0, 0.0, 0.0, 0.0), self._start, True

    def _dragged(self, event: Any) -> None:
        """Previews a drag, and makes it an edit when it ends."""
        similarity = self._similarity(event.target)
        if event.phase != "end":
            self._dragging = True
            self.workspace.guard(lambda: self.workspace.editor.preview(similarity, self._version))
            return
        self._dragging = False
        if similarity == Similarity():
            return
        self._edit(lambda document: operations.transform(document.state, similarity, "Move"))

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
