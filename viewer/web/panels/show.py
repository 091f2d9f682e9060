"""What the images of a page show: output, background, resolution, quality, size of splats, clipping."""

from __future__ import annotations

import html
from typing import Any

from luxel.viewer.web.images.stream import StreamReport
from luxel.viewer.web.panels.objects import ObjectsPanel
from luxel.viewer.web.panels.panel import Panel
from luxel.viewer.web.shading.backdrop import backdrop
from luxel.viewer.web.shading.legend import legend_of
from luxel.viewer.web.shading.shading import OBJECT_OUTPUTS, OVERLAY, output_named, outputs_of

AUTO, CHOSEN = "auto", "colour"  # backgrounds: that of the scene, and the one below the list
PLAIN = {"black": (0.0, 0.0, 0.0), "white": (1.0, 1.0, 1.0)}


class ShowPanel(Panel):
    """Sets the `DisplaySettings` of a page."""

    title = "Show"
    persisted = (
        *("Output", "Overlay", "Background", "Background colour", "Resolution", "Quality", "Antialiased"),
        *("Splat size", "Near", "Far"),
    )

    def build(self, gui: Any, order: float) -> None:
        """Adds the controls."""
        session, stream = self.page.session, self.page.stream
        about = session.about
        outputs = self._outputs()
        meanings = "; ".join(f"{name}: {output_named(name).about}" for name in outputs)
        output = self._output = gui.add_dropdown("Output", outputs, initial_value=outputs[0], hint=meanings)
        self._bar, self._shown = gui.add_html(""), ""
        overlay = gui.add_slider(
            "Overlay",
            *(0, 100, 5, round(100 * OVERLAY)),
            hint="With the output objects: percent of the objects' colours over those of the scene",
            visible=any(name in OBJECT_OUTPUTS for name in outputs),
            disabled=True,
        )
        self._background = gui.add_dropdown(
            "Background",
            (AUTO, *PLAIN, CHOSEN),
            hint="auto: as it was trained; dark around a cut-out scene while the colours of the page are, "
            "but not in videos, exports and scores",
        )
        self._colour = gui.add_rgb(
            "Background colour", initial_value=tuple(round(255 * c) for c in session.background)
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
            (resolution, lambda: {"resolution": resolution.value / 100}),
            (quality, lambda: {"quality": int(quality.value)}),
            (antialiased, lambda: {"antialiased": antialiased.value}),
            (size, lambda: {"splat_scale": size.value}),
            (near, lambda: {"near": near.value}),
            (far, lambda: {"far": max(far.value, near.value)}),
        ):
            control.on_update(lambda _, settings=settings: stream.change(**settings()))
        self._background.on_update(lambda _: self._set_background())
        self._colour.on_update(lambda event: self._choose_colour(event.client is not None))
        self.page.on_scheme(self._set_background)
        output.on_update(lambda _: setattr(overlay, "disabled", output.value not in OBJECT_OUTPUTS))

    def _choose_colour(self, by_hand: bool) -> None:
        """Shows the colour that was chosen; where it was restored only if it was shown before."""
        if by_hand and self._background.value != CHOSEN:
            self._background.value = CHOSEN  # which calls _set_background
        elif self._background.value == CHOSEN:
            self._set_background()

    def _set_background(self) -> None:
        session, choice = self.page.session, self._background.value
        if choice == AUTO:
            colours = {"background": session.background, "backdrop": backdrop(session, self.page.dark)}
        else:
            own = tuple(c / 255 for c in self._colour.value)
            colours = {"background": PLAIN.get(choice, own), "backdrop": None}
        self.page.stream.change(**colours)

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
        """Shows the colour bar of a false-colour image or what the colours mean, in the same room; sends only what
        changed."""
        own = self.page.stream.settings.painter is None  # a tool that draws has a colour bar of its own
        legend = legend_of(report.caption) if own else None
        about = "" if legend or not own else output_named(self.page.stream.settings.output).about
        bar = reserved(legend.as_html() if legend else meaning(about))
        if bar != self._shown:
            self._shown = self._bar.content = bar


def reserved(content: str) -> str:
    """HTML with the height of a colour bar or two lines, so that nothing below it moves when another one is shown."""
    return f'<div style="min-height:3.1em;overflow:hidden">{content}</div>'


def meaning(about: str) -> str:
    """What the colours of an output mean, as HTML."""
    style = "padding:0.1em 0.9em;font-size:13px;color:var(--mantine-color-dimmed)"
    return f'<div style="{style}">{html.escape(about[:1].upper() + about[1:])}</div>'
