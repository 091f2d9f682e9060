"""The controls that render a camera path to a video."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from luxel.render.errors import LuxelError
from luxel.render.storage.journal import scratch_folder
from luxel.scenes.paths import CameraPath, resized
from luxel.viewer.web.camera_path.path_video import PathVideo
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


class VideoControls:
    """Renders the path of a page to an MP4 file, in the run folder where there is one, and sends it to the page.

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
        self._job: PathVideo | None = None
        self._told = 0.0
        self._size = gui.add_dropdown("Video size", tuple(SIZES))
        self._fps = gui.add_dropdown("Frames a second", FPS, initial_value="30")
        self._button = gui.add_button("Render video", hint="MP4; shown as the page shows the scene now")
        self._bar = gui.add_progress_bar(0.0, visible=False)
        self._button.on_click(lambda _: self.toggle())

    @property
    def rendering(self) -> bool:
        """Whether a video is being rendered."""
        return self._job is not None and self._job.state == "rendering"

    def cancel(self) -> None:
        """Ends a video that is being rendered."""
        if self._job is not None:
            self._job.cancel()

    def toggle(self) -> None:
        """Begins a video, or cancels the one that is being rendered."""
        if self.rendering:
            self.cancel()
            return
        try:
            path = self._sized_path()
        except LuxelError as error:
            self._show(as_text(str(error)))
            return
        page = self._page
        settings = page.stream.settings
        scratch, run = ExitStack(), page.session.folder
        folder = run or scratch.enter_context(scratch_folder())
        tell = partial(self._tell, scratch=scratch, name_alone=run is None)
        self._job = PathVideo(page.session, path, settings, folder / "path.mp4", tell)
        self._button.label, self._bar.value, self._bar.visible = "Cancel video", 0.0, True
        self._job.start()

    def _sized_path(self) -> CameraPath:
        path, size = self._path(float(self._fps.value)), SIZES[self._size.value]
        return path if size is None else replace(path, cameras=resized(path.cameras, *size))

    def _tell(self, job: PathVideo, scratch: ExitStack, name_alone: bool) -> None:
        """Shows the progress, and at the end the result; then removes the temporary folder of a session without one."""
        now = time.monotonic()
        if job.state == "rendering":
            if now - self._told > TELL_EVERY:
                self._told, self._bar.value = now, round(100 * job.share, 1)
            return
        self._button.label, self._bar.visible = "Render video", False
        with scratch:
            if job.state == "done":
                content = job.file.read_bytes()
                self._page.client.send_file_download(job.file.name, content, save_immediately=True)
                self._show(as_text(f"{job.frames} frames: {job.file.name if name_alone else job.file}"))
            else:
                self._show(as_text(job.message or "The video was cancelled."))
