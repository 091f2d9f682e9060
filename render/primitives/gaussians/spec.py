"""The specification of 3D Gaussians."""

from luxel.render.ops.raster.project_gaussians import PROJECTION
from luxel.render.primitives.gaussians.geometry import geometry_terms, shape_terms
from luxel.render.primitives.gaussians.parameters import Gaussians
from luxel.render.primitives.gaussians.presets import PRESETS
from luxel.render.primitives.gaussians.training import GaussianLoss, GaussianRates, initialise, penalties
from luxel.render.primitives.spec import SH_COLUMNS, Columns, Costs, PrimitiveSpec

SPEC = PrimitiveSpec(
    parameters=Gaussians,
    initialise=initialise,
    from_gaussians=lambda gaussians: gaussians,
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
    projection=PROJECTION,
    geometry=geometry_terms,
    shapes=shape_terms,
    penalties=penalties,
    backends=("luxel", "gsplat"),
)
