"""Adaptive density control of 3DGS: clone, split, prune, reset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from luxel.render.bounds import Bounds, Positive, Steps, StepsOrNever, Weight
from luxel.render.train.densify.strategy import Strategy
from luxel.render.train.step.schedules import Window

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from luxel.render.train.densify.situation import Refinement, Situation
    from luxel.render.train.store.protocol import ParameterStore


@dataclass
class AdaptiveStrategy(Strategy):
    """Kerbl et al. 2023, "3D Gaussian Splatting for Real-Time Radiance Field Rendering", section 5.

    Where screen gradients of the centres are large, small Gaussians are cloned and large ones split in two;
    transparent and, once opacities have been reset, huge ones are removed. Steps are those of runs of 30,000; in
    shorter runs growth starts after 5 % at the latest, acts every 2 % (not below 20 steps), and ends after 60 %.
    """

    grow_grad2d: Positive | None = None
    """Mean screen gradient (per half image size) above which a Gaussian is cloned or split; None: 2e-4, or 8e-4 with
    `absolute`."""
    absolute: bool = False
    """Sum absolute gradients of pixels (AbsGS, Ye et al. 2024), which finds large blurred Gaussians."""
    grow_scale3d: Weight = 0.01
    """Gaussians larger than this share of the scene extent are split, smaller ones cloned."""
    prune_opacity: Annotated[float, Bounds(0, 0.5, below=True)] = 0.005
    """Gaussians less opaque than this are removed."""
    prune_scale3d: Weight = 0.1
    """After the first reset, Gaussians larger than this share of the scene extent are removed."""
    revised_opacity: bool = False
    """Give split parts the opacity that composes to the old one (Rota Bulo et al. 2024); off: they retain it."""
    refine_start: StepsOrNever = 500
    """Step after which growth starts."""
    refine_stop: StepsOrNever = 15_000
    """Step at which growth ends."""
    refine_every: Steps = 100
    """Steps between refinements."""
    reset_every: StepsOrNever = 3000
    """Steps between resets of the opacities to twice `prune_opacity`; 0: never. The last is 1,000 steps before
    `refine_stop` at the latest."""
    opacity_regulariser: Weight = 0.0
    """Weight of the mean opacity in the loss (3DGS-MCMC, eq. 11)."""
    scale_regulariser: Weight = 0.0
    """Weight of the mean scale in the loss (3DGS-MCMC, eq. 11), as a share of the scene extent."""

    about: ClassVar[str] = "cloning, splitting and resets of 3DGS"

    @property
    def threshold(self) -> float:
        """The gradient above which Gaussians grow."""
        if self.grow_grad2d is not None:
            return self.grow_grad2d
        return 8e-4 if self.absolute else 2e-4

    def window(self, steps: int) -> Window:
        """When growth happens in a run of ``steps`` steps."""
        return Window.scaled(self.refine_start, self.refine_stop, self.refine_every, steps, share=0.6)

    def needs_statistics(self, clock: float, steps: int) -> bool:
        """Until growth ends."""
        return clock < self.window(steps).stop

    def penalties(self, coverage: float) -> tuple[float, float]:
        """Weights of mean opacity and mean scale in the loss, whatever the coverage."""
        return self.opacity_regulariser, self.scale_regulariser

    def due(self, step: int, clock: float, steps: int) -> bool:
        """Whether `after_step` has something to do after ``step`` steps."""
        return self.window(steps).acts(step, clock) or self._resets(step, clock, steps)

    def _resets(self, step: int, clock: float, steps: int) -> bool:
        stop = self.window(steps).stop
        return self.reset_every > 0 and step % self.reset_every == 0 and clock < stop and clock + 1000 <= stop

    def after_step(self, store: ParameterStore, now: Situation) -> Refinement | None:
        """Grows, prunes and resets when due; the caller then starts new statistics."""
        from luxel.render.train.densify.situation import Refinement

        done = None
        if self.window(now.steps).acts(now.step, now.clock):
            done, keep = self.grow(store, now)
            lives = self.worth_keeping(store.scene, now.extent, 0 < self.reset_every < now.clock)
            done.pruned = int((keep & ~lives).sum())
            if done.pruned or done.split:
                store.select(keep & lives)
        if self._resets(now.step, now.clock, now.steps):
            self.reset_opacities(store)
            done = done or Refinement()
            done.reset = True
        return done

    def grow(self, store: ParameterStore, now: Situation) -> tuple[Refinement, Tensor]:
        """Clones small and splits large Gaussians above the threshold; at most up to the cap, largest gradients first.

        Returns:
            What was done, and which of the primitives stay, the new ones included: all but those that were split,
            bool [N + new].
        """
        import torch

        from luxel.render.train.densify.situation import Refinement, logit

        gaussians = store.scene
        pull = self.pull(now)
        high = pull > 1
        if now.cap is not None:
            capacity = max(0, now.cap - gaussians.count)
            if int(high.sum()) > capacity:
                hardest = torch.where(high, pull, -1.0).argsort(descending=True, stable=True)[:capacity]
                high = torch.zeros_like(high).index_fill_(0, hardest, True)
        small = ~self.is_large(gaussians, now)
        clone, split = (high & small).nonzero()[:, 0], (high & ~small).nonzero()[:, 0]
        stays = torch.ones_like(high).index_fill_(0, split, False)
        parts = self._parts(gaussians.select(split.repeat(2)), now.generator)
        if self.revised_opacity:
            parts.opacity_logits = logit(1 - (1 - parts.opacities).sqrt())
        new = gaussians.cat(gaussians.select(clone), parts)
        store.append(new)
        stays = torch.cat([stays, stays.new_ones(new.count)])
        return Refinement(cloned=clone.numel(), split=split.numel()), stays

    def pull(self, now: Situation) -> Tensor:
        """Mean screen gradient as a multiple of the threshold, [N]."""
        sums = now.statistics.abs_grad_norm if self.absolute else now.statistics.grad_norm
        return sums / now.statistics.visible.clamp_min(1) / self.threshold

    def is_large(self, gaussians: Any, now: Situation) -> Tensor:
        """Which are split rather than cloned, bool [N]."""
        return gaussians.log_scales.amax(-1).exp() > self.grow_scale3d * now.extent

    def _parts(self, gaussians: Any, generator: torch.Generator) -> Any:
        """Draws centres from the Gaussians themselves and shrinks them by 1.6."""
        import torch

        from luxel.render.primitives.gaussians import quat_to_matrix

        device, dtype = gaussians.device, gaussians.means.dtype
        scales = gaussians.scales  # [N, 3], of surfels [N, 2]
        noise = torch.randn(scales.shape, generator=generator, device=device, dtype=dtype) * scales
        axes = quat_to_matrix(gaussians.quats)[..., : scales.shape[1]]
        gaussians.means = gaussians.means + (axes @ noise[:, :, None])[:, :, 0]
        gaussians.log_scales = gaussians.log_scales - torch.tensor(1.6, dtype=dtype).log().item()
        return gaussians

    def worth_keeping(self, gaussians: Any, extent: float, big_too: bool) -> Tensor:
        """Which are neither transparent, nor huge (if ``big_too``), nor non-finite, bool [N]."""
        from luxel.render.train.densify.situation import finite

        keep = (gaussians.opacities >= self.prune_opacity) & finite(gaussians)
        if big_too:
            keep &= gaussians.log_scales.amax(-1).exp() <= self.prune_scale3d * extent
        return keep

    def reset_opacities(self, store: ParameterStore) -> None:
        """Lowers all opacities to twice the pruning limit, so that only what is needed comes back."""
        import torch

        from luxel.render.train.densify.situation import logit

        limit = logit(torch.tensor(2 * self.prune_opacity)).item()
        store.edit(lambda scene: scene.opacity_logits.clamp_(max=limit), zero=("opacity_logits",))
