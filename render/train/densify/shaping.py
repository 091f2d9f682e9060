"""Adaptive convex shaping: convexes whose loss falls with softer edges are replaced by smaller ones."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, Annotated, ClassVar

from luxel.render.bounds import (
    Bounds,
    OpenShare,
    Positive,
    PositiveShare,
    Steps,
    StepsOrNever,
    Weight,
)
from luxel.render.train.densify.strategy import Strategy
from luxel.render.train.step.schedules import Window

if TYPE_CHECKING:
    from torch import Tensor

    from luxel.render.primitives.convexes import Convexes
    from luxel.render.train.densify.situation import Refinement, Situation
    from luxel.render.train.store.protocol import ParameterStore


@dataclass
class ShapingStrategy(Strategy):
    """Held et al. 2025, "3D Convex Splatting", section 3.3 and supplement.

    Where the loss falls with a smaller sharpness sigma, averaged over the views that saw a convex, it is replaced by
    one at each of its K points, of its shape. Faint, masked and, later, huge ones are removed. Steps are those of
    runs of 30,000; shorter runs start after 5 %, act every 2 % (not below 20 steps), and end after the same share of
    the run.
    """

    grow_sigma: Annotated[float, Bounds(-(10**6), 10**6, stated=False)] = 2.5e-5
    """Mean gradient of the loss by sigma at which a convex is split."""
    far_factor: Positive = 1.0
    """Factor on `grow_sigma` where the scene's extent is above 300 capture units."""
    child_scale: Positive = 0.63
    """Size of the parts, relative to what is split."""
    child_opacity: PositiveShare = 0.5
    """Opacity of the parts, relative to what is split."""
    child_log_sigma: Annotated[float, Bounds(-100, 100, stated=False)] = 0.88
    """Factor on the logarithm of the sharpness of what is split; for a sharpness below 1 (as at the start), parts are
    sharper where this is below 1."""
    prune_opacity: Annotated[float, Bounds(0, 0.5, below=True)] = 0.03
    """Convexes less opaque than this are removed."""
    prune_mask: OpenShare = 0.01
    """Convexes whose mask (after the sigmoid) is not above this are removed."""
    prune_scale: Weight = 0.3
    """Convexes larger than this share of the scene extent are removed, from a tenth of the run to `refine_stop`."""
    refine_start: StepsOrNever = 500
    """Step after which convexes are split."""
    refine_stop: StepsOrNever = 9000
    """Step at which splitting ends."""
    refine_every: Steps = 200
    """Steps between refinements."""
    prune_every: Steps = 1000
    """Steps between removals after `refine_stop`."""
    clip_every: StepsOrNever = 3000
    """Steps between clips of all opacities to `clip_opacity`; 0: never. Shorter runs retain the interval."""
    clip_stop: StepsOrNever = 6000
    """Last step at which opacities are clipped; in shorter runs earlier, as `refine_stop` is."""
    clip_opacity: OpenShare = 0.2
    """Highest opacity after a clip."""

    about: ClassVar[str] = "adaptive convex shaping"

    def window(self, steps: int) -> Window:
        """When convexes are split in a run of ``steps`` steps."""
        return Window.scaled(
            self.refine_start, self.refine_stop, self.refine_every, steps, self.refine_stop / 30_000
        )

    def needs_statistics(self, clock: float, steps: int) -> bool:
        """Until splitting ends."""
        return clock < self.window(steps).stop

    def due(self, step: int, clock: float, steps: int) -> bool:
        """Whether `after_step` has something to do after ``step`` steps."""
        return (
            self.window(steps).acts(step, clock)
            or self._clips(step, steps)
            or self._tidies(step, clock, steps)
        )

    def _clips(self, step: int, steps: int) -> bool:
        """The last clip comes at the same share of the splitting in runs of any length, never after it."""
        stop = self.window(steps).stop
        stop = min(stop, self.clip_stop * stop // max(1, self.refine_stop))
        return self.clip_every > 0 and step % self.clip_every == 0 and step <= stop

    def _tidies(self, step: int, clock: float, steps: int) -> bool:
        return clock >= self.window(steps).stop and step % self.prune_every == 0

    def after_step(self, store: ParameterStore, now: Situation) -> Refinement | None:
        """Splits, removes and clips opacities when due; the caller then starts new statistics."""
        import torch

        from luxel.render.train.densify.situation import Refinement, logit

        done = None
        if splits := self.window(now.steps).acts(now.step, now.clock):
            done, keep = self.split(store, now)
        elif self._tidies(now.step, now.clock, now.steps):
            done, keep = (
                Refinement(),
                torch.ones(store.count, dtype=torch.bool, device=store.scene.device),
            )
        if done is not None:
            huge_too = splits and now.clock > 0.1 * now.steps
            lives = self.worth_keeping(store.scene, now.extent, huge_too)
            done.pruned = int((keep & ~lives).sum())
            if done.pruned or done.split:
                store.select(keep & lives)
        if self._clips(now.step, now.steps):
            done = done or Refinement()
            done.reset = True
            limit = float(logit(torch.tensor(self.clip_opacity)))
            store.edit(lambda scene: scene.opacity_logits.clamp_(max=limit), zero=("opacity_logits",))
        return done

    def split(self, store: ParameterStore, now: Situation) -> tuple[Refinement, Tensor]:
        """Replaces convexes by parts; at most up to the cap, those with the highest score first.

        Returns:
            What was done, and which of the convexes stay, the parts included: all but those that were split,
            bool [N + parts].
        """
        import torch

        from luxel.render.train.densify.situation import Refinement

        convexes: Convexes = store.scene
        score = now.statistics.data[:, 0] / now.statistics.visible.clamp_min(1)
        limit = self.grow_sigma * (self.far_factor if now.extent > 300 else 1.0)
        high = (score >= limit) & (now.statistics.visible > 0)
        if now.cap is not None:
            capacity = max(0, now.cap - convexes.count) // max(1, convexes.points_each - 1)
            if int(high.sum()) > capacity:
                best = torch.where(high, score, -torch.inf).argsort(descending=True, stable=True)[:capacity]
                high = torch.zeros_like(high).index_fill_(0, best, True)
        chosen = high.nonzero()[:, 0]
        parts = self.parts(convexes.select(chosen))
        store.append(parts)
        stays = torch.cat([~high, high.new_ones(parts.count)])
        return Refinement(split=chosen.numel()), stays

    def parts(self, convexes: Convexes) -> Convexes:
        """K parts of each convex: copies of its shape, scaled by `child_scale`, one centred on each of its points."""
        import torch

        from luxel.render.train.densify.situation import logit

        n, k = convexes.points.shape[:2]
        shape = self.child_scale * (convexes.points - convexes.centroids[:, None])
        points = (convexes.points[:, :, None] + shape[:, None]).reshape(n * k, k, 3)
        out = convexes.select(torch.arange(n, device=convexes.device).repeat_interleave(k))
        out.points = points
        out.opacity_logits = logit(self.child_opacity * out.opacities)
        out.log_sigma = self.child_log_sigma * out.log_sigma
        return out

    def worth_keeping(self, convexes: Convexes, extent: float, huge_too: bool) -> Tensor:
        """Which are neither faint nor masked, nor huge (if ``huge_too``), nor non-finite, bool [N]."""
        from luxel.render.train.densify.situation import finite

        keep = (convexes.opacities >= self.prune_opacity) & finite(convexes)
        keep &= convexes.mask_logits > log(self.prune_mask / (1 - self.prune_mask))
        if huge_too:
            keep &= convexes.world_scale <= self.prune_scale * extent
        return keep
