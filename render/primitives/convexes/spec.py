"""The specification of convexes."""

from luxel.render.ops.raster.project_convexes import FEWEST, MOST, PROJECTION
from luxel.render.primitives.convexes.conversion import from_gaussians
from luxel.render.primitives.convexes.hulls import to_mesh
from luxel.render.primitives.convexes.parameters import Convexes
from luxel.render.primitives.convexes.presets import PRESETS
from luxel.render.primitives.convexes.training import (
    ConvexInit,
    ConvexLoss,
    ConvexRates,
    initialise,
    on_resolution_change,
    penalties,
    regularise,
)
from luxel.render.primitives.spec import SH_COLUMNS, Columns, Costs, PrimitiveSpec, PublishedSpeed

_AUTHORS = "3D Convex Splatting (Held et al. 2025)"

SPEC = PrimitiveSpec(
    parameters=Convexes,
    initialise=initialise,
    from_gaussians=from_gaussians,
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
    projection=PROJECTION,
    regularise=regularise,
    penalties=penalties,
    on_resolution_change=on_resolution_change,
    to_mesh=to_mesh,
    published=(
        PublishedSpeed(_AUTHORS, "Mip-NeRF 360", "25", "not stated"),
        PublishedSpeed(_AUTHORS, "Tanks & Temples", "33", "not stated"),
        PublishedSpeed("3D Convex Splatting, light (Held et al. 2025)", "Mip-NeRF 360", "47", "not stated"),
    ),
)
