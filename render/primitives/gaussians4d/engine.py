"""What computes with 4D Gaussians."""

from luxel.render.ops.raster.project_gaussians4d import PROJECTION
from luxel.render.primitives.gaussians4d.conversion import from_gaussians
from luxel.render.primitives.gaussians4d.parameters import Gaussians4d
from luxel.render.primitives.gaussians4d.training import TERMS, initialise, neighbourhood
from luxel.render.primitives.spec import (
    PrimitiveEngine,
)

ENGINE = PrimitiveEngine(
    parameters=Gaussians4d,
    initialise=initialise,
    from_gaussians=from_gaussians,
    projection=PROJECTION,
    terms=TERMS,
    auxiliary=neighbourhood,
)
