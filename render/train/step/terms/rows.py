"""Terms of the primitives themselves, in both steps."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from torch import Tensor

from luxel.render.primitives.terms import StepScene
from luxel.render.train.step.terms.active import ActiveTerms


def row_terms(
    terms: ActiveTerms,
    primitives: Any,
    inverse_count: Tensor,
    visible: Callable[[], Tensor],
    auxiliary: Any,
    kernels: tuple[str, ...] = (),
) -> list[tuple[Tensor, Tensor]]:
    """Values of the terms with gradients by the primitives, and their weights, scalars.

    Args:
        terms: of the step.
        primitives: leaves of autograd, spare rows included.
        inverse_count: 1 / N, [1].
        visible: which primitives a view sees, bool [N]; called at most once.
        auxiliary: state of the primitive, or None.
        kernels: penalties that the backward of the projection adds; the terms that have one are left out.
    """
    scene = StepScene(primitives, inverse_count, cache(visible), auxiliary)
    of_autograd = (each for each in terms.of_rows if each.term.kernel not in kernels)
    values = ((each.term.apply(scene), each.on_device) for each in of_autograd)
    return [(value, weight) for value, weight in values if value is not None]


def kernel_weights(terms: ActiveTerms, primitives: Any, kernels: tuple[str, ...]) -> dict[str, float]:
    """Weights of the penalties that the backward of the projection adds, by their names among ``kernels``."""
    out = {}
    for each in terms.of_rows:
        if each.term.kernel in kernels:
            summed = getattr(primitives, each.term.columns).shape[-1] if each.term.columns else 1
            out[each.term.kernel] = each.number / summed
    return out
