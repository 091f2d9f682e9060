"""Refinement of the camera poses of training views by the gradient of the loss."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from luxel.render.ops.train.gather_view import VISIT_POSE
from luxel.render.ops.train.view_pose import view_pose
from luxel.render.train.views.table import ViewTable

RATE, FINAL = 3e-4, 0.05


class PoseRefinement:
    """A small rotation and translation of each training camera, learnt alongside the scene (Lin et al. 2021, BARF).

    A camera turns about its own centre and moves, both along the axes of the world. The cameras as a whole neither turn
    nor move nor spread (the inner constraints of a free network adjustment), so that the scene stays where held-out
    cameras expect it.

    Args:
        centres: of the training cameras, [V, 3].
        extent: of the scene, capture units: translations are shares of it.
        device: of the scene.

    Attributes:
        table: the parameters of all views, [V, 6]: rotation vector (radians), and translation / extent.
    """

    def __init__(self, centres: Tensor, extent: float, device: torch.device) -> None:
        self.extent = extent
        common = similarities(centres, extent)
        self.table = ViewTable("poses", centres.shape[0], 6, RATE, FINAL, device, common)

    def rows(self, views: Tensor) -> Tensor:
        """The parameters of views, int64 [B], as a leaf of autograd: [B, 6]."""
        return self.table.rows(views)

    def update_(self, views: Tensor, gradients: Tensor, row: Tensor, skip: Tensor) -> None:
        """One step of Adam; see `luxel.render.train.views.exposure.Exposure.update_`."""
        self.table.update_(views, gradients, row[VISIT_POSE], skip)

    def apply(self, world_to_cam: Tensor, parameters: Tensor) -> Tensor:
        """Refined poses.

        Args:
            world_to_cam: as they were given, [B, 4, 4].
            parameters: [B, 6].

        Returns:
            world_to_cam, [B, 4, 4].
        """
        return view_pose(world_to_cam, parameters, self.extent)

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """What a checkpoint holds of it.

        Raises:
            LuxelError: it has none, or it is of other views.
        """
        self.table.require(tensors, "poses")

    def backward(self, g_moved: Tensor, world_to_cam: Tensor, parameters: Tensor) -> Tensor:
        """The gradient by the parameters, [B, 6], from that by what `apply` gave."""
        return torch.ops.luxel.view_pose_bwd(g_moved, world_to_cam, parameters, self.extent)


def similarities(centres: Tensor, extent: float) -> Tensor:
    """What small translations, rotations and scalings of the complete scene do to the parameters of `PoseRefinement`.

    Args:
        centres: of the cameras, [V, 3].
        extent: of the scene.

    Returns:
        Orthonormal directions, float64 [6 V, at most 7].
    """
    arms = (centres.double().cpu() - centres.double().cpu().mean(0)) / extent
    still = torch.zeros_like(arms)
    axes = torch.eye(3, dtype=arms.dtype)
    moves = [torch.cat([still, axis.expand_as(arms)], 1) for axis in axes]
    turns = [
        torch.cat([axis.expand_as(arms), torch.linalg.cross(axis.expand_as(arms), arms)], 1) for axis in axes
    ]
    directions = torch.stack([t.flatten() for t in (*moves, *turns, torch.cat([still, arms], 1))], 1)
    basis, sizes, _ = torch.linalg.svd(directions, full_matrices=False)
    return basis[:, sizes > 1e-9 * sizes[0]]
