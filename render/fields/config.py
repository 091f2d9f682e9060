"""The configuration of a neural field and its training."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from luxel.render.backends import FieldBackend
from luxel.render.errors import LuxelError
from luxel.render.fields.applications import FieldName, application_type, application_types
from luxel.render.runs.plain import from_plain

EncodingName = Literal["hash", "dense", "lowres"]
ScheduleName = Literal["steps", "shares"]
HashingName = Literal["spatial", "blocks"]

SHARES = (0.5, 0.75, 0.9)  # shares of a run after which the learning rate decays


@dataclass
class FieldConfig:
    """One field and its training. Every value is written to config.json of the run folder, and into the field's file.

    The values of Müller et al. 2022, "Instant Neural Graphics Primitives", section 4 and appendix E, where they are
    stated. `defaults` has the values of an application; one with options of its own has a subclass of this.
    """

    field: FieldName = "image"
    """Application: what the field represents."""
    encoding: EncodingName = "hash"
    """Encoding of positions. hash: 16 levels of 2 features, fine levels hashed; dense: 8 levels of 2 features, up to
    173 points along an axis; lowres: 2 levels of 8 features, 128 points along an axis."""
    log2_entries: int = 19
    """Logarithm to base 2 of the largest number of entries of a level, 3 to 28."""
    hashing: HashingName | None = None
    """What a hash encoding hashes. spatial: single points; blocks: blocks of 8 neighbouring points, which are stored
    together. None: blocks, but spatial with --backend tiny-cuda-nn."""
    finest: int | None = None
    """Points along an axis of the finest level of a hash encoding, 16 to 2^22; None: chosen by application and data."""
    width: int = 64
    """Width of hidden layers: 16, 32, 64 or 128."""
    hidden: int = 2
    """Number of hidden layers, 0 to 8."""
    precise: bool = False
    """On a GPU, compute networks in float32 instead of half precision on tensor cores; slower."""
    backend: FieldBackend = "luxel"
    """Kernels that evaluate the field: luxel's, or tiny-cuda-nn's (needs an NVIDIA GPU and the module `tinycudann`). A
    resumed run keeps its backend."""
    steps: int = 10_000
    """Training steps."""
    seconds: float | None = None
    """Stop after this many seconds of training steps, if that is before the last step; None: no time limit."""
    batch: int = 1 << 18
    """Samples per step, 1 to 2^24; the command line defaults to fewer on a CPU."""
    rate: float = 1e-2
    """Learning rate of Adam."""
    beta1: float = 0.9
    """Decay of Adam's first moment."""
    beta2: float = 0.99
    """Decay of Adam's second moment."""
    eps: float = 1e-15
    """Added to the square root of Adam's second moment."""
    weight_decay: float = 1e-6
    """L2 penalty on the weights of networks; tables have none."""
    sparse: bool = False
    """Adam skips table entries without a gradient in a step."""
    ema: float = 0.95
    """Decay of the running mean of all parameters, which is what is drawn and evaluated; 0: no mean."""
    schedule: ScheduleName = "steps"
    """When the learning rate decays. steps: at `decay_from` and every `decay_every` steps after it; shares: at 1/2, 3/4
    and 9/10 of the steps."""
    warm_up: int = 0
    """Steps in which the learning rate rises linearly from a hundredth of its value."""
    decay_factor: float = 0.33
    """Factor by which the learning rate is multiplied at each decay."""
    decay_from: int = 20_000
    """Step of the first decay of the learning rate."""
    decay_every: int = 10_000
    """Steps between decays of the learning rate; 0: a single decay."""
    loss_scale: float = 1024.0
    """Factor of the loss in the backward pass, which keeps gradients in the range of half precision."""
    seed: int = 0
    """Random seed of the first parameters and of the samples."""
    report_every: int = 100
    """Steps between lines of metrics.jsonl."""
    eval_every: int = 0
    """Steps between evaluations; 0: only at the end."""
    checkpoint_every: int = 10_000
    """Steps between checkpoints; 0: only by time and at the end."""
    checkpoint_minutes: float = 5.0
    """Longest time between checkpoints in minutes; 0: only by steps and at the end."""
    keep: int = 2
    """Number of newest checkpoints that are kept."""

    def with_finest(self, points: int) -> FieldConfig:
        """A copy with this number of points along an axis of the finest level."""
        return dataclasses.replace(self, finest=points)

    def rate_at(self, step: int) -> float:
        """The learning rate of a step, the first of which is 0."""
        warmth = step / self.warm_up if step < self.warm_up else 1.0
        return self.rate * (0.01 + 0.99 * warmth) * self.decay_factor ** self._decays(step)

    def _decays(self, step: int) -> int:
        if self.schedule == "shares":
            return sum(step >= share * self.steps for share in SHARES)
        if step < self.decay_from:
            return 0
        return 1 if self.decay_every <= 0 else 1 + (step - self.decay_from) // self.decay_every

    def check(self) -> None:
        """Raises LuxelError for values out of range, and for options of another application's configuration."""
        expected = application_type(self.field).config_type
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
            (not 3 <= self.log2_entries <= 28, "log2_entries must be 3 to 28"),
            (self.finest is not None and not 16 <= self.finest <= 2**22, "finest must be 16 to 2^22"),
            (self.width not in (16, 32, 64, 128), "width must be 16, 32, 64 or 128"),
            (not 0 <= self.hidden <= 8, "hidden must be 0 to 8"),
            (
                self.precise and self.backend != "luxel",
                f"precise needs backend luxel: {self.backend} computes in half precision",
            ),
            (
                self.hashing == "blocks" and self.backend != "luxel",
                f"hashing blocks needs backend luxel: {self.backend} hashes single points",
            ),
            (self.steps < 1, "steps must be at least 1"),
            (self.seconds is not None and not self.seconds > 0, "seconds must be positive"),
            (not 1 <= self.batch <= 2**24, "batch must be 1 to 2^24"),
            (not 0 < self.rate < 1, "rate must be above 0 and below 1"),
            (not (0 <= self.beta1 < 1 and 0 <= self.beta2 < 1), "beta1 and beta2 must be in [0, 1)"),
            (not self.eps > 0, "eps must be positive"),
            (not self.weight_decay >= 0, "weight_decay must not be negative"),
            (not 0 <= self.ema < 1, "ema must be in [0, 1)"),
            (self.warm_up < 0, "warm_up must not be negative"),
            (not 0 < self.decay_factor <= 1, "decay_factor must be above 0 and at most 1"),
            (not self.loss_scale > 0, "loss_scale must be positive"),
            (self.seed < 0, "seed must not be negative"),
            (self.report_every < 1, "report_every must be at least 1"),
            (self.keep < 1, "keep must be at least 1"),
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
            config_type = application_type(application).config_type
        except LuxelError as error:
            raise LuxelError(f"config.json: {error.problem}", error.remedy) from None
        unknown = values.keys() - {field.name for field in dataclasses.fields(config_type)}
        foreign = {name for name in unknown if option_owners(name)}
        kept = {name: v for name, v in values.items() if name not in foreign and name != "field"}
        kept = {"hashing": "spatial", **kept}
        known = from_plain(config_type, kept, "")
        return dataclasses.replace(defaults(application), **{name: getattr(known, name) for name in kept})


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
        raise LuxelError(f"{folder}: {error.problem}", error.remedy) from error
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
    application = application_type(field)
    return application.config_type(field=field, **application.training_defaults)


def option_owners(name: str) -> list[str]:
    """Applications whose configuration alone has an option; empty where all have it or none."""
    shared = {field.name for field in dataclasses.fields(FieldConfig)}
    return [
        application
        for application, cls in application_types()
        if name not in shared and name in {field.name for field in dataclasses.fields(cls.config_type)}
    ]
