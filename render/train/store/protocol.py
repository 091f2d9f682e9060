"""What training needs of a store of primitives and Adam's moments, wherever their memory is."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from luxel.render.primitives.parameters import Parameters

BETAS = (0.9, 0.999)
EPS = 1e-15
State = dict[str, Tensor]


class StepRows(NamedTuple):
    """The rows that a step reads and updates in place, on the device of training, each by name of the parameter."""

    params: State
    exp_avg: State  # first moments
    exp_avg_sq: State  # second moments


class ParameterStore(Protocol):
    """Primitives with Adam's moments (Kingma & Ba 2015), aligned when primitives are added, removed or moved.

    Row i of every tensor belongs to primitive i. Nothing outside of a store writes into tensors that it returns, but
    for a step, between `begin` and `commit`, into its rows.

    Attributes:
        steps: how many steps Adam has made.
        inverse_count: 1 / N, float32 [1] on the device of training, for captured steps.
    """

    steps: int
    inverse_count: Tensor

    @property
    def count(self) -> int:
        """N, the number of primitives."""
        ...

    @property
    def version(self) -> int:
        """Increases whenever primitives are added, removed or reordered."""
        ...

    @property
    def capacity(self) -> int:
        """Number of rows that a step gets, spare rows included."""
        ...

    @property
    def key(self) -> Hashable:
        """Changes whenever the rows of `begin` have other addresses, so that a captured step is no longer valid."""
        ...

    @property
    def scene(self) -> Any:
        """The N primitives on the device of training, without gradients, for reading."""
        ...

    def primitives(self, params: State) -> Any:
        """Parameters as primitives."""
        ...

    def begin(self, spare: bool = True) -> StepRows:
        """The rows of a step.

        Args:
            spare: include spare rows, as captured steps need: the size is constant while ``key`` is.
        """
        ...

    def commit(self, rows: StepRows) -> None:
        """Takes over what a step has changed in the rows of `begin`."""
        ...

    def edit(self, function: Callable[[Any], None], zero: Sequence[str] = ()) -> None:
        """Changes parameters in place.

        Args:
            function: called with primitives, of which it changes tensors in place, each row by itself; a store may
                call it several times with a part of the rows.
            zero: parameters whose moments become 0.
        """
        ...

    def select(self, index: Tensor) -> None:
        """Retains the primitives at ``index`` (int64 [M], or bool [N]) in that order, with their moments."""
        ...

    def append(self, more: Parameters) -> None:
        """Appends primitives; their moments are 0."""
        ...

    def replace(self, index: Tensor, scene: Parameters) -> None:
        """Overwrites the primitives at ``index``, int64 [M], with the M of ``scene``; their moments are 0."""
        ...

    def extend(self, number: int) -> None:
        """Appends rows for `relocate` to fill; until then their opacity and moments are 0."""
        ...

    def relocate(self, count: int, *, added: int, min_opacity: float, seed: int, step: int) -> Tensor:
        """Moves transparent primitives onto drawn ones; see `luxel.render.ops.train.relocate.relocate_`.

        Args:
            count: of the first rows, which are drawn from.
            added: number of rows after them that are filled instead of those that are transparent.

        Returns:
            The number of moved rows, int32 [1], on the device of training.
        """
        ...

    def tensors(self) -> State:
        """The complete state by name, for a checkpoint: gaussians.NAME, exp_avg.NAME, exp_avg_sq.NAME."""
        ...

    def load_moments(self, tensors: State) -> None:
        """Takes the moments of a state that `tensors` returned."""
        ...
