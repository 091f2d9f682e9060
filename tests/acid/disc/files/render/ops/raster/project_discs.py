"""Stage: balls to discs on the screen (kernels of the same name)."""

from __future__ import annotations

from luxel.render.ops.raster.projection import POLYGON_OPTIONS, Projection

PROJECTION = Projection(
    "project_discs",
    {"means": (3,), "log_radii": (), "opacity_logits": (), "sh_dc": (3,), "sh_rest": (None, 3)},
    8,
    POLYGON_OPTIONS,
)
