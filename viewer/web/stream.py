"""The images of one page: a loop that renders its camera, coarse while it moves and whole when it rests."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch

from luxel.render.errors import LuxelError
from luxel.render.replay import release_memory
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.playback import Playback
from luxel.viewer.web.session import Session
from luxel.viewer.web.shading import Look, Render, draw

log = logging.getLogger("luxel.viewer")

REST_AFTER = 0.25  # seconds without a new pose after which the camera rests
MOVING_RENDER = (
    0.04  # seconds that one image of a moving camera, or of a scene that plays, may take to render
)
REFRESH = 0.5  # seconds between images of a resting camera while the scene trains
FRAME_GAP = 1 / 60  # seconds, at least, between two images
ERROR_PAUSE = 1.0  # seconds before a failed render is tried again
MOVING_QUALITY = 70  # JPEG quality while moving, at most
MAX_SIDE = 4096  # pixels
REPORT_GAP = 0.25  # seconds between reports
PLAYING_REPORT_GAP = 0.125  # the same while the scene plays: how smoothly a slider follows


@dataclass(frozen=True)
class StreamReport:
    """What a page shows about its images.

    Args:
        fps: images of the last second, 0 while the camera rests.
        render_ms: time of the last render, waiting excluded.
        width, height: size of the last image.
        caption: range of a false-colour image.
        error: message of the last failure, or empty.
        time: what the page shows now of a scene that moves; None where nothing moves.
        playing: whether that time goes on.
    """

    fps: float = 0.0
    render_ms: float = 0.0
    width: int = 0
    height: int = 0
    caption: str = ""
    error: str = ""
    time: float | None = None
    playing: bool = False


class Sink(Protocol):
    """Where the images of one page go."""

    def wait(self) -> None:
        """Returns when the page is ready for the next image."""
        ...

    def send(self, image: np.ndarray, quality: int) -> None:
        """Sends an image, uint8 [H, W, 3], as JPEG of ``quality`` or, from 100 on, as PNG."""
        ...


class ClientStream:
    """Renders for one page until it is stopped; a failing render is reported and tried again.

    Only the newest pose counts: while one image is being made any number may arrive, and all but the last
    are dropped. The next image waits until the page has taken the one before.

    While the scene plays, each image shows the time of the moment at which its rendering begins: where rendering,
    the page or the training's share are slow, moments between are left out, and nothing is late.

    Args:
        session: what to draw.
        render: luxel.render.rasterize or a function like it.
        sink: takes the images; a ViserSink outside of tests.
        report: called about four times a second, twice as often while the scene plays, and at once with an error.
        logged: messages of failures already logged, shared by the pages.
        clock: what the time of a playing scene goes by, seconds.
    """

    def __init__(
        self,
        session: Session,
        render: Render,
        sink: Sink,
        report: Callable[[StreamReport], None],
        logged: set[str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session, self._render, self._sink, self._report = session, render, sink, report
        self._logged: set[str] = set() if logged is None else logged
        self._wake = threading.Condition()
        self._pose: Pose | None = None
        self._look = Look(background=session.background, antialiased=session.antialiased)
        self._clock = clock
        self._playback: Playback | None = None
        if session.times is not None:
            first = session.views[0].time if session.views else None
            self._playback = Playback.over(session.times, first)
        self._dirty = False
        self._moved_at = 0.0
        self._stopped = False
        self._drawn_version, self._drawn_at, self._drawn_whole = -1, 0.0, False
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
    def look(self) -> Look:
        """What the page has chosen to see."""
        return self._look

    def move(self, pose: Pose) -> None:
        """Takes a new camera; the same one again changes nothing."""
        with self._wake:
            old = self._pose
            if old is not None and _same_pose(old, pose):
                return
            self._pose, self._dirty = pose, True
            # A first pose or a new window size is no motion: draw it whole at once.
            if old is not None and (old.width, old.height) == (pose.width, pose.height):
                self._moved_at = time.monotonic()
            self._wake.notify_all()

    def change(self, **choices: Any) -> None:
        """Changes fields of the Look."""
        with self._wake:
            self._look = replace(self._look, **choices)
            self._dirty = True
            self._retry_at = 0.0
            self._wake.notify_all()

    @property
    def playback(self) -> Playback | None:
        """The time of this page and how it runs; None where nothing moves."""
        return self._playback

    @property
    def playing(self) -> bool:
        """Whether the scene plays."""
        return self._playback is not None and self._playback.runs(self._clock())

    def play(self) -> None:
        """Lets the time run, from the start where it is at the end."""
        self._steer(lambda playback, now: playback.play(now))

    def pause(self) -> None:
        """Stops the time where it is; the image of that moment is drawn whole."""
        self._steer(lambda playback, now: playback.pause(now))

    def seek(self, moment: float) -> None:
        """Stops at a moment (the nearest that the scene has); drawn like a camera's movement, and whole at rest."""
        self._steer(lambda playback, _: playback.seek(moment), moved=True)

    def set_speed(self, speed: float) -> None:
        """Lets the time run at so many times its usual speed."""
        self._steer(lambda playback, now: playback.paced(speed, now))

    def set_loop(self, loop: bool) -> None:
        """Lets the time begin anew at its end, or rest there."""
        self._steer(lambda playback, now: playback.repeated(loop, now))

    def _steer(self, change: Callable[[Playback, float], Playback], moved: bool = False) -> None:
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
                    self._turn()
            except Exception as error:  # whatever a render raises, the page and the training go on
                self._fail(error)
                with self._wake:
                    self._wake.wait_for(lambda: self._stopped, 0.1)

    def _wait(self) -> bool:
        """Sleeps until there is something to draw; False when stopped."""
        with self._wake:
            while not self._stopped:
                pause = self._pause()
                if pause <= 0:
                    return True
                self._wake.wait(min(pause, 0.25))
                self._tell()
        return False

    def _pause(self) -> float:
        """Seconds until the next image is due."""
        now = time.monotonic()
        if self._pose is None:
            return 1.0
        earliest = max(self._retry_at, self._drawn_at + FRAME_GAP) - now
        if self._playback is not None and self._playback.since is not None:
            if not self.playing:  # the end: the last moment is drawn whole
                self._playback = self._playback.pause(self._clock())
            self._dirty = True
        if self._dirty:
            return earliest
        if not self._drawn_whole:
            return max(earliest, self._moved_at + REST_AFTER - now)
        if self._session.version != self._drawn_version:
            return max(earliest, self._drawn_at + REFRESH - now)
        return 1.0

    def _turn(self) -> None:
        with self._session.borrow() as scene:  # may wait long: read the newest pose and the time only inside
            with self._wake:
                if self._stopped or self._pose is None:
                    return
                pose, look, self._dirty = self._pose, self._look, False
                moving = self.playing or time.monotonic() - self._moved_at < REST_AFTER
                if self._playback is not None:
                    look = replace(look, time=self._playback.at(self._clock()))
            version = self._session.version
            width, height, whole = self._size(pose, look, moving)
            camera = pose.camera(width, height, look.near, look.far).to(scene.device)
            start = time.monotonic()
            image, caption = draw(self._render, scene, camera, look)
            seconds = time.monotonic() - start
        rate = seconds / (width * height)
        self._seconds_per_pixel = (self._seconds_per_pixel + rate) / 2 if self._seconds_per_pixel else rate
        if self._stopped:
            return
        quality = look.quality if whole else min(look.quality, MOVING_QUALITY)
        self._sink.send(image, quality)
        self._drawn_version, self._drawn_whole, self._drawn_at = version, whole, time.monotonic()
        self._sent.append(self._drawn_at)
        self._state = StreamReport(0.0, seconds * 1e3, width, height, caption)
        self._tell()

    def _size(self, pose: Pose, look: Look, moving: bool) -> tuple[int, int, bool]:
        """Width and height to render, and whether that is all that was asked for."""
        scale = min(look.resolution, MAX_SIDE / max(pose.width, pose.height))
        factor = 1.0
        if moving and self._seconds_per_pixel:
            # While training, a long render would be followed by a long wait for the share of time.
            budget = MOVING_RENDER * (0.5 if self._session.trains and not self._session.paused else 1.0)
            whole = self._seconds_per_pixel * pose.width * pose.height * scale * scale
            factor = max(0.2, round((budget / whole) ** 0.5, 1))
        if factor > 0.8:  # fewer pixels would not be worth the change of sharpness
            factor = 1.0
        width, height = pose.width * scale * factor, pose.height * scale * factor
        return max(1, round(width)), max(1, round(height)), factor == 1.0

    def _fail(self, error: Exception) -> None:
        message = str(error) if isinstance(error, LuxelError) else f"{type(error).__name__}: {error}"
        if isinstance(error, torch.OutOfMemoryError):
            release_memory()
            message = "The GPU has no memory left for an image of this size: lower the resolution."
        if message not in self._logged:
            self._logged.add(message)
            log.error("A page could not be rendered; it tries again. %s", message, exc_info=error)
        now = time.monotonic()
        self._retry_at, self._drawn_at = now + ERROR_PAUSE, now
        self._dirty = True
        self._state = replace(self._state, error=message)
        self._tell(at_once=True)

    def _tell(self, at_once: bool = False) -> None:
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
            self._report(replace(self._state, fps=fps, time=shown, playing=playing))
        except Exception:  # a page that is gone; its images end with stop()
            log.debug("a page did not take its report", exc_info=True)


class ViserSink:
    """Sends images to a viser client and waits until it has taken the previous one.

    viser does not confirm images, and a browser that gets them faster than it decodes them shows none. A
    question about the page's local storage, answered after the image was taken, serves as confirmation.

    Args:
        client: viser ClientHandle.
        patience: seconds after which an unanswered image counts as taken.
    """

    def __init__(self, client: Any, patience: float = 1.0) -> None:
        self._client, self._patience = client, patience
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="luxel-sink")
        self._pending: Future[None] | None = None

    def wait(self) -> None:
        """Returns when the page has taken the last image, or seems to have forgotten it."""
        if self._pending is not None:
            self._pending.result()

    def send(self, image: np.ndarray, quality: int) -> None:
        """Sends an image, uint8 [H, W, 3], as JPEG of ``quality`` or, from 100 on, as PNG."""
        if quality >= 100:
            self._client.scene.set_background_image(image, format="png")
        else:
            self._client.scene.set_background_image(image, format="jpeg", jpeg_quality=quality)
        self._pending = self._pool.submit(self._ask)

    def close(self) -> None:
        """Lets the waiting thread end."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _ask(self) -> None:
        try:
            self._client.local_storage.get_item("luxel-image", timeout=self._patience)
        except (RuntimeError, TimeoutError):
            return  # storage is blocked (an answer as well), the page hangs, or it is gone


def _same_pose(a: Pose, b: Pose) -> bool:
    return (
        np.array_equal(a.wxyz, b.wxyz)
        and np.array_equal(a.position, b.position)
        and (a.fov_y, a.width, a.height) == (b.fov_y, b.width, b.height)
    )
