"""The list of terms."""

from __future__ import annotations

from importlib import import_module

from luxel.render.primitives.terms import StepTerm
from luxel.render.train.config import TrainConfig

# Modules with a function step_terms(config), which returns the terms that such a run may have in any of its steps.
# Gradients are added in this order.
TERMS = (
    "luxel.render.train.step.terms.alpha",
    "luxel.render.train.step.terms.depth",
    "luxel.render.train.step.terms.primitive",
    "luxel.render.train.step.terms.penalties",
)  # fmt: skip


def step_terms(config: TrainConfig) -> tuple[StepTerm, ...]:
    """All terms that a run may have, whether or not they have a weight."""
    return tuple(term for name in TERMS for term in import_module(name).step_terms(config))
