"""Densification strategies: one per file, a dataclass whose fields are its options, and one line here."""

from luxel.render.train.densify.adaptive import AdaptiveStrategy
from luxel.render.train.densify.fixed import FixedCount
from luxel.render.train.densify.mcmc import McmcStrategy
from luxel.render.train.densify.shaping import ShapingStrategy
from luxel.render.train.densify.spacetime import SpacetimeStrategy
from luxel.render.train.densify.strategy import Strategy

STRATEGIES: dict[str, type[Strategy]] = {
    "mcmc": McmcStrategy,
    "adaptive": AdaptiveStrategy,
    "spacetime": SpacetimeStrategy,
    "shaping": ShapingStrategy,
    "fixed": FixedCount,
}

__all__ = [
    "STRATEGIES",
    "AdaptiveStrategy",
    "FixedCount",
    "McmcStrategy",
    "ShapingStrategy",
    "SpacetimeStrategy",
    "Strategy",
]
