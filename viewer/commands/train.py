"""`luxel train`."""

from __future__ import annotations

import typing
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from luxel.render.backends import rasterizer
from luxel.render.errors import LuxelError
from luxel.render.train import TrainConfig
from luxel.render.train.densify.adaptive import AdaptiveStrategy
from luxel.render.train.densify.fixed import FixedCount
from luxel.render.train.densify.mcmc import McmcStrategy
from luxel.render.train.densify.shaping import ShapingStrategy
from luxel.render.train.densify.spacetime import SpacetimeStrategy
from luxel.render.train.presets import PRESETS, preset
from luxel.render.train.rates import ConvexRates, LearningRates, Rates4d
from luxel.render.train.resume import read_config
from luxel.viewer.commands.options import DeviceName, MaskUse, Serve, given, pick_device
from luxel.viewer.progress import describe, opening
from luxel.viewer.runs import Origin, discard_unstarted, load_origin, new_run_folder, run_folder
from luxel.viewer.training import fit

PresetName = Literal["default", "fast", "best", "light", "outdoor", "indoor", "dnerf", "clip", "video"]
RATES = {"gaussians": "rates", "gaussians4d": "rates4d", "convexes": "convex_rates"}  # options, by primitive


@dataclass
class TrainOptions(TrainConfig):
    """TrainConfig without what comes in several kinds, each of which has options of its own."""

    strategy: Annotated[Any, tyro.conf.Suppress] = field(default_factory=McmcStrategy)
    rates: Annotated[Any, tyro.conf.Suppress] = field(default_factory=LearningRates)


@dataclass
class Train:
    """Trains a scene from a capture and says how good it became.

    CAPTURE is a folder of photographs (their poses are then found by structure from motion and kept), a COLMAP
    model with images/ and sparse/0, or a transforms.json of nerfstudio, instant-ngp or Blender. Some views are held
    out of training and measured at the end: the data set's own test views, else every 8th.

    The run folder then holds config.json, metrics.jsonl, checkpoints/, renders/ (held-out photograph and render side
    by side), scene.ply (readable by other viewers) and eval/index.html. Ctrl-C saves a checkpoint; the run goes on
    from it with --resume, exactly as if it had not stopped. A finished run is extended by --resume with more --steps.

    With --field image, sdf, volume or radiance a neural field is trained instead, on an image, a mesh, a volume or a
    capture: `luxel train --field image --help` explains its options.

    Examples:
        luxel train photos/ --view
        luxel train capture/ --run runs/first --steps 7000 --max-size 1200
        luxel train capture/ --preset fast
        luxel train capture/ --mcmc.cap-max 300000
        luxel train moving/ --primitive gaussians4d
        luxel train capture/ --primitive convexes --preset light
        luxel train --resume runs/first --steps 30000
        luxel train photo.jpg --field image
    """

    capture: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="CAPTURE")] = None
    """What to train on. Left out with --resume, unless the capture has moved."""
    run: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder of the new run; default: runs/NAME of the capture, numbered."""
    resume: Annotated[Path | None, tyro.conf.arg(metavar="RUN")] = None
    """Go on with the run in this folder; its options are kept unless given anew."""
    view: bool = False
    """Serve the scene in the browser while it trains, and afterwards until Ctrl-C."""
    device: DeviceName = "auto"
    """Where to train; auto: the GPU where luxel can use it."""
    holdout_every: int = 8
    """Hold out every so many-th view, beginning with the first, where the data set names no test views; 0: none."""
    max_size: Annotated[int | None, tyro.conf.arg(metavar="PIXELS")] = None
    """Shrink photographs to at most this many pixels on their longer side."""
    masks: MaskUse = "auto"
    """Masks and alpha: cutout: train the object and nothing else; ignore: masked pixels do not count;
    none: as if there were none; auto: cutout where masks outline an object."""
    preset: PresetName = "default"
    """What all options below start from. Gaussians: fast: a tenth of the time for most of the quality; default: does
    not overfit; best: twice the Gaussians and more steps. Convexes: default; light, outdoor and indoor: as published.
    4D Gaussians: dnerf (the same as default): an object from one moving camera; clip: a hand-held film, most of which
    stands still; video: several cameras that run on."""
    strategy: Literal["mcmc", "adaptive", "fixed", "shaping", "spacetime"] = "mcmc"
    """Who adds and removes primitives: 3DGS-MCMC or the adaptive density control of 3DGS for Gaussians, shaping for
    convexes, spacetime for 4D Gaussians, or nobody (fixed). Default: the first that the primitive has."""
    config: Annotated[TrainOptions, tyro.conf.arg(name="")] = field(default_factory=TrainOptions)
    mcmc: McmcStrategy = field(default_factory=McmcStrategy)
    adaptive: AdaptiveStrategy = field(default_factory=AdaptiveStrategy)
    fixed: FixedCount = field(default_factory=FixedCount)
    shaping: ShapingStrategy = field(default_factory=ShapingStrategy)
    spacetime: SpacetimeStrategy = field(default_factory=SpacetimeStrategy)
    rates: LearningRates = field(default_factory=LearningRates)
    rates4d: Rates4d = field(default_factory=Rates4d)
    convex_rates: ConvexRates = field(default_factory=ConvexRates)
    serve: Annotated[Serve, tyro.conf.arg(name="")] = field(default_factory=Serve)

    @staticmethod
    def variant(arguments: Sequence[str]) -> type:
        """The command that the arguments are for: neural fields have options of their own."""
        from luxel.viewer.commands.train_field import TrainField

        return TrainField if TrainField.is_meant(arguments) else Train

    @staticmethod
    def defaults(arguments: Sequence[str]) -> Train:
        """The values that options have where they are not given: those of a run that is resumed, or a preset's."""
        command = Train()
        if (folder := given(arguments, "--resume")) is not None:
            config, _ = read_config(run_folder(Path(folder)))
        else:
            primitive, name = given(arguments, "--primitive"), given(arguments, "--preset")
            if primitive not in PRESETS and primitive is not None:
                return command  # tyro says what is wrong
            if name is not None and name not in typing.get_args(PresetName):
                return command
            config = preset(name or "default", primitive or "gaussians")
        command.config = TrainOptions(**{f.name: getattr(config, f.name) for f in fields(TrainConfig)})
        command.strategy = config.strategy_name  # pyright: ignore[reportAttributeAccessIssue]
        setattr(command, config.strategy_name, config.strategy)
        setattr(command, RATES[config.primitive], config.rates)
        return command

    def training(self) -> TrainConfig:
        """The configuration that the options make."""
        values = {f.name: getattr(self.config, f.name) for f in fields(TrainConfig)}
        chosen = {
            "strategy": getattr(self, self.strategy),
            "rates": getattr(self, RATES[self.config.primitive]),
        }
        return TrainConfig(**{**values, **chosen})

    def execute(self) -> int:
        """Opens the capture, trains, measures; returns the exit status."""
        config = self.training()
        config.check()
        if self.view:
            from luxel.viewer.web.serving import check_serving

            check_serving(self.serve)
        device = pick_device(self.device)
        rasterizer(config.backend, device)  # refused before the capture is opened
        if self.resume is not None:
            if self.run is not None:
                raise LuxelError("--run and --resume name two folders.", "Give one of them.")
            folder, origin = run_folder(self.resume), self._origin_of_resumed()
        elif self.capture is None:
            raise LuxelError(
                "There is no capture to train on.", "luxel train CAPTURE, or luxel train --resume RUN."
            )
        else:
            origin = Origin(str(self.capture.resolve()), self.holdout_every, self.max_size, self.masks)
            folder = new_run_folder(self.capture.resolve().name, self.run)
        try:
            with opening("opening the capture") as on_progress:
                capture = origin.open(on_progress)
            describe(capture)
            return fit(
                config,
                capture,
                origin,
                folder,
                device,
                serve=self.serve if self.view else None,
                overrides=self._overrides(folder, config) if self.resume else None,
            )
        except BaseException:
            discard_unstarted(folder)
            raise

    def _origin_of_resumed(self) -> Origin:
        assert self.resume is not None
        if self.capture is None:
            return load_origin(self.resume)
        try:
            origin = load_origin(self.resume)
        except LuxelError:
            origin = Origin("", self.holdout_every, self.max_size, self.masks)
        origin.path = str(self.capture.resolve())
        return origin

    def _overrides(self, folder: Path, config: TrainConfig) -> dict[str, Any]:
        """What the options change in the configuration of a run that goes on, by name."""
        before = read_config(folder)[0].to_dict()
        after = config.to_dict()
        return {name: after[name] for name in after if after[name] != before.get(name)}
