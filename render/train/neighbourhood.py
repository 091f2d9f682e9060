"""Neighbours of 4D Gaussians, searched for now and then, and how much these move unlike them (Duan et al. 2024)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from luxel.render.ops.train.neighbours import neighbours
from luxel.render.ops.train.velocity_consistency import velocity_consistency
from luxel.render.primitives.gaussians4d import Gaussians4d

if TYPE_CHECKING:
    from luxel.render.train.config import Loss
    from luxel.render.train.optimizer import Optimizer

_NAME = "neighbours"  # in a checkpoint


class Neighbourhood:
    """The nearest others of each 4D Gaussian, which change slowly, kept from step to step.

    They are searched for among all that are there, in (x, y, z, time_weight t), every ``neighbours_every`` steps of
    the run, and in the step after rows came, went or changed places. See `luxel.render.train.kinds.AuxiliaryState`.

    Args:
        settings: how many, how often, how near in time, and the weight of the loss.
    """

    def __init__(self, settings: Loss) -> None:
        self.settings = settings
        self._near: Tensor | None = None  # int32 [rows, k], spare rows included
        self._version = -1  # of the optimizer, whose neighbours these are
        self._renewed = -1  # the step that was last asked to renew

    def plan(self, step: int, optimizer: Optimizer) -> bool:
        """Makes room for all rows, and says whether step number ``step`` searches."""
        self._make_room(optimizer)
        # A step that is asked for again searches again: it may have failed before it did.
        due = step % self.settings.neighbours_every == 0 or step == self._renewed
        due = due or optimizer.version != self._version
        if due:
            self._version, self._renewed = optimizer.version, step
        return due

    def renew(self, scene: Gaussians4d, status: Tensor) -> None:
        """Searches, unless the steps have stalled: those that are repeated need the neighbours that they had."""
        means, times = scene.means.detach(), scene.times.detach()
        places = torch.cat([means, self.settings.neighbour_time * times[:, None]], -1)
        live = scene.opacity_logits.detach().isfinite()
        found = neighbours(places, self.settings.neighbours, live)
        held = self._rows(scene.count)
        held.copy_(torch.where(status[1] == 0, found, held))

    def term(self, scene: Gaussians4d, visible: Tensor) -> tuple[float, Tensor]:
        """`velocity_consistency`, and its weight."""
        near = self._rows(scene.count)
        found = velocity_consistency(scene.rotors, scene.log_scales, scene.log_scale_t, near, visible)
        return self.settings.consistency_weight, found

    def tensors(self, optimizer: Optimizer) -> dict[str, Tensor]:
        """The neighbours of those that are there, int32 [N, k], where they still are."""
        if self._version != optimizer.version:
            return {}
        return {_NAME: self._rows(optimizer.count)}

    def restore(self, tensors: dict[str, Tensor], optimizer: Optimizer) -> None:
        """The reverse of `tensors`."""
        near = tensors.get(_NAME)
        if near is not None and tuple(near.shape) == (optimizer.count, self.settings.neighbours):
            self._make_room(optimizer)
            self._rows(optimizer.count).copy_(near)
            self._version = optimizer.version

    def _make_room(self, optimizer: Optimizer) -> None:
        """A tensor of as many rows as the optimizer has; a new one only where the optimizer has new ones too."""
        shape = optimizer.capacity, self.settings.neighbours
        if self._near is None or tuple(self._near.shape) != shape:
            self._near = torch.zeros(shape, dtype=torch.int32, device=optimizer.inverse_count.device)

    def _rows(self, count: int) -> Tensor:
        assert self._near is not None, "a step is planned before it is made"
        return self._near[:count]
