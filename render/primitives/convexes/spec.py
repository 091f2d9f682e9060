"""The specification of convexes."""

from __future__ import annotations

from luxel.render.ops.raster.convex_points import FEWEST, MOST
from luxel.render.primitives.convexes.options import ConvexInit, ConvexLoss, ConvexRates
from luxel.render.primitives.convexes.presets import PRESETS
from luxel.render.primitives.spec import (
    SH_COLUMNS,
    Columns,
    Costs,
    PrimitiveEngine,
    PrimitiveSpec,
    PublishedSpeed,
)

_AUTHORS = "3D Convex Splatting (Held et al. 2025)"


def _engine() -> PrimitiveEngine:
    from luxel.render.primitives.convexes.engine import ENGINE

    return ENGINE


SPEC = PrimitiveSpec(
    name="convexes",
    noun="convexes",
    load_engine=_engine,
    columns=(
        Columns("points", ("x_{}", "y_{}", "z_{}"), (FEWEST, MOST)),
        *SH_COLUMNS,
        Columns("log_delta", ("log_delta",)),
        Columns("log_sigma", ("log_sigma",)),
        Columns("opacity_logits", ("opacity",)),
        Columns("mask_logits", ("mask",)),
    ),
    marks=frozenset({"log_delta", "log_sigma"}),
    exact=frozenset({"points", "log_delta", "log_sigma"}),
    # Six corners: an edge costs two products, an exponential and a maximum at a pixel; the hull, its box.
    costs=Costs(4 * 28, 4 * (1 + 5 + 12 + 3), 80, 200, 40, 1200, 1500),
    rates=ConvexRates,
    loss=ConvexLoss,
    init=ConvexInit,
    about="smooth 3D convexes",
    strategies=("shaping", "fixed"),
    presets=PRESETS,
    published=(
        PublishedSpeed(_AUTHORS, "Mip-NeRF 360", "25", "not stated"),
        PublishedSpeed(_AUTHORS, "Tanks & Temples", "33", "not stated"),
        PublishedSpeed("3D Convex Splatting, light (Held et al. 2025)", "Mip-NeRF 360", "47", "not stated"),
    ),
)
