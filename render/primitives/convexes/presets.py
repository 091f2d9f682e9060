"""Presets of convexes: the three sets of numbers that Held et al. 2025 publish, and a faster one."""

from luxel.render.primitives.convexes.options import STARTING_SIGMA
from luxel.render.primitives.spec import Preset

PRESETS = {
    "default": Preset(
        "light, with faster points and opacities",
        {
            "init": {"sigma": STARTING_SIGMA["light"]},
            "rates": {"points": 2e-3, "points_final": 2e-5, "opacity_logits": 5e-2},
        },
    ),
    "light": Preset("few convexes, as published", {"init": {"sigma": STARTING_SIGMA["light"]}}),
    "outdoor": Preset(
        "many convexes for scenes under the sky, as published",
        {
            "init": {"sigma": STARTING_SIGMA["outdoor"]},
            "rates": {"log_sigma": 4e-3},
            "strategy": {"kind": "shaping", "grow_sigma": 1e-6, "far_factor": 8.5, "child_scale": 0.6},
        },
    ),
    "indoor": Preset(
        "many convexes for rooms, as published",
        {
            "init": {"sigma": STARTING_SIGMA["indoor"]},
            "rates": {"points": 4e-4, "points_final": 4e-6},
            "strategy": {
                "kind": "shaping",
                "grow_sigma": 6e-6,
                "far_factor": 8.5,
                "child_scale": 0.7,
                "child_log_sigma": 0.85,
                "prune_mask": 0.02,
                "refine_stop": 9500,
                "clip_stop": 9000,
            },
        },
    ),
}
