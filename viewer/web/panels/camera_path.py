"""Camera path: keyframes of the scene, recorded, played and drawn in the page, and saved."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from luxel.render.errors import LuxelError
from luxel.render.storage.journal import scratch_folder
from luxel.render.storage.single import writing_unused
from luxel.scenes.files.ply import writable
from luxel.scenes.paths import CameraPath, load_path, path_json
from luxel.viewer.web.camera_path.keyframes import (
    FPS,
    MAX_KEYFRAMES,
    MAX_SECONDS,
    MIN_SECONDS,
    Keyframe,
    KeyframePath,
    keyframes_of,
    smooth_path,
)
from luxel.viewer.web.camera_path.path_lines import PathLines
from luxel.viewer.web.camera_path.shared_path import SharedPath
from luxel.viewer.web.images.stream import ClientStream, StreamReport
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.panels.panel import Panel
from luxel.viewer.web.panels.text import as_text

NO_KEYFRAMES = "none yet"
LARGEST_PATH = 16 << 20  # bytes of a file that is opened


class CameraPathPanel(Panel):
    """Records keyframes and plays, draws, saves or downloads the path through them.

    Keyframes, duration and their history are those of all pages.
    """

    title = "Camera path"
    unfolded = False
    persisted = ("Show path", "Video size", "Frames a second")

    def build(self, gui: Any, order: float) -> None:
        """Adds the controls."""
        self.shared = SharedPath.of(self.page.session)
        self._problem = ""
        self._stopped = lambda: True
        self._lines = PathLines(self.page.client, self.page.extent.radius, self._choose)
        add = gui.add_button("Add keyframe", hint="Records the camera, and the time of a dynamic scene")
        self._chosen = gui.add_dropdown("Keyframe", (NO_KEYFRAMES,), disabled=True)
        edit = gui.add_button_group("", ["Go to", "Replace", "Delete"])
        order_of = gui.add_button_group("", ["Earlier", "Later"], hint="Moves the keyframe within the path")
        undo = gui.add_button_group("", ["Undo", "Redo"], hint="Of keyframes and their path, on all pages")
        self._seconds = gui.add_number(
            "Duration", 4.0, min=MIN_SECONDS, max=MAX_SECONDS, step=0.5, hint="Seconds"
        )
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
        add.on_click(lambda _: self._try(self.add))
        edit.on_click(lambda _: self._edit(str(edit.value)))
        undo.on_click(lambda _: self.shared.undo() if undo.value == "Undo" else self.shared.redo())
        order_of.on_click(lambda _: self._move(-1 if order_of.value == "Earlier" else 1))
        self._chosen.on_update(lambda event: event.client_id is not None and self._draw())
        for control in (self._seconds, self._loop):
            control.on_update(lambda event: event.client_id is not None and self._set_path())
        self._show_path.on_update(lambda _: self._draw())
        self._place.on_update(lambda event: event.client_id is not None and self._try(self._scrub))
        self._play.on_click(lambda _: self._try(self._toggle))
        save.on_click(lambda _: self._try(self.save if save.value == "Save" else self.download))
        upload.on_upload(lambda _: self._try(lambda: self.open(upload.value.content)))

    def attach(self, stream: ClientStream) -> None:
        """Shows the keyframes that there are, and follows changes of other pages."""
        self.shared.on_change(self._follow)
        self._follow()

    def report(self, report: StreamReport) -> None:
        """Hides the keyframe that the camera stands in, and looks whether another program has changed the file."""
        self._lines.follow(self.page.pose().position)
        self.shared.follow()

    def detach(self) -> None:
        """Follows no more."""
        self.shared.forget(self._follow)

    @property
    def _keyframes(self) -> list[Keyframe]:
        return list(self.shared.present.keyframes)

    def _follow(self) -> None:
        """Shows the present path."""
        path = self.shared.present
        if self._seconds.value != path.seconds:
            self._seconds.value = path.seconds
        if self._loop.value != path.loop:
            self._loop.value = path.loop
        self._list(min(self._index(), len(path.keyframes) - 1))
        if (problem := self.shared.problem) != self._problem:
            self._problem = problem
            self._show(as_text(problem))

    def _change(self, title: str, chosen: int, change: Callable[[list[Keyframe]], object]) -> None:
        """Changes a list of the keyframes, which all pages show then; on this one ``chosen`` is chosen."""

        def changed(path: KeyframePath) -> KeyframePath:
            keyframes = list(path.keyframes)
            change(keyframes)
            if len(keyframes) > MAX_KEYFRAMES:
                raise LuxelError(f"a path has at most {MAX_KEYFRAMES} keyframes.", "Delete some.")
            return replace(path, keyframes=tuple(keyframes))

        self.shared.apply(title, changed)
        self._list(min(chosen, len(self._keyframes) - 1))

    def _set_path(self) -> None:
        """Takes duration and loop from their controls."""
        seconds, loop = float(self._seconds.value), bool(self._loop.value)
        self.shared.apply("Duration", lambda path: replace(path, seconds=seconds, loop=loop))

    def add(self) -> None:
        """Adds the present camera after the chosen keyframe.

        Raises:
            LuxelError: there are too many.
        """
        place, keyframe = self._index() + 1, self._present()
        self._change("Add keyframe", place, lambda keyframes: keyframes.insert(place, keyframe))

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
        seconds = round(min(max(seconds, MIN_SECONDS), MAX_SECONDS), 3)
        self.shared.apply(
            "Open path", lambda path: replace(path, keyframes=tuple(keyframes), seconds=seconds)
        )
        self._list(0)
        self._show(f"Opened: {len(keyframes)} keyframes.")

    def _present(self) -> Keyframe:
        pose = self.page.pose()
        return Keyframe(pose.camera(pose.width, pose.height), self.page.stream.time)

    def _index(self) -> int:
        """Of the chosen keyframe, from 0; -1: there is none."""
        return -1 if self._chosen.value == NO_KEYFRAMES else int(self._chosen.value) - 1

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
        index, keyframes = self._index(), self._keyframes
        if not 0 <= index < len(keyframes):
            return
        if action == "Delete":
            left = min(index, len(keyframes) - 2)
            self._change("Delete keyframe", left, lambda keyframes: _delete(keyframes, index))
        elif action == "Replace":
            present = self._present()
            self._change("Replace keyframe", index, lambda keyframes: _put(keyframes, index, present))
        else:
            keyframe = keyframes[index]
            self.page.seek(keyframe.time)
            self.page.fly_to(Pose.of_camera(keyframe.camera))

    def _move(self, by: int) -> None:
        """Swaps the chosen keyframe with the one before (-1) or after it (1)."""
        index = self._index()
        if index >= 0 and 0 <= index + by < len(self._keyframes):
            self._change("Move keyframe", index + by, lambda keyframes: _swap(keyframes, index, index + by))

    def _list(self, chosen: int) -> None:
        """Shows the numbers of the keyframes, ``chosen`` (from 0) selected."""
        count = len(self.shared.present.keyframes)
        names = tuple(str(i + 1) for i in range(count)) or (NO_KEYFRAMES,)
        if tuple(self._chosen.options) != names:
            self._chosen.options = names
            self._chosen.disabled, self._place.disabled = count == 0, count < 2
        self._chosen.value = names[max(chosen, 0)]
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
        pose = Pose.of_camera(path.cameras[frame])
        self._lines.follow(pose.position)
        self.page.place(pose)

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
        self._message.visible = bool(message)


def _delete(keyframes: list[Keyframe], index: int) -> None:
    del keyframes[index : index + 1]


def _put(keyframes: list[Keyframe], index: int, keyframe: Keyframe) -> None:
    keyframes[index : index + 1] = [keyframe]


def _swap(keyframes: list[Keyframe], a: int, b: int) -> None:
    if max(a, b) < len(keyframes):  # another page may have deleted one
        keyframes[a], keyframes[b] = keyframes[b], keyframes[a]
