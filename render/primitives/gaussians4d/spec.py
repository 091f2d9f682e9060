"""The specification of 4D Gaussians."""

from __future__ import annotations

from luxel.render.primitives.gaussians4d.options import Gaussians4dInit, Gaussians4dLoss, Gaussians4dRates
from luxel.render.primitives.gaussians4d.presets import PRESETS
from luxel.render.primitives.spec import (
    SH_COLUMNS,
    Columns,
    Costs,
    PrimitiveEngine,
    PrimitiveSpec,
    PublishedSpeed,
)

_AUTHORS = "4D-Rotor Gaussian Splatting (Duan et al. 2024)"


def _engine() -> PrimitiveEngine:
    from luxel.render.primitives.gaussians4d.engine import ENGINE

    return ENGINE


SPEC = PrimitiveSpec(
    name="gaussians4d",
    noun="4D Gaussians",
    load_engine=_engine,
    columns=(  # those of 3DGS where they mean the same, and those of time next to them
        Columns("means", ("x", "y", "z")),
        Columns("times", ("t",)),
        *SH_COLUMNS,
        Columns("opacity_logits", ("opacity",)),
        Columns("log_scales", ("scale_0", "scale_1", "scale_2")),
        Columns("log_scale_t", ("scale_t",)),
        Columns("rotors", tuple(f"rotor_{i}" for i in range(8))),
    ),
    marks=frozenset({"scale_t", "rotor_0"}),
    exact=frozenset({"means", "times", "rotors"}),
    # Slicing in time: the rotation of space and time, its conditional, and both backwards.
    costs=Costs(4 * 8, 4 * (1 + 6 + 3), 24, 64, 90, 650, 1700),
    rates=Gaussians4dRates,
    loss=Gaussians4dLoss,
    init=Gaussians4dInit,
    about="4D Gaussians, for dynamic scenes",
    strategies=("spacetime", "fixed"),
    presets=PRESETS,
    published=(
        PublishedSpeed(_AUTHORS, "D-NeRF, 400x400", "1258", "RTX 3090"),
        PublishedSpeed(_AUTHORS, "Plenoptic video, 1352x1014", "277", "RTX 3090"),
        PublishedSpeed(_AUTHORS, "Plenoptic video, 1352x1014", "583", "RTX 4090"),
    ),
)
