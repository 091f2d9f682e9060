"""Presets of 3D Gaussians."""

from luxel.render.primitives.spec import Preset

# Coarse to fine as in DashGaussian (Chen et al. 2025).
LONG = {
    "resolution": {"halvings": 1, "until": 0.4},
    "rates": {"final_factor": 0.1, "final_from": 0.7},
}
PRESETS = {
    "default": Preset("a count that follows the detail of the images, rates that fall at the end", LONG),
    "fast": Preset(
        "a tenth of the time for most of the quality, in steps that follow the number of pixels",
        {
            "steps": 3600,
            "steps_by_size": 1200,
            # Growth goes on for a while at full size.
            "strategy": {"kind": "split", "refine_stop": 20_000},
            "resolution": {"halvings": 2, "until": 0.55},
            "loss": {"ssim_weight": 0.4},
            "rates": {"final_factor": 0.1, "final_from": 0.6},
        },
    ),
    "best": Preset(
        "two views a step: half again as long, for less noise in gradients",
        {"batch": 2, **LONG},
    ),
    "surface": Preset(
        "smooth surfaces for meshes: flat antialiased Gaussians, and normals in the loss",
        {"antialiased": True, "loss": {"flatness_weight": 1.0, "normal_weight": 0.2}, **LONG},
    ),
}
