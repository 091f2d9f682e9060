"""Presets of 3D Gaussians."""

from luxel.render.primitives.spec import Preset

PRESETS = {
    "default": Preset("3DGS-MCMC with a count that follows the number of pixels, which does not overfit"),
    # Coarse to fine as in DashGaussian (Chen et al. 2025): images start at a quarter of their side.
    "fast": Preset(
        "a tenth of the time for most of the quality",
        {
            "steps": 3600,
            "strategy": {"kind": "mcmc", "growth": 0.1},
            "resolution": {"halvings": 2, "until": 0.55},
            "loss": {"ssim_weight": 0.4},
            "rates": {"final_factor": 0.1, "final_from": 0.6},
        },
    ),
    "best": Preset(
        "twice the Gaussians and half again as many steps",
        {"steps": 45_000, "strategy": {"kind": "mcmc", "pixels_each": 128}},
    ),
}
