"""What the images of a page show: output, background, resolution, quality, size of splats, clipping."""

from __future__ import annotations

from typing import Any

from luxel.viewer.web.images.stream import StreamReport
from luxel.viewer.web.panels.objects import ObjectsPanel
from luxel.viewer.web.panels.panel import Panel
from luxel.viewer.web.shading.legend import legend_of
from luxel.viewer.web.shading.shading import OBJECT_OUTPUTS, OVERLAY, output_named, outputs_of


class ShowPanel(Panel):
    """Sets the `DisplaySettings` of a page."""

    title = "Show"
    persisted = (
        *("Output", "Overlay", "Background", "Resolution", "Quality", "Antialiased"),
        *("Splat size", "Near", "Far"),
    )

    def build(self, gui: Any, order: float) -> None:
        """Adds the controls."""
        session, stream = self.page.session, self.page.stream
        about = session.about
        outputs = self._outputs()
        meanings = "; ".join(f"{name}: {output_named(name).about}" for name in outputs)
        output = self._output = gui.add_dropdown("Output", outputs, initial_value=outputs[0], hint=meanings)
        self._bar, self._shown = gui.add_html("", visible=False), ""
        overlay = gui.add_slider(
            "Overlay",
            *(0, 100, 5, round(100 * OVERLAY)),
            hint="Percent of the objects' colours over those of the scene",
            visible=False,
        )
        background = gui.add_rgb(
            "Background", initial_value=tuple(round(255 * c) for c in session.background)
        )
        resolution = gui.add_slider(
            "Resolution", 10, 200, 10, 100, hint="Percent of the window's pixels while the camera rests"
        )
        quality = gui.add_slider("Quality", 30, 100, 5, 90, hint="JPEG quality; 100 sends lossless PNG")
        antialiased = gui.add_checkbox(
            "Antialiased",
            session.antialiased,
            hint="For scenes trained with antialiasing (Mip-Splatting)",
            visible="antialiased" in about.options,
        )
        with gui.add_folder("More", expand_by_default=False):
            size = gui.add_slider(
                "Splat size",
                0.05,
                2.0,
                0.05,
                1.0,
                hint=f"Scales all {about.noun}",
                visible="scale" in about.options,
            )
            near = gui.add_number("Near", 0.01, min=1e-4, hint="Nothing closer is rendered (capture units)")
            far = gui.add_number("Far", 1e6, min=1e-3, hint="Nothing farther is rendered (capture units)")
        for control, settings in (
            (output, lambda: {"output": output.value}),
            (overlay, lambda: {"overlay": overlay.value / 100}),
            (background, lambda: {"background": tuple(c / 255 for c in background.value)}),
            (resolution, lambda: {"resolution": resolution.value / 100}),
            (quality, lambda: {"quality": int(quality.value)}),
            (antialiased, lambda: {"antialiased": antialiased.value}),
            (size, lambda: {"splat_scale": size.value}),
            (near, lambda: {"near": near.value}),
            (far, lambda: {"far": max(far.value, near.value)}),
        ):
            control.on_update(lambda _, settings=settings: stream.change(**settings()))
        output.on_update(lambda _: setattr(overlay, "visible", output.value in OBJECT_OUTPUTS))

    def _outputs(self) -> tuple[str, ...]:
        """The outputs that the scene has now."""
        session = self.page.session
        return outputs_of(
            session.about,
            session.primitives,
            with_views=len(session.training_views) > 0,
            with_objects=ObjectsPanel.available(session),
        )

    def fit(self) -> None:
        """Offers the objects while there may be some."""
        outputs = self._outputs()
        if tuple(self._output.options) != outputs:
            if self._output.value not in outputs:
                self._output.value = outputs[0]
            self._output.options = outputs

    def report(self, report: StreamReport) -> None:
        """Shows the colour bar of a false-colour image; sends only what changed."""
        own = self.page.stream.settings.painter is None  # a tool that draws has a colour bar of its own
        legend = legend_of(report.caption) if own else None
        bar = legend.as_html() if legend else ""
        if bar != self._shown:
            self._shown = self._bar.content = bar
            self._bar.visible = bool(bar)
