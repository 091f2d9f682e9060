"""A new primitive in one file: isotropic balls, N Gaussians of one radius each and one colour from all sides.

`register(SPEC)` is the one line that registers it: it is then trained, saved, loaded, rendered, exported, viewed and
benchmarked like the others. It needs no kernel of its own, because it is converted to Gaussians for projection.

    python examples/isotropic_balls.py CAPTURE [options of `luxel train`]
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from math import log

import torch
from torch import Tensor

from luxel.render.geometry.camera import Points
from luxel.render.primitives import Gaussians, Parameters, PrimitiveEngine, PrimitiveSpec, register
from luxel.render.primitives.parameters import Projected, Viewing
from luxel.render.primitives.similarity import Similarity
from luxel.render.primitives.spec import Columns, Costs, Start
from luxel.render.primitives.training import Rates


@dataclass
class IsotropicBalls(Parameters):
    """N balls by the raw parameters that an optimizer moves.

    Args:
        means: centres in world coordinates, [N, 3].
        log_radius: natural logarithm of the standard deviation, [N].
        opacity_logits: opacity before the sigmoid, [N].
        colour_logits: RGB before the sigmoid, [N, 3].
    """

    means: Tensor
    log_radius: Tensor
    opacity_logits: Tensor
    colour_logits: Tensor

    # Name in the registry and on the command line; plural noun in messages.
    primitive, noun = "isotropic_balls", "balls"

    def __post_init__(self) -> None:
        n = self.means.shape[0]
        self.check({"means": (n, 3), "log_radius": (n,), "opacity_logits": (n,), "colour_logits": (n, 3)})

    @property
    def centres(self) -> Tensor:
        """The means."""
        return self.means

    def as_gaussians(self) -> Gaussians:
        """The same scene made of Gaussians; differentiable."""
        unturned = torch.zeros_like(self.means[:, :1]).expand(-1, 4).clone()
        unturned[:, 0] = 1
        return Gaussians(
            means=self.means,
            quats=unturned,
            log_scales=self.log_radius[:, None].expand(-1, 3),
            opacity_logits=self.opacity_logits,
            sh_dc=(self.colour_logits.sigmoid() - 0.5) / Y00,
            sh_rest=self.means.new_zeros(self.count, 0, 3),
        )

    def project(self, view: Viewing, statistics: Tensor | None) -> Projected:
        """As Gaussians; gradients come back through `as_gaussians` by autograd."""
        return self.as_gaussians().project(view, statistics)

    def scaled(self, factor: float) -> IsotropicBalls:
        """With ``factor`` times the radius."""
        return replace(self, log_radius=self.log_radius + log(factor))

    # The rest is for editing: it may be left out, and editing then refuses what depends on it.
    def transformed(self, similarity: Similarity) -> IsotropicBalls:
        """Moved and scaled; a ball looks the same however it is turned."""
        means = similarity.apply(self.means)
        return replace(self, means=means, log_radius=self.log_radius + log(similarity.scale))

    @property
    def sizes(self) -> Tensor:
        """The radius."""
        return self.log_radius.exp()

    @property
    def base_colours(self) -> Tensor:
        """The colours."""
        return self.colour_logits.sigmoid()

    def with_base_colours(self, colours: Tensor) -> IsotropicBalls:
        """With other colours, [N, 3], moved into [0.01, 0.99]."""
        return replace(self, colour_logits=colours.clamp(0.01, 0.99).logit())


Y00 = 0.28209479177387814  # spherical harmonic of degree 0: a colour is 0.5 + Y00 sh_dc


@dataclass
class BallRates(Rates):
    """Learning rates: a field for each parameter; NAME_final is the rate at the end of the run."""

    means: float = 1.6e-4
    """Centres at the start, times the scene extent."""
    means_final: float = 1.6e-6
    """Centres at the end, times the scene extent; exponential in between."""
    log_radius: float = 5e-3
    """Logarithms of the radius."""
    opacity_logits: float = 5e-2
    """Opacities before the sigmoid."""
    colour_logits: float = 1e-2
    """Colours before the sigmoid."""


def from_gaussians(gaussians: Gaussians) -> IsotropicBalls:
    """A ball of the mean scale and of the base colour for each Gaussian."""
    return IsotropicBalls(
        means=gaussians.means,
        log_radius=gaussians.log_scales.mean(-1),
        opacity_logits=gaussians.opacity_logits,
        colour_logits=(0.5 + Y00 * gaussians.sh_dc).clamp(0.01, 0.99).logit(),
    )


def initialise(points: Points, start: Start) -> IsotropicBalls:
    """A ball at each point of the capture."""
    gaussians = Gaussians.from_points(
        points, opacity=start.opacity, scale_factor=start.init.scale_factor, device=start.device
    )
    return from_gaussians(gaussians)


ENGINE = PrimitiveEngine(parameters=IsotropicBalls, initialise=initialise, from_gaussians=from_gaussians)
SPEC = PrimitiveSpec(
    name=IsotropicBalls.primitive,
    noun=IsotropicBalls.noun,
    load_engine=lambda: ENGINE,
    about="balls of one colour each",
    # Properties of .ply files. A mark is a property that files of other primitives do not have.
    columns=(
        Columns("means", ("x", "y", "z")),
        Columns("log_radius", ("log_radius",)),
        Columns("opacity_logits", ("opacity",)),
        Columns("colour_logits", ("colour_r", "colour_g", "colour_b")),
    ),
    marks=frozenset({"log_radius"}),
    exact=frozenset({"means"}),
    # Those of Gaussians, for the benchmark's roofline.
    costs=Costs(splat=32, pair=40, blend=24, blend_backward=64, cull=40, project=330, project_backward=900),
    rates=BallRates,
    strategies=("fixed",),
)


if __name__ == "__main__":
    from luxel.viewer.cli import main

    register(SPEC)
    sys.exit(main(["train", *sys.argv[1:], "--primitive", SPEC.name]))
