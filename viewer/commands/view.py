"""`luxel view`."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from luxel.render.backends import Backend
from luxel.render.errors import LuxelError
from luxel.render.fields.application import Application
from luxel.render.train.resume import read_config
from luxel.scenes import Capture
from luxel.viewer.attach import RunConnection, RunEnded, connect
from luxel.viewer.commands.options import DeviceName, Serve, optional, pick_device
from luxel.viewer.progress import opening
from luxel.viewer.runs import Origin, has_capture, is_field_run, load_drawable, load_origin
from luxel.viewer.web.drawable import field_orientation, render_function

CHECK_EVERY = 0.5  # seconds between questions whether an attached run still trains


@dataclass
class ViewScene:
    """Shows a scene in the browser and prints the address.

    The folder of a run that is training is shown live, with the controls of its training; Ctrl-C ends the viewer only.

    SCENE is the folder of a run or a scene file (.ply as 3DGS or luxel writes it, .splat, .safetensors) with any
    primitive or a neural field. Images are rendered on this machine, for each open page its own. Drag to turn, scroll
    to zoom. "Show cameras" shows where the images of the capture were taken; a click on a camera flies there. Dynamic
    scenes are played or stopped at any time. "Camera path" records a path for `luxel render --path`, "Inspect" shows
    the coordinates and depth of a clicked point.

    Examples:
        luxel view runs/first
        luxel view scene.ply --port 9000
        luxel view scene.ply --capture photos/
    """

    scene: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="SCENE")]
    """Folder of a run, or a .ply, .splat or .safetensors file."""
    capture: Annotated[Path | None, optional("CAPTURE")] = None
    """Show the cameras of this capture; default: the one that the run was trained on."""
    device: DeviceName = "auto"
    """Device that renders; auto: the GPU if luxel can use it, else the CPU."""
    backend: Backend = "luxel"
    """Rasterizer backend; gsplat needs an NVIDIA GPU and `pip install 'luxel[gsplat]'`, and draws Gaussians only."""
    serve: Annotated[Serve, tyro.conf.arg(name="")] = field(default_factory=Serve)

    def execute(self) -> int:
        """Serves until Ctrl-C; returns the exit status."""
        if self.scene.is_dir() and (connection := connect(self.scene)) is not None:
            if not self._show_training(connection):
                return 0
            print("The training has ended; its scene stays.", flush=True)
        device = pick_device(self.device)
        scene = load_drawable(self.scene).to(device)
        render = render_function(scene, self.backend)
        orientation = field_orientation(scene) if isinstance(scene, Application) else {}
        capture = self._open_capture()
        from luxel.viewer.web.serving import serve_until_interrupted, start_viewer
        from luxel.viewer.web.session import StaticSession

        session = StaticSession(
            scene,
            [*capture.train, *capture.test] if capture else [],
            name=self.scene.resolve().stem if self.scene.is_file() else self.scene.resolve().name,
            **{**orientation, **self._appearance(capture)},
            antialiased=self._trained_antialiased(),
            folder=self.scene.resolve() if self.scene.is_dir() else None,
            trained_on=len(capture.train) if capture else None,
        )
        print(f"{self.scene}: {scene.count:,} {scene.noun} on {device}")
        return serve_until_interrupted(start_viewer(session, self.serve, render))

    def _show_training(self, connection: RunConnection) -> bool:
        """Shows a run that trains in another process, until Ctrl-C or its end; whether it has ended."""
        try:
            print(f"viewer: {connection.request('show', serve=self.serve.plain())}")
            print(
                "The run is training: this is its live scene. Ctrl-C ends the viewer, not the training.",
                flush=True,
            )
            while True:
                connection.request("status")
                time.sleep(CHECK_EVERY)
        except KeyboardInterrupt:
            print()
            with suppress(LuxelError):
                connection.request("hide")
            return False
        except RunEnded:
            return True
        finally:
            connection.close()

    @staticmethod
    def _appearance(capture: Capture | None) -> dict[str, Any]:
        """Up direction and background that suit a capture."""
        if capture is None:
            return {}
        return {"up": capture.up, "background": (1.0, 1.0, 1.0) if capture.cutout else (0.0, 0.0, 0.0)}

    def _trained_antialiased(self) -> bool:
        """Whether the scene comes from a run that was trained with antialiasing."""
        if not (self.scene / "config.json").is_file() or is_field_run(self.scene):
            return False
        return read_config(self.scene)[0].antialiased

    def _has_no_capture(self) -> bool:
        """Whether the scene is a field that was trained on something other than a capture."""
        return is_field_run(self.scene) and not has_capture(self.scene)

    def _open_capture(self) -> Capture | None:
        """The capture to show; None, with a message, if the run's own cannot be opened."""
        if self.capture is None and (not self.scene.is_dir() or self._has_no_capture()):
            return None
        try:
            origin = Origin(str(self.capture)) if self.capture else load_origin(self.scene)
            with opening("opening the capture") as on_progress:
                return origin.open(on_progress)
        except LuxelError as error:
            if self.capture is not None:
                raise
            print(f"The scene is shown without the images of its capture: {error.problem}", file=sys.stderr)
            return None
