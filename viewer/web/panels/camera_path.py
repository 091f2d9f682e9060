"""Camera path: keyframes of the page's camera, played and drawn in the page, and saved."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from luxel.render.errors import LuxelError
from luxel.render.storage.journal import scratch_folder
from luxel.render.storage.single import writing_unused
from luxel.scenes.files.ply import writable
from luxel.scenes.paths import CameraPath, load_path, path_json
from luxel.viewer.web.camera_path.keyframes import FPS, Keyframe, keyframes_of, smooth_path
from luxel.viewer.web.camera_path.path_lines import PathLines
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.panels.panel import Panel
from luxel.viewer.web.panels.text import as_text

NO_KEYFRAMES = "none yet"
LARGEST_PATH = 16 << 20  # bytes of a file that is opened


class CameraPathPanel(Panel):
    """Records keyframes and plays, draws, saves or downloads the path through them."""

    title = "Camera path"
    unfolded = False

    def build(self, gui: Any, order: float) -> None:
        """Adds the controls."""
        self._keyframes: list[Keyframe] = []
        self._stopped = lambda: True
        self._lines = PathLines(self.page.client, self.page.extent.radius, self._choose)
        add = gui.add_button("Add keyframe", hint="Records the camera, and the time of a dynamic scene")
        self._chosen = gui.add_dropdown("Keyframe", (NO_KEYFRAMES,), disabled=True)
        edit = gui.add_button_group("", ["Go to", "Replace", "Delete"])
        order_of = gui.add_button_group("", ["Earlier", "Later"], hint="Moves the keyframe within the path")
        self._seconds = gui.add_number("Duration", 4.0, min=0.1, max=600.0, step=0.5, hint="Seconds")
        self._loop = gui.add_checkbox("Return to start", False, hint="The path ends where it begins")
        self._show_path = gui.add_checkbox("Show path", True, hint="Draws the path and its keyframes")
        self._place = gui.add_slider(
            "Timeline", 0.0, 1.0, 0.005, 0.0, hint="Place on the path", disabled=True
        )
        self._play = gui.add_button("Play path")
        targets = ["Save", "Download"] if self.page.session.folder else ["Download"]
        save = gui.add_button_group(
            "", targets, hint="JSON for `luxel render --path`, in the run folder or here"
        )
        upload = gui.add_upload_button("Open path", mime_type="application/json", hint="A saved path")
        self._message = gui.add_markdown("", visible=False)
        film = gui.add_button("Film …", hint="Opens Share: formats, size and frame rate")
        film.on_click(lambda _: self.page.share.open("film"))
        self.page.share.follow_path(self.path, lambda: len(self._keyframes))
        add.on_click(lambda _: self.add())
        edit.on_click(lambda _: self._edit(str(edit.value)))
        order_of.on_click(lambda _: self._move(-1 if order_of.value == "Earlier" else 1))
        self._chosen.on_update(lambda event: event.client_id is not None and self._draw())
        for control in (self._seconds, self._loop, self._show_path):
            control.on_update(lambda event: event.client_id is not None and self._draw())
        self._place.on_update(lambda event: event.client_id is not None and self._try(self._scrub))
        self._play.on_click(lambda _: self._try(self._toggle))
        save.on_click(lambda _: self._try(self.save if save.value == "Save" else self.download))
        upload.on_upload(lambda _: self._try(lambda: self.open(upload.value.content)))

    def add(self) -> None:
        """Adds the present camera after the chosen keyframe."""
        place = self._index() + 1 if self._keyframes else 0
        self._keyframes.insert(place, self._present())
        self._list(place)

    def path(self, fps: float = FPS) -> CameraPath:
        """The path through the keyframes, with ``fps`` frames per second.

        Raises:
            LuxelError: there are fewer than two keyframes.
        """
        timed = self.page.session.times is not None
        loop = bool(self._loop.value)
        return smooth_path(self._keyframes, self._seconds.value, loop=loop, timed=timed, fps=fps)

    def save(self) -> Path:
        """Writes the path into the run folder under a new name and shows how to render it.

        Raises:
            LuxelError: there are too few keyframes, or the file cannot be written.
        """
        folder = self.page.session.folder
        assert folder is not None
        content = self._content()
        file = folder / "path.json"
        with writable(file), writing_unused(folder, "path", ".json") as draft:
            draft.file.write(content)
        file = draft.target or file
        self._show(f"Saved. Render it with `luxel render {folder} --path {file}`")
        return file

    def download(self) -> None:
        """Sends the path to the browser as path.json.

        Raises:
            LuxelError: there are too few keyframes.
        """
        self.page.client.send_file_download("path.json", self._content(), save_immediately=True)
        self._show("Downloaded. Render it with `luxel render SCENE --path path.json`")

    def open(self, content: bytes) -> None:
        """Replaces the keyframes by those of a saved path.

        Raises:
            LuxelError: it is no camera path.
        """
        if len(content) > LARGEST_PATH:
            raise LuxelError("The chosen file is too large for a camera path.", "Open a saved path (.json).")
        try:
            content.decode()
        except UnicodeDecodeError:
            raise LuxelError("The chosen file is no camera path.", "Open a saved path (.json).") from None
        with scratch_folder() as folder:
            file = folder / "path.json"
            file.write_bytes(content)
            try:
                keyframes, seconds = keyframes_of(load_path(file, self.page.session.about.shift))
            except LuxelError as error:  # the name of the file is not what the user chose
                problem = error.problem.replace(str(file), "The chosen file")
                raise LuxelError(problem, error.remedy) from error
        self._keyframes = keyframes
        self._seconds.value = round(min(max(seconds, 0.1), 600.0), 3)
        self._list(0)
        self._show(f"Opened: {len(keyframes)} keyframes.")

    def _present(self) -> Keyframe:
        pose = self.page.pose()
        return Keyframe(pose.camera(pose.width, pose.height), self.page.stream.time)

    def _index(self) -> int:
        """Of the chosen keyframe, from 0."""
        return int(self._chosen.value) - 1 if self._keyframes else -1

    def _choose(self, index: int) -> None:
        """A keyframe was clicked on the page."""
        if index < len(self._keyframes):
            self._list(index)
            self._edit("Go to")

    def _content(self) -> bytes:
        """The path as JSON."""
        path = self.path()
        shift = self.page.session.about.shift
        return path_json(path.cameras, fps=path.fps, times=path.times, shift=shift)

    def _edit(self, action: str) -> None:
        if not self._keyframes:
            return
        index = self._index()
        if action == "Delete":
            del self._keyframes[index]
            self._list(min(index, len(self._keyframes) - 1))
        elif action == "Replace":
            self._keyframes[index] = self._present()
            self._list(index)
        else:
            keyframe = self._keyframes[index]
            self.page.seek(keyframe.time)
            self.page.fly_to(Pose.of_camera(keyframe.camera))

    def _move(self, by: int) -> None:
        """Swaps the chosen keyframe with the one before (-1) or after it (1)."""
        index, frames = self._index(), self._keyframes
        if frames and 0 <= index + by < len(frames):
            frames[index], frames[index + by] = frames[index + by], frames[index]
            self._list(index + by)

    def _list(self, chosen: int) -> None:
        """Shows the numbers of the keyframes, ``chosen`` (from 0) selected."""
        names = tuple(str(i + 1) for i in range(len(self._keyframes))) or (NO_KEYFRAMES,)
        self._chosen.options = names
        self._chosen.value = names[max(chosen, 0)]
        self._chosen.disabled = not self._keyframes
        self._place.disabled = len(self._keyframes) < 2
        self._draw()

    def _draw(self) -> None:
        """Draws the path where that is wanted."""
        if not self._show_path.value:
            self._lines.clear()
            return
        path = self.path() if len(self._keyframes) > 1 else None
        self._lines.draw(self._keyframes, path, self._index())

    def _scrub(self) -> None:
        """Shows the position of the path that the timeline says."""
        path = self.path()
        self.page.begin_motion()
        self._show_frame(path, round(self._place.value * (len(path.cameras) - 1)))

    def _show_frame(self, path: CameraPath, frame: int) -> None:
        if path.times:
            self.page.seek(path.times[frame])
        self.page.place(Pose.of_camera(path.cameras[frame]))

    def _toggle(self) -> None:
        if not self._stopped():
            self.page.begin_motion()  # ends this one
            return
        path, loop = self.path(), bool(self._loop.value)
        self._stopped = self.page.begin_motion()
        threading.Thread(target=self._run, args=(path, loop, self._stopped), daemon=True).start()

    def _run(self, path: CameraPath, loop: bool, stopped: Any) -> None:
        """Moves the camera along the path in real time until it ends or another motion begins."""
        self._play.label = "Stop"
        began, shown_at = time.monotonic(), 0.0
        while not stopped():
            now = time.monotonic()
            frame = int((now - began) * path.fps)
            last = frame >= len(path.cameras) - 1 and not loop
            frame = len(path.cameras) - 1 if last else frame % len(path.cameras)
            self._show_frame(path, frame)
            if last or now - shown_at > 0.25:
                shown_at = now
                self._place.value = round(frame / (len(path.cameras) - 1) / 0.005) * 0.005
            if last:
                self.page.begin_motion()
                break
            time.sleep(1 / path.fps)
        self._play.label = "Play path"

    def _try(self, action: Callable[[], Any]) -> None:
        try:
            action()
        except LuxelError as error:
            self._show(as_text(str(error)))

    def _show(self, message: str) -> None:
        self._message.content = message
        self._message.visible = True
