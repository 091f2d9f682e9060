"""`luxel view`."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import tyro

from luxel.render.bounds import Options
from luxel.render.errors import LuxelError
from luxel.render.raster import Backend
from luxel.viewer.attach import NO_ANSWER, NOTICE, NoAnswerError, RunConnection, RunEnded, check, connect
from luxel.viewer.options import DeviceName, Serve, optional, pick_device
from luxel.viewer.received_scene import ReceivedScene

if TYPE_CHECKING:
    import torch

    from luxel.viewer.web.session import Session

REPORT_PATIENCE = 120.0  # seconds that a training may take for its report after its end
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
        if self.second is not None:
            self._check_second(self.second)
        if (attached := self._attach()) is None:
            return self._show(self.scene)
        received = ReceivedScene(self._trained(attached[1]))
        try:
            if (end := self._show_training(*attached, received)) is None:
                return 0
            if not received.is_needed:
                print(end, flush=True)
                return self._show(self.scene, ended=True)
            return self._show_received(received)
        finally:
            received.close()

    def _trained(self, beside: dict[str, Any]) -> Path:
        """The folder of the run that trains, of the two scenes."""
        return self.scene if self.second is None or beside["left"] else self.second

    def _show_received(self, received: ReceivedScene) -> int:
        """Shows the scene of a training that has ended without having saved one, as far as it was received.

        Raises:
            LuxelError: none was received.
        """
        run = received.run
        if received.step is None or self.second is not None:
            raise LuxelError(
                f"{run}: the training has ended before it saved anything, so that there is no scene to show.",
                "Start it again; its own output says why it ended.",
            )
        print(
            f"The training has ended before it saved anything. This is its scene of step {received.step:,}, as it was "
            "received last: save it with Edit, Files, as it is gone when this viewer ends.",
            flush=True,
        )
        return self._show(received.path, run)

    def _show(self, scene: Path, run: Path | None = None, ended: bool = False) -> int:
        """Serves a scene, or two, until Ctrl-C; returns the exit status.

        Args:
            scene: the first one.
            run: that it is of, if it is not saved there.
            ended: whether its training has just ended, which the page says.
        """
        from luxel.viewer.web.opening import open_session

        device = pick_device(self.device)
        session = open_session(
            scene,
            device,
            self.backend,
            self.capture,
            keep_non_finite=self.keep_non_finite,
            axes=None if run else self.scene_axes,
            run=run,
        )
        if ended and self.second is None:
            from luxel.viewer.training.ended_run import end_of_folder

            session.run_end = end_of_folder(scene)
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

    def _show_training(
        self, connection: RunConnection, beside: dict[str, Any], received: ReceivedScene
    ) -> str | None:
        """Shows a run that trains in another process until Ctrl-C (None) or its end; returns a sentence about that."""
        try:
            address = connection.show(self.serve.plain(), **beside)
            self.serve = replace(self.serve, port=urlsplit(address).port or self.serve.port)  # of the page
            stays, process = connection.request("stays", patience=NO_ANSWER), connection.process
            print(f"viewer: {address}")
            print(
                "The run is training: this is its live scene. Ctrl-C ends the viewer, not the training.",
                flush=True,
            )
            while check(connection, self.scene, _say):
                received.follow(connection)
                time.sleep(CHECK_EVERY)
        except KeyboardInterrupt:
            print()
            with suppress(LuxelError):
                connection.request("hide", patience=NOTICE)
            return None
        except RunEnded:
            pass
        except NoAnswerError as error:
            return f"{error.problem} Its scene stays as it was last saved."
        finally:
            connection.close()
        if stays:
            print(f"The training has ended; its own viewer goes on: {address}", flush=True)
            return None
        _wait_for_end(process)
        return "The training has ended; its scene stays."


def _wait_for_end(process: int) -> None:
    """Waits until a process that writes its report has ended, so that the viewer can take its port."""
    end = time.monotonic() + REPORT_PATIENCE
    with suppress(KeyboardInterrupt):
        while time.monotonic() < end and _runs(process):
            time.sleep(0.1)


def _runs(process: int) -> bool:
    """Whether a process of this machine has not ended."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def _opened(path: Path, session: Session, device: torch.device) -> str:
    """A line about an opened scene."""
    return f"{path}: {session.status()['count']:,} {session.about.noun} on {device}"
