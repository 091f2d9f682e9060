"""Presets of 4D Gaussians (Duan et al. 2024): one moving camera, or video from several."""

from luxel.render.primitives.spec import Preset

_ONE_CAMERA = {"steps": 20_000, "batch": 3}  # as published for D-NeRF
# Few views at any time show each side of a moving object: with more Gaussians than this, training overfits them.
_DNERF = {**_ONE_CAMERA, "max_gaussians": 80_000, "rates": {"final_factor": 0.1, "final_from": 0.5}}

PRESETS = {
    "default": Preset("the same as dnerf", _DNERF),
    "dnerf": Preset("an object from one moving camera, times in [0, 1]", _DNERF),
    "clip": Preset(
        "a hand-held film of a scene that mostly stands still", {**_ONE_CAMERA, "init": {"time_scale": 0.5}}
    ),
    "video": Preset(
        "several cameras that run on, times in seconds",
        {
            "steps": 20_000,
            "batch": 2,
            "rates": {"times": 9.6e-4, "times_final": 9.6e-6},
            "strategy": {"kind": "spacetime", "grow_grad2d": 2e-4, "grow_grad_t": 2e-4, "grow_scale_t": 0.2},
            "loss": {"entropy_weight": 0.0, "neighbour_time": 1.0},
            "init": {"time_scale": 0.14, "time_margin": 0.1},
        },
    ),
}
