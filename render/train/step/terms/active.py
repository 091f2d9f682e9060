"""The terms that have a weight in a step, and their weights on the device."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from luxel.render.primitives.terms import OF_DEPTH, OF_NORMALS, LossContext, StepTerm, Weight


class ActiveTerm(NamedTuple):
    """A term in a step."""

    term: StepTerm
    number: float  # its weight
    on_device: Tensor  # the same, a scalar; of a term with a column not used
    of_view: Tensor  # that divided by the number of views of a step, a scalar

    def weight(self, row: Tensor) -> Weight:
        """The weight, which is in a row of the table [28] or a tensor of its own."""
        column = self.term.column
        return Weight(self.number, self.on_device if column is None else row[column])


class ActiveTerms:
    """The terms of a step in their order; see `TermWeights`.

    Attributes:
        key: what a captured step depends on: their names, and the weights that are arguments of kernels.
        weighted: those of images that weigh themselves and have gradients of their own.
        of_images: the others of images.
        of_rows: those of the primitives.
        with_depth, with_normals: whether the images need depth, and normals too.
    """

    def __init__(self, terms: Sequence[ActiveTerm]) -> None:
        of_images = [each for each in terms if each.term.on == "images"]
        self.weighted = [each for each in of_images if each.term.gradients is not None]
        self.of_images = [each for each in of_images if each.term.gradients is None]
        self.of_rows = [each for each in terms if each.term.on == "rows"]
        reads = frozenset[str]().union(*(each.term.reads for each in terms))
        self.with_depth, self.with_normals = bool(reads & OF_DEPTH), bool(reads & OF_NORMALS)
        self.key: Hashable = tuple(
            (each.term.name, each.number if each.term.fixed else None) for each in terms
        )


class TermWeights:
    """The weights of all terms of a run.

    They are sent to the device when they change, before their step, into a tensor that stays where it is: so a captured
    step reads those of the step that it is replayed for.

    Args:
        terms: of the run.
        device: of training.
        views: number of views of a step.
    """

    def __init__(self, terms: Sequence[StepTerm], device: torch.device, views: int) -> None:
        self._terms, self._views = tuple(terms), views
        self._tensor = torch.zeros(2, len(self._terms), dtype=torch.float32, device=device)
        self._scalars = list(zip(*(row.unbind() for row in self._tensor), strict=True))
        self._sent = [0.0] * len(self._terms)
        self._last: tuple[list[float], ActiveTerms] = [], ActiveTerms([])

    def at(self, context: LossContext) -> ActiveTerms:
        """The terms whose weight in a step is above 0."""
        numbers = [term.weight(context) for term in self._terms]
        if numbers == self._last[0]:
            return self._last[1]
        sent = [
            number if term.column is None else 0.0 for term, number in zip(self._terms, numbers, strict=True)
        ]
        if sent != self._sent:
            values = torch.tensor([sent, [number / self._views for number in sent]], dtype=torch.float32)
            if self._tensor.is_cuda:
                values = values.pin_memory()
            self._tensor.copy_(values, non_blocking=True)
            self._sent = sent
        of_all = zip(self._terms, numbers, self._scalars, strict=True)
        active = [ActiveTerm(term, number, *scalars) for term, number, scalars in of_all if number > 0]
        self._last = numbers, ActiveTerms(active)
        return self._last[1]
