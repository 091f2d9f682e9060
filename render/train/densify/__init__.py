"""Densification strategies: one per file, a dataclass whose fields are its options, and one line here."""

from dataclasses import replace

from luxel.render.primitives import PRIMITIVES, spec_of
from luxel.render.train.densify.adaptive import AdaptiveStrategy
from luxel.render.train.densify.fixed import FixedCount
from luxel.render.train.densify.mcmc import McmcStrategy
from luxel.render.train.densify.shaping import ShapingStrategy
from luxel.render.train.densify.spacetime import SpacetimeStrategy
from luxel.render.train.densify.split import SplitStrategy
from luxel.render.train.densify.strategy import Strategy

STRATEGIES: dict[str, type[Strategy]] = {
    "split": SplitStrategy,
    "mcmc": McmcStrategy,
    "adaptive": AdaptiveStrategy,
    "spacetime": SpacetimeStrategy,
    "shaping": ShapingStrategy,
    "fixed": FixedCount,
}


def register_strategy(name: str, strategy: type[Strategy], *primitives: str) -> None:
    """Adds a strategy to the registry, and to the choices of primitives.

    Args:
        name: on the command line and in config.json.
        strategy: a dataclass whose fields are its options.
        primitives: names of the primitives that can use it.

    Raises:
        ValueError: there is another strategy of that name.
        LuxelError: there is no such primitive.
    """
    if STRATEGIES.setdefault(name, strategy) is not strategy:
        raise ValueError(f"name must be new, got {name}, which another strategy has")
    for primitive in primitives:
        spec = spec_of(primitive)
        PRIMITIVES[primitive] = replace(spec, strategies=(*dict.fromkeys((*spec.strategies, name)),))


__all__ = [
    "STRATEGIES",
    "AdaptiveStrategy",
    "FixedCount",
    "McmcStrategy",
    "ShapingStrategy",
    "SpacetimeStrategy",
    "SplitStrategy",
    "Strategy",
    "register_strategy",
]
