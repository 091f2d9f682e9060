"""Camera path: keyframes of the page's camera, played in the page and saved for `luxel render --path`."""

from __future__ import annotations

import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from luxel.render.camera import Camera
from luxel.render.errors import LuxelError
from luxel.scenes.paths import CameraPath, interpolate, interpolate_times, save_path
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.panels.panel import Panel
from luxel.viewer.web.panels.text import as_text

FPS = 30.0
NO_KEYFRAMES = "none yet"


@dataclass(frozen=True)
class Keyframe:
    """A camera of the size of the page's canvas, and the time that the page showed (0 in static scenes)."""

    camera: Camera
    time: float = 0.0


def smooth_path(
    keyframes: list[Keyframe], seconds: float, *, loop: bool = False, timed: bool = False
) -> CameraPath:
    """A smooth path through keyframes at FPS frames a second.

    Args:
        keyframes: at least two.
        seconds: duration of the path.
        loop: returns from the last keyframe to the first.
        timed: gives the path the times of the keyframes.

    Raises:
        LuxelError: there are fewer than two keyframes.
    """
    if len(keyframes) < 2:
        raise LuxelError("a camera path needs at least two keyframes.", "Move the camera and add another.")
    frames = max(2, round(seconds * FPS))
    cameras = interpolate([keyframe.camera for keyframe in keyframes], frames, loop)
    times: list[float] = []
    if timed:
        times = [keyframe.time for keyframe in keyframes]
        times = (
            interpolate_times([*times, times[0]], frames + 1)[:-1]
            if loop
            else interpolate_times(times, frames)
        )
    return CameraPath(cameras, FPS, times)


class CameraPathPanel(Panel):
    """Records keyframes and plays, saves or downloads the path through them."""

    title = "Camera path"
    unfolded = False

    def build(self, gui: Any, order: float) -> None:
        """Adds the controls."""
        self._keyframes: list[Keyframe] = []
        self._stopped = lambda: True
        add = gui.add_button("Add keyframe", hint="Records the camera, and the time of a dynamic scene")
        self._chosen = gui.add_dropdown("Keyframe", (NO_KEYFRAMES,), disabled=True)
        edit = gui.add_button_group("", ["Go to", "Delete"])
        self._seconds = gui.add_number("Duration", 4.0, min=0.1, max=600.0, step=0.5, hint="Seconds")
        self._loop = gui.add_checkbox("Return to start", False, hint="The path ends where it begins")
        self._play = gui.add_button("Play path")
        targets = ["Save", "Download"] if self.page.session.folder else ["Download"]
        save = gui.add_button_group(
            "", targets, hint="JSON for `luxel render --path`, in the run folder or here"
        )
        self._message = gui.add_markdown("", visible=False)
        add.on_click(lambda _: self.add())
        edit.on_click(lambda _: self._edit(edit.value))
        self._play.on_click(lambda _: self._try(self._toggle))
        save.on_click(lambda _: self._try(self.save if save.value == "Save" else self.download))

    def add(self) -> None:
        """Adds the present camera as the last keyframe."""
        pose = self.page.pose()
        self._keyframes.append(Keyframe(pose.camera(pose.width, pose.height), self.page.stream.time))
        self._list(len(self._keyframes) - 1)

    def path(self) -> CameraPath:
        """The path through the keyframes.

        Raises:
            LuxelError: there are fewer than two keyframes.
        """
        timed = self.page.session.times is not None
        return smooth_path(self._keyframes, self._seconds.value, loop=self._loop.value, timed=timed)

    def save(self) -> Path:
        """Writes the path into the run folder under a new name and shows how to render it.

        Raises:
            LuxelError: there are too few keyframes, or the file cannot be written.
        """
        folder = self.page.session.folder
        assert folder is not None
        file, number = folder / "path.json", 1
        while file.exists():
            number += 1
            file = folder / f"path-{number}.json"
        self._write(file)
        self._show(f"Saved. Render it with `luxel render {folder} --path {file}`")
        return file

    def download(self) -> None:
        """Sends the path to the browser as path.json.

        Raises:
            LuxelError: there are too few keyframes.
        """
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "path.json"
            self._write(file)
            content = file.read_bytes()
        self.page.client.send_file_download("path.json", content, save_immediately=True)
        self._show("Downloaded. Render it with `luxel render SCENE --path path.json`")

    def _write(self, file: Path) -> None:
        path = self.path()
        save_path(file, path.cameras, fps=path.fps, times=path.times)

    def _edit(self, action: str) -> None:
        if not self._keyframes:
            return
        index = int(self._chosen.value) - 1
        if action == "Delete":
            del self._keyframes[index]
            self._list(min(index, len(self._keyframes) - 1))
            return
        keyframe = self._keyframes[index]
        self.page.seek(keyframe.time)
        self.page.fly_to(Pose.of_camera(keyframe.camera))

    def _list(self, chosen: int) -> None:
        """Shows the numbers of the keyframes, ``chosen`` (from 0) selected."""
        names = tuple(str(i + 1) for i in range(len(self._keyframes))) or (NO_KEYFRAMES,)
        self._chosen.options = names
        self._chosen.value = names[max(chosen, 0)]
        self._chosen.disabled = not self._keyframes

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
        began = time.monotonic()
        while not stopped():
            frame = int((time.monotonic() - began) * path.fps)
            last = frame >= len(path.cameras) - 1 and not loop
            frame = len(path.cameras) - 1 if last else frame % len(path.cameras)
            if path.times:
                self.page.seek(path.times[frame])
            self.page.place(Pose.of_camera(path.cameras[frame]))
            if last:
                self.page.begin_motion()
                break
            time.sleep(1 / path.fps)
        self._play.label = "Play path"

    def _try(self, action: Any) -> None:
        try:
            action()
        except LuxelError as error:
            self._show(as_text(str(error)))

    def _show(self, message: str) -> None:
        self._message.content = message
        self._message.visible = True
