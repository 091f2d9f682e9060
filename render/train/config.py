"""The configuration of a training run: plain dataclasses that the command line reads and a run folder
keeps."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal

from luxel.render.backends import Backend
from luxel.render.errors import LuxelError
from luxel.render.ops.raster.project_convexes import FEWEST, MOST
from luxel.render.primitives import PrimitiveName
from luxel.render.primitives.convexes import STARTING_SIGMA
from luxel.render.runs.plain import from_plain
from luxel.render.train.densify.adaptive import AdaptiveStrategy
from luxel.render.train.densify.fixed import FixedCount
from luxel.render.train.densify.mcmc import McmcStrategy
from luxel.render.train.densify.pruning import Pruning
from luxel.render.train.densify.shaping import ShapingStrategy
from luxel.render.train.densify.spacetime import SpacetimeStrategy
from luxel.render.train.kinds import KINDS
from luxel.render.train.rates import ConvexRates, LearningRates, Rates4d

Strategy = AdaptiveStrategy | McmcStrategy | FixedCount | ShapingStrategy | SpacetimeStrategy
AnyRates = LearningRates | Rates4d | ConvexRates
STRATEGIES: dict[str, type] = {
    "mcmc": McmcStrategy,
    "adaptive": AdaptiveStrategy,
    "fixed": FixedCount,
    "shaping": ShapingStrategy,
    "spacetime": SpacetimeStrategy,
}


@dataclass
class Loss:
    """What a render is compared with its photograph by."""

    ssim_weight: float = 0.2
    """Weight w of 1 - SSIM in (1 - w) L1 + w (1 - SSIM)."""
    alpha_weight: float = 0.1
    """Weight of the mean absolute difference between rendered and given alpha (cut-out captures only)."""
    mask_weight: float = 5e-4
    """Convexes: weight of the mean of their masks while they split, so that those that are not needed close (Held et
    al. 2025)."""
    entropy_weight: float = 1e-3
    """4D Gaussians: weight of the entropy of the opacities, which drives them to 0 or 1 (Duan et al. 2024)."""
    consistency_weight: float = 0.05
    """4D Gaussians: weight of the difference between velocities and those of their neighbours (likewise)."""
    neighbours: int = 8
    """4D Gaussians: how many neighbours that looks at."""
    neighbours_every: int = 20
    """4D Gaussians: steps from one search for neighbours to the next, which changes of the set bring forward."""
    neighbour_time: float = 5.0
    """4D Gaussians: how far apart, in capture units, neighbours are for each unit of time between them."""


@dataclass
class Resolution:
    """Coarse to fine: a run may start on images halved a few times, averaged over areas."""

    halvings: int = 0
    """How often the images are halved at the start; 0: full size throughout."""
    until: float = 0.3
    """Share of the run after which images are at full size; the halvings before it last equally long."""
    smallest: int = 64
    """Images are never halved below this many pixels on their shorter side."""


@dataclass
class Init:
    """How the first Gaussians are made from the points of the capture."""

    sh_degree: int = 3
    """Highest degree of the spherical harmonics, 0 to 3."""
    opacity: float | None = None
    """Opacity that every Gaussian starts with; None: what the strategy starts best from (3DGS-MCMC 0.5, else 0.1)."""
    scale_factor: float = 1.0
    """Multiplies the starting standard deviations (the mean distance to three neighbours)."""
    max_points: int | None = None
    """Start from a random subset of at most this many points."""
    points_each: int = 6
    """Convexes: points of each, 3 to 8."""
    sigma: float = STARTING_SIGMA["light"]
    """Convexes: starting sharpness."""
    time_scale: float | None = None
    """4D Gaussians: starting standard deviation in time, as a share of the capture's; None: as wide as in space."""
    time_margin: float = 0.0
    """4D Gaussians: share of the capture's time by which they may start before or after it."""


@dataclass
class Checkpoints:
    """When the whole state of training is written, and how many of them stay."""

    every: int = 10_000
    """Steps between checkpoints; 0: only by time and at the end."""
    minutes: float = 5.0
    """Minutes between checkpoints at most; 0: only by steps and at the end."""
    keep: int = 2
    """How many of the newest checkpoints are kept."""


@dataclass
class TrainConfig:
    """One training run. Every value is written to config.json of the run folder."""

    steps: int = 30_000
    """Length of the run; learning rates, SH degrees and density control are stretched over it."""
    target_psnr: float | None = None
    """End as soon as the held-out PSNR (dB) reaches this; it is measured every `eval_every` steps."""
    target_minutes: float | None = None
    """End after this many minutes of training (evaluation and pauses do not count)."""
    max_gaussians: int | None = None
    """Never hold more Gaussians than this; the strategy then keeps to the most useful."""
    end_at_max_gaussians: bool = False
    """End the run when `max_gaussians` is reached, instead of going on with that many."""
    pace_by_time: bool = False
    """Stretch the schedules over `target_minutes` where that ends the run before `steps` (not deterministic)."""
    seed: int = 0
    """Seed of the view order, the backgrounds and the density control."""
    background: Literal["auto", "white", "black", "random"] = "auto"
    """What lies behind the scene. random: a new colour each step, which makes a cut-out clean.
    auto: white for captures with alpha, else black."""
    primitive: PrimitiveName = "gaussians"
    """What the scene is made of: 3D Gaussians, 4D Gaussians (scenes that move), or convexes."""
    batch: int = 1
    """Views of each step, which counts the mean of their losses."""
    strategy: Strategy = field(default_factory=McmcStrategy)
    """Who adds and removes primitives."""
    pruning: Pruning = field(default_factory=Pruning)
    """Removal of what matters least for the photographs, beside the strategy; off by default."""
    rates: AnyRates = field(default_factory=LearningRates)
    """Learning rates."""
    loss: Loss = field(default_factory=Loss)
    """Weights of the loss."""
    resolution: Resolution = field(default_factory=Resolution)
    """Coarse-to-fine schedule of the image size."""
    init: Init = field(default_factory=Init)
    """The first Gaussians."""
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    """Checkpoints."""
    sh_every: int = 1000
    """Steps until the next degree of spherical harmonics joins; a seventh of the run where that is shorter."""
    sh_rest_every: int = 1
    """Steps from one update of the coefficients above degree 0 to the next, three quarters of the numbers that Adam
    moves; they move more slowly then, unless their rate is raised."""
    antialiased: bool = False
    """Mip-Splatting's opacity compensation for Gaussians smaller than a pixel."""
    sparse_adam: bool = False
    """Gaussians that a view does not see keep parameters and moments in its step: less to move where a view sees a
    small part of a large scene, but momentum does not carry them on."""
    backend: Backend = "luxel"
    """Who draws: luxel's own kernels, or gsplat's (an NVIDIA GPU and `pip install 'luxel[gsplat]'`)."""
    deterministic: bool = False
    """The same result from the same seed on a GPU too, to the last bit (slower); on a CPU it always is."""
    images: Literal["auto", "device", "stream"] = "auto"
    """Where photographs stay: all on the device, or sent step by step; auto: by a memory estimate."""
    reorder_every: int = 2000
    """Steps between sorting the Gaussians along a Morton curve (memory locality); 0: never."""
    eval_every: int = 5000
    """Steps between measurements on the held-out views; 0: only at the end."""
    report_every: int = 20
    """Steps between readings of loss and PSNR from the device, and lines of metrics.jsonl."""
    save_renders: int = 16
    """How many held-out renders are saved beside their photographs at the end."""
    lpips: bool = True
    """Measure LPIPS too, at the end of the run."""

    def check(self) -> None:
        """Raises LuxelError for values that make no run."""
        problems = [
            (self.steps < 1, "steps must be at least 1"),
            (not 0 <= self.init.sh_degree <= 3, "init.sh_degree must be 0 to 3"),
            (
                not 0 < (self.init.opacity or 0.5) < 1 or self.init.opacity == 0,
                "init.opacity must lie between 0 and 1",
            ),
            (not self.init.scale_factor > 0, "init.scale_factor must be positive"),
            (
                self.init.max_points is not None and self.init.max_points < 1,
                "init.max_points must be at least 1",
            ),
            (not 0 <= self.loss.ssim_weight <= 1, "loss.ssim_weight must lie in 0 to 1"),
            (not self.loss.alpha_weight >= 0, "loss.alpha_weight must not be negative"),
            (not 0 <= self.resolution.until <= 1, "resolution.until must lie in 0 to 1"),
            (not 0 <= self.resolution.halvings <= 6, "resolution.halvings must be 0 to 6"),
            (self.max_gaussians is not None and self.max_gaussians < 1, "max_gaussians must be at least 1"),
            (
                self.target_minutes is not None and not self.target_minutes > 0,
                "target_minutes must be positive",
            ),
            (self.pace_by_time and self.target_minutes is None, "pace_by_time needs target_minutes"),
            (
                self.end_at_max_gaussians and self.max_gaussians is None,
                "end_at_max_gaussians needs max_gaussians",
            ),
            (self.checkpoints.keep < 1, "checkpoints.keep must be at least 1"),
            (
                self.deterministic and self.backend != "luxel",
                f"deterministic is not to be had from the {self.backend} backend",
            ),
            (self.report_every < 1, "report_every must be at least 1"),
            (self.sh_rest_every < 1, "sh_rest_every must be at least 1"),
            (self.seed < 0, "seed must not be negative"),
            (self.batch < 1, "batch must be at least 1"),
            (self.primitive not in KINDS, f"primitive must be one of {', '.join(KINDS)}"),
            (not FEWEST <= self.init.points_each <= MOST, f"init.points_each must be {FEWEST} to {MOST}"),
            (not self.init.sigma > 0, "init.sigma must be positive"),
            (not 1 <= self.loss.neighbours <= 16, "loss.neighbours must be 1 to 16"),
            (self.loss.neighbours_every < 1, "loss.neighbours_every must be at least 1"),
            *((True, problem) for problem in self.rates.problems()),
            *((True, problem) for problem in self._misfits()),
        ]
        for wrong, message in problems:
            if wrong:
                raise LuxelError(f"Training configuration: {message}.", "Correct that option.")
        self.strategy.check()
        self.pruning.check()

    def _misfits(self) -> list[str]:
        """What does not go with the primitive, as ends of a sentence."""
        if self.primitive not in KINDS:
            return []
        kind = KINDS[self.primitive]
        noun, out = kind.parameters.noun, []
        if self.strategy_name not in kind.strategies:
            out.append(
                f"{noun} have no strategy {self.strategy_name} (they have {', '.join(kind.strategies)})"
            )
        if type(self.rates) is not kind.rates:
            out.append(f"rates must be those of {noun}")
        if self.backend != "luxel" and self.primitive != "gaussians":
            out.append(f"the {self.backend} backend draws no {noun}")
        return out

    @property
    def strategy_name(self) -> str:
        """By which the command line and config.json know the strategy."""
        return next(name for name, cls in STRATEGIES.items() if type(self.strategy) is cls)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; the strategy says its kind."""
        values = dataclasses.asdict(self)
        kind = self.strategy_name
        values["strategy"] = {"kind": kind, **values["strategy"]}
        return values

    @staticmethod
    def from_dict(values: dict[str, Any]) -> TrainConfig:
        """The reverse of `to_dict`; values that are absent take their defaults.

        Raises:
            LuxelError: an unknown name or a value of the wrong kind.
        """
        values = dict(values)
        if isinstance(strategy := values.get("strategy"), dict):
            kind = strategy.get("kind")
            kind = "adaptive" if kind == "default" else kind  # its name in runs of before
            if kind not in STRATEGIES:
                raise LuxelError(
                    f"config.json: unknown strategy {kind!r}.", f"Known are {', '.join(STRATEGIES)}."
                )
            fields = {k: v for k, v in strategy.items() if k != "kind"}
            values["strategy"] = from_plain(STRATEGIES[kind], fields, "strategy.")
        primitive = values.get("primitive", "gaussians")
        if isinstance(values.get("rates"), dict) and primitive in KINDS:
            values["rates"] = from_plain(KINDS[primitive].rates, values["rates"], "rates.")
        return from_plain(TrainConfig, values, "")

    @staticmethod
    def demo() -> TrainConfig:
        """The packaged demo on two CPU cores: 60 seconds of training, coarse to fine.

        A turntable lights each side of the object differently in each view, so view-dependent colour learns fast and
        from the start. Fewer, smaller and more opaque Gaussians than the capture has points cost less per step;
        what a step costs decides the quality here. The rates fall at the end, as in a warmup-stable-decay schedule.
        """
        return TrainConfig(
            steps=5000,
            target_minutes=1.0,
            pace_by_time=True,
            background="white",
            strategy=FixedCount(),
            rates=LearningRates(
                means=3.2e-4,
                means_final=3.2e-6,
                quats=5e-3,
                log_scales=2e-2,
                sh_dc=1e-2,
                sh_rest=6e-3,
                final_factor=0.1,
                final_from=0.8,
            ),
            resolution=Resolution(halvings=2, until=0.65),
            init=Init(sh_degree=3, opacity=0.5, scale_factor=0.5, max_points=15_000),
            sh_every=0,
            checkpoints=Checkpoints(every=0, minutes=0),
            eval_every=0,
        )
