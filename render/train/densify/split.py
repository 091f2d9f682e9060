"""Splits Gaussians with large screen gradients along their longest axis, up to a cap from the detail of the images."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from luxel.render.bounds import Bounds, Count, Positive, Share, Steps, StepsOrNever, Weight
from luxel.render.train.densify.strategy import Strategy
from luxel.render.train.step.schedules import Window

if TYPE_CHECKING:
    from torch import Tensor

    from luxel.render.train.densify.situation import Refinement, Situation
    from luxel.render.train.store.protocol import ParameterStore

FEW_STEPS = 7_000  # of a run in which `grow_grad2d` is the threshold
RATIO = 0.5**0.5  # of a part's longest standard deviation to the parent's


@dataclass
class SplitStrategy(Strategy):
    """Bounded growth by splits along the longest axis (Deng et al. 2025), at large absolute gradients (Ye et al. 2024).

    Transparent Gaussians are removed, and of those whose absolute screen gradient is large the largest are split, at
    most a share of the count at each refinement and never above a cap. The regularisers and the noise are those of
    3DGS-MCMC (Kheradmand et al. 2024), relative to the scene extent. Steps are those of runs of 30,000; shorter runs
    start after 5 %, act every 2 % (not below 20 steps), and end after the same share of the run.
    """

    cap_max: Count | None = None
    """Most Gaussians; None: one for each `pixels_each` pixels that show detail, at least 20,000. `max_gaussians` lowers
    it."""
    pixels_each: Count = 32
    """Pixels with detail, of all training images together, for each Gaussian, without `cap_max`. A pixel shows detail
    where it differs from its neighbours by more than 12/255 at half the size."""
    sharp_share: Share = 0.2
    """Share of the pixels of the scene that show detail in sharp images. Where fewer do, `pixels_each` is divided
    by the square root of their ratio: soft images carry fewer Gaussians still; 0: they do not."""
    grow_grad2d: Positive = 2.6e-4
    """Mean absolute screen gradient of the loss of a view (per half image size) above which a Gaussian is split, in
    runs of up to 7,000 steps."""
    finer_power: Share = 0.38
    """Longer runs can fit more: `grow_grad2d` is multiplied by (7,000 / steps) to this power; 0: it is the same."""
    growth: Annotated[float, Bounds(0, 100)] = 0.1
    """Largest share by which the count grows at each refinement."""
    growth_until: Share = 0.5
    """Share of the time between `refine_start` and `refine_stop` over which growth is spread: until then, the count
    grows at each refinement by the factor that would reach the cap at the end of it; 0: by `growth` from the start."""
    prune_opacity: Annotated[float, Bounds(0, 0.5, below=True)] = 0.005
    """Gaussians less opaque than this are removed."""
    noise: Annotated[float, Bounds(0, 10**18, stated=False)] = 5e6
    """Strength of the random moves of nearly transparent Gaussians, see `mcmc`; 0: none."""
    opacity_regulariser: Weight = 0.0125
    """Weight of the mean opacity in the loss where the scene fills the images; times the share of their pixels that
    show it, as the photometric loss is a mean over all pixels."""
    scale_regulariser: Weight = 0.02
    """Weight of the mean scale (as a share of the scene extent) in the loss, likewise."""
    refine_start: StepsOrNever = 500
    """Step after which splitting starts."""
    refine_stop: StepsOrNever = 15_000
    """Step at which splitting ends."""
    refine_every: Steps = 100
    """Steps between refinements."""

    about: ClassVar[str] = "splits along the longest axis where absolute gradients are large, up to a cap"
    first_opacity: ClassVar[float] = 0.5
    follows_images: ClassVar[bool] = True
    absolute: ClassVar[bool] = True  # pyright: ignore[reportIncompatibleVariableOverride]
    sums_views: ClassVar[bool] = True

    def penalties(self, coverage: float) -> tuple[float, float]:
        """Weights of mean opacity and mean scale in the loss, for images of which the scene covers that share."""
        return coverage * self.opacity_regulariser, coverage * self.scale_regulariser

    def window(self, steps: int) -> Window:
        """When splitting happens in a run of ``steps`` steps."""
        share = min(5 / 6, self.refine_stop / 30_000)
        return Window.scaled(self.refine_start, self.refine_stop, self.refine_every, steps, share)

    def needs_statistics(self, clock: float, steps: int) -> bool:
        """Until splitting ends."""
        return clock < self.window(steps).stop

    def after_step(self, store: ParameterStore, now: Situation) -> Refinement | None:
        """Splits and removes when due."""
        import torch

        from luxel.render.train.densify.situation import Refinement, finite

        if not self.due(now.step, now.clock, now.steps):
            return None
        scene = store.scene
        lives = (scene.opacities >= self.prune_opacity) & finite(scene)
        chosen = self.choose(lives, now)
        if chosen.numel():
            first, second = split_in_two(scene.select(chosen))
            store.replace(chosen, first)
            store.append(second)
            lives = torch.cat([lives, lives.new_ones(second.count)])
        retained = int(lives.sum())
        pruned = lives.numel() - retained
        if pruned:
            store.select(lives)
        return Refinement(split=chosen.numel(), pruned=pruned)

    def choose(self, lives: Tensor, now: Situation) -> Tensor:
        """Positions of those to split, int64: the largest gradients first, as many as growth and cap allow.

        Args:
            lives: which Gaussians are retained, bool [N].
            now: state of the run, with statistics.
        """
        import torch

        stats = now.statistics
        threshold = self.grow_grad2d * min(1.0, FEW_STEPS / now.steps) ** self.finer_power
        # The loss is a mean over the views of a step.
        pull = now.batch * stats.abs_grad_norm / stats.visible.clamp_min(1) / threshold
        pull = torch.where(lives, pull.nan_to_num(0.0, 0.0, 0.0), 0.0)
        high = pull > 1
        alive, above = (int(x) for x in torch.stack([lives.sum(), high.sum()]).tolist())
        cap = self.limit(now)
        number = min(above, max(0, cap - alive), round(self.growth_at(now, alive, cap) * alive))
        if number == above:
            return high.nonzero()[:, 0]
        return pull.argsort(descending=True, stable=True)[:number]

    def limit(self, now: Situation) -> int:
        """By `cap_max`, or else by the detail of the images."""
        from luxel.render.train.densify.situation import count_limit

        return count_limit(self.cap_max, self.detail_that_counts(now), self.pixels_each, now.cap)

    def detail_that_counts(self, now: Situation) -> int:
        """Pixels with detail that carry Gaussians; fewer than there are in soft images, see `sharp_share`."""
        needed = self.sharp_share * now.pixels * now.coverage
        return now.detail if now.detail >= needed else round(now.detail * math.sqrt(now.detail / needed))

    def growth_at(self, now: Situation, count: int, cap: int) -> float:
        """Largest share by which ``count`` grows at a refinement, on its way to ``cap``; see `growth_until`."""
        window = self.window(now.steps)
        end = window.start + self.growth_until * (window.stop - window.start)
        left = max(1.0, (end - now.clock) / window.every)
        return min(self.growth, max(0.0, (cap / max(1, count)) ** (1 / left) - 1))


def split_in_two(gaussians: Any) -> tuple[Any, Any]:
    """Two parts of each Gaussian, on either side along its longest axis.

    A part's standard deviation on that axis is 1 / sqrt(2) of the parent's, and so is its distance, so that both
    together have the parent's covariance; opacities o' with (1 - o')^sqrt(2) = 1 - o preserve the parent's mass.

    Returns:
        The parts on the positive and on the negative side, each in the order of the parents.
    """
    import torch

    from luxel.render.primitives.gaussians import quat_to_matrix
    from luxel.render.train.densify.situation import logit

    log_length, axis = gaussians.log_scales.max(-1, keepdim=True)
    across = axis[:, :, None].expand(-1, 3, 1)
    move = quat_to_matrix(gaussians.quats).gather(2, across)[:, :, 0] * (RATIO * log_length.exp())
    shrink = torch.zeros_like(gaussians.log_scales).scatter_(1, axis, math.log(RATIO))
    opacities = 1 - (1 - gaussians.opacities.clamp(max=0.9999)).pow(RATIO)
    parts = []
    for side in (1, -1):
        part = gaussians.map(torch.clone)
        part.means = part.means + side * move
        part.log_scales = part.log_scales + shrink
        part.opacity_logits = logit(opacities)
        parts.append(part)
    return parts[0], parts[1]
