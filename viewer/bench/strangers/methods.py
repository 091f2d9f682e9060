"""The trainings of the benchmark: each kind of scene with its presets as a user asks for them, and gsplat's own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Method:
    """A way to train a capture.

    Args:
        kind: of scene: gaussians, surfels, convexes, radiance; or gsplat.
        preset: its name; of gsplat the training.
        words: options of `luxel train`; of gsplat those of `luxel bench train --against`, after the name.
        seconds: expected wall time on one NVIDIA H100 with a capture of full size.
        mesh: whether a mesh is extracted where the distance to the true surface is known.
    """

    kind: str
    preset: str
    words: tuple[str, ...]
    seconds: float
    mesh: bool = False

    @property
    def name(self) -> str:
        """In --only and messages: "gaussians-fast"."""
        return f"{self.kind}-{self.preset}"

    @property
    def options(self) -> str:
        """As a user gives them."""
        return " ".join(self.words) or "defaults"


GSPLAT = "gsplat"
GAUSSIANS_DEFAULT = Method("gaussians", "default", (), 30)
GAUSSIANS_FAST = Method("gaussians", "fast", ("--preset", "fast"), 12)
GAUSSIANS_BEST = Method("gaussians", "best", ("--preset", "best"), 55)
SURFELS = Method("surfels", "default", ("--primitive", "surfels"), 35, mesh=True)
SURFACE = Method("surfels", "surface", ("--primitive", "surfels", "--preset", "surface"), 40, mesh=True)
CONVEXES = Method("convexes", "default", ("--primitive", "convexes"), 35)
RADIANCE = Method("radiance", "default", ("--field", "radiance"), 75)
GSPLAT_MCMC = Method(GSPLAT, "mcmc", ("steps=7000", "scaled=true"), 60)
GSPLAT_DEFAULT = Method(GSPLAT, "default", ("steps=7000", "scaled=true"), 45)

# The most informative first: with a budget, methods at the end are those that do not run.
METHODS = (
    GAUSSIANS_DEFAULT,
    GAUSSIANS_FAST,
    RADIANCE,
    GAUSSIANS_BEST,
    SURFELS,
    SURFACE,
    GSPLAT_MCMC,
    CONVEXES,
    GSPLAT_DEFAULT,
)
QUICK = {  # options that make a training tiny, by kind
    "gaussians": ("--steps", "30", "--init.max-points", "300"),
    "surfels": ("--steps", "30", "--init.max-points", "300"),
    "convexes": ("--steps", "10", "--init.max-points", "100"),
    "radiance": ("--steps", "4", "--batch", "512", "--log2-entries", "8"),
}
