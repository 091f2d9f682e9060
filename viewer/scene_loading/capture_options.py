"""How the capture of a run was opened, so that it can be opened again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from luxel.render.errors import LuxelError
from luxel.render.runs.folder.provenance import UntrustedRunError, is_inside, require_trusted
from luxel.render.runs.folder.run_folder import RunFolder
from luxel.render.runs.strict_json import JsonError, validated
from luxel.render.train.config import TrainConfig
from luxel.scenes import Capture, demo_path, supervise
from luxel.scenes import open as open_capture
from luxel.scenes.captures.panorama_options import PanoramaOptions
from luxel.scenes.loading.run_results import RunError

if TYPE_CHECKING:
    import torch

GIVE_CAPTURE = "Give the capture yourself: --capture PATH."


@dataclass
class Origin:
    """How the capture of a run was opened, so that it can be opened again with the same options.

    Args:
        path: absolute path of the capture.
        holdout_every, max_size, masks, max_megapixels, frames, cut_object, poses, panorama, depth_values, lens,
            depth_channel, points: as in luxel.scenes.open.
        depth_points: absolute path of a file of points that give depth; see luxel.scenes.supervise.
        shift, far_cameras: as in luxel.scenes.open; a run states what was subtracted from the coordinates of its
            capture, and those of versions that did not shift state nothing.
    """

    path: str
    holdout_every: int = 8
    max_size: int | None = None
    masks: str = "auto"
    max_megapixels: float | None = None
    frames: int | None = None
    cut_object: bool = False
    poses: str = "keep"
    panorama: PanoramaOptions = field(default_factory=PanoramaOptions)
    depth_values: str = "z"
    depth_points: str | None = None
    lens: str = "undistort"
    depth_channel: str | None = None
    shift: tuple[float, float, float] | None = None
    far_cameras: str = "leave out"
    points: str = "auto"

    @staticmethod
    def of(options: Any, path: str, holdout_every: int) -> Origin:
        """What the options of a command that opens captures (`luxel train`, `luxel inspect`) ask for."""
        return Origin(
            path,
            holdout_every,
            options.max_size,
            options.masks,
            options.max_megapixels,
            options.frames,
            options.object,
            options.poses,
            options.panorama,
            options.depth_values,
            _absolute(getattr(options, "depth_points", None)),
            getattr(options, "lens", "undistort"),
            options.depth_channel,
            points=options.points,
        )

    def open(
        self,
        on_progress: Callable[[str, float], None] | None = None,
        device: torch.device | None = None,
    ) -> Capture:
        """The capture.

        Args:
            on_progress: called with (stage, fraction done in [0, 1]).
            device: where initial points are computed; None: the GPU if luxel can use it, else the CPU.

        Raises:
            CaptureError: it does not exist any more, or cannot be read.
        """
        return open_capture(
            self.path,
            holdout_every=self.holdout_every,
            max_size=self.max_size,
            masks=self.masks,
            max_megapixels=self.max_megapixels,
            frames=self.frames,
            cut_object=self.cut_object,
            poses=self.poses,
            panorama=self.panorama,
            depth_values=self.depth_values,
            lens=self.lens,
            depth_channel=self.depth_channel,
            shift=self.shift,
            far_cameras=self.far_cameras,
            points=self.points,
            device=device,
            on_progress=on_progress,
        )

    def add_depth(self, capture: Capture, config: TrainConfig) -> None:
        """Gives the views of the capture the depth that a configuration trains with.

        Raises:
            CaptureError: there is none of that kind, or the file of points cannot be read.
        """
        uses = config.depth in ("points", "all")
        points = Path(self.depth_points) if uses and self.depth_points is not None else None
        supervise(capture, config.depth, points=points, metric=config.depth_scale == "metric")

    def about(self, capture: Capture) -> dict[str, Any]:
        """The entry of config.json about the capture of a run: how to open it again, and which views were held out."""
        return {
            "capture": {
                **asdict(self),
                "shift": [float(x) for x in capture.shift],
                "name": capture.name,
                "kind": capture.format,
                "holdout": capture.holdout,
                "cutout": capture.cutout,
                "up": None if capture.up is None else [float(x) for x in capture.up],
                "warnings": [str(warning) for warning in capture.warnings],
            }
        }


def _absolute(path: Path | None) -> str | None:
    return None if path is None else str(path.resolve())


def load_origin(
    folder: Path,
    capture: Path | None = None,
    *,
    points: Path | None = None,
    adds_depth: bool = False,
    remedy: str = GIVE_CAPTURE,
) -> Origin:
    """How the capture of a run is opened: the one that the user gives, or the one that the run names, if it may.

    A run names a capture outside of its folder only where this user made the run
    (`luxel.render.runs.folder.provenance`).

    Args:
        folder: of the run.
        capture: that the user gives instead of the one that the run was trained on.
        points: file of points that give depth that the user gives.
        adds_depth: whether `Origin.add_depth` will be called.
        remedy: of the error about a capture that the run may not name.

    Raises:
        UntrustedRunError: it may not name its capture, or its file of points.
        LuxelError: config.json is absent, damaged, or does not name the capture.
    """
    body = RunFolder.read_body(folder)
    origin = read_origin(folder)
    if capture is not None:
        origin.path = str(capture)
    else:
        require_own_file(folder, body, origin.path, remedy)
    if points is not None:
        origin.depth_points = str(points.resolve())
    elif adds_depth and origin.depth_points is not None:
        require_own_file(
            folder, body, origin.depth_points, "Give it yourself: --depth-points FILE.", "file of points"
        )
    return origin


def require_own_file(
    folder: Path, body: dict[str, Any], path: str, remedy: str, what: str = "capture"
) -> None:
    """Refuses a file that a run may not name; see `luxel.render.runs.folder.provenance.require_trusted`. Any run may
    name the capture that is part of luxel."""
    if not is_inside(demo_path(), path):
        require_trusted(folder, body, path, remedy, what)


def in_words(error: LuxelError) -> str:
    """Why a capture was not opened; where the run may not name it, what to do about it too."""
    return str(error) if isinstance(error, UntrustedRunError) else error.problem


def read_origin(folder: Path) -> Origin:
    """What config.json of a run says about its capture, which is not to be opened so: see `load_origin`.

    Raises:
        LuxelError: config.json is absent, damaged, or does not name the capture.
    """
    try:
        about = RunFolder.read_body(folder).get("capture")
        origin = validated(about, Origin)
        if isinstance(about, dict) and about.get("shift") is None:  # of a version that did not shift
            origin.shift, origin.far_cameras = (0.0, 0.0, 0.0), "keep"
        return origin
    except JsonError as error:
        raise RunError(
            f"{folder / 'config.json'}: does not say which capture the run was trained on ({error}).",
            "Give it: `luxel train CAPTURE --resume RUN`, or `luxel eval RUN --capture CAPTURE`.",
        ) from error
