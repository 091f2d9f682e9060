"""The time controls of a page whose scene moves."""

from __future__ import annotations

from typing import Any

import viser

from luxel.viewer.web.playback import play_seconds, slider_step
from luxel.viewer.web.stream import ClientStream, StreamReport


class TimeControls:
    """Slider, play button, speed and loop of one page whose scene moves. They act after ``attach``.

    The slider follows what is played; moved by hand it stops the time where it is put.

    Args:
        gui: viser's GuiApi of the client; the controls go where it stands.
        times: first and last time of the scene.
    """

    def __init__(self, gui: Any, times: tuple[float, float]) -> None:
        self._stream: ClientStream | None = None
        self._follows = False
        self._step = slider_step(times)
        self._low, self._high = self._rounded(times[0]), self._rounded(times[1])
        self._slider = gui.add_slider("Moment", self._low, self._high, self._step, self._low)
        self._button = gui.add_button("Play", icon=viser.Icon.PLAYER_PLAY)
        seconds = play_seconds(times)
        speed = gui.add_slider(
            "Speed", 0.1, 4.0, 0.1, 1.0, hint=f"At 1 all of it takes {seconds:.3g} seconds"
        )
        loop = gui.add_checkbox("Loop", True, hint="Begin anew at the end")

        # Where a page's word is heard (on the event loop), so that no report comes between value and time.
        async def moved(event: Any) -> None:
            if event.client_id is not None and self._stream is not None:  # else it followed a report
                self._follows = False
                self._stream.seek(self._slider.value)
                self._show_button(False)

        self._slider.on_update(moved)
        self._button.on_click(lambda _: self._toggle())
        speed.on_update(lambda _: self._stream and self._stream.set_speed(speed.value))
        loop.on_update(lambda _: self._stream and self._stream.set_loop(loop.value))

    def attach(self, stream: ClientStream) -> None:
        """Connects the controls with the loop that obeys them, and shows its time."""
        self._stream = stream
        if stream.playback is not None:
            self._show_time(stream.playback.time)

    def go_to(self, moment: float) -> None:
        """Stops at a moment."""
        if self._stream is not None:
            self._stream.seek(moment)
            self._follows = False
            self._show_button(False)
            self._show_time(moment)

    def follow(self, report: StreamReport) -> None:
        """Moves the slider to what is shown, while it plays and once when it has come to its end."""
        if report.time is None:
            return
        if report.playing or self._follows:
            self._show_time(report.time)
            self._show_button(report.playing)
        self._follows = report.playing

    def _toggle(self) -> None:
        if self._stream is None:
            return
        if self._stream.playing:
            self._stream.pause()
        else:
            self._stream.play()
        self._follows = True
        self._show_button(self._stream.playing)

    def _show_time(self, moment: float) -> None:
        self._slider.value = min(max(self._rounded(moment), self._low), self._high)

    def _show_button(self, playing: bool) -> None:
        label = "Pause" if playing else "Play"
        if self._button.label != label:
            self._button.label = label
            self._button.icon = viser.Icon.PLAYER_PAUSE if playing else viser.Icon.PLAYER_PLAY

    def _rounded(self, moment: float) -> float:
        """On the steps of the slider, without the digits that binary fractions bring."""
        return float(f"{round(moment / self._step) * self._step:.12g}")
