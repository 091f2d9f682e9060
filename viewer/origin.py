"""How the capture of a run was opened, so that it can be opened again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from luxel.render.runs.run_folder import RunFolder
from luxel.render.runs.strict_json import JsonError, validated
from luxel.render.train.config import TrainConfig
from luxel.scenes import Capture, supervise
from luxel.scenes import open as open_capture
from luxel.scenes.captures.panoramas.layout import PanoramaOptions
from luxel.viewer.runs import RunError


@dataclass
class Origin:
    """How the capture of a run was opened, so that it can be opened again with the same options.

    Args:
        path: absolute path of the capture.
        holdout_every, max_size, masks, max_megapixels, frames, cut_object, poses, panorama, depth_values, lens,
            depth_channel: as in luxel.scenes.open.
        depth_points: absolute path of a file of points that give depth; see luxel.scenes.supervise.
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
        )

    def open(self, on_progress: Callable[[str, float], None] | None = None) -> Capture:
        """The capture.

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


def load_origin(folder: Path) -> Origin:
    """How the capture of a run was opened.

    Raises:
        LuxelError: config.json is absent, damaged, or does not name the capture.
    """
    try:
        return validated(RunFolder.read_body(folder).get("capture"), Origin)
    except JsonError as error:
        raise RunError(
            f"{folder / 'config.json'}: does not say which capture the run was trained on ({error}).",
            "Give it: `luxel train CAPTURE --resume RUN`, or `luxel eval RUN --capture CAPTURE`.",
        ) from error
