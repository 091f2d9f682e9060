"""Balls that are drawn as discs, opaque in the middle."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log

from torch import Tensor

from luxel.render.ops.raster.project_discs import PROJECTION
from luxel.render.primitives.gaussians.parameters import Gaussians
from luxel.render.primitives.parameters import Parameters, Projected, Viewing
from luxel.render.primitives.spec import PrimitiveEngine


@dataclass
class Discs(Parameters):
    """N balls by the raw parameters that an optimizer moves."""

    means: Tensor  # [N, 3]
    log_radii: Tensor  # [N]
    opacity_logits: Tensor  # [N]
    sh_dc: Tensor  # [N, 3]
    sh_rest: Tensor  # [N, (D + 1)^2 - 1, 3]

    primitive, noun, policy = "discs", "discs", "discs"
    outputs = ("colour", "alpha", "depth", "count")
    antialiases = False

    @property
    def centres(self) -> Tensor:
        """The means."""
        return self.means

    def project(self, view: Viewing, statistics: Tensor | None) -> Projected:
        """Balls to discs."""
        options = {name: getattr(view, name) for name in PROJECTION.options}
        tensors = *self.tensors().values(), view.world_to_cam, view.intrinsics
        return Projected(*PROJECTION(tensors, statistics, **options))

    def scaled(self, factor: float) -> Discs:
        """With ``factor`` times the radius."""
        return replace(self, log_radii=self.log_radii + log(factor))


def from_gaussians(gaussians: Gaussians) -> Discs:
    """A ball of twice the mean standard deviation for each Gaussian."""
    tensors = gaussians.tensors()
    radii = gaussians.log_scales.exp().mean(-1).mul(2).log()
    return Discs(tensors["means"], radii, *(tensors[k] for k in ("opacity_logits", "sh_dc", "sh_rest")))


def initialise(points, start) -> Discs:
    """A ball at each point."""
    init, opacity = start.init, start.opacity
    gaussians = Gaussians.from_points(
        points,
        sh_degree=init.sh_degree,
        opacity=opacity,
        scale_factor=init.scale_factor,
        device=start.device,
    )
    return from_gaussians(gaussians)


ENGINE = PrimitiveEngine(
    parameters=Discs, initialise=initialise, from_gaussians=from_gaussians, projection=PROJECTION
)
