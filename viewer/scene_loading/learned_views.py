"""What a run learnt of its views besides the scene, from its newest checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import View
from luxel.render.runs.checkpoints.checkpoint import available, load_newest
from luxel.render.runs.folder.run_config import has_config
from luxel.render.runs.folder.run_folder import RunFolder
from luxel.render.runs.notices import print_once
from luxel.render.train.config import TrainConfig
from luxel.render.train.resume import read_config
from luxel.render.train.start import scene_extent
from luxel.render.train.views.exposure import Exposure
from luxel.render.train.views.poses import PoseRefinement
from luxel.render.train.views.shutters import RollingShutter
from luxel.scenes import Capture
from luxel.scenes.loading.run_results import is_field_run


def cameras_of_run(
    folder: Path, views: Sequence[View], device: torch.device
) -> Callable[[View, Tensor, Tensor, Tensor], Tensor] | None:
    """What the cameras of a run with `--exposure camera` make of renders, see `Exposure.camera_response`; None, with a
    message, where no checkpoint has it.

    Args:
        folder: of the run.
        views: that it was trained on.
        device: of the renders.
    """
    exposure = Exposure("camera", views, device)
    if problem := _restored(folder, exposure.restore):
        print_once(f"{problem} Scores are without the vignetting and response of the cameras.")
        return None
    return exposure.camera_response


def shutters_of_run(
    folder: Path, config: TrainConfig, train: Sequence[View], test: Sequence[View], device: torch.device
) -> RollingShutter:
    """The shutters of a run with `--rolling-shutter`; those of its start, with a message, where no checkpoint has them.

    Args:
        folder: of the run.
        config: of the run.
        train, test: its views, with their given poses.
        device: of the renders.

    Raises:
        LuxelError: the views cannot be frames of films.
    """
    shutter = RollingShutter(
        train, test, config.readout, config.readout_direction, scene_extent(train), device
    )
    if problem := _restored(folder, shutter.restore):
        print_once(f"{problem} Scores are with the readout that the run began with.")
    return shutter


def refined_views(folder: Path, capture: Capture) -> list[View]:
    """The training views of a run with the poses that it learnt for them (`--refine-poses`).

    Args:
        folder: of the run.
        capture: that it was trained on, with its given poses.

    Returns:
        The training views as they are where the run did not refine poses, and, with a message, where no checkpoint has
        the poses.
    """
    if not refines_poses(folder) or not capture.train:
        return capture.train
    centres = torch.stack([view.camera.position for view in capture.train])
    poses = PoseRefinement(centres, scene_extent(capture.train), torch.device("cpu"))
    if problem := _restored(folder, poses.restore):
        print_once(f"{problem} Cameras have the poses that were given.")
        return capture.train
    given = torch.stack([view.camera.world_to_cam for view in capture.train])
    moved = poses.apply(given, poses.table.values)
    return [
        replace(view, camera=replace(view.camera, world_to_cam=pose))
        for view, pose in zip(capture.train, moved, strict=True)
    ]


def refines_poses(folder: Path) -> bool:
    """Whether a folder is that of a run with `--refine-poses`."""
    return has_config(folder) and not is_field_run(folder) and read_config(folder)[0].refine_poses


def _restored(folder: Path, restore: Callable[[dict[str, Tensor]], None]) -> str:
    """Gives the tensors of the newest checkpoint of a run to a function; returns why that failed, or nothing."""
    checkpoints = folder / "checkpoints"
    if not available(checkpoints):
        return f"{checkpoints}: there is no checkpoint."
    try:
        restore(load_newest(checkpoints, print_once, RunFolder.read_body(folder)).tensors)
    except LuxelError as error:
        return error.problem
    return ""
