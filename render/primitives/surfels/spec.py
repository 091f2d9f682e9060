"""The specification of surfels."""

from __future__ import annotations

from luxel.render.primitives.spec import SH_COLUMNS, Columns, Costs, PrimitiveEngine, PrimitiveSpec
from luxel.render.primitives.surfels.options import SurfelLoss, SurfelRates
from luxel.render.primitives.surfels.presets import PRESETS


def _engine() -> PrimitiveEngine:
    from luxel.render.primitives.surfels.engine import ENGINE

    return ENGINE


SPEC = PrimitiveSpec(
    name="surfels",
    noun="surfels",
    load_engine=_engine,
    columns=(  # the layout of 3DGS with two scales, as files of 2DGS have it
        Columns("means", ("x", "y", "z")),
        Columns("", ("nx", "ny", "nz")),
        *SH_COLUMNS,
        Columns("opacity_logits", ("opacity",)),
        Columns("log_scales", ("scale_0", "scale_1")),
        Columns("quats", ("rot_0", "rot_1", "rot_2", "rot_3")),
    ),
    exact=frozenset({"means"}),
    costs=Costs(4 * 12, 4 * (1 + 8 + 3), 36, 90, 40, 300, 800),
    rates=SurfelRates,
    loss=SurfelLoss,
    about="flat Gaussians on surfaces (2D Gaussian Splatting)",
    strategies=("split", "mcmc", "adaptive", "fixed"),
    presets=PRESETS,
)
