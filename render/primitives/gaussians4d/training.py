"""Training of 4D Gaussians (Duan et al. 2024): initialisation and regularisers."""

from __future__ import annotations

from luxel.render.geometry.camera import Points
from luxel.render.ops.train.opacity_entropy import opacity_entropy
from luxel.render.primitives.gaussians4d.neighbourhood import Neighbourhood
from luxel.render.primitives.gaussians4d.options import Gaussians4dLoss
from luxel.render.primitives.gaussians4d.parameters import Gaussians4d
from luxel.render.primitives.spec import Start
from luxel.render.primitives.terms import StepTerm


def initialise(points: Points, start: Start) -> Gaussians4d:
    """One Gaussian at each point, at a random time of the capture."""
    init, times = start.init, [view.time for view in start.views]
    first, last = min(times), max(times)
    duration = (last - first) or 1.0
    margin = init.time_margin * duration
    return Gaussians4d.from_points(
        points,
        times=(first - margin, last + margin),
        time_scale=None if init.time_scale is None else init.time_scale * duration,
        sh_degree=init.sh_degree,
        opacity=start.opacity,
        seed=start.seed,
        device=start.device,
    ).scaled(init.scale_factor)


def neighbourhood(loss: Gaussians4dLoss) -> Neighbourhood | None:
    """The auxiliary state of the velocity-consistency loss; None where its weight is 0."""
    return Neighbourhood(loss) if loss.consistency_weight > 0 else None


TERMS = (
    StepTerm(
        "entropy",
        lambda scene: opacity_entropy(scene.primitives.opacity_logits, scene.visible()),
        lambda context: context.loss.entropy_weight,
        on="rows",
    ),
    StepTerm(
        "consistency",
        lambda scene: scene.auxiliary.value(scene.primitives, scene.visible()),
        lambda context: context.loss.consistency_weight,
        on="rows",
    ),
)
