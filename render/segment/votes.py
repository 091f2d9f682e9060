"""Votes of label maps on primitives: how much of each label's pixels a primitive contributes to.

The weight of primitive i at pixel p is T_i(p) alpha_i(p), as in blending; its votes for label l are the sum of that
over the pixels of l. The argmax of these sums is the optimum of FlashSplat's linear programme (Shen et al. 2024).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.ops.raster.label_votes import (
    MAX_LABELS,
    NO_LABEL,
    label_votes_,
    slot_labels,
    to_weights,
    vote_table,
)
from luxel.render.primitives.parameters import Parameters
from luxel.render.segment.splat_lists import splat_lists

__all__ = ["MAX_LABELS", "NO_LABEL", "Leaders", "Votes"]


class Leaders(NamedTuple):
    """The labels with most and second most votes of each primitive.

    Args:
        label: uint8 [N]; NO_LABEL where there are no votes.
        top, second: their votes, float32 [N].
    """

    label: Tensor
    top: Tensor
    second: Tensor


class Votes:
    """Votes of N primitives for L labels, summed over label maps.

    Sums are fixed point: the same maps give the same bits on every run, in any order of the views. Up to 32 labels
    each has a column; beyond, a primitive has eight slots, and the ninth and further of its labels go to a row of
    a pool for N / 32 + 1024 primitives (`luxel.render.ops.raster.label_votes.vote_table`, `over_capacity`).

    Args:
        count: N.
        labels: L, 1 to 255.
        device: where the sums are retained; that of the primitives.
        dtype: of the sums that are returned. float64 on the CPU: sums have 52 instead of 24 bits after the point.
        centre_rule: count votes as SAGOnline does (Sun et al. 2025), to compare: one of each pixel within 2 px of a
            primitive's centre while T is above 0.01, instead of T alpha of all pixels.

    Raises:
        ValueError: ``labels`` out of range.
    """

    def __init__(
        self,
        count: int,
        labels: int,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        *,
        centre_rule: bool = False,
    ) -> None:
        if not 1 <= labels <= MAX_LABELS:
            raise ValueError(f"labels must be 1 to {MAX_LABELS}, got {labels}")
        self.labels, self.dtype, self.centre_rule = labels, dtype, centre_rule
        fine = dtype == torch.float64 and torch.device(device).type == "cpu"
        self._table = vote_table(count, labels, device, fine)

    @property
    def weights(self) -> Tensor:
        """Votes for each label, [N, L]; computed at each access."""
        if self._table.keys is None:
            return self._numbers(self._table.votes[:, : self.labels])
        held, labels = self._slots()
        dense = held.new_zeros(held.shape[0], NO_LABEL + 1).scatter_(1, labels.long(), held)[:, : self.labels]
        with_row, rows = self._pool_rows()
        dense[with_row] += self._numbers(rows)[:, : self.labels]
        return dense

    @property
    def seen(self) -> Tensor:
        """Contribution to all pixels, those without a vote included, [N]; computed at each access."""
        sums = self._table.votes.sum(1)
        if self._table.keys is not None:
            with_row, rows = self._pool_rows()
            sums[with_row] += rows.sum(1)
        return self._numbers(sums)

    @property
    def over_capacity(self) -> int:
        """Primitives with more than eight labels for which the pool had no row left: their further labels are part of
        ``seen`` only. 0 up to 32 labels."""
        return 0 if self._table.rows is None else int((self._table.rows == -2).sum())

    def add(
        self,
        scene: Parameters,
        camera: Camera,
        maps: Tensor,
        time: float | Tensor | None = None,
        **options: Any,
    ) -> None:
        """Adds the votes of label maps, in place.

        Primitives that are not finite get none. A map without a label only adds to ``seen``.

        Args:
            scene: the N primitives.
            camera: a camera or C of them.
            maps: uint8 [H, W] or [C, H, W]; NO_LABEL: no vote.
            time: of moving scenes; see `luxel.render.raster.rasterize.rasterize`.
            options: others of `rasterize` that change alpha: antialiased, dilation, max_alpha.

        Raises:
            ValueError: maps of another size, labels beyond L, or a scene of another number of primitives.
        """
        shape = (*camera.world_to_cam.shape[:-2], camera.height, camera.width)
        if maps.shape != shape:
            raise ValueError(f"maps must be {list(shape)}, got {list(maps.shape)}")
        if maps.dtype != torch.uint8:
            raise ValueError(f"maps must be uint8, got {maps.dtype}")
        if scene.count != self._table.votes.shape[0]:
            raise ValueError(f"scene must have {self._table.votes.shape[0]} primitives, got {scene.count}")
        beyond = (maps >= self.labels) & (maps != NO_LABEL)
        any_beyond = _read_later(beyond.any())
        given = maps.to(self._table.votes.device)
        splats, lists, settings = splat_lists(scene, camera, time, **options)
        if any_beyond():
            largest = int(maps[beyond].max())
            raise ValueError(f"maps must hold labels below {self.labels}, or {NO_LABEL}, got {largest}")
        label_votes_(
            self._table,
            splats,
            lists.instances,
            lists.ranges,
            lists.plan,
            given if camera.batched else given[None],
            labels=self.labels,
            width=settings.width,
            height=settings.height,
            max_alpha=settings.max_alpha,
            centre_rule=self.centre_rule,
            primitive=settings.policy,
        )

    def leaders(self, background_bias: float = 1.0) -> Leaders:
        """The two labels with most votes of each primitive; of equal ones the lowest.

        Args:
            background_bias: factor on the votes for label 0; above 1, primitives that are doubtful become background.
        """
        if self._table.keys is None:
            weights = self.weights.float()
            return _leaders(weights, torch.arange(self.labels, device=weights.device), background_bias)
        held, labels = self._slots()
        leaders = _leaders(held.float(), labels, background_bias)
        with_row, rows = self._pool_rows()
        if with_row.numel():
            index = labels[with_row].long().clamp(max=MAX_LABELS - 1)
            rows = self._numbers(rows).scatter_add(1, index, held[with_row]).float()
            of_rows = _leaders(rows, torch.arange(MAX_LABELS, device=rows.device), background_bias)
            for all_rows, some in zip(leaders, of_rows, strict=True):
                all_rows[with_row] = some
        return leaders

    def _numbers(self, sums: Tensor) -> Tensor:
        return to_weights(sums, self._table.fine, self.dtype)

    def _slots(self) -> tuple[Tensor, Tensor]:
        """Sums and labels of the eight slots, [N, 8], by ascending label: on a GPU slots are taken in any order."""
        assert self._table.keys is not None
        labels, order = slot_labels(self._table.keys).sort(dim=1)
        return self._numbers(self._table.votes[:, :-1]).gather(1, order), labels

    def _pool_rows(self) -> tuple[Tensor, Tensor]:
        """Primitives with a row in the pool, and their sums, [K, 255], in fixed point as in the table."""
        assert self._table.rows is not None and self._table.pool is not None
        with_row = (self._table.rows >= 0).nonzero()[:, 0]
        return with_row, self._table.pool[self._table.rows[with_row].long()]


def _read_later(flag: Tensor) -> Callable[[], bool]:
    """A flag [] that is copied to the host now and waited for when it is asked: a GPU goes on meanwhile."""
    if not flag.is_cuda:
        return lambda: bool(flag)
    on_host = torch.empty((), dtype=torch.bool, pin_memory=True).copy_(flag, non_blocking=True)
    copied = torch.cuda.Event()
    copied.record(torch.cuda.current_stream(flag.device))

    def read() -> bool:
        copied.synchronize()
        return bool(on_host)

    return read


def _leaders(weights: Tensor, labels: Tensor, background_bias: float) -> Leaders:
    """The two largest of [N, K], which have labels [K] or [N, K]; max takes the first of equal ones."""
    if background_bias != 1:
        weights = torch.where(labels == 0, weights * background_bias, weights)
    weights = torch.nn.functional.pad(weights, (0, 2))  # two to choose where K is 0 or 1
    top, index = weights.max(dim=1)
    second = weights.scatter(1, index[:, None], -1).amax(dim=1)
    of_top = torch.nn.functional.pad(labels.expand(weights.shape[0], -1), (0, 2)).gather(1, index[:, None])[
        :, 0
    ]
    return Leaders(torch.where(top > 0, of_top, NO_LABEL).to(torch.uint8), top, second)
