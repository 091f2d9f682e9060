"""What computes with 3D Gaussians."""

from functools import partial

from luxel.render.ops.raster.project_gaussians import PROJECTION
from luxel.render.primitives.gaussian_training import initialise, penalties
from luxel.render.primitives.gaussians.geometry import geometry_terms, shape_terms
from luxel.render.primitives.gaussians.parameters import Gaussians
from luxel.render.primitives.spec import PrimitiveEngine

ENGINE = PrimitiveEngine(
    parameters=Gaussians,
    initialise=partial(initialise, Gaussians),
    from_gaussians=lambda gaussians: gaussians,
    projection=PROJECTION,
    geometry=geometry_terms,
    shapes=shape_terms,
    penalties=partial(penalties, Gaussians),
)
