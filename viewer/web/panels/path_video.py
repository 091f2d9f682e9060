"""The controls that render a camera path to a video."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from luxel.render.errors import LuxelError
from luxel.scenes.paths import CameraPath, resized
from luxel.viewer.web.camera_path.film_jobs import FilmJobs, FilmResult
from luxel.viewer.web.page import Page
from luxel.viewer.web.panels.text import as_text

SIZES = {
    "as the page": None,
    "1280 x 720": (1280, 720),
    "1920 x 1080": (1920, 1080),
    "3840 x 2160": (3840, 2160),
}
FPS = ("24", "30", "60")
TELL_EVERY = 0.2  # seconds between updates of the progress
BAR = "film"  # name of the bar on the image
RENDER, CANCEL = "Render video", "Cancel video"


class VideoControls:
    """Renders the path of a page to an MP4 file, in the run folder where there is one, and sends it to the page.

    A film goes on when its page is closed; then the other pages, and those that are opened later, offer its file.

    Args:
        gui: viser's GuiApi of the page.
        page: whose look (output, background, clipping) the video has.
        path: makes the path with that many frames per second.
        show: shows a message, Markdown.
    """

    def __init__(
        self, gui: Any, page: Page, path: Callable[[float], CameraPath], show: Callable[[str], None]
    ) -> None:
        self._page, self._path, self._show = page, path, show
        self._jobs = FilmJobs.of(page.session)
        self._told = 0.0
        self._dismissed: FilmResult | None = None  # whose offer was closed on this page
        self._size = gui.add_dropdown("Video size", tuple(SIZES))
        self._fps = gui.add_dropdown("Frames a second", FPS, initial_value="30")
        self._button = gui.add_button(RENDER, hint="MP4; shown as the page shows the scene now")
        self._bar = gui.add_progress_bar(0.0, visible=False)
        self._button.on_click(lambda _: self.toggle())

    def attach(self) -> None:
        """Shows the film that is being rendered, or waits, and follows it."""
        self._jobs.on_change(self._follow)
        self._follow()

    def detach(self) -> None:
        """Follows it no more; it goes on."""
        self._jobs.forget(self._follow)
        self._jobs.leave(self._page)

    def toggle(self) -> None:
        """Begins a video, or cancels the one that is being rendered."""
        if self._jobs.job is not None:
            self._jobs.cancel()
            return
        try:
            path = self._sized_path()
        except LuxelError as error:
            self._show(as_text(str(error)))
            return
        self._jobs.begin(self._page.session, path, self._page.stream.settings, self._page)

    def _sized_path(self) -> CameraPath:
        path, size = self._path(float(self._fps.value)), SIZES[self._size.value]
        return path if size is None else replace(path, cameras=resized(path.cameras, *size))

    def _follow(self) -> None:
        """Shows the progress, takes the result of a film of this page, or offers that of a page that was closed."""
        job, result, jobs = self._jobs.job, self._jobs.result, self._jobs
        label = RENDER if job is None else CANCEL
        if self._button.label != label:
            self._button.label, self._bar.visible = label, job is not None
            self._bar.value = 0.0
        now = time.monotonic()
        if job is not None and now - self._told > TELL_EVERY:
            self._told, self._bar.value = now, round(100 * job.share, 1)
        if result is None:
            self._page.bars.hide(BAR)
        elif jobs.owner is self._page:
            self._take()
        elif jobs.owner is None and result is not self._dismissed:
            self._offer(result)

    def _offer(self, result: FilmResult) -> None:
        if result.state == "done":
            text = f"The film {result.file.name} of a page that was closed is ready: {result.frames} frames."
            self._page.bars.show(BAR, text, [("Download", self._take)], self._dismiss)
        else:
            text = f"The film of a page that was closed has failed: {result.message}"
            self._page.bars.show(BAR, text, closed=self._dismiss)

    def _dismiss(self) -> None:
        self._dismissed = self._jobs.result
        self._jobs.dismiss()

    def _take(self) -> None:
        taken = self._jobs.take()
        if taken is None:
            return
        result, content = taken
        if result.state == "done":
            if not content:
                self._show(as_text(f"{result.file} was deleted meanwhile."))
                return
            self._page.client.send_file_download(result.file.name, content, save_immediately=True)
            name = result.file if result.stored else result.file.name
            self._show(as_text(f"{result.frames} frames: {name}"))
        else:
            self._show(as_text(result.message or "The video was cancelled."))
