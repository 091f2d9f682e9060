"""Options of training 4D Gaussians (Duan et al. 2024): learning rates, weights of the loss, initialisation."""

from __future__ import annotations

from dataclasses import dataclass

from luxel.render.primitives.training import Init, Loss, Rates


@dataclass
class Gaussians4dRates(Rates):
    """Learning rates of 4D Gaussians (Duan et al. 2024)."""

    means: float = 1.6e-4
    """Centres in space at the start, times the scene extent."""
    means_final: float = 1.6e-6
    """Centres in space at the end, times the scene extent; exponential in between."""
    times: float = 1.6e-4
    """Centres in time at the start."""
    times_final: float = 1.6e-6
    """Centres in time at the end; exponential in between."""
    log_scales: float = 5e-3
    """Logarithms of the scales in space."""
    log_scale_t: float = 5e-3
    """Logarithms of the scales in time."""
    rotors: float = 1e-3
    """Rotations of space and time."""
    opacity_logits: float = 5e-2
    """Opacities before the sigmoid."""
    sh_dc: float = 2.5e-3
    """Colour (spherical harmonics of degree 0)."""
    sh_rest: float = 2.5e-3 / 20
    """View-dependent colour (spherical harmonics of degrees 1 to 3)."""


@dataclass
class Gaussians4dLoss(Loss):
    """Weights of the loss of 4D Gaussians (Duan et al. 2024)."""

    entropy_weight: float = 1e-3
    """Weight of the entropy of the opacities, which drives them to 0 or 1; 0: off."""
    consistency_weight: float = 0.05
    """Weight of the difference between velocities and those of their neighbours; 0: off."""
    neighbours: int = 8
    """Neighbours of each Gaussian, 1 to 16."""
    neighbours_every: int = 20
    """Steps between searches for neighbours; after Gaussians were added or removed the next step searches too."""
    neighbour_time: float = 5.0
    """Capture units that a unit of time is equivalent to in the search for neighbours."""

    def problems(self) -> list[str]:
        """Invalid values, as clauses for an error message."""
        out = super().problems()
        if not 1 <= self.neighbours <= 16:
            out.append("loss.neighbours must be 1 to 16")
        if self.neighbours_every < 1:
            out.append("loss.neighbours_every must be at least 1")
        return out


@dataclass
class Gaussians4dInit(Init):
    """How the first 4D Gaussians are made from the points of the capture."""

    time_scale: float | None = None
    """Standard deviation in time at the start, as a share of the capture's duration; None: as wide as in space."""
    time_margin: float = 0.0
    """Share of the capture's duration by which Gaussians may start before or after it."""
