"""The specification of 3D Gaussians."""

from __future__ import annotations

from luxel.render.primitives.gaussians.options import GaussianLoss, GaussianRates
from luxel.render.primitives.gaussians.presets import PRESETS
from luxel.render.primitives.spec import SH_COLUMNS, Columns, Costs, PrimitiveEngine, PrimitiveSpec


def _engine() -> PrimitiveEngine:
    from luxel.render.primitives.gaussians.engine import ENGINE

    return ENGINE


SPEC = PrimitiveSpec(
    name="gaussians",
    noun="Gaussians",
    load_engine=_engine,
    columns=(  # the layout of the 3DGS authors (INRIA)
        Columns("means", ("x", "y", "z")),
        Columns("", ("nx", "ny", "nz")),
        *SH_COLUMNS,
        Columns("opacity_logits", ("opacity",)),
        Columns("log_scales", ("scale_0", "scale_1", "scale_2")),
        Columns("quats", ("rot_0", "rot_1", "rot_2", "rot_3")),
    ),
    exact=frozenset({"means"}),
    costs=Costs(4 * 8, 4 * (1 + 6 + 3), 24, 64, 40, 330, 900),
    rates=GaussianRates,
    loss=GaussianLoss,
    about="3D Gaussians",
    strategies=("split", "mcmc", "adaptive", "fixed"),
    presets=PRESETS,
    backends=("luxel", "gsplat"),
)
