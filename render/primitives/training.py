"""Options of training that all primitives share: learning rates, weights of the loss, and how primitives start.

Each primitive has subclasses with fields of its own; see `luxel.render.primitives.spec.PrimitiveSpec`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated

from luxel.render.bounds import Bounds, Count, OpenShare, Options, Positive, PositiveShare, Share, Weight


def exponential(start: float, end: float, progress: float) -> float:
    """start^(1-p) end^p, with p = ``progress`` clamped to [0, 1]."""
    p = min(max(progress, 0.0), 1.0)
    return start if start == end else start ** (1 - p) * end**p


@dataclass
class Rates(Options):
    """Adam's learning rate of each parameter; a field NAME_final is the rate NAME at the end of the run."""

    final_factor: PositiveShare = 1.0
    """Factor at the end of the run on the rates that have no NAME_final, reached exponentially; 1: constant."""
    final_from: Share = 0.0
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

    def _rates(self) -> dict[str, float]:
        """The fields that are rates, in order."""
        return {f.name: getattr(self, f.name) for f in fields(self) if not hasattr(Rates, f.name)}


@dataclass
class Loss(Options):
    """Weights of the loss."""

    ssim_weight: Share = 0.2
    """Weight w of 1 - SSIM in (1 - w) L1 + w (1 - SSIM), 0 to 1."""
    alpha_weight: Weight = 0.1
    """Weight of the mean absolute difference between rendered and given alpha (cut-out captures only)."""

    def geometry_at(self, progress: float) -> tuple[str, ...]:
        """Names of those of `PrimitiveEngine.terms` on depth and normals that count in a step.

        Args:
            progress: share of the run that is done, in [0, 1].
        """
        return ()


def counting(progress: float, *terms: tuple[str, float, float]) -> tuple[str, ...]:
    """Names of the terms that count: those of a weight above 0 whose share of the run is over.

    Args:
        progress: share of the run that is done, in [0, 1].
        terms: name, weight and share of the run after which it counts.
    """
    return tuple(name for name, weight, first in terms if weight > 0 and progress >= first)


@dataclass
class Init(Options):
    """How the first primitives are made from the points of the capture."""

    sh_degree: Annotated[int, Bounds(0, 3)] = 3
    """Highest degree of the spherical harmonics, 0 to 3."""
    opacity: OpenShare | None = None
    """Opacity at the start; None: the strategy's own (mcmc 0.5, others 0.1)."""
    scale_factor: Positive = 1.0
    """Factor on the starting size, the root mean square distance to the three nearest points."""
    max_points: Count | None = None
    """Start from a random subset of at most this many points; None: all."""
    background_share: Share = 0.0
    """Points that are added behind the scene, where images show what no point of the capture is near, as a share of its
    points, at least 1,000, such as 0.25; 0: none."""
