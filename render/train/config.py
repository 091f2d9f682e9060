"""The configuration of a training run: plain dataclasses, read by the command line and stored in the run folder."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from luxel.render.bounds import (
    Bounds,
    Count,
    Options,
    Pixels,
    Positive,
    PositiveShare,
    Seed,
    Share,
    Steps,
    StepsOrNever,
    Weight,
    check_all,
)
from luxel.render.errors import LuxelError
from luxel.render.geometry.readout import Readout
from luxel.render.primitives import PRIMITIVES, spec_of
from luxel.render.primitives.gaussians.options import GaussianRates
from luxel.render.primitives.training import Init, Loss, Rates
from luxel.render.raster import Backend
from luxel.render.runs.dataclass_values import from_plain
from luxel.render.train.densify import STRATEGIES, FixedCount, Strategy
from luxel.render.train.monitor.reports import Reached

ExposureModel = Literal["none", "gain", "affine", "camera"]
DepthSource = Literal["none", "maps", "points", "all"]
PARTS = ("rates", "loss", "init")  # groups of options whose types depend on the primitive
# Fields that earlier versions wrote to every config.json, whatever the primitive.
OF_OTHER_PRIMITIVES = {
    "loss": {
        "mask_weight",
        "entropy_weight",
        "consistency_weight",
        "neighbours",
        "neighbours_every",
        "neighbour_time",
    },
    "init": {"points_each", "sigma", "time_scale", "time_margin"},
}
FEWEST_STEPS = 1000  # lower bound of the steps that `steps_by_size` gives
# Options of strategies that earlier versions had in capture units, and the power of the scene extent that they are
# multiplied by to become relative to it.
UNITS_OF_STRATEGIES = {"noise": 2, "scale_regulariser": 1}
OLD_STRATEGIES = {"default": "adaptive"}  # present names of renamed strategies
# Options of strategies that no longer exist. The first of each enabled the others where it was above 0.
REMOVED_OF_STRATEGIES = {
    "mcmc": ("error_share", "error_views", "error_power"),
    "adaptive": ("hold_back", "error_views"),
    "spacetime": ("hold_back", "error_views"),
}
# Values that runs of earlier versions had of options which these lacked.
ADDED_TO_STRATEGIES = {"split": {"sharp_share": 0.0, "finer_power": 0.0}}
REMOVED_PARTS = {"pruning": "share"}  # groups of options that no longer exist, and what enabled each


def _kind_of(strategy: dict[str, Any]) -> str:
    """The present name of the strategy of a config.json."""
    kind = str(strategy.get("kind"))
    return OLD_STRATEGIES.get(kind, kind)


def _of_primitive() -> Any:
    """A placeholder, None, for options whose defaults depend on the primitive; `TrainConfig` fills them in."""
    return None


@dataclass
class Resolution(Options):
    """Coarse to fine: a run may start on images that are halved a few times (area average)."""

    halvings: Annotated[int, Bounds(0, 6)] = 0
    """Times that images are halved at the start; 0: full size throughout."""
    until: Share = 0.3
    """Share of the run after which images are at full size; each size before it lasts equally long."""
    smallest: Pixels = 64
    """Images are never halved below this many pixels on their shorter side."""


@dataclass
class Checkpoints(Options):
    """When the entire state of training is saved, and how many of these files are retained."""

    every: StepsOrNever = 10_000
    """Steps between checkpoints; 0: only by time and at the end."""
    minutes: Annotated[float, Bounds(0, 10**6, stated=False)] = 5.0
    """Most minutes between checkpoints; 0: only by steps and at the end."""
    keep: Annotated[int, Bounds(1, 10**6, stated=False)] = 2
    """Number of checkpoints that are retained, the newest ones."""


@dataclass
class TrainConfig(Options):
    """One training run. Every value is written to config.json of the run folder.

    Of `strategy`, `rates`, `loss` and `init`, None becomes the default of the primitive.
    """

    steps: Steps = 30_000
    """Number of training steps; learning rates, SH degrees and densification are scaled to it."""
    steps_by_size: StepsOrNever = 0
    """If above 0, replaces `steps` by this times the fourth root of the megapixels of all training images together, at
    least 1,000; 0: use `steps`."""
    target_psnr: Annotated[float, Bounds(0, 200)] | None = None
    """End when the held-out PSNR (dB) reaches this; it is measured every `eval_every` steps."""
    target_minutes: Positive | None = None
    """End after this many minutes of training (evaluation and pauses do not count)."""
    target_frame_ms: Positive | None = None
    """End when a held-out view takes this many milliseconds to render (median of the views, measured every
    `eval_every` steps)."""
    target_gigabytes: Positive | None = None
    """End when this much memory (10^9 bytes) is in use: allocated by torch on a GPU, by the process on the CPU."""
    max_gaussians: Count | None = None
    """Upper bound of the number of primitives of any type; None: only the bound of the strategy."""
    end_at_max_gaussians: bool = False
    """End the run when `max_gaussians` is reached, instead of continuing with that many."""
    pace_by_time: bool = False
    """Scale the schedules to `target_minutes` if the time limit ends the run before `steps` (not deterministic)."""
    seed: Seed = 0
    """Seed of the view order, random backgrounds and densification."""
    background: Literal["auto", "white", "black", "random"] = "auto"
    """Colour behind the scene. random: a new one each step, for clean cut-outs; auto: white for captures with alpha,
    else black."""
    primitive: str = "gaussians"
    """What the scene is made of, a name in `luxel.render.primitives.PRIMITIVES`."""
    batch: Annotated[int, Bounds(1, 1024)] = 1
    """Views per step; their losses are averaged."""
    strategy: Strategy = field(default_factory=_of_primitive)
    """Densification strategy."""
    rates: Rates = field(default_factory=_of_primitive)
    """Learning rates."""
    loss: Loss = field(default_factory=_of_primitive)
    """Weights of the loss."""
    resolution: Resolution = field(default_factory=Resolution)
    """Coarse-to-fine schedule of the image size."""
    init: Init = field(default_factory=_of_primitive)
    """How the initial primitives are made."""
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    """Checkpoints."""
    sh_every: StepsOrNever = 1000
    """Steps between increases of the degree of spherical harmonics, at most a seventh of the run; 0: the highest degree
    from the start."""
    sh_rest_every: Steps = 1
    """Steps between updates of the coefficients above degree 0, most of the parameters; fewer updates are faster, and
    learn view dependence more slowly unless the rate is raised."""
    antialiased: bool = False
    """Opacity compensation of Mip-Splatting for Gaussians smaller than a pixel."""
    exposure: ExposureModel = "none"
    """Learn how the exposure and white balance of each training image differ from the others', so that the scene need
    not show it. gain: a factor per channel; affine: a matrix and an offset; camera: exposure and white balance in
    linear light, beginning at EXIF exposures, and vignetting and response of each camera; none: for images of one
    exposure."""
    refine_poses: bool = False
    """Correct the camera poses of the training images while the scene is learnt; for poses that are not exact. Held-out
    views are scored with their given and with their refined poses."""
    rolling_shutter: bool = False
    """Frames of a film whose rows are read one after another while the camera moves: learn the velocity of each frame,
    beginning with that between its neighbours. Held-out views are rendered with the velocity of their neighbours."""
    readout: Share = 0.7
    """With `rolling_shutter`, the duration of the readout as a share of the interval between frames of the film (of the
    interval between views, where times are not known), which is then corrected."""
    readout_direction: Readout = "down"
    """With `rolling_shutter`, the direction of the readout in the images; right or left where the camera was turned."""
    ignore_transients: bool = False
    """Give what only single images show, such as people who pass, a tenth of its weight in the loss: regions that
    differ from the render by several times the usual error, from a twentieth of the run on."""
    depth: DepthSource = "none"
    """Known depth that is fitted alongside the images. maps: depth maps of the capture; points: its points, where a
    view sees them; all: points where there is no map; none: the images alone."""
    depth_scale: Literal["metric", "align"] = "metric"
    """metric: depth is in units of the poses; align: its inverse has an unknown scale and shift in each view, as
    networks estimate it, so that its correlation with the rendered one counts."""
    depth_weight: Weight | None = None
    """Weight of the depth in the loss at the start: of the mean relative difference where depth is known (metric), or
    of 1 less the correlation (align). None: 0.2, with align 0.05."""
    depth_final: PositiveShare = 0.05
    """Factor on that weight at the end of the run, reached exponentially."""
    downweight_blur: bool = False
    """Give images that are less sharp than those taken alongside them less weight in the loss, so that motion blur
    does not soften the scene."""
    suppress_floaters: bool = False
    """Scale the gradients of what is near a camera (within 0.37 of the scene extent) by the square of its depth, so
    that images that differ from the others do not leave fog in front of the cameras."""
    sparse_adam: bool = False
    """Leave primitives that no view of a step sees as they are, Adam's moments included; faster where views see a
    small part of a large scene."""
    backend: Backend = "luxel"
    """Rasterizer backend: luxel's own, or gsplat (an NVIDIA GPU and `pip install 'luxel[gsplat]'`)."""
    deterministic: bool = False
    """Bit-identical results from the same seed on a GPU too (slower), unless cameras are learnt; on a CPU they are."""
    images: Literal["auto", "device", "stream"] = "auto"
    """Where images are retained: all on the device, or streamed step by step; auto: by a memory estimate."""
    reorder_every: StepsOrNever = 2000
    """Steps between sorts of the primitives along a Morton curve (memory locality); 0: never."""
    eval_every: StepsOrNever = 5000
    """Steps between measurements on the held-out views; 0: only at the end."""
    report_every: Steps = 20
    """Steps between readings of loss and PSNR, and lines of metrics.jsonl."""
    save_renders: Annotated[int, Bounds(0, 10**6, stated=False)] = 16
    """Number of held-out renders that are saved alongside their images at the end."""
    lpips: bool = True
    """Measure LPIPS too, at the end of the run."""

    def __post_init__(self) -> None:
        """Fills in the primitive's defaults; `check` reports an unknown primitive."""
        spec = PRIMITIVES.get(self.primitive)
        if spec is not None:
            if self.strategy is None:
                self.strategy = STRATEGIES[spec.strategies[0]]()
            for part in PARTS:
                if getattr(self, part) is None:
                    setattr(self, part, getattr(spec, part)())
        super().__post_init__()

    def sized(self, pixels: int) -> TrainConfig:
        """The configuration with ``steps`` as `steps_by_size` gives them for training images of ``pixels`` in total."""
        if not self.steps_by_size:
            return self
        steps = max(FEWEST_STEPS, round(self.steps_by_size * (pixels / 1e6) ** 0.25))
        return self.with_steps(steps)

    def with_steps(self, steps: int) -> TrainConfig:
        """The configuration with that many steps, whatever the size of the images."""
        return dataclasses.replace(self, steps=steps, steps_by_size=0)

    def limit_reached(self, run: Reached) -> str:
        """The name of the limit at which a run ends, or an empty string."""
        measured = (
            ("target_psnr", run.psnr, self.target_psnr),
            ("target_minutes", run.seconds / 60, self.target_minutes),
            ("target_frame_ms", run.frame_ms, self.target_frame_ms),
            ("target_gigabytes", run.memory / 1e9, self.target_gigabytes),
            ("max_gaussians", run.count, self.max_gaussians if self.end_at_max_gaussians else None),
            ("steps", run.steps, self.steps),
        )
        return next((name for name, x, end in measured if x is not None and end is not None and x >= end), "")

    def check(self) -> None:
        """Raises LuxelError for numbers out of bounds, and for options that do not go together."""
        check_all(self)
        problems = [f"primitive must be one of {', '.join(PRIMITIVES)}"]
        if self.primitive in PRIMITIVES:
            problems = [
                *(message for wrong, message in self._own_problems() if wrong),
                *self._misfits(),
            ]
        if problems:
            raise LuxelError(f"Training configuration: {problems[0]}.", "Correct that option.")
        self.strategy.check()

    def _own_problems(self) -> list[tuple[bool, str]]:
        """Conditions that must not hold, and clauses for an error message."""
        geometry = bool(self.loss.geometry_at(1.0))
        of_luxel = [name for name in ("suppress_floaters", "rolling_shutter") if getattr(self, name)]
        of_luxel += ["losses of the geometry"] * geometry
        return [
            (self.pace_by_time and self.target_minutes is None, "pace_by_time needs target_minutes"),
            (
                self.end_at_max_gaussians and self.max_gaussians is None,
                "end_at_max_gaussians needs max_gaussians",
            ),
            (
                self.deterministic and self.backend != "luxel",
                f"the {self.backend} backend is not deterministic",
            ),
            (geometry and self.rolling_shutter, "losses of the geometry do not support rolling_shutter"),
            *(
                (self.backend != "luxel", f"the {self.backend} backend does not support {name}")
                for name in of_luxel
            ),
        ]

    def _misfits(self) -> list[str]:
        """Options that the primitive does not support, as clauses for an error message."""
        spec = PRIMITIVES[self.primitive]
        noun, out = spec.noun, []
        if self.strategy_name not in spec.strategies:
            known = ", ".join(spec.strategies)
            out.append(f"{noun} have no strategy {self.strategy_name} (they have {known})")
        out += [
            f"{part} must be those of {noun}"
            for part in PARTS
            if type(getattr(self, part)) is not getattr(spec, part)
        ]
        if self.rolling_shutter and not (spec.engine.projection and spec.engine.projection.shutters):
            out.append(f"{noun} do not support rolling_shutter")
        if self.backend not in spec.backends:
            out.append(f"the {self.backend} backend does not draw {noun}")
        return out

    @property
    def strategy_name(self) -> str:
        """Name of the strategy on the command line and in config.json."""
        return next(name for name, cls in STRATEGIES.items() if type(self.strategy) is cls)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; those of the strategy with its name, as `kind`."""
        values = dataclasses.asdict(self)
        kind = self.strategy_name
        values["strategy"] = {"kind": kind, **values["strategy"]}
        return values

    @staticmethod
    def from_dict(values: dict[str, Any]) -> TrainConfig:
        """The reverse of `to_dict`; values that are absent take the primitive's defaults.

        Raises:
            LuxelError: an unknown name or a value of the wrong type.
        """
        values = dict(values)
        spec = spec_of(values.get("primitive", "gaussians"))
        if isinstance(strategy := values.get("strategy"), dict):
            kind = _kind_of(strategy)
            if kind not in STRATEGIES:
                raise LuxelError(
                    f"config.json: unknown strategy {kind!r}.", f"Known are {', '.join(STRATEGIES)}."
                )
            fields = {k: v for k, v in strategy.items() if k != "kind"}
            values["strategy"] = from_plain(STRATEGIES[kind], fields, "strategy.")
        for part in PARTS:
            if isinstance(values.get(part), dict):
                values[part] = from_plain(getattr(spec, part), values[part], f"{part}.")
        return from_plain(TrainConfig, values, "")

    @staticmethod
    def from_run(values: dict[str, Any], extent: float) -> TrainConfig:
        """`from_dict` of the config.json of a run, also of one of an earlier version.

        Fields of other primitives in ``loss`` and ``init``, which had no effect, are dropped. So are options that no
        longer exist; `removed_in_use` names those that had an effect. Options that did not exist are off. Noise and
        scale regulariser in capture units become shares of the scene extent, ``extent``.
        """
        in_capture_units = "steps_by_size" not in values
        values = {name: value for name, value in values.items() if name not in REMOVED_PARTS}
        spec = spec_of(values.get("primitive", "gaussians"))
        for part, names in OF_OTHER_PRIMITIVES.items():
            if isinstance(options := values.get(part), dict):
                own = {f.name for f in dataclasses.fields(getattr(spec, part))}
                values[part] = {k: v for k, v in options.items() if k in own or k not in names}
        if isinstance(strategy := values.get("strategy"), dict):
            removed, added = (
                changes.get(_kind_of(strategy), {})
                for changes in (REMOVED_OF_STRATEGIES, ADDED_TO_STRATEGIES)
            )
            values["strategy"] = {**added, **{k: v for k, v in strategy.items() if k not in removed}}
            if in_capture_units:
                for name, power in UNITS_OF_STRATEGIES.items():
                    if name in strategy:
                        values["strategy"][name] *= extent**power
        return TrainConfig.from_dict(values)

    @staticmethod
    def removed_in_use(values: dict[str, Any]) -> list[str]:
        """Options that no longer exist and that the config.json of a run enables, by dotted name."""
        switches = list(REMOVED_PARTS.items())
        if isinstance(strategy := values.get("strategy"), dict):
            switches += [("strategy", name) for name in REMOVED_OF_STRATEGIES.get(_kind_of(strategy), ())[:1]]
        return [
            f"{part}.{name}"
            for part, name in switches
            if isinstance(options := values.get(part), dict) and options.get(name)
        ]

    @staticmethod
    def demo() -> TrainConfig:
        """The packaged demo on two CPU cores: 60 seconds of training, coarse to fine.

        A turntable lights each side of the object differently in each view, so view-dependent colour learns fast and
        from the start. Few, small and opaque Gaussians make steps cheap: two cores do about 7,000.
        """
        return TrainConfig(
            steps=10_000,
            target_minutes=1.0,
            pace_by_time=True,
            background="white",
            strategy=FixedCount(),
            rates=GaussianRates(
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
