"""What computes with convexes."""

from luxel.render.ops.raster.project_convexes import PROJECTION
from luxel.render.primitives.convexes.conversion import from_gaussians
from luxel.render.primitives.convexes.hulls import to_mesh
from luxel.render.primitives.convexes.parameters import Convexes
from luxel.render.primitives.convexes.training import TERMS, initialise, on_resolution_change
from luxel.render.primitives.spec import (
    PrimitiveEngine,
)

ENGINE = PrimitiveEngine(
    parameters=Convexes,
    initialise=initialise,
    from_gaussians=from_gaussians,
    projection=PROJECTION,
    terms=TERMS,
    on_resolution_change=on_resolution_change,
    to_mesh=to_mesh,
)
