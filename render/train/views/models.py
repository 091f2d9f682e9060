"""All that a run learns of its training views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from luxel.render.geometry.camera import View
from luxel.render.ops.train.gather_view import THRESHOLD, view_numbers
from luxel.render.train.config import TrainConfig
from luxel.render.train.views.dataset import Target
from luxel.render.train.views.exposure import Exposure
from luxel.render.train.views.poses import PoseRefinement
from luxel.render.train.views.sharpness import sharpness_weights
from luxel.render.train.views.shutters import RollingShutter
from luxel.render.train.views.table import ViewTable
from luxel.render.train.views.transients import threshold, without_transients


@dataclass
class ViewModels:
    """What is learnt of each training view alongside the scene; None: it is not learnt.

    Args:
        exposure: colours.
        poses: of the cameras.
        ignore_transients: whether what only single images show hardly counts in the loss.
        weights: of the views' photometric losses, [V]; None: 1.
        shutter: velocities of the cameras during a readout.
    """

    exposure: Exposure | None = None
    poses: PoseRefinement | None = None
    ignore_transients: bool = False
    weights: Tensor | None = None
    shutter: RollingShutter | None = None

    @staticmethod
    def of(
        config: TrainConfig,
        views: Sequence[View],
        extent: float,
        device: torch.device,
        held_out: Sequence[View] = (),
    ) -> ViewModels:
        """As a configuration asks for it.

        Args:
            views: for training.
            extent: of the scene, capture units.
            device: of the scene.
            held_out: other views, which may be frames of the same films.

        Raises:
            LuxelError: the configuration needs what the views do not have.
        """
        exposure = None if config.exposure == "none" else Exposure(config.exposure, views, device)
        poses = None
        if config.refine_poses:
            centres = torch.stack([view.camera.position for view in views])
            poses = PoseRefinement(centres, extent, device)
        weights = sharpness_weights(views).to(device) if config.downweight_blur else None
        shutter = None
        if config.rolling_shutter:
            readout = config.readout, config.readout_direction
            shutter = RollingShutter(views, held_out, *readout, extent, device)
        return ViewModels(exposure, poses, config.ignore_transients, weights, shutter)

    @property
    def tables(self) -> tuple[ViewTable | None, ...]:
        """The parameters of exposure, poses, cameras and shutters."""
        exposure = self.exposure
        of_exposure = exposure and exposure.table, exposure and exposure.shared
        return (
            of_exposure[0],
            self.poses and self.poses.table,
            of_exposure[1],
            self.shutter and self.shutter.table,
        )

    def evaluation_views(self, views: Sequence[View]) -> Sequence[View]:
        """Held-out views with the cameras that they are rendered with."""
        return views if self.shutter is None else self.shutter.evaluation_views(views)

    @property
    def scoring(self) -> dict[str, Any]:
        """Which further scores of held-out views tell what was learnt: options of
        `luxel.render.metrics.evaluate.evaluate`."""
        return {
            "aligned": self.exposure is not None,
            "camera_response": self.exposure and self.exposure.camera_response,
            "refine": self.poses and self.poses.extent,
        }

    def visit(self, sample: int, samples: int) -> tuple[float, ...]:
        """What a row of the table has of a visit, OF_VIEW of `gather_view`.

        Args:
            sample: number of the visit among those of all views, from 0.
            samples: visits of all views in the complete run.
        """
        visits = [(0.0, 1.0) if table is None else table.schedule(sample, samples) for table in self.tables]
        exposure, pose, camera, shutter = visits
        if self.poses is None:  # poses and shutters have the same rates
            pose = shutter
        return *exposure, *pose, threshold(sample / max(1, samples)), *camera

    def weights_of(self, rows: Tensor) -> Tensor | None:
        """Weights of the photometric losses of the views of a step, [B]; None: 1.

        Args:
            rows: of the table, [B, 28].
        """
        return None if self.weights is None else self.weights.index_select(0, view_numbers(rows))

    def counted(self, image: Tensor, target: Target, row: Tensor) -> Target:
        """The target without transients, with the weights of its pixels in the loss.

        Args:
            image: as the training images would show it, [B, H, W, 3].
            target: of B views.
            row: of the table, [28].
        """
        if not self.ignore_transients:
            return target
        rgb, weight = without_transients(image.detach(), target.rgb, target.weight, row[THRESHOLD])
        return target._replace(rgb=rgb, weight=weight)

    def tensors(self) -> dict[str, Tensor]:
        """The complete state by name, for a checkpoint."""
        return {name: t for table in self.tables if table is not None for name, t in table.tensors().items()}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """The reverse of `tensors`; what a checkpoint lacks starts anew."""
        for table in self.tables:
            if table is not None:
                table.restore(tensors)
