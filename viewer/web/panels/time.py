"""The time of a dynamic scene: slider, play button, speed and loop."""

from __future__ import annotations

from typing import Any

import viser

from luxel.viewer.web.images.stream import ClientStream, StreamReport
from luxel.viewer.web.panels.panel import Panel
from luxel.viewer.web.playback import play_seconds, slider_step
from luxel.viewer.web.session import Session


class TimePanel(Panel):
    """Plays a dynamic scene. The slider follows the playback; moved by hand it stops the time there."""

    title = "Time"
    persisted = ("Speed", "Loop")

    @classmethod
    def available(cls, session: Session) -> bool:
        """Static scenes have no times."""
        return session.times is not None

    def build(self, gui: Any, order: float) -> None:
        """Adds the controls."""
        times = self.page.session.times
        assert times is not None
        stream = self.page.stream
        self._follows = False
        self._step = slider_step(times)
        self._low, self._high = self._rounded(times[0]), self._rounded(times[1])
        self._slider = gui.add_slider("Time", self._low, self._high, self._step, self._low)
        self._button = gui.add_button("Play", icon=viser.Icon.PLAYER_PLAY)
        seconds = play_seconds(times)
        speed = gui.add_slider(
            "Speed", 0.1, 4.0, 0.1, 1.0, hint=f"At 1 the full range takes {seconds:.3g} seconds"
        )
        loop = gui.add_checkbox("Loop", True, hint="Start again at the end")

        # async: runs on the event loop, so that no report comes between the slider's value and the time.
        async def moved(event: Any) -> None:
            if event.client_id is not None:  # else it followed a report
                self._follows = False
                stream.seek(self._slider.value)
                self._show_button(False)

        self._slider.on_update(moved)
        self._button.on_click(lambda _: self._toggle())
        speed.on_update(lambda _: stream.set_speed(speed.value))
        loop.on_update(lambda _: stream.set_loop(loop.value))
        self.page.on_seek(self._sought)

    def attach(self, stream: ClientStream) -> None:
        """Shows the time at which the page begins."""
        if stream.playback is not None:
            self._show_time(stream.playback.time)

    def report(self, report: StreamReport) -> None:
        """Moves the slider along while the scene plays, and once more when it has come to its end."""
        if report.time is None:
            return
        if report.playing or self._follows:
            self._show_time(report.time)
            self._show_button(report.playing)
        self._follows = report.playing

    def _sought(self, time: float) -> None:
        """Another panel has stopped the time at ``time``."""
        self._follows = False
        self._show_button(False)
        self._show_time(time)

    def _toggle(self) -> None:
        stream = self.page.stream
        if stream.playing:
            stream.pause()
        else:
            stream.play()
        self._follows = True
        self._show_button(stream.playing)

    def _show_time(self, time: float) -> None:
        self._slider.value = min(max(self._rounded(time), self._low), self._high)

    def _show_button(self, playing: bool) -> None:
        label = "Pause" if playing else "Play"
        if self._button.label != label:
            self._button.label = label
            self._button.icon = viser.Icon.PLAYER_PAUSE if playing else viser.Icon.PLAYER_PLAY

    def _rounded(self, time: float) -> float:
        """On the steps of the slider, without the digits that binary fractions bring."""
        return float(f"{round(time / self._step) * self._step:.12g}")
