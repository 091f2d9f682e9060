"""Presets of surfels: those of Gaussians, and one for surfaces."""

from luxel.render.primitives.gaussians.presets import LONG
from luxel.render.primitives.gaussians.presets import PRESETS as OF_GAUSSIANS
from luxel.render.primitives.spec import Preset

PRESETS = {
    **OF_GAUSSIANS,
    "surface": Preset(
        "smooth surfaces for meshes: distortion and normals in the loss until near the end, at a little less PSNR",
        {"loss": {"distortion_weight": 5.0, "normal_weight": 0.5, "geometry_final": 0.1}, **LONG},
    ),
}
