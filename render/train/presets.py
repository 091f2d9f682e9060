"""Named configurations: the presets of each primitive as a `TrainConfig`."""

from __future__ import annotations

import copy

from luxel.render.errors import LuxelError
from luxel.render.primitives import spec_of
from luxel.render.train.config import TrainConfig


def preset(name: str = "default", primitive: str = "gaussians") -> TrainConfig:
    """A new configuration with the values of a preset.

    Raises:
        LuxelError: there is no such primitive, or it has no preset of that name.
    """
    known = spec_of(primitive).presets
    if name not in known:
        raise LuxelError(f"There is no preset {name!r} for {primitive}.", f"Known are {', '.join(known)}.")
    return TrainConfig.from_dict({"primitive": primitive, **copy.deepcopy(dict(known[name].values))})
