"""`luxel view`."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from luxel.render.backends import Backend, rasterizer
from luxel.render.errors import LuxelError
from luxel.render.fields.application import Application
from luxel.render.train.resume import read_config
from luxel.scenes import Capture
from luxel.viewer.commands.options import DeviceName, Serve, pick_device, require_drawable
from luxel.viewer.progress import opening
from luxel.viewer.runs import Origin, has_capture, is_field_run, load_drawable, load_origin
from luxel.viewer.web.drawable import field_places, render_field


@dataclass
class ViewScene:
    """Shows a scene in the browser and prints the address.

    SCENE is the folder of a run, or a scene file: .ply as 3DGS or luxel writes it, .splat or .safetensors; of
    Gaussians, 4D Gaussians, convexes, or a neural field. Pictures are rendered on this machine for each open page; drag
    to turn, scroll to come closer. The photographs of a run are shown where they were taken, and a click on one goes
    there. A scene that moves is played, or stopped at any moment.

    Examples:
        luxel view runs/first
        luxel view scene.ply --port 9000
        luxel view scene.ply --capture photos/
    """

    scene: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="SCENE")]
    """Folder of a run, or a .ply, .splat or .safetensors file."""
    capture: Annotated[Path | None, tyro.conf.arg(metavar="CAPTURE")] = None
    """Show the photographs of this capture; default: those that the run was trained on."""
    device: DeviceName = "auto"
    """Where to render; auto: the GPU where luxel can use it."""
    backend: Backend = "luxel"
    """Who draws: luxel's own kernels, or gsplat's (an NVIDIA GPU and `pip install 'luxel[gsplat]'`)."""
    serve: Annotated[Serve, tyro.conf.arg(name="")] = field(default_factory=Serve)

    def execute(self) -> int:
        """Serves until Ctrl-C; returns the exit status."""
        device = pick_device(self.device)
        render = rasterizer(self.backend, device)
        scene = load_drawable(self.scene).to(device)
        directions: dict[str, Any] = {}
        if isinstance(scene, Application):
            render, directions = render_field, field_places(scene)
        else:
            require_drawable(self.backend, scene)
        capture = self._photographs()
        from luxel.viewer.web.serving import serve_until_interrupted, start_viewer
        from luxel.viewer.web.session import StaticSession

        session = StaticSession(
            scene,
            [*capture.train, *capture.test] if capture else [],
            name=self.scene.resolve().stem if self.scene.is_file() else self.scene.resolve().name,
            **{**directions, **self._of(capture)},
            antialiased=self._trained_antialiased(),
        )
        print(f"{self.scene}: {scene.count:,} {scene.noun} on {device}")
        return serve_until_interrupted(start_viewer(session, self.serve, render))

    @staticmethod
    def _of(capture: Capture | None) -> dict[str, Any]:
        """What the photographs say of a session."""
        if capture is None:
            return {}
        return {"up": capture.up, "background": (1.0, 1.0, 1.0) if capture.cutout else (0.0, 0.0, 0.0)}

    def _trained_antialiased(self) -> bool:
        """Whether the scene comes from a run that was trained so."""
        if not (self.scene / "config.json").is_file() or is_field_run(self.scene):
            return False
        return read_config(self.scene)[0].antialiased

    def _is_of_no_capture(self) -> bool:
        """Whether the scene is a field of something else than a capture."""
        return is_field_run(self.scene) and not has_capture(self.scene)

    def _photographs(self) -> Capture | None:
        """The capture to show; a scene is shown without it where it is gone, unless it was asked for."""
        if self.capture is None and (not self.scene.is_dir() or self._is_of_no_capture()):
            return None
        try:
            origin = Origin(str(self.capture)) if self.capture else load_origin(self.scene)
            with opening("opening the capture") as on_progress:
                return origin.open(on_progress)
        except LuxelError as error:
            if self.capture is not None:
                raise
            print(f"Showing the scene without its photographs: {error.problem}", file=sys.stderr)
            return None
