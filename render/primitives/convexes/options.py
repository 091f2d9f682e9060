"""Options of training convexes (Held et al. 2025): learning rates, weights of the loss, initialisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from luxel.render.bounds import Bounds, FinalRate, Positive, Rate, Weight
from luxel.render.ops.raster.convex_points import FEWEST, MOST
from luxel.render.primitives.training import Init, Loss, Rates

STARTING_SIGMA = {"light": 9.5e-4, "outdoor": 1e-3, "indoor": 9e-4}  # by the authors' presets


@dataclass
class ConvexRates(Rates):
    """Learning rates of convexes (Held et al. 2025)."""

    points: Rate = 5e-4
    """Points at the start, capture units (not times the scene extent)."""
    points_final: FinalRate = 5e-6
    """Points at the end; exponential in between."""
    log_delta: Rate = 5e-3
    """Logarithms of the smoothness."""
    log_sigma: Rate = 4.5e-3
    """Logarithms of the sharpness."""
    opacity_logits: Rate = 1e-2
    """Opacities before the sigmoid."""
    sh_dc: Rate = 2.5e-3
    """Colour (spherical harmonics of degree 0)."""
    sh_rest: Rate = 2.5e-3 / 20
    """View-dependent colour (spherical harmonics of degrees 1 to 3)."""
    mask_logits: Rate = 1e-2
    """Masks before the sigmoid."""


@dataclass
class ConvexLoss(Loss):
    """Weights of the loss of convexes (Held et al. 2025)."""

    mask_weight: Weight = 5e-4
    """Weight of the mean of the masks while convexes are split, which removes those that are not needed; 0: off."""


@dataclass
class ConvexInit(Init):
    """How the first convexes are made from the points of the capture."""

    points_each: Annotated[int, Bounds(FEWEST, MOST)] = 6
    """Points of each convex, 3 to 8."""
    sigma: Positive = STARTING_SIGMA["light"]
    """Sharpness at the start."""
