"""The stores of parameters, and the one that a run uses."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from torch import Tensor

from luxel.render.primitives.parameters import Parameters
from luxel.render.train.config import TrainConfig
from luxel.render.train.store.protocol import ParameterStore

# Modules with a function open_store(scene, config), which returns a `ParameterStore` with a copy of the scene, or None
# where the configuration asks for another one. The first store that is returned is used.
STORES = (
    "luxel.render.train.store.resident",
)  # fmt: skip


def open_store(scene: Parameters, config: TrainConfig) -> ParameterStore:
    """The store of a run.

    Args:
        scene: the first primitives, on the device of training; copied.
        config: of the run.
    """
    made = (import_module(name).open_store(scene, config) for name in STORES)
    return next(store for store in made if store is not None)


def restored_store(
    tensors: Mapping[str, Tensor], steps: int, kind: type[Any], config: TrainConfig
) -> ParameterStore:
    """The store of a run that continues.

    Args:
        tensors: those of `ParameterStore.tensors`, on the device of training.
        steps: that Adam has made.
        kind: of the primitives.
        config: of the run.
    """
    store = open_store(kind(**{name: tensors[f"gaussians.{name}"] for name in kind.names}), config)
    store.load_moments(dict(tensors))
    store.steps = steps
    return store
