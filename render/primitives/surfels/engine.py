"""What computes with surfels."""

from luxel.render.ops.raster.project_surfels import PROJECTION
from luxel.render.primitives.spec import PrimitiveEngine
from luxel.render.primitives.surfels.geometry import TERMS
from luxel.render.primitives.surfels.parameters import Surfels
from luxel.render.primitives.surfels.training import initialise

ENGINE = PrimitiveEngine(
    parameters=Surfels,
    initialise=initialise,
    from_gaussians=Surfels.from_gaussians,
    projection=PROJECTION,
    terms=TERMS,
)
