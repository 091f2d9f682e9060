"""Densification of 4D Gaussians: they are cloned and split in space and in time."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, Any, ClassVar

from luxel.render.bounds import Positive
from luxel.render.errors import LuxelError
from luxel.render.train.densify.adaptive import AdaptiveStrategy

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from luxel.render.train.densify.situation import Situation


@dataclass
class SpacetimeStrategy(AdaptiveStrategy):
    """Duan et al. 2024, "4D-Rotor Gaussian Splatting", on top of the adaptive density control of 3DGS.

    A Gaussian is cloned or split where the gradient of its centre is large on the screen or in time: split where it is
    large in space or in time, with centres drawn from itself, else cloned.
    """

    grow_grad2d: Positive | None = 5e-5
    """Mean screen gradient (per half image size) above which a Gaussian is cloned or split."""
    grow_grad_t: Positive = 5e-5
    """Mean absolute gradient of the loss by the centre in time above which a Gaussian is cloned or split."""
    grow_scale_t: Positive = 1.0
    """Gaussians whose standard deviation in time is above this share of the capture's duration are split."""

    about: ClassVar[str] = "cloning and splitting in space and time"

    def check(self) -> None:
        """Raises LuxelError for invalid options."""
        super().check()
        if self.absolute:
            raise LuxelError(
                "strategy.absolute True: absolute gradients are not gathered for 4D Gaussians.",
                "Leave that option out.",
            )

    def pull(self, now: Situation) -> Tensor:
        """The larger of the gradients on the screen and in time, as multiples of their thresholds, [N]."""
        import torch

        observations = now.statistics.visible.clamp_min(1)
        on_screen, in_time = (now.statistics.data[:, k] / observations for k in (0, 1))
        return torch.maximum(on_screen / self.threshold, in_time / self.grow_grad_t)

    def is_large(self, gaussians: Any, now: Situation) -> Tensor:
        """Which are split rather than cloned: those large in space or in time, bool [N]."""
        lasts = gaussians.log_scale_t.exp() > self.grow_scale_t * now.duration
        return super().is_large(gaussians, now) | lasts

    def _parts(self, gaussians: Any, generator: torch.Generator) -> Any:
        """Draws centres in space and time from the Gaussians themselves and shrinks them by 1.6."""
        import torch

        from luxel.render.ops.raster.slice_gaussians4d import rotor_to_matrix

        normal = torch.randn(gaussians.count, 4, generator=generator, device=gaussians.device).to(
            gaussians.means
        )
        moved = (rotor_to_matrix(gaussians.rotors) @ (normal * gaussians.scales)[:, :, None])[:, :, 0]
        gaussians.means = gaussians.means + moved[:, :3]
        gaussians.times = gaussians.times + moved[:, 3]
        gaussians.log_scales = gaussians.log_scales - log(1.6)
        gaussians.log_scale_t = gaussians.log_scale_t - log(1.6)
        return gaussians
