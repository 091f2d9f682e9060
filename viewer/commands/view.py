"""`luxel view`."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from luxel.render.bounds import Options
from luxel.render.errors import LuxelError
from luxel.render.raster import Backend
from luxel.viewer.attach import NOTICE, NoAnswerError, RunConnection, RunEnded, check, connect
from luxel.viewer.options import DeviceName, Serve, optional, pick_device

if TYPE_CHECKING:
    import torch

    from luxel.viewer.web.session import Session

CHECK_EVERY = 0.5  # seconds between questions whether an attached run still trains


@dataclass
class ViewScene(Options):
    """Shows a scene in the browser and prints the address.

    The folder of a run that is training is shown live, with the controls of its training; Ctrl-C ends the viewer only.
    With two scenes, both are shown under one camera, left and right of a movable line, or their difference.

    SCENE is the folder of a run or a scene file (.ply as 3DGS or luxel writes it, .compressed.ply, .splat, .ksplat,
    .spz, .sog, lod-meta.json, .glb, .safetensors, .pt of gsplat) with any primitive or a neural field, or a triangle
    mesh (.glb, .obj, .ply or .stl). Images are rendered on this machine, for each open page its own. Drag to turn,
    scroll to zoom. "Show cameras" shows where the images of the capture were taken; a click on a camera flies there.
    Dynamic scenes are played or stopped at any time. "Camera path" records a path for `luxel render --path`, "Inspect"
    shows the coordinates and depth of a clicked point.

    Examples:
        luxel view runs/first
        luxel view scene.ply --port 9000
        luxel view scene.ply --capture photos/
        luxel view upside-down.spz --scene-axes RDF
        luxel view runs/first runs/second
        luxel view runs/first mesh.glb
    """

    scene: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="SCENE")]
    """Folder of a run, a scene file, or a mesh."""
    second: Annotated[Path | None, tyro.conf.Positional, optional("SECOND")] = None
    """Another scene, to be compared with the first. If both are being trained, this one is shown as last saved."""
    capture: Annotated[Path | None, optional("CAPTURE")] = None
    """Show the cameras of this capture; default: the one that the run was trained on."""
    scene_axes: Annotated[str | None, optional("AXES")] = None
    """Axes of a scene file that ignores the specification of its format: what x, y and z point at, by the letters of
    right, left, up, down, front and back, such as RDF (3DGS) or RUB; default: those of the format."""
    keep_non_finite: bool = False
    """Keep primitives with parameters that are NaN or infinite; by default they are left out, with a message."""
    device: DeviceName = "auto"
    """Device that renders; auto: the GPU if luxel can use it, else the CPU."""
    backend: Backend = "luxel"
    """Rasterizer backend; gsplat needs an NVIDIA GPU and `pip install 'luxel[gsplat]'`, and draws Gaussians only."""
    serve: Annotated[Serve, tyro.conf.arg(name="")] = field(default_factory=Serve)

    def execute(self) -> int:
        """Serves until Ctrl-C; returns the exit status."""
        from luxel.viewer.web.opening import open_session

        if self.second is not None:
            self._check_second(self.second)
        if (attached := self._attach()) is not None:
            if (end := self._show_training(*attached)) is None:
                return 0
            print(end, flush=True)
        device = pick_device(self.device)
        session = open_session(
            self.scene,
            device,
            self.backend,
            self.capture,
            keep_non_finite=self.keep_non_finite,
            axes=self.scene_axes,
        )
        print(_opened(self.scene, session, device))
        from luxel.viewer.web.serving import serve_until_interrupted, start_viewer

        if self.second is None:
            return serve_until_interrupted(start_viewer(session, self.serve))
        from luxel.viewer.web.pair.session import PairSession, Side, distinct_names

        other = open_session(
            self.second,
            device,
            self.backend,
            None,
            keep_non_finite=self.keep_non_finite,
            beside=session.about,
        )
        print(_opened(self.second, other, device))
        names = distinct_names(self.scene, self.second)
        pair = PairSession(Side.of(names[0], session), Side.of(names[1], other))
        for problem in pair.problems:
            print(problem, file=sys.stderr)
        return serve_until_interrupted(start_viewer(pair, self.serve))

    def _check_second(self, second: Path) -> None:
        """Refuses a second scene that does not exist or is the first one, before anything is opened."""
        for path in (self.scene, second):
            if not path.exists():
                raise LuxelError(
                    f"{path}: there is no such file or folder.", "Give run folders or scene files."
                )
        if self.scene.resolve() == second.resolve():
            raise LuxelError(f"{second}: this is the first scene again.", "Give another run or scene file.")

    def _attach(self) -> tuple[RunConnection, dict[str, Any]] | None:
        """A connection to a run that is training, and what its viewer is to show alongside it; None if none is."""
        paths = (self.scene, self.second)
        for path, other in zip(paths, paths[::-1], strict=True):
            if path is None or not path.is_dir():
                continue
            try:
                connection = connect(path, _say)
            except NoAnswerError as error:
                _say(f"{error.problem} The run is shown as it was last saved.")
                continue
            if connection is not None:
                beside = {"beside": str(other.resolve()), "left": path is self.scene} if other else {}
                return connection, beside
        return None

    def _show_training(self, connection: RunConnection, beside: dict[str, Any]) -> str | None:
        """Shows a run that trains in another process until Ctrl-C (None) or its end; returns a sentence about that."""
        try:
            print(f"viewer: {connection.show(self.serve.plain(), **beside)}")
            print(
                "The run is training: this is its live scene. Ctrl-C ends the viewer, not the training.",
                flush=True,
            )
            while check(connection, self.scene, _say):
                time.sleep(CHECK_EVERY)
            return "The training has ended; its scene stays."
        except KeyboardInterrupt:
            print()
            with suppress(LuxelError):
                connection.request("hide", patience=NOTICE)
            return None
        except RunEnded:
            return "The training has ended; its scene stays."
        except NoAnswerError as error:
            return f"{error.problem} Its scene stays as it was last saved."
        finally:
            connection.close()


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def _opened(path: Path, session: Session, device: torch.device) -> str:
    """A line about an opened scene."""
    return f"{path}: {session.status()['count']:,} {session.about.noun} on {device}"
