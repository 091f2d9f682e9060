"""The terms of the primitive of a run: its geometry, its shapes, its masks, its auxiliary state."""

from __future__ import annotations

from luxel.render.primitives import PRIMITIVES
from luxel.render.primitives.terms import StepTerm
from luxel.render.train.config import TrainConfig


def step_terms(config: TrainConfig) -> tuple[StepTerm, ...]:
    """Those that its engine has."""
    return PRIMITIVES[config.primitive].engine.terms
