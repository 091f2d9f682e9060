"""Options of training that all primitives share: learning rates, weights of the loss, and how primitives start.

Each primitive has subclasses with fields of its own; see `luxel.render.primitives.spec.PrimitiveSpec`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields


def exponential(start: float, end: float, progress: float) -> float:
    """start^(1-p) end^p, with p = ``progress`` clamped to [0, 1]."""
    p = min(max(progress, 0.0), 1.0)
    return start if start == end else start ** (1 - p) * end**p


@dataclass
class Rates:
    """Adam's learning rate of each parameter; a field NAME_final is the rate NAME at the end of the run."""

    final_factor: float = 1.0
    """Factor at the end of the run on the rates that have no NAME_final, reached exponentially; 1: constant."""
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
        """With the rates that are per unit of the scene's size multiplied by ``extent``."""
        return {name: rate * extent if name == "means" else rate for name, rate in rates.items()}

    def problems(self) -> list[str]:
        """Invalid values, as clauses for an error message."""
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
class Loss:
    """Weights of the loss."""

    ssim_weight: float = 0.2
    """Weight w of 1 - SSIM in (1 - w) L1 + w (1 - SSIM), 0 to 1."""
    alpha_weight: float = 0.1
    """Weight of the mean absolute difference between rendered and given alpha (cut-out captures only)."""

    def problems(self) -> list[str]:
        """Invalid values, as clauses for an error message."""
        out = []
        if not 0 <= self.ssim_weight <= 1:
            out.append("loss.ssim_weight must lie in 0 to 1")
        if not self.alpha_weight >= 0:
            out.append("loss.alpha_weight must not be negative")
        return out


@dataclass
class Init:
    """How the first primitives are made from the points of the capture."""

    sh_degree: int = 3
    """Highest degree of the spherical harmonics, 0 to 3."""
    opacity: float | None = None
    """Opacity at the start, between 0 and 1; None: the strategy's own (mcmc 0.5, others 0.1)."""
    scale_factor: float = 1.0
    """Factor on the starting size, the root mean square distance to the three nearest points."""
    max_points: int | None = None
    """Start from a random subset of at most this many points; None: all."""

    def problems(self) -> list[str]:
        """Invalid values, as clauses for an error message."""
        out = []
        if not 0 <= self.sh_degree <= 3:
            out.append("init.sh_degree must be 0 to 3")
        if not 0 < (self.opacity or 0.5) < 1 or self.opacity == 0:
            out.append("init.opacity must lie between 0 and 1")
        if not self.scale_factor > 0:
            out.append("init.scale_factor must be positive")
        if self.max_points is not None and self.max_points < 1:
            out.append("init.max_points must be at least 1")
        return out
