"""Neighbours of 4D Gaussians, and how much their velocities differ (Duan et al. 2024)."""

from __future__ import annotations

import torch
from torch import Tensor

from luxel.render.ops.train.neighbours import neighbours
from luxel.render.ops.train.velocity_consistency import velocity_consistency
from luxel.render.primitives.gaussians4d.options import Gaussians4dLoss
from luxel.render.primitives.gaussians4d.parameters import Gaussians4d
from luxel.render.primitives.spec import Rows

_NAME = "neighbours"  # in a checkpoint


class Neighbourhood:
    """The nearest neighbours of each 4D Gaussian, which change slowly: an `AuxiliaryState`.

    They are searched among all Gaussians, in (x, y, z, neighbour_time t), every ``neighbours_every`` steps of the run,
    and in the step after rows were added, removed or reordered.

    Args:
        settings: how many, how often, how near in time, and the weight of the loss.
    """

    def __init__(self, settings: Gaussians4dLoss) -> None:
        self.settings = settings
        self._near: Tensor | None = None  # int32 [rows, k], spare rows included
        self._version = -1  # of the store at the last search
        self._renewed = -1  # the last step with a search

    def plan(self, step: int, store: Rows) -> bool:
        """Allocates neighbours for all rows; returns whether step number ``step`` searches."""
        self._allocate(store)
        # A repeated step searches again: the first attempt may have failed before its search.
        due = step % self.settings.neighbours_every == 0 or step == self._renewed
        due = due or store.version != self._version
        if due:
            self._version, self._renewed = store.version, step
        return due

    def renew(self, scene: Gaussians4d, status: Tensor) -> None:
        """Searches; after a stall the previous neighbours are retained, since steps that are repeated need them."""
        means, times = scene.means.detach(), scene.times.detach()
        positions = torch.cat([means, self.settings.neighbour_time * times[:, None]], -1)
        live = scene.opacity_logits.detach().isfinite()
        nearest = neighbours(positions, self.settings.neighbours, live)
        stored = self._rows(scene.count)
        stored.copy_(torch.where(status[1] == 0, nearest, stored))

    def value(self, scene: Gaussians4d, visible: Tensor) -> Tensor:
        """`velocity_consistency` of the Gaussians that are visible."""
        near = self._rows(scene.count)
        return velocity_consistency(scene.rotors, scene.log_scales, scene.log_scale_t, near, visible)

    def tensors(self, store: Rows) -> dict[str, Tensor]:
        """The neighbours of the N primitives, int32 [N, k]; nothing if rows have changed since the last search."""
        if self._version != store.version:
            return {}
        return {_NAME: self._rows(store.count)}

    def restore(self, tensors: dict[str, Tensor], store: Rows) -> None:
        """The reverse of `tensors`; what cannot be neighbours of the present rows is searched for again."""
        near = tensors.get(_NAME)
        if near is not None and self._fits(near, store.count):
            self._allocate(store)
            self._rows(store.count).copy_(near)
            self._version = store.version

    def _fits(self, near: Tensor, count: int) -> bool:
        """Whether a tensor holds numbers of rows: others would be read beyond the end of the rows."""
        if near.dtype != torch.int32 or tuple(near.shape) != (count, self.settings.neighbours):
            return False
        return bool(((near >= 0) & (near < count)).all())

    def _allocate(self, store: Rows) -> None:
        """Allocates as many rows as the store has, again only when the store has allocated its rows again."""
        shape = store.capacity, self.settings.neighbours
        if self._near is None or tuple(self._near.shape) != shape:
            self._near = torch.zeros(shape, dtype=torch.int32, device=store.inverse_count.device)

    def _rows(self, count: int) -> Tensor:
        assert self._near is not None, "a step is planned before it is made"
        return self._near[:count]
