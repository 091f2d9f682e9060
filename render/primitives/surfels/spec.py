"""The specification of surfels."""

from luxel.render.ops.raster.project_surfels import PROJECTION
from luxel.render.primitives.spec import SH_COLUMNS, Columns, Costs, PrimitiveSpec
from luxel.render.primitives.surfels.geometry import geometry_terms
from luxel.render.primitives.surfels.parameters import Surfels
from luxel.render.primitives.surfels.presets import PRESETS
from luxel.render.primitives.surfels.training import SurfelLoss, SurfelRates, initialise, penalties

SPEC = PrimitiveSpec(
    parameters=Surfels,
    initialise=initialise,
    from_gaussians=Surfels.from_gaussians,
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
    projection=PROJECTION,
    geometry=geometry_terms,
    penalties=penalties,
)
