"""Options of training 4D Gaussians (Duan et al. 2024): learning rates, weights of the loss, initialisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from luxel.render.bounds import Bounds, FinalRate, Positive, Rate, Steps, Weight
from luxel.render.primitives.training import Init, Loss, Rates


@dataclass
class Gaussians4dRates(Rates):
    """Learning rates of 4D Gaussians (Duan et al. 2024)."""

    means: Rate = 1.6e-4
    """Centres in space at the start, times the scene extent."""
    means_final: FinalRate = 1.6e-6
    """Centres in space at the end, times the scene extent; exponential in between."""
    times: Rate = 1.6e-4
    """Centres in time at the start."""
    times_final: FinalRate = 1.6e-6
    """Centres in time at the end; exponential in between."""
    log_scales: Rate = 5e-3
    """Logarithms of the scales in space."""
    log_scale_t: Rate = 5e-3
    """Logarithms of the scales in time."""
    rotors: Rate = 1e-3
    """Rotations of space and time."""
    opacity_logits: Rate = 5e-2
    """Opacities before the sigmoid."""
    sh_dc: Rate = 2.5e-3
    """Colour (spherical harmonics of degree 0)."""
    sh_rest: Rate = 2.5e-3 / 20
    """View-dependent colour (spherical harmonics of degrees 1 to 3)."""


@dataclass
class Gaussians4dLoss(Loss):
    """Weights of the loss of 4D Gaussians (Duan et al. 2024)."""

    entropy_weight: Weight = 1e-3
    """Weight of the entropy of the opacities, which drives them to 0 or 1; 0: off."""
    consistency_weight: Weight = 0.05
    """Weight of the difference between velocities and those of their neighbours; 0: off."""
    neighbours: Annotated[int, Bounds(1, 16)] = 8
    """Neighbours of each Gaussian, 1 to 16."""
    neighbours_every: Steps = 20
    """Steps between searches for neighbours; after Gaussians were added or removed the next step searches too."""
    neighbour_time: Annotated[float, Bounds(0, 10**6, stated=False)] = 5.0
    """Capture units that a unit of time is equivalent to in the search for neighbours."""


@dataclass
class Gaussians4dInit(Init):
    """How the first 4D Gaussians are made from the points of the capture."""

    time_scale: Positive | None = None
    """Standard deviation in time at the start, as a share of the capture's duration; None: as wide as in space."""
    time_margin: Annotated[float, Bounds(0, 10**6, stated=False)] = 0.0
    """Share of the capture's duration by which Gaussians may start before or after it."""
