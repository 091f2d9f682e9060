"""The configuration of a neural field and its training."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from luxel.render.backends import FieldBackend
from luxel.render.bounds import (
    Bounds,
    Options,
    Positive,
    PositiveShare,
    Seed,
    ShareBelow1,
    Steps,
    StepsOrNever,
    Weight,
    check_all,
)
from luxel.render.errors import LuxelError
from luxel.render.fields.applications import APPLICATIONS, FieldName, configuration_of
from luxel.render.fields.encodings import EncodingName
from luxel.render.runs.dataclass_values import from_plain

ScheduleName = Literal["steps", "shares"]
HashingName = Literal["spatial", "blocks"]

PEER_ENCODINGS = ("hash", "dense", "lowres")  # that tiny-cuda-nn evaluates
LOG2_ENTRIES = 19  # unless another is chosen
SHARES = (0.5, 0.75, 0.9)  # shares of a run after which the learning rate decays


@dataclass
class FieldConfig(Options):
    """One field and its training. Every value is written to config.json of the run folder, and into the field's file.

    The values of Müller et al. 2022, "Instant Neural Graphics Primitives", section 4 and appendix E, where they are
    stated. `defaults` has the values of an application; one with options of its own has a subclass of this.
    """

    field: FieldName = "image"
    """Application: what the field represents."""
    encoding: EncodingName = "hash"
    """Encoding of positions. hash: 16 levels of 2 features, fine levels hashed; dense: 8 levels of 2 features, up to
    173 points along an axis; lowres: 2 levels of 8 features, 128 points along an axis; frequency: sines and cosines
    without trained features, which needs the fewest parameters and the most steps."""
    frequencies: Annotated[int, Bounds(1, 16)] = 10
    """Frequencies of the frequency encoding along each axis, pi to 2^(N - 1) pi, 1 to 16."""
    linear: bool = False
    """Fields of images: colours are linear and unbounded; chosen by the data, for HDR images."""
    log2_entries: Annotated[int, Bounds(3, 28)] | None = None
    """Logarithm to base 2 of the largest number of entries of a level, 3 to 28; None: 19, for radiance fields of full
    scenes 19 to 24 by the number of pixels."""
    hashing: HashingName | None = None
    """What a hash encoding hashes. spatial: single points; blocks: blocks of 8 neighbouring points, which are stored
    together. None: blocks, but spatial with --backend tiny-cuda-nn."""
    finest: Annotated[int, Bounds(16, 2**22)] | None = None
    """Points along an axis of the finest level of a hash encoding, 16 to 2^22; None: chosen by application and data."""
    width: Annotated[int, Bounds(16, 128, stated=False)] = 64
    """Width of hidden layers: 16, 32, 64 or 128."""
    hidden: Annotated[int, Bounds(0, 8)] = 2
    """Number of hidden layers, 0 to 8."""
    precise: bool = False
    """On a GPU, compute networks in float32 instead of half precision on tensor cores; slower."""
    backend: FieldBackend = "luxel"
    """Kernels that evaluate the field: luxel's, or tiny-cuda-nn's (needs an NVIDIA GPU and the module `tinycudann`). A
    resumed run retains its backend."""
    steps: Steps = 10_000
    """Training steps."""
    seconds: Positive | None = None
    """Stop after this many seconds of training steps, if that is before the last step; None: no time limit."""
    batch: Annotated[int, Bounds(1, 2**24)] = 1 << 18
    """Samples per step, 1 to 2^24; the command line defaults to fewer on a CPU."""
    rate: PositiveShare = 1e-2
    """Learning rate of Adam."""
    beta1: ShareBelow1 = 0.9
    """Decay of Adam's first moment."""
    beta2: ShareBelow1 = 0.99
    """Decay of Adam's second moment."""
    eps: Annotated[float, Bounds(0, 1, above=True)] = 1e-15
    """Added to the square root of Adam's second moment."""
    weight_decay: Weight = 1e-6
    """L2 penalty on the weights of networks; tables have none."""
    sparse: bool = False
    """Adam skips table entries without a gradient in a step."""
    ema: ShareBelow1 = 0.95
    """Decay of the running mean of all parameters, which is what is rendered and evaluated; 0: no mean."""
    schedule: ScheduleName = "steps"
    """When the learning rate decays. steps: at `decay_from` and every `decay_every` steps after it; shares: at 1/2, 3/4
    and 9/10 of the steps, or of `seconds` where that is earlier."""
    warm_up: StepsOrNever | None = None
    """Steps in which the learning rate rises linearly from a hundredth of its value; None: chosen by application and
    data, otherwise 0."""
    decay_factor: PositiveShare = 0.33
    """Factor by which the learning rate is multiplied at each decay."""
    decay_from: StepsOrNever = 20_000
    """Step of the first decay of the learning rate."""
    decay_every: StepsOrNever = 10_000
    """Steps between decays of the learning rate; 0: a single decay."""
    loss_scale: Annotated[float, Bounds(0, 2**64, above=True)] = 1024.0
    """Factor of the loss in the backward pass, which keeps gradients in the range of half precision."""
    seed: Seed = 0
    """Random seed of the first parameters and of the samples."""
    report_every: Steps = 100
    """Steps between lines of metrics.jsonl."""
    eval_every: StepsOrNever = 0
    """Steps between evaluations; 0: only at the end."""
    checkpoint_every: StepsOrNever = 10_000
    """Steps between checkpoints; 0: only by time and at the end."""
    checkpoint_minutes: Annotated[float, Bounds(0, 10**6, stated=False)] = 5.0
    """Longest time between checkpoints in minutes; 0: only by steps and at the end."""
    keep: Annotated[int, Bounds(1, 10**6, stated=False)] = 2
    """Number of newest checkpoints that are retained."""

    def with_finest(self, points: int) -> FieldConfig:
        """A copy with this number of points along an axis of the finest level."""
        return dataclasses.replace(self, finest=points)

    def rate_at(self, step: int, elapsed: float = 0.0) -> float:
        """The learning rate of a step, the first of which is 0, before which a share of `seconds` has elapsed."""
        rising = self.warm_up or 0
        warmth = step / rising if step < rising else 1.0
        return self.rate * (0.01 + 0.99 * warmth) * self.decay_factor ** self._decays(step, elapsed)

    def share_at(self, step: int, elapsed: float = 0.0) -> float:
        """The share of the run that is done before a step, in [0, 1]: of the steps, or of `seconds` if that is more."""
        return min(max(step / self.steps, elapsed), 1.0)

    def loss_scalars_at(self, step: int, elapsed: float = 0.0) -> tuple[float, ...]:
        """Numbers of a step that its loss reads from the device, see `Application.loss_scalars`; as many in all steps.

        They are constant over many steps, since each change is an upload.
        """
        return ()

    def _decays(self, step: int, elapsed: float) -> int:
        if self.schedule == "shares":
            return sum(step >= share * self.steps or elapsed >= share for share in SHARES)
        if step < self.decay_from:
            return 0
        return 1 if self.decay_every <= 0 else 1 + (step - self.decay_from) // self.decay_every

    def check(self) -> None:
        """Raises LuxelError for values out of range, and for options of another application's configuration."""
        check_all(self)
        expected, _ = configuration_of(self.field)
        if type(self) is not expected:
            raise LuxelError(
                f"Configuration of the field: {self.field!r} takes a {expected.__name__}, got {type(self).__name__}.",
                f"Begin with luxel.render.fields.config.defaults({self.field!r}).",
            )
        for wrong, message in self.problems():
            if wrong:
                raise LuxelError(f"Configuration of the field: {message}.", "Correct that option.")

    def problems(self) -> list[tuple[bool, str]]:
        """Whether each rule is broken, and what the rule says; an application's own configuration adds its rules."""
        return [
            (self.width not in (16, 32, 64, 128), "width must be 16, 32, 64 or 128"),
            (
                self.precise and self.backend != "luxel",
                f"precise needs backend luxel: {self.backend} computes in half precision",
            ),
            (self.linear and self.field != "image", "linear is for fields of images"),
            (
                self.encoding not in PEER_ENCODINGS and self.backend != "luxel",
                f"encoding {self.encoding} needs backend luxel: {self.backend} evaluates grids",
            ),
            (
                self.hashing == "blocks" and self.backend != "luxel",
                f"hashing blocks needs backend luxel: {self.backend} hashes single points",
            ),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; `hashing` is resolved to spatial or blocks."""
        return {**dataclasses.asdict(self), "hashing": "blocks" if self.hashes_blocks else "spatial"}

    @property
    def hashes_blocks(self) -> bool:
        """Whether points are hashed in blocks."""
        return self.hashing == "blocks" or (self.hashing is None and self.backend == "luxel")

    @staticmethod
    def from_dict(values: dict[str, Any]) -> FieldConfig:
        """The reverse of `to_dict`; absent values take the defaults of the application.

        Files of earlier versions: without `hashing` it is spatial; options of other applications are ignored.

        Raises:
            LuxelError: an unknown name or a value of the wrong type.
        """
        application = values.get("field", "image")
        try:
            config_type, _ = configuration_of(application)
        except LuxelError as error:
            raise LuxelError(f"config.json: {error.problem}", error.remedy) from None
        unknown = values.keys() - {field.name for field in dataclasses.fields(config_type)}
        foreign = {name for name in unknown if option_owners(name)}
        own = {name: v for name, v in values.items() if name not in foreign and name != "field"}
        own = {"hashing": "spatial", **own}
        known = from_plain(config_type, own, "")
        return dataclasses.replace(defaults(application), **{name: getattr(known, name) for name in own})


def config_of_run(folder: Path, body: dict[str, Any]) -> FieldConfig:
    """The configuration in the config.json of a run of a field, checked.

    Args:
        folder: of the run, for messages.
        body: content of config.json.

    Raises:
        LuxelError: it is no configuration of a field, or has invalid values.
    """
    try:
        config = FieldConfig.from_dict(body["config"])
        config.check()
        return config
    except LuxelError as error:
        raise LuxelError(f"{folder / 'config.json'}: {error.problem}", error.remedy) from error
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise LuxelError(
            f"{folder / 'config.json'}: no configuration of a field ({type(error).__name__}: {error}).",
            "Restore that file from a copy, or start a new run.",
        ) from error


def defaults(field: str) -> FieldConfig:
    """The configuration that an application starts from: its `config_type` with its `training_defaults`.

    Raises:
        LuxelError: there is no such application.
    """
    config_type, values = configuration_of(field)
    return config_type(field=field, **values)


def option_owners(name: str) -> list[str]:
    """Applications whose configuration alone has an option; empty where all have it or none."""
    shared = {field.name for field in dataclasses.fields(FieldConfig)}
    return [
        application
        for application in APPLICATIONS
        if name not in shared
        and name in {field.name for field in dataclasses.fields(configuration_of(application)[0])}
    ]
