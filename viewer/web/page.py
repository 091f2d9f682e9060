"""One open page: its browser, its image stream, its camera, and the clicks on its image."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from luxel.render.geometry.camera import View
from luxel.viewer.edit.masks import Mode
from luxel.viewer.web.chosen_view import ChosenView
from luxel.viewer.web.divider import Divider
from luxel.viewer.web.end_card import EndCard
from luxel.viewer.web.image_bar import ImageBars
from luxel.viewer.web.image_marks import ImageMarks
from luxel.viewer.web.images.stream import ClientStream, StreamReport
from luxel.viewer.web.images.thumbnails import Thumbnails
from luxel.viewer.web.navigate import Pose, SceneExtent, focused, jump, place, start_pose, turn_up
from luxel.viewer.web.session import Session
from luxel.viewer.web.shading.shading import Sample
from luxel.viewer.web.share.menu import Share
from luxel.viewer.web.toolbar import Toolbar
from luxel.viewer.web.transport.sinks import PageSink

log = logging.getLogger("luxel.viewer")


@dataclass(frozen=True)
class Click:
    """A click on the image of a page.

    Args:
        pixel: column and row in the image of `Page.pose`, in its pixels; (0, 0) is the upper left corner.
        place: the same in [0, 1] of the image.
        origin: camera centre, world coordinates, [3].
        direction: from the camera through the pixel, unit length, world coordinates, [3].
        sample: colour, alpha and depth of the scene at this pixel.
        point: world coordinates of what is visible there, [3]; None where the pixel is empty or there is no depth.
    """

    pixel: tuple[float, float]
    origin: np.ndarray
    direction: np.ndarray
    sample: Sample
    point: np.ndarray | None
    place: tuple[float, float] = (0.5, 0.5)


class Page:
    """One open page, as its panels use it.

    Attributes:
        client: viser ClientHandle: ``gui``, ``scene``, ``camera``, downloads and notifications of this page.
        session: the scene behind the page.
        extent: centre, size and up direction of the scene, that which was measured where there is one.
        scene_up: up direction [3] of the scene without what was measured.
        up: direction [3] that is up on the page; that of the scene until another one is chosen.
        thumbnails: small versions of the views' images, shared by all pages.
        stream: renders the images of this page.
        sink: takes the images to the page; ``sink.stream.figures`` has latency and costs as the page measures them.
        toolbar: the tools on the image; panels add theirs.
        divider: the line on the image between what is compared.
        end_card: the card on the image about a training that has ended.
        share: the menu that makes files of what the page shows.
        marks: outlines that a tool draws over the image.
        chosen_view: the view of the capture that lists and buttons of all panels mean.
        dark: whether the colours of the page are dark.
        bars: sentences on the image with buttons.
        selection_mode: how a new selection of primitives joins the present one, see `luxel.viewer.edit.MODES`.

    Args:
        logged: messages of failures already logged, shared by the pages.
        scene_up: see the attribute; None: that of ``extent``.
    """

    def __init__(
        self,
        client: Any,
        session: Session,
        extent: SceneExtent,
        thumbnails: Thumbnails | None = None,
        logged: set[str] | None = None,
        scene_up: np.ndarray | None = None,
    ) -> None:
        self.client, self.session, self.extent = client, session, extent
        self.up = extent.up
        self.scene_up = extent.up if scene_up is None else scene_up
        self.selection_mode: Mode = "replace"
        self.share = Share(self)
        self.dark = False
        self.toolbar, self.divider, self.marks = Toolbar(), Divider(), ImageMarks()
        self.end_card = EndCard(session, self.toolbar)
        self.chosen_view = ChosenView(session.views)
        self._flights, self._rested = 0, self.pose()
        self.bars = ImageBars()
        self.thumbnails = Thumbnails() if thumbnails is None else thumbnails
        self._logged: set[str] = set() if logged is None else logged
        self.sink = PageSink(client)
        figures = self.sink.stream.figures
        self.stream = ClientStream(session, self.sink, self._report, self._logged, figures=figures.summary)
        self._reports: list[Callable[[StreamReport], None]] = []
        self._seeks: list[Callable[[float], None]] = []
        self._schemes: list[Callable[[], object]] = []
        self._clicks: list[Callable[[Click], None]] = []
        self._alt_clicks: list[Callable[[Click], None]] = []
        self._motion = 0
        self._lock, self._moving = threading.Lock(), threading.Lock()
        self._clicking = threading.Lock()

    @property
    def roomy(self) -> bool:
        """Whether the panel lies next to the image; on a phone it covers the image."""
        camera = self.client.camera
        return camera.image_width > min(450, camera.image_height)

    def on_report(self, callback: Callable[[StreamReport], None]) -> None:
        """Calls ``callback`` with each report of the stream, about four times a second."""
        self._reports.append(callback)

    def forget_report(self, callback: Callable[[StreamReport], None]) -> None:
        """The reverse of `on_report`."""
        self._reports = [each for each in self._reports if each != callback]

    def on_seek(self, callback: Callable[[float], None]) -> None:
        """Calls ``callback`` with the new time whenever a panel seeks."""
        self._seeks.append(callback)

    def on_scheme(self, callback: Callable[[], object]) -> None:
        """Calls ``callback`` when `dark` has changed."""
        self._schemes.append(callback)

    def follow_scheme(self, dark: bool) -> None:
        """The colours of the page are dark, or light."""
        if dark != self.dark:
            self.dark = dark
            for callback in self._schemes:
                callback()

    def seek(self, time: float) -> None:
        """Stops the playback of a dynamic scene at a time; nothing happens in a static one."""
        if self.session.times is not None:
            self.stream.seek(time)
            for callback in self._seeks:
                callback(time)

    def pose(self) -> Pose:
        """The camera of the page now."""
        return Pose.of_client(self.client.camera)

    def follow(self, pose: Pose) -> None:
        """Takes a camera from viser's messages; ignored while the page sends each frame's on its own websocket."""
        if not self.sink.stream.connected:
            self.stream.move(pose)

    def connection_changed(self) -> None:
        """Shows the camera again: its images come over another connection from now on."""
        if not self.sink.stream.connected:
            self.stream.move(self.pose())
        self.stream.redraw()

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the image on the page, in pixels of the screen; viser's camera has fewer at times."""
        return self.stream.window or (self.client.camera.image_width, self.client.camera.image_height)

    def begin_motion(self) -> Callable[[], bool]:
        """Claims the camera for an animation.

        Returns:
            A function that is true as soon as another animation has begun or the page was closed.
        """
        with self._moving:
            self._motion += 1
            mine = self._motion
        return lambda: self._motion != mine or self.stream.stopped

    def fly_to(self, target: Pose) -> None:
        """Moves the camera to a pose within about half a second; returns when it is there, or moved otherwise."""
        self._fly(target)

    def _fly(self, target: Pose) -> Callable[[], bool]:
        """Moves the camera to a pose; gives what `begin_motion` gave."""
        cancelled = self.begin_motion()
        jump(self.client, target, self.extent, cancelled=cancelled, lock=self._moving, up=self.up)
        return cancelled

    def place(self, pose: Pose) -> None:
        """Puts the camera at a pose at once."""
        place(self.client, pose, self.extent, up=self.up)

    def turn_up(self, up: np.ndarray) -> None:
        """Makes a direction [3] the up of the page, where its camera is now: a flight ends."""
        self.begin_motion()
        self.up = up
        turn_up(self.client, up)

    def go_to(self, view: View) -> None:
        """Flies to a view's pose and field of view, and shows its time; it becomes the chosen one."""
        with self._lock:
            self._flights += 1
        try:
            self.chosen_view.choose(view)
            self.seek(view.time)
            self.fly_to(self._target_of(view))
        finally:
            with self._lock:
                self._flights -= 1

    def go_by(self, by: int) -> None:
        """Flies to the view so many places after the chosen one, or that nearest to where the camera was moved."""
        self.follow_view()
        self.go_to(self.chosen_view.neighbour(by))

    def follow_view(self) -> None:
        """Chooses the view nearest to the camera, unless that is on its way to one."""
        if not self._flights:
            self.chosen_view.follow(self.pose(), self.extent.radius)

    def beginning(self) -> Pose:
        """Where a page with this window begins."""
        camera = self.client.camera
        return start_pose(self.session.views, self.extent, camera.image_width / max(1, camera.image_height))

    def reset(self) -> None:
        """Flies to where the page began, the scene's up direction upright."""
        self.up = self.extent.up
        cancelled = self._fly(self.beginning())
        with self._moving:
            if not cancelled():
                turn_up(self.client, self.up)

    @property
    def clickable(self) -> bool:
        """Whether a tool takes clicks on the image."""
        return bool(self._clicks)

    def focus(self, u: float, v: float) -> None:
        """Flies half the distance to what is visible at a position in the image, which becomes the centre of rotation.

        The direction of view stays. Where nothing is visible, a notification says so.

        Args:
            u, v: place on the image, from (0, 0) at the upper left to (1, 1) at the lower right corner.
        """
        pose = self.pose()
        point = make_click(pose, u, v, self.stream.sample(pose, u, v)).point
        if point is None:
            text = "Point at something that is not transparent."
            self.client.add_notification("There is no surface", text, auto_close_seconds=4)
            return
        self.fly_to(focused(pose, point))
        with self.client.atomic():
            self.client.camera.look_at = point

    def set_up(self, up: np.ndarray) -> None:
        """Makes a world direction [3] the up direction of this page; the camera is turned upright.

        A page looks at the same point from the same place afterwards. Nothing happens for a direction of length 0.
        """
        length = float(np.linalg.norm(up))
        if length > 1e-9:
            self.extent = replace(self.extent, up=np.asarray(up, float) / length)
            self.turn_up(self.extent.up)

    def _target_of(self, view: View) -> Pose:
        """The pose that shows a view's full image."""
        camera = self.client.camera
        return Pose.of_camera(view.camera, camera.image_width / max(1, camera.image_height))

    def listen(self, callback: Callable[[Click], None], on: bool, *, alt: bool = False) -> None:
        """Starts or stops calling ``callback`` with clicks on the image; drags turn the camera in any case.

        The browser reports clicks only while there is a callback.

        Args:
            callback: is called with each click.
            on: whether it is.
            alt: with those while Alt is held, instead of those without a key.
        """
        clicked, callbacks = (self._alt_clicked, self._alt_clicks) if alt else (self._clicked, self._clicks)
        scene = self.client.scene
        with self._lock:
            before = bool(callbacks)
            callbacks[:] = [c for c in callbacks if c != callback] + ([callback] if on else [])
            after = bool(callbacks)
        if after and not before:
            scene.on_click(modifier="alt" if alt else None)(clicked)
        elif before and not after:
            scene.remove_click_callback(clicked)

    def _clicked(self, event: Any) -> None:
        self.click(*event.screen_pos)

    def _alt_clicked(self, event: Any) -> None:
        self.click(*event.screen_pos, alt=True)

    def click(self, u: float, v: float, alt: bool = False) -> None:
        """Handles a click: renders the scene there once, and calls the callbacks of `listen`.

        A click while another one of this page is handled is dropped.

        Args:
            u, v: place on the image, from (0, 0) at the upper left to (1, 1) at the lower right corner.
            alt: whether Alt is held.
        """
        callbacks = list(self._alt_clicks if alt else self._clicks)
        # Clicks wait in threads that all pages share: during one, others of this page are dropped.
        if not callbacks or not self._clicking.acquire(blocking=False):
            return
        try:
            pose = self.pose()
            sample = self.stream.sample(pose, u, v)
            click = make_click(pose, u, v, sample)
            for callback in callbacks:
                callback(click)
        except Exception as error:  # a tool that fails must not end the page
            log.exception("A click could not be handled.")
            self.client.add_notification("The click failed", str(error), color="red", auto_close_seconds=8)
        finally:
            self._clicking.release()

    def _report(self, report: StreamReport) -> None:
        self._follow_at_rest()
        for callback in self._reports:
            try:
                callback(report)
            except Exception as error:  # a tool that fails must not affect the others
                if not self.stream.stopped and (message := f"{callback!r}: {error}") not in self._logged:
                    self._logged.add(message)
                    log.exception("A panel failed to show a report.")

    def _follow_at_rest(self) -> None:
        """Follows the camera once it has stayed where it is since the last report."""
        before, self._rested = self._rested, self.pose()
        same = np.array_equal(before.position, self._rested.position)
        if same and np.array_equal(before.wxyz, self._rested.wxyz):
            self.follow_view()

    def start(self) -> None:
        """Starts to render for the page."""
        self.stream.start()

    def close(self, wait: float = 0.0) -> None:
        """Stops rendering; returns after at most ``wait`` seconds."""
        self.stream.stop()
        self.sink.close()  # first: the stream may be waiting for it
        self.stream.stop(wait)


def make_click(pose: Pose, u: float, v: float, sample: Sample) -> Click:
    """The ray through a position in the image, and the point where it meets the scene.

    Args:
        pose: camera of the page.
        u, v: place on the image in [0, 1], from the upper left.
        sample: what is visible there; ``depth`` is z along the optical axis.
    """
    half = np.tan(0.5 * pose.fov_y)
    x, y = (2 * u - 1) * half * pose.width / pose.height, (2 * v - 1) * half
    ray = pose.rotation @ np.array([x, y, 1.0])  # one unit of it is one unit of z-depth
    point = None if sample.depth is None else pose.position + sample.depth * ray
    pixel = (u * pose.width, v * pose.height)
    return Click(pixel, pose.position, ray / np.linalg.norm(ray), sample, point, (u, v))
