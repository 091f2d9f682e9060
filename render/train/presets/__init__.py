"""Whole configurations by name, for each primitive; "default" is there for all."""

from __future__ import annotations

from collections.abc import Callable

from luxel.render.errors import LuxelError
from luxel.render.train.config import TrainConfig
from luxel.render.train.presets.convexes import CONVEXES
from luxel.render.train.presets.gaussians import GAUSSIANS
from luxel.render.train.presets.gaussians4d import GAUSSIANS4D

PRESETS: dict[str, dict[str, Callable[[], TrainConfig]]] = {
    "gaussians": GAUSSIANS,
    "gaussians4d": GAUSSIANS4D,
    "convexes": CONVEXES,
}


def preset(name: str = "default", primitive: str = "gaussians") -> TrainConfig:
    """A fresh configuration.

    Raises:
        LuxelError: there is none of that name for that primitive.
    """
    if primitive not in PRESETS:
        raise LuxelError(f"There is no primitive {primitive!r}.", f"Known are {', '.join(PRESETS)}.")
    known = PRESETS[primitive]
    if name not in known:
        raise LuxelError(f"There is no preset {name!r} for {primitive}.", f"Known are {', '.join(known)}.")
    return known[name]()
