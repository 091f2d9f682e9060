"""Training smooth convexes."""

from __future__ import annotations

from luxel.viewer.bench.record.parts.gaussians import part
from luxel.viewer.bench.record.training import Training

_LIGHT = Training("convexes", "light", ("steps=30000", "max_gaussians=30000"))

PARTS = (part("convexes", "chair", "chair", 45, _LIGHT, "chair of convexes, light preset", "convexes"),)
