"""Rolling shutters of training views: velocities from neighbouring frames, corrected by the gradient of the loss."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath

import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import View
from luxel.render.geometry.shutter import ANGULAR, VELOCITIES, Readout, shutter_row, velocity_between
from luxel.render.ops.train.gather_view import VISIT_POSE
from luxel.render.train.views.poses import FINAL, RATE
from luxel.render.train.views.table import ViewTable

SHARE = 0.25  # of the learning rate of poses
FASTEST = math.radians(20)  # rotation in a readout; above this half of the views are no frames of a film


class RollingShutter:
    """A velocity of each training camera, learnt alongside the scene.

    It begins as the constant velocity between the frames before and after, times the duration of the readout, and is
    corrected as `PoseRefinement` corrects poses. Held-out views have the velocity of their neighbours, times the factor
    that brings the starting velocities of the training views nearest to the learnt ones.

    Args:
        views: for training. held_out: views that may be frames of the same films.
        readout: duration of the readout as a share of the interval between frames, to begin with.
        direction: of the readout.
        extent: of the scene, capture units: corrections of linear velocities are shares of it.
        device: of the scene.

    Attributes:
        table: corrections of the velocities of all views / `SHARE`, [V, 6]: linear / extent, and angular (radians per
            readout).
        start: velocities that they are added to, [V, 6], capture units and radians per readout.

    Raises:
        LuxelError: the views cannot be frames of films.
    """

    def __init__(
        self,
        views: Sequence[View],
        held_out: Sequence[View],
        readout: float,
        direction: Readout,
        extent: float,
        device: torch.device,
    ) -> None:
        self._views = [*views, *held_out]
        self._direction: Readout = direction
        every = readout * frame_velocities(self._views)
        turn = float(every[:, ANGULAR].norm(dim=-1).median())
        if turn > FASTEST:
            raise LuxelError(
                f"Cameras turn by {math.degrees(turn):.0f} degrees within an image: these are no frames of a film.",
                "Train without --rolling-shutter, or give a film, or its frames under names in their order.",
            )
        self._every = every.float().to(device)
        self.start = self._every[: len(views)]
        self._scale = SHARE * torch.tensor([extent] * 3 + [1.0] * 3, device=device)
        nothing = torch.zeros(len(views) * 6, 0)  # is taken out of what all views share
        self.table = ViewTable("shutters", len(views), 6, RATE, FINAL, device, nothing)

    def rows(self, views: Tensor) -> Tensor:
        """The parameters of views, int64 [B], as a leaf of autograd: [B, 6]."""
        return self.table.rows(views)

    def update_(self, views: Tensor, gradients: Tensor, row: Tensor, skip: Tensor) -> None:
        """One step of Adam; see `luxel.render.train.views.exposure.Exposure.update_`."""
        self.table.update_(views, gradients, row[VISIT_POSE], skip)

    def apply(self, views: Tensor, parameters: Tensor) -> Tensor:
        """Shutters of views.

        Args:
            views: int64 [B]. parameters: [B, 6].

        Returns:
            [B, 8], see `luxel.render.geometry.shutter`.
        """
        velocity = self.start.index_select(0, views) + self._scale * parameters
        return shutter_row(velocity, self._direction)

    def backward(self, g_shutters: Tensor) -> Tensor:
        """The gradient by the parameters, [B, 6], from that by what `apply` gave."""
        return g_shutters[:, VELOCITIES] * self._scale

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """What a checkpoint holds of it.

        Raises:
            LuxelError: it has none, or it is of other views.
        """
        self.table.require(tensors, "shutters")

    @property
    def factor(self) -> float:
        """By how much the learnt velocities are those of the start (least squares); 1 where nothing moves."""
        start = self.start / self._scale
        norm = float(start.square().sum())
        return 1.0 + float((start * self.table.values).sum()) / norm if norm > 0 else 1.0

    def evaluation_views(self, views: Sequence[View]) -> list[View]:
        """Views, out of those given at the start, with the shutters that held-out views are rendered with."""
        position = {view.name: number for number, view in enumerate(self._views)}
        rows = shutter_row(self.factor * self._every, self._direction).cpu()
        return [
            replace(view, camera=replace(view.camera, shutter=rows[position[view.name]]))
            if view.name in position
            else view
            for view in views
        ]


def frame_velocities(views: Sequence[View]) -> Tensor:
    """Velocities of points in the axes of each camera per interval between frames, from the views before and after.

    Views of a folder are frames of one film, in the order of their times, or of their names where all times are equal.
    The interval is that of the film, else the shortest between two views.

    Returns:
        Linear (capture units) and angular (radians), float64 [V, 6]; 0 for the only view of a film.

    Raises:
        LuxelError: some views of a film have the same time, and others have not.
    """
    films: dict[str, list[int]] = {}
    for number, view in enumerate(views):
        films.setdefault(str(PurePath(view.name).parent), []).append(number)
    out = torch.zeros(len(views), 6, dtype=torch.float64)
    for numbers in films.values():
        numbers.sort(key=lambda n: (views[n].time, _natural(views[n].name)))
        times = [views[n].time for n in numbers]
        if len(set(times)) == 1:
            times = list(range(len(numbers)))
        steps = [b - a for a, b in itertools.pairwise(times)]
        if not steps:
            continue
        if min(steps) <= 0:
            raise LuxelError(
                "Some views have the same time: a rolling shutter needs the frames of one moving camera.",
                "Train without --rolling-shutter, or put the frames of each camera into a folder of its own.",
            )
        interval = views[numbers[0]].frame_interval or min(steps)
        poses = [views[n].camera.world_to_cam for n in numbers]
        for k, number in enumerate(numbers):
            before, after = max(0, k - 1), min(len(numbers) - 1, k + 1)
            share = interval / (times[after] - times[before])
            out[number] = share * velocity_between(poses[before], poses[after])
    return out


def _natural(name: str) -> list[tuple[int, int | str]]:
    """A key that sorts 9 before 10."""
    return [(0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", name)]
