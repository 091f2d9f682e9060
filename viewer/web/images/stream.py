"""The images of one page: a loop that renders its camera, at lower resolution while it moves, in full when it rests."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from luxel.render.errors import LuxelError
from luxel.render.replay import release_memory
from luxel.render.runs.memory import is_out_of_memory, where_memory_ran_out
from luxel.viewer.web.navigate import MAX_PIXELS, MAX_SIDE, Pose
from luxel.viewer.web.playback import Playback
from luxel.viewer.web.session import Session
from luxel.viewer.web.shading.shading import DisplaySettings, Sample, draw, sample
from luxel.viewer.web.transport.encoders import as_array
from luxel.viewer.web.transport.figures import Figures
from luxel.viewer.web.transport.sinks import FrameInfo, Sink

log = logging.getLogger("luxel.viewer")

REST_AFTER = 0.25  # seconds without a new pose after which the camera rests
MOVING_RENDER = 0.04  # seconds that one image may take to render while the camera moves or the scene plays
REFRESH = 0.5  # seconds between images of a resting camera while the scene trains
FRAME_GAP = 1 / 240  # seconds, at least, between the beginnings of two renders
ERROR_PAUSE = 1.0  # seconds before a failed render is tried again
MOVING_QUALITY = 80  # JPEG quality while moving, at most
REPORT_GAP = 0.25  # seconds between reports
PLAYING_REPORT_GAP = (
    0.125  # seconds between reports while the scene plays, for a slider that follows smoothly
)


@dataclass(frozen=True)
class StreamReport:
    """Numbers about the images of a page.

    Args:
        fps: images in the last second, 0 while the camera rests.
        render_ms: time of the last render, waiting excluded.
        width, height: size of the last image.
        caption: range of a false-colour image.
        error: message of the last failure, or empty.
        time: what the page shows of a dynamic scene; None for a static scene.
        playing: whether the scene plays.
        figures: latency and costs, where the page measures them.
    """

    fps: float = 0.0
    render_ms: float = 0.0
    width: int = 0
    height: int = 0
    caption: str = ""
    error: str = ""
    time: float | None = None
    playing: bool = False
    figures: Figures | None = None


class ClientStream:
    """Renders for one page until it is stopped; a failing render is reported and tried again.

    Only the newest pose is rendered: of all poses that arrive while an image is being made, all but the last are
    dropped. The next image waits until the page has received the one before.

    While the scene plays, each image shows the time at which its rendering begins: where rendering is slow, frames
    are skipped and the playback stays in time.

    Args:
        session: the scene.
        sink: receives the images; a PageSink outside of tests.
        report: called about four times a second, twice as often while the scene plays, and at once with an error.
        logged: messages of failures already logged, shared by the pages.
        clock: seconds; drives the playback.
        figures: what the page measures, for the reports.
    """

    def __init__(
        self,
        session: Session,
        sink: Sink,
        report: Callable[[StreamReport], None],
        logged: set[str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        figures: Callable[[], Figures | None] = lambda: None,
    ) -> None:
        self._session, self._sink, self._report = session, sink, report
        self._logged: set[str] = set() if logged is None else logged
        self._turn = object()  # this page, among those that share the renderer
        self._wake = threading.Condition()
        self._figures = figures
        self._pose: Pose | None = None
        self._sequence = 0
        self._settings = DisplaySettings(background=session.background, antialiased=session.antialiased)
        self._clock = clock
        self._playback: Playback | None = None
        if session.times is not None:
            first = session.views[0].time if session.views else None
            self._playback = Playback.over(session.times, first)
        self._dirty = False
        self._moved_at = 0.0
        self._stopped = False
        self._rendered_version, self._rendered_at, self._rendered_in_full = -1, 0.0, False
        self._began_at = 0.0
        self._seconds_per_pixel = 0.0
        self._sent: deque[float] = deque(maxlen=60)
        self._state = StreamReport()
        self._reported_at = 0.0
        self._retry_at = 0.0
        self._thread = threading.Thread(target=self._run, name="luxel-stream", daemon=True)

    def start(self) -> None:
        """Starts the loop in its own thread."""
        self._thread.start()

    def stop(self, wait: float = 0.0) -> None:
        """Ends the loop; returns after at most ``wait`` seconds."""
        with self._wake:
            self._stopped = True
            self._wake.notify_all()
        if wait and self._thread.is_alive():
            self._thread.join(wait)

    @property
    def stopped(self) -> bool:
        """Whether stop was called."""
        return self._stopped

    @property
    def last_report(self) -> StreamReport:
        """Numbers of the last image."""
        return self._state

    @property
    def settings(self) -> DisplaySettings:
        """The display settings of the page."""
        return self._settings

    @property
    def window(self) -> tuple[int, int] | None:
        """Width and height of the page's image in pixels of the screen; None before its first camera."""
        return None if self._pose is None else (self._pose.width, self._pose.height)

    def move(self, pose: Pose, sequence: int = 0) -> None:
        """Sets the camera, clamped to what can be rendered; the same pose again, or an impossible one, changes nothing.

        Args:
            pose: of the camera.
            sequence: number of the camera on the page's websocket; 0: it did not come through one.
        """
        if (possible := pose.clamped()) is None:
            return
        pose = possible
        with self._wake:
            old, self._sequence = self._pose, sequence
            if old is not None and _same_pose(old, pose):
                return
            self._pose, self._dirty = pose, True
            # A first pose or a new window size is no motion: draw it in full at once.
            if old is not None and (old.width, old.height) == (pose.width, pose.height):
                self._moved_at = time.monotonic()
            self._wake.notify_all()

    def redraw(self) -> None:
        """Draws the camera once more: the page has lost its image, or takes it from elsewhere."""
        with self._wake:
            self._dirty = True
            self._wake.notify_all()

    def change(self, **choices: Any) -> None:
        """Changes fields of the display settings."""
        with self._wake:
            self._settings = replace(self._settings, **choices)
            self._dirty = True
            self._retry_at = 0.0
            self._wake.notify_all()

    @property
    def playback(self) -> Playback | None:
        """The playback state of this page; None for a static scene."""
        return self._playback

    @property
    def time(self) -> float:
        """The time that the page shows now; 0 for a static scene."""
        return 0.0 if self._playback is None else self._playback.at(self._clock())

    @property
    def playing(self) -> bool:
        """Whether the scene plays."""
        return self._playback is not None and self._playback.runs(self._clock())

    def play(self) -> None:
        """Plays; from the start if it is at the end."""
        self._change_playback(lambda playback, now: playback.play(now))

    def pause(self) -> None:
        """Pauses; the image of this time is rendered in full."""
        self._change_playback(lambda playback, now: playback.pause(now))

    def seek(self, time: float) -> None:
        """Pauses at a time, clamped to the range of the scene; while seeking, images have a lower resolution."""
        self._change_playback(lambda playback, _: playback.seek(time), moved=True)

    def set_speed(self, speed: float) -> None:
        """Sets the speed of the playback; 1 is normal."""
        self._change_playback(lambda playback, now: playback.with_speed(speed, now))

    def set_loop(self, loop: bool) -> None:
        """Starts again at the end of the playback, or stops there."""
        self._change_playback(lambda playback, now: playback.with_loop(loop, now))

    def _change_playback(self, change: Callable[[Playback, float], Playback], moved: bool = False) -> None:
        with self._wake:
            if self._playback is None:
                return
            self._playback = change(self._playback, self._clock())
            self._dirty = True
            if moved:
                self._moved_at = time.monotonic()
            self._wake.notify_all()

    def _run(self) -> None:
        while not self._stopped:
            try:
                if self._wait():
                    self._sink.wait()
                    self._draw_next()
            except Exception as error:  # whatever a render raises, the page and the training go on
                if self._stopped:  # the page was closed meanwhile
                    return
                self._fail(error)
                with self._wake:
                    self._wake.wait_for(lambda: self._stopped, 0.1)

    def _wait(self) -> bool:
        """Waits until there is something to draw; False when stopped."""
        with self._wake:
            while not self._stopped:
                due = self._seconds_until_due()
                if due <= 0:
                    return True
                self._wake.wait(min(due, 0.25))
                self._send_report()
        return False

    def _seconds_until_due(self) -> float:
        """Seconds until the next image is due."""
        now = time.monotonic()
        if self._pose is None:
            return 1.0
        earliest = max(self._retry_at, self._began_at + FRAME_GAP) - now
        if self._playback is not None and self._playback.since is not None:
            if not self.playing:  # at the end: the last frame is rendered in full
                self._playback = self._playback.pause(self._clock())
            self._dirty = True
        if self._dirty:
            return earliest
        if not self._rendered_in_full:
            return max(earliest, self._moved_at + REST_AFTER - now)
        if self._session.version != self._rendered_version:
            return max(earliest, self._rendered_at + REFRESH - now)
        return 1.0

    def _draw_next(self) -> None:
        with self._session.borrow(self._turn) as scene:  # may wait long: read the newest pose only inside
            with self._wake:
                if self._stopped or self._pose is None:
                    return
                pose, settings, self._dirty = self._pose, self._settings_now(), False
                sequence = self._sequence
                moving = self.playing or time.monotonic() - self._moved_at < REST_AFTER
            version = self._session.version
            if (
                first := self._rendered_version < 0
            ):  # an image at once, rather than in full, if those of others were slow
                self._seconds_per_pixel = self._session.seconds_per_pixel
            width, height, in_full = self._size(pose, settings, moving or first)
            moving = moving or not in_full
            camera = pose.camera(width, height, settings.near, settings.far).to(scene.device)
            start = self._began_at = time.monotonic()
            image, caption = draw(scene, camera, settings)
            if not self._sink.takes_tensors:
                image = as_array(image)
            elif image.is_cuda:
                torch.cuda.current_stream(
                    image.device
                ).synchronize()  # the scene may change as soon as it is given back
            seconds = time.monotonic() - start
        rate = seconds / (width * height)
        self._seconds_per_pixel = (self._seconds_per_pixel + rate) / 2 if self._seconds_per_pixel else rate
        if in_full:
            self._session.seconds_per_pixel = rate
        if self._stopped:
            return
        # A fine image takes three times as long to encode, send and decode as one of MOVING_QUALITY.
        in_full = in_full and (not moving or settings.quality <= MOVING_QUALITY)
        quality = settings.quality if in_full else min(settings.quality, MOVING_QUALITY)
        self._sink.send(image, quality, FrameInfo(sequence, seconds * 1e3, in_full, moving))
        self._rendered_version, self._rendered_in_full, self._rendered_at = version, in_full, time.monotonic()
        self._sent.append(self._rendered_at)
        self._state = StreamReport(0.0, seconds * 1e3, width, height, caption)
        self._send_report()

    def _settings_now(self) -> DisplaySettings:
        """The display settings with the time of the playback."""
        if self._playback is None:
            return self._settings
        return replace(self._settings, time=self._playback.at(self._clock()))

    def sample(self, pose: Pose, u: float, v: float) -> Sample:
        """Colour, alpha and depth of one pixel, from one frame rendered in full.

        Args:
            pose: of the camera.
            u, v: place on the image, from (0, 0) at the upper left to (1, 1) at the lower right corner.
        """
        with self._session.borrow(self._turn) as scene:
            settings = self._settings_now()
            width, height, _ = self._size(pose, settings, moving=False)
            camera = pose.camera(width, height, settings.near, settings.far).to(scene.device)
            column, row = (min(max(int(x * n), 0), n - 1) for x, n in ((u, width), (v, height)))
            return sample(scene, camera, settings, column, row)

    def _size(self, pose: Pose, settings: DisplaySettings, moving: bool) -> tuple[int, int, bool]:
        """Width and height to render, and whether that is the full resolution."""
        scale = min(settings.resolution, MAX_SIDE / max(pose.width, pose.height))
        scale = min(scale, (MAX_PIXELS / (pose.width * pose.height)) ** 0.5)
        factor = 1.0
        if moving and self._seconds_per_pixel:
            # While training, a long render would be followed by a long wait for the share of time.
            budget = MOVING_RENDER * (0.5 if self._session.trains and not self._session.paused else 1.0)
            seconds = self._seconds_per_pixel * pose.width * pose.height * scale * scale
            factor = max(0.2, round((budget / seconds) ** 0.5, 1))
        if factor > 0.8:  # fewer pixels would not be worth the change of sharpness
            factor = 1.0
        width, height = pose.width * scale * factor, pose.height * scale * factor
        return max(1, round(width)), max(1, round(height)), factor == 1.0

    def _fail(self, error: Exception) -> None:
        message = str(error) if isinstance(error, LuxelError) else f"{type(error).__name__}: {error}"
        if is_out_of_memory(error):
            release_memory()
            where = where_memory_ran_out(error)
            message = f"{where} has no memory left for an image of this size: lower the resolution."
        if message not in self._logged:
            self._logged.add(message)
            log.error("A page could not be rendered; it tries again. %s", message, exc_info=error)
        now = time.monotonic()
        self._retry_at, self._rendered_at = now + ERROR_PAUSE, now
        self._dirty = True
        self._state = replace(self._state, error=message)
        self._send_report(at_once=True)

    def _send_report(self, at_once: bool = False) -> None:
        now = time.monotonic()
        playing = self.playing
        gap = PLAYING_REPORT_GAP if playing else REPORT_GAP
        if self._stopped or (now - self._reported_at < gap and not at_once):
            return
        self._reported_at = now
        recent = [t for t in self._sent if now - t < 1.0]
        fps = (len(recent) - 1) / (recent[-1] - recent[0]) if len(recent) > 2 else 0.0
        try:
            shown = None if self._playback is None else self._playback.at(self._clock())
            self._report(replace(self._state, fps=fps, time=shown, playing=playing, figures=self._figures()))
        except Exception:  # the page may be gone; its images end with stop()
            log.debug("a report did not reach its page", exc_info=True)


def _same_pose(a: Pose, b: Pose) -> bool:
    return (
        a.position.tolist() == b.position.tolist()  # at a tenth of the time of np.array_equal
        and a.wxyz.tolist() == b.wxyz.tolist()
        and (a.fov_y, a.width, a.height) == (b.fov_y, b.width, b.height)
    )
