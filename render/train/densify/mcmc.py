"""3DGS-MCMC: Gaussians as samples, moved by noise, relocated instead of cloned and split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from luxel.render.bounds import Bounds, Count, Steps, StepsOrNever, Weight
from luxel.render.train.densify.strategy import Strategy
from luxel.render.train.step.schedules import Window

if TYPE_CHECKING:
    from torch import Tensor

    from luxel.render.train.densify.situation import Refinement, Situation
    from luxel.render.train.store.protocol import ParameterStore


@dataclass
class McmcStrategy(Strategy):
    """Kheradmand et al. 2024, "3D Gaussian Splatting as Markov Chain Monte Carlo".

    Transparent Gaussians move onto opaque ones (eq. 9, the image stays the same), the count grows by 5 % a
    refinement up to a cap, and noise shaped by each covariance lets transparent ones explore (SGLD, eq. 8).
    Steps are those of runs of 30,000; shorter runs start after 5 %, act every 2 % (not below 20 steps) and end after
    the same share of the run, 5/6 at most.
    """

    cap_max: Count | None = None
    """Most Gaussians; None: one for each `pixels_each` pixels of the training images, at least 20,000. `max_gaussians`
    lowers it."""
    pixels_each: Count = 256
    """Pixels of all training images together for each Gaussian, without `cap_max`."""
    growth: Annotated[float, Bounds(0, 100)] = 0.05
    """Share by which the count grows at each refinement."""
    noise: Annotated[float, Bounds(0, 10**18, stated=False)] = 1.25e7
    """Strength of the noise: a nearly transparent Gaussian with covariance C moves by this times the rate of the
    centres (as a share of the scene extent E) times C n / E, n normal; others hardly move."""
    min_opacity: Annotated[float, Bounds(0, 0.5, above=True, below=True)] = 0.005
    """Gaussians at most this opaque are relocated."""
    opacity_regulariser: Weight = 0.01
    """Weight of the mean opacity in the loss."""
    scale_regulariser: Weight = 0.05
    """Weight of the mean scale in the loss, as a share of the scene extent."""
    refine_start: StepsOrNever = 500
    """Step after which relocation and growth start."""
    refine_stop: StepsOrNever = 25_000
    """Step at which they end."""
    refine_every: Steps = 100
    """Steps between refinements."""

    about: ClassVar[str] = "relocation, growth and noise of 3DGS-MCMC"
    first_opacity: ClassVar[float] = 0.5

    def window(self, steps: int) -> Window:
        """When relocation and growth happen in a run of ``steps`` steps."""
        share = min(5 / 6, self.refine_stop / 30_000)
        return Window.scaled(self.refine_start, self.refine_stop, self.refine_every, steps, share)

    def penalties(self, coverage: float) -> tuple[float, float]:
        """Weights of mean opacity and mean scale in the loss (eq. 11), whatever the coverage."""
        return self.opacity_regulariser, self.scale_regulariser

    def limit(self, now: Situation) -> int:
        """By `cap_max`, or else by the number of pixels."""
        from luxel.render.train.densify.situation import count_limit

        return count_limit(self.cap_max, now.pixels, self.pixels_each, now.cap)

    def after_step(self, store: ParameterStore, now: Situation) -> Refinement | None:
        """Relocates and grows when due."""
        from luxel.render.train.densify.situation import Refinement

        if not self.due(now.step, now.clock, now.steps):
            return None
        moved = self.relocate(store, now.seed, now.step)
        added = self.grow(store, self.limit(now), now.seed, now.step)
        return Refinement(relocated=int(moved), added=added)  # the only wait for the device

    def relocate(self, store: ParameterStore, seed: int, step: int) -> Tensor:
        """Moves every transparent Gaussian onto one drawn by opacity; returns how many, int32 [1], on the device."""
        return self._copy(store, store.count, 0, seed, step)

    def grow(self, store: ParameterStore, cap: int, seed: int, step: int) -> int:
        """Adds copies of Gaussians drawn by opacity, `growth` times the count up to ``cap``; returns how many."""
        count = store.count
        number = max(0, min(cap, int((1 + self.growth) * count)) - count)
        if number > 0:
            store.extend(number)
            self._copy(store, count, number, seed, step)
        return number

    def _copy(self, store: ParameterStore, count: int, added: int, seed: int, step: int) -> Tensor:
        """Relocates the transparent of the first ``count`` rows, or fills ``added`` rows after them; returns how
        many."""
        return store.relocate(count, added=added, min_opacity=self.min_opacity, seed=seed, step=step)
