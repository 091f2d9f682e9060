"""The store whose rows are in the memory of the device of training."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch
from torch import Tensor

from luxel.render.ops.train.relocate import relocate_
from luxel.render.primitives.parameters import Parameters
from luxel.render.train.config import TrainConfig
from luxel.render.train.store.protocol import State, StepRows


def open_store(scene: Parameters, config: TrainConfig) -> ResidentStore:
    """See `luxel.render.train.store.stores.STORES`; for any configuration."""
    return ResidentStore(scene)


class ResidentStore:
    """A `ParameterStore` whose steps change its own tensors.

    On a GPU the tensors have spare rows, so that a captured step stays valid while the number of primitives changes;
    a spare row has opacity 0, is never visible and never updated. ``generation`` increases when the tensors are
    replaced, ``version`` whenever primitives are added, removed or reordered. Every change first builds all new rows,
    then copies them: running out of memory leaves the old state intact.

    Args:
        scene: the parameters, copied.
    """

    def __init__(self, scene: Parameters) -> None:
        self._kind = type(scene)
        self.inverse_count = scene.opacity_logits.detach().new_zeros(1)
        self.generation, self.version, self.count, self.steps = -1, 0, 0, 0
        self._state: list[State] = [{}, {}, {}]  # parameters, first and second moments, with spare rows
        params = scene.detach().tensors()
        self._take([params, *(_each(params, torch.zeros_like) for _ in range(2))])

    @property
    def count(self) -> int:
        """N, the number of primitives; ``inverse_count`` is 1 / N on their device, [1], for captured steps."""
        return self._count

    @count.setter
    def count(self, count: int) -> None:
        self._count = count
        self.version += 1  # all changes of the set end here
        self.inverse_count.fill_(1 / max(1, count))

    @property
    def key(self) -> Hashable:
        """See `ParameterStore.key`."""
        return self.generation

    @property
    def capacity(self) -> int:
        """Number of rows, spare rows included."""
        return next(iter(self._state[0].values())).shape[0]

    @property
    def scene(self) -> Any:
        """The N primitives, without gradients; their tensors are views of the state."""
        return self.primitives(self._live(0))

    @property
    def exp_avg(self) -> State:
        """First moments of the present primitives, by parameter."""
        return self._live(1)

    @property
    def exp_avg_sq(self) -> State:
        """Second moments of the present primitives, by parameter."""
        return self._live(2)

    def begin(self, spare: bool = True) -> StepRows:
        """See `ParameterStore.begin`."""
        return StepRows(*(self._state if spare else (self._live(kind) for kind in range(3))))

    def commit(self, rows: StepRows) -> None:
        """Nothing: the rows of a step are those of the store."""

    def primitives(self, params: State) -> Any:
        """Parameters as primitives."""
        return self._kind(**params)

    def select(self, index: Tensor) -> None:
        """Retains the primitives at ``index`` (positions, or a boolean mask) in that order, with their
        moments."""
        if index.dtype == torch.bool:
            index = index.nonzero()[:, 0]  # once, not once per tensor
        self._take([_each(self._live(i), lambda t: t.index_select(0, index)) for i in range(3)])

    def append(self, more: Parameters) -> None:
        """Appends primitives; their moments are 0."""
        added = more.detach().tensors()
        count = self.count + more.count
        if self.capacity >= count:
            for name, tensor in added.items():
                params, *moments = (state[name][self.count : count] for state in self._state)
                params.copy_(tensor)
                for rows in moments:
                    rows.zero_()
            self.count = count
            return
        parts = [added, *(_each(added, torch.zeros_like) for _ in range(2))]
        joined = [
            {name: torch.cat([t, part[name]]) for name, t in self._live(i).items()}
            for i, part in enumerate(parts)
        ]
        self._take(joined)

    def replace(self, index: Tensor, scene: Parameters) -> None:
        """Overwrites the primitives at ``index``, int64 [M], with the M of ``scene``; their moments are 0."""
        for name, tensor in scene.detach().tensors().items():
            params, *moments = (state[name] for state in self._state)
            params.index_copy_(0, index, tensor)
            for rows in moments:
                rows.index_fill_(0, index, 0)

    def extend(self, number: int) -> None:
        """Appends rows for `relocate` to fill; until then their opacity and moments are 0."""
        count = self.count + number
        if self.capacity < count:
            grown = [
                _each(self._live(i), lambda t: torch.cat([t, t.new_zeros(number, *t.shape[1:])]))
                for i in range(3)
            ]
            grown[0]["opacity_logits"][self.count :] = -math.inf
            self._take(grown)
        self.count = count

    def edit(self, function: Callable[[Any], None], zero: Sequence[str] = ()) -> None:
        """See `ParameterStore.edit`."""
        function(self.scene)
        for moments in self._state[1:]:
            for name in zero:
                moments[name].zero_()

    def relocate(self, count: int, *, added: int, min_opacity: float, seed: int, step: int) -> Tensor:
        """See `ParameterStore.relocate`."""
        params, first, second = (tuple(state.values()) for state in self._state)
        draw = {"min_opacity": min_opacity, "seed": seed, "step": step}
        return relocate_(params, first, second, count, added=added, **draw)[2]

    def tensors(self) -> dict[str, Tensor]:
        """The complete state by name, for a checkpoint."""
        kinds = ("gaussians", "exp_avg", "exp_avg_sq")
        return {f"{kind}.{name}": t for i, kind in enumerate(kinds) for name, t in self._live(i).items()}

    def load_moments(self, tensors: State) -> None:
        """See `ParameterStore.load_moments`."""
        for moments, prefix in ((self.exp_avg, "exp_avg"), (self.exp_avg_sq, "exp_avg_sq")):
            for name, tensor in moments.items():
                tensor.copy_(tensors[f"{prefix}.{name}"])

    def _live(self, kind: int) -> State:
        return {name: t[: self.count] for name, t in self._state[kind].items()}

    def _take(self, states: list[State]) -> None:
        """Replaces all rows, in the present tensors if these are of a suitable size."""
        first = next(iter(states[0].values()))
        count, capacity = first.shape[0], _rows_for(first.shape[0], first.device)
        most = capacity if first.device.type != "cuda" else 3 * capacity // 2
        if self.generation < 0 or not count <= self.capacity <= most:
            self._state = [_each(state, lambda t: t.new_zeros(capacity, *t.shape[1:])) for state in states]
            self.generation += 1
            self._state[0]["opacity_logits"].fill_(-math.inf)
            self.count = 0
        for present, rows in zip(self._state, states, strict=True):
            for name, tensor in present.items():
                tensor[:count].copy_(rows[name])
                if count < self.count:
                    tensor[count : self.count].zero_()
        if count < self.count:
            self._state[0]["opacity_logits"][count : self.count].fill_(-math.inf)
        self.count = count


def _each(state: State, function: Callable[[Tensor], Tensor]) -> State:
    return {name: function(tensor) for name, tensor in state.items()}


def _rows_for(count: int, device: torch.device) -> int:
    """Number of rows allocated for ``count`` primitives: on a GPU some more, so that the number can grow."""
    if device.type != "cuda":
        return count
    step = max(1024, 1 << max(0, count.bit_length() - 3))
    return -(-(count + step // 2) // step) * step
