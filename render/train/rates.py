"""Adam's learning rates of each primitive, and how they fall over a run."""

from __future__ import annotations

from dataclasses import dataclass, fields

from luxel.render.train.schedules import exponential


@dataclass
class Rates:
    """Base of the dataclasses below: a field NAME_final is what the rate NAME has come to at the end of the run."""

    final_factor: float = 1.0
    """What the rates without an end of their own have fallen to at the end of the run, exponentially; 1: constant."""
    final_from: float = 0.0
    """Share of the run after which these rates begin to fall."""

    def at(self, progress: float, extent: float) -> dict[str, float]:
        """Learning rate by parameter, in the order of the parameters.

        Args:
            progress: share of the run that is done, in [0, 1].
            extent: size of the scene, capture units.
        """
        known = self._rates()
        late = max(0.0, progress - self.final_from) / max(1e-9, 1 - self.final_from)
        fall = exponential(1.0, self.final_factor, late)
        out = {}
        for name, rate in known.items():
            if name.endswith("_final"):
                continue
            end = known.get(f"{name}_final")
            out[name] = rate * fall if end is None else exponential(rate, end, progress)
        return self.scaled(out, extent)

    def scaled(self, rates: dict[str, float], extent: float) -> dict[str, float]:
        """With those that are per unit of the scene's size times that."""
        return {name: rate * extent if name == "means" else rate for name, rate in rates.items()}

    def problems(self) -> list[str]:
        """What makes no sense, as ends of a sentence."""
        known = self._rates()
        out = [f"rates.{name} must not be negative" for name, rate in known.items() if rate < 0]
        out += [
            f"rates.{name} must be positive"
            for name in known
            if name.endswith("_final") and not known[name] > 0
        ]
        if not 0 < self.final_factor <= 1:
            out.append("rates.final_factor must lie in 0 to 1, above 0")
        if self.final_from < 0:
            out.append("rates.final_from must not be negative")
        return out

    def _rates(self) -> dict[str, float]:
        """The fields that are rates, in order."""
        return {f.name: getattr(self, f.name) for f in fields(self) if not hasattr(Rates, f.name)}


@dataclass
class LearningRates(Rates):
    """Of Gaussians (Kerbl et al. 2023); those of the means are per unit of scene extent."""

    means: float = 1.6e-4
    """Centres at the start, times the scene extent."""
    means_final: float = 1.6e-6
    """Centres at the end, times the scene extent; exponential in between."""
    quats: float = 1e-3
    """Rotations."""
    log_scales: float = 5e-3
    """Logarithms of the scales."""
    opacity_logits: float = 5e-2
    """Opacities before the sigmoid."""
    sh_dc: float = 2.5e-3
    """Colour (spherical harmonics of degree 0)."""
    sh_rest: float = 2.5e-3 / 20
    """View-dependent colour (spherical harmonics of degrees 1 to 3)."""


@dataclass
class Rates4d(Rates):
    """Of 4D Gaussians (Duan et al. 2024); those of the means are per unit of scene extent."""

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
class ConvexRates(Rates):
    """Of convexes (Held et al. 2025); those of the points are in capture units whatever the scene's size."""

    points: float = 5e-4
    """Points at the start."""
    points_final: float = 5e-6
    """Points at the end; exponential in between."""
    log_delta: float = 5e-3
    """Smoothness."""
    log_sigma: float = 4.5e-3
    """Sharpness."""
    opacity_logits: float = 1e-2
    """Opacities before the sigmoid."""
    sh_dc: float = 2.5e-3
    """Colour (spherical harmonics of degree 0)."""
    sh_rest: float = 2.5e-3 / 20
    """View-dependent colour (spherical harmonics of degrees 1 to 3)."""
    mask_logits: float = 1e-2
    """Masks before the sigmoid."""
