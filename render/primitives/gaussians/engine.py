"""What computes with 3D Gaussians."""

from functools import partial

from luxel.render.ops.raster.project_gaussians import PROJECTION
from luxel.render.primitives.gaussian_training import initialise
from luxel.render.primitives.gaussians.geometry import TERMS
from luxel.render.primitives.gaussians.parameters import Gaussians
from luxel.render.primitives.spec import PrimitiveEngine

ENGINE = PrimitiveEngine(
    parameters=Gaussians,
    initialise=partial(initialise, Gaussians),
    from_gaussians=lambda gaussians: gaussians,
    projection=PROJECTION,
    terms=TERMS,
)
