"""The specification of discs."""

from __future__ import annotations

from dataclasses import dataclass

from luxel.render.bounds import FinalRate, Rate
from luxel.render.primitives.spec import SH_COLUMNS, Columns, Costs, PrimitiveEngine, PrimitiveSpec
from luxel.render.primitives.training import Rates


@dataclass
class DiscRates(Rates):
    """Learning rates of discs."""

    means: Rate = 1.6e-3
    """Centres at the start."""
    means_final: FinalRate = 1.6e-5
    """Centres at the end."""
    log_radii: Rate = 5e-3
    """Logarithms of the radii."""
    opacity_logits: Rate = 5e-2
    """Opacities before the sigmoid."""
    sh_dc: Rate = 1e-2
    """Colour."""
    sh_rest: Rate = 1e-3
    """View-dependent colour."""


def _engine() -> PrimitiveEngine:
    from luxel.render.primitives.discs.parameters import ENGINE

    return ENGINE


SPEC = PrimitiveSpec(
    name="discs",
    noun="discs",
    load_engine=_engine,
    columns=(
        Columns("means", ("x", "y", "z")),
        *SH_COLUMNS,
        Columns("opacity_logits", ("opacity",)),
        Columns("log_radii", ("log_radius",)),
    ),
    marks=frozenset({"log_radius"}),
    exact=frozenset({"means"}),
    costs=Costs(4 * 8, 4 * (1 + 5 + 3), 24, 64, 40, 100, 200),
    rates=DiscRates,
    about="balls drawn as discs",
)
