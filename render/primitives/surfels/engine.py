"""What computes with surfels."""

from functools import partial

from luxel.render.ops.raster.project_surfels import PROJECTION
from luxel.render.primitives.gaussian_training import initialise
from luxel.render.primitives.spec import PrimitiveEngine
from luxel.render.primitives.surfels.geometry import TERMS
from luxel.render.primitives.surfels.parameters import Surfels

ENGINE = PrimitiveEngine(
    parameters=Surfels,
    initialise=partial(initialise, Surfels),
    from_gaussians=Surfels.from_gaussians,
    projection=PROJECTION,
    terms=TERMS,
)
