"""A store in the memory of the host: a step gets copies of its rows on the device of training."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch
from torch import Tensor

from luxel.render.primitives.parameters import Parameters
from luxel.render.train.config import TrainConfig
from luxel.render.train.store.protocol import State, StepRows
from luxel.render.train.store.resident import ResidentStore


def open_store(scene: Parameters, config: TrainConfig) -> HostStore:
    """For any configuration."""
    return HostStore(scene)


class HostStore:
    """A `ParameterStore` that copies all rows up before a step and down after it."""

    def __init__(self, scene: Parameters) -> None:
        self._device = scene.device
        self._host = ResidentStore(scene.to(torch.device("cpu")))
        self._kind, self._rows = type(scene), StepRows({}, {}, {})
        self.inverse_count = self._host.inverse_count.to(self._device, copy=True)

    @property
    def steps(self) -> int:
        return self._host.steps

    @steps.setter
    def steps(self, steps: int) -> None:
        self._host.steps = steps

    @property
    def count(self) -> int:
        return self._host.count

    @property
    def version(self) -> int:
        return self._host.version

    @property
    def capacity(self) -> int:
        return self._host.capacity

    @property
    def key(self) -> Hashable:
        return self._host.generation

    @property
    def scene(self) -> Any:
        return self._host.scene.map(lambda t: t.to(self._device, copy=True))

    def primitives(self, params: State) -> Any:
        return self._kind(**params)

    def begin(self, spare: bool = True) -> StepRows:
        host = self._host.begin(spare)
        if not self._rows.params or any(
            self._rows.params[name].shape != t.shape for name, t in host.params.items()
        ):
            self._rows = StepRows(
                *(
                    {name: torch.empty_like(t, device=self._device) for name, t in state.items()}
                    for state in host
                )
            )
        self._copy(host, self._rows)
        self.inverse_count.copy_(self._host.inverse_count)
        return self._rows

    def commit(self, rows: StepRows) -> None:
        self._copy(rows, self._host.begin(rows.params["opacity_logits"].shape[0] == self.capacity))

    def edit(self, function: Callable[[Any], None], zero: Sequence[str] = ()) -> None:
        self._host.edit(function, zero)

    def select(self, index: Tensor) -> None:
        self._host.select(index.cpu())

    def append(self, more: Parameters) -> None:
        self._host.append(more.to(torch.device("cpu")))

    def replace(self, index: Tensor, scene: Parameters) -> None:
        self._host.replace(index.cpu(), scene.to(torch.device("cpu")))

    def extend(self, number: int) -> None:
        self._host.extend(number)

    def relocate(self, count: int, *, added: int, min_opacity: float, seed: int, step: int) -> Tensor:
        moved = self._host.relocate(count, added=added, min_opacity=min_opacity, seed=seed, step=step)
        return moved.to(self._device)

    def tensors(self) -> State:
        return self._host.tensors()

    def load_moments(self, tensors: State) -> None:
        self._host.load_moments(tensors)

    @staticmethod
    def _copy(source: StepRows, target: StepRows) -> None:
        for state, into in zip(source, target, strict=True):
            for name, tensor in state.items():
                into[name].copy_(tensor)
