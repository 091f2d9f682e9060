"""3DGS-MCMC: Gaussians as samples, moved by noise, relocated instead of cloned and split."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.train.densify.situation import Refinement, Situation, finite, logit
from luxel.render.train.optimiser import Optimiser
from luxel.render.train.schedules import Window

FEWEST = 20_000  # that a cap from the number of pixels allows
MOST_COPIES = 51  # binomial coefficients above this leave the range in which the alternating sum is accurate


@dataclass
class McmcStrategy:
    """Kheradmand et al. 2024, "3D Gaussian Splatting as Markov Chain Monte Carlo".

    Transparent Gaussians move onto opaque ones (eq. 9, the image stays the same), the count grows by 5 % a
    refinement up to a cap, and noise shaped by each covariance lets transparent ones explore (SGLD, eq. 8).
    The numbers are for runs of 30,000 steps; shorter ones start after 5 %, act every 2 % (not below 20 steps)
    and end after the same share of the run, 5/6 at most.
    """

    cap_max: int | None = None
    """Most Gaussians; None: one for each `pixels_each` pixels of the training photographs. `max_gaussians` lowers
    it further."""
    pixels_each: int = 256
    """Pixels of the photographs, all together, for each Gaussian; 0.25 M Gaussians for 100 photographs of 0.64 MP."""
    growth: float = 0.05
    """Share by which the count grows at each refinement."""
    noise: float = 5e5
    """Strength of the noise, times the learning rate of the centres."""
    min_opacity: float = 0.005
    """Gaussians at most this opaque are relocated."""
    opacity_regulariser: float = 0.01
    """Weight of the mean opacity in the loss."""
    scale_regulariser: float = 0.01
    """Weight of the mean scale in the loss."""
    error_share: float = 0.0
    """Share of the draws that follow the photographs' remaining error (the sum of error times blending weight over
    the pixels of some views) instead of opacity: multi-view scores as in Taming 3DGS (Mallick et al. 2024). Pays where
    there are few Gaussians and steps, not at full size, so it is off. Preset fast, held out: plush at 248x186, at most
    12,000 Gaussians, 1,200 steps, mean of three seeds, 26.16 dB without, 26.54 with 0.5, 26.72 with 1; at 990x742,
    241,000 Gaussians, 3,000 steps, 28.55 to 28.86 without (three runs), 28.75 with 0.5, 28.03 with 1; chair, 12,000
    steps, 35.97 without, 35.89 with 1."""
    error_views: int = 2
    """Training views that are looked at for it at each refinement, drawn anew each time; 8 gain 0.08 dB over 1."""
    error_power: Literal[1, 2] = 2
    """The error of a pixel: 1: absolute, 2: squared."""
    refine_start: int = 500
    """Step after which relocation and growth start."""
    refine_stop: int = 25_000
    """Step at which they end."""
    refine_every: int = 100
    """Steps between refinements."""

    first_opacity: ClassVar[float] = 0.5

    def check(self) -> None:
        """Raises LuxelError for options that make no sense."""
        if not (
            self.refine_every >= 1
            and self.pixels_each >= 1
            and (self.cap_max is None or self.cap_max >= 1)
            and self.growth >= 0
            and 0 <= self.error_share <= 1
            and self.error_views >= 1
            and 0 < self.min_opacity < 0.5
        ):
            raise LuxelError(
                "Strategy options: refine_every, cap_max, pixels_each and error_views must be at least 1, growth not "
                "negative, error_share in 0 to 1, min_opacity between 0 and 0.5.",
                "Correct them.",
            )

    def window(self, steps: int) -> Window:
        """When relocation and growth happen in a run of ``steps`` steps."""
        share = min(5 / 6, self.refine_stop / 30_000)
        return Window.scaled(self.refine_start, self.refine_stop, self.refine_every, steps, share)

    def wants_statistics(self, clock: float, steps: int) -> bool:
        """Never: nothing here looks at gradients."""
        return False

    @property
    def penalties(self) -> tuple[float, float]:
        """Weights of mean opacity and mean scale in the loss (eq. 11)."""
        return self.opacity_regulariser, self.scale_regulariser

    def due(self, step: int, clock: float, steps: int) -> bool:
        """Whether `after_step` has something to do after ``step`` steps."""
        return self.window(steps).acts(step, clock)

    def after_step(self, optimiser: Optimiser, now: Situation) -> Refinement | None:
        """Relocates and grows when it is time."""
        if not self.due(now.step, now.clock, now.steps):
            return None
        errors = None
        if self.error_share > 0 and now.scores is not None:
            errors = now.scores(self.error_views)[:, self.error_power].nan_to_num(0.0, 0.0, 0.0)
        done = Refinement(relocated=self.relocate(optimiser, now.generator, errors))
        cap = max(FEWEST, now.pixels // self.pixels_each) if self.cap_max is None else self.cap_max
        cap = cap if now.cap is None else min(cap, now.cap)
        done.added = self.grow(optimiser, cap, now.generator, errors)
        return done

    def relocate(self, optimiser: Optimiser, generator: torch.Generator, errors: Tensor | None = None) -> int:
        """Moves every transparent Gaussian onto one drawn by opacity, or by ``errors`` [N] too, which all copies then
        share; returns how many moved."""
        gaussians = optimiser.gaussians
        alive = (gaussians.opacities > self.min_opacity) & finite(gaussians)
        dead = (~alive).nonzero()[:, 0]
        if dead.numel() in (0, gaussians.count):
            return 0
        source = _draw(self._weights(gaussians.opacities, errors, alive), dead.numel(), generator)
        self._share(gaussians, source)
        if errors is not None:
            errors /= torch.bincount(source, minlength=gaussians.count) + 1
            errors.index_copy_(0, dead, errors.index_select(0, source))
        for tensor in gaussians.tensors().values():
            tensor.index_copy_(0, dead, tensor.index_select(0, source))
        optimiser.zero(torch.cat([source, dead]))
        return dead.numel()

    def grow(
        self, optimiser: Optimiser, cap: int, generator: torch.Generator, errors: Tensor | None = None
    ) -> int:
        """Adds copies of Gaussians drawn by opacity, or by ``errors`` [N] too, 5 % of the count; returns how many."""
        gaussians = optimiser.gaussians
        number = max(0, min(cap, int((1 + self.growth) * gaussians.count)) - gaussians.count)
        if number == 0:
            return 0
        source = _draw(self._weights(gaussians.opacities, errors), number, generator)
        self._share(gaussians, source)
        optimiser.append(gaussians.select(source))
        optimiser.zero(source)
        return number

    def _weights(self, opacities: Tensor, errors: Tensor | None, alive: Tensor | None = None) -> Tensor:
        """What sources are drawn in proportion to, in all as much as the opacities; 0 for the dead."""
        opacities = opacities.nan_to_num() if alive is None else torch.where(alive, opacities, 0.0)
        if errors is None:
            return opacities
        errors = errors if alive is None else torch.where(alive, errors, 0.0)
        total = errors.sum()
        by_error = torch.where(total > 0, errors * (opacities.sum() / total), opacities)
        return torch.lerp(opacities, by_error, self.error_share)

    def _share(self, gaussians: Gaussians, source: Tensor) -> None:
        """Gives the drawn Gaussians, in place, the opacity and scale at which all copies together look as
        before."""
        copies = torch.bincount(source, minlength=gaussians.count)[source] + 1
        opacity, factor = shared_appearance(gaussians.opacities[source], copies)
        gaussians.opacity_logits.index_copy_(0, source, logit(opacity.clamp_min(self.min_opacity)))
        grown = gaussians.log_scales.index_select(0, source) + factor.log()[:, None]
        gaussians.log_scales.index_copy_(0, source, grown)


def shared_appearance(opacity: Tensor, copies: Tensor) -> tuple[Tensor, Tensor]:
    """Opacity and scale factor with which n coinciding copies look like one Gaussian did (eq. 9).

    o' = 1 - (1 - o)^(1/n);  s'/s = o / sum_{i=1..n} sum_{k=0..i-1} C(i-1, k) (-1)^k o'^(k+1) / sqrt(k + 1).
    Swapping the sums, sum_i C(i-1, k) = C(n, k+1).

    Args:
        opacity: before, in (0, 1), [M].
        copies: how many share it, the original included, int64 [M]; counts above 51 are taken as 51.

    Returns:
        New opacities [M], and factors of the standard deviations [M].
    """
    n = copies.clamp(1, MOST_COPIES)
    o = opacity.double()
    shared = -torch.expm1(torch.log1p(-o.clamp(max=1 - 1e-9)) / n)
    order = torch.arange(1, MOST_COPIES + 1, device=o.device, dtype=torch.float64)
    total = (_alternating(o.device)[n] * shared[:, None] ** order).sum(-1)
    return shared.to(opacity.dtype), (o / total).to(opacity.dtype)


@functools.cache
def _alternating(device: torch.device) -> Tensor:
    """C(n, k) (-1)^(k-1) / sqrt(k) for n = 0.. and k = 1..MOST_COPIES, float64 on the device."""
    rows = [
        [math.comb(n, k) * (-1) ** (k - 1) / math.sqrt(k) for k in range(1, MOST_COPIES + 1)]
        for n in range(MOST_COPIES + 1)
    ]
    return torch.tensor(rows, dtype=torch.float64, device=device)


def _draw(weights: Tensor, number: int, generator: torch.Generator) -> Tensor:
    """Positions drawn with replacement in proportion to weights, at least 0 and on average at most 1.

    Sums are of whole numbers, which come out the same in whatever order a GPU adds them; torch.multinomial also stops
    at 2^24 categories.
    """
    cumulated = (weights.double() * 2**32).long().cumsum(0)
    u = torch.rand(number, generator=generator, device=weights.device, dtype=torch.float64) * cumulated[-1]
    return torch.searchsorted(cumulated, u.long(), right=True).clamp_max(weights.shape[0] - 1)
