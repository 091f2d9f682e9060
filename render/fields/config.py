"""What a neural field is made of, and how it is trained."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from luxel.render.backends import FieldBackend
from luxel.render.errors import LuxelError
from luxel.render.runs.plain import from_plain

FieldName = Literal["image", "sdf", "volume", "radiance"]
EncodingName = Literal["hash", "dense", "lowres"]
ScheduleName = Literal["steps", "shares"]
HashingName = Literal["spatial", "blocks"]

SHARES = (0.5, 0.75, 0.9)  # of a run, where its learning rate decays


@dataclass
class FieldConfig:
    """One field and its training. Every value is written to config.json of the run folder, and into the field's file.

    The values of Müller et al. 2022, "Instant Neural Graphics Primitives", section 4 and appendix E, where they say
    them; `defaults` has those of each kind.
    """

    field: FieldName = "image"
    """What the field is of."""
    encoding: EncodingName = "hash"
    """Of positions. hash: 16 levels of 2 features, the fine ones hashed; dense: 8 levels of 2 up to 173 points along an
    axis; lowres: 2 levels of 8 features at 128 points."""
    log2_entries: int = 19
    """Logarithm to base 2 of the most entries of a level."""
    hashing: HashingName | None = None
    """Of a hash encoding. spatial: each point has a hash of its own; blocks: each block of 8 neighbouring points, which
    have entries beside each other: less traffic of caches, more collisions. None: blocks, but spatial with
    tiny-cuda-nn, which knows no other."""
    finest: int | None = None
    """Points along an axis of the finest level of a hash encoding; None: what suits the kind, or the data."""
    width: int = 64
    """Of hidden layers: 16, 32, 64 or 128."""
    hidden: int = 2
    """Hidden layers."""
    precise: bool = False
    """On a GPU, networks in float throughout instead of half on tensor cores; slower."""
    backend: FieldBackend = "luxel"
    """Who evaluates it: luxel's own kernels, or tiny-cuda-nn's (an NVIDIA GPU and `tinycudann`). A run keeps it."""
    steps: int = 10_000
    """Length of the training."""
    seconds: float | None = None
    """End after so many seconds of training, where that comes first (measuring and pauses do not count)."""
    batch: int = 1 << 18
    """Samples of a step; the command line takes fewer on a CPU."""
    rate: float = 1e-2
    """Learning rate of Adam."""
    beta1: float = 0.9
    """Decay of Adam's first moment."""
    beta2: float = 0.99
    """Decay of Adam's second moment."""
    eps: float = 1e-15
    """Added to the root of Adam's second moment."""
    weight_decay: float = 1e-6
    """L2 penalty on the weights of networks; tables have none."""
    sparse: bool = False
    """Adam leaves entries of tables that have no gradient in a step as they are."""
    ema: float = 0.95
    """Decay of the running mean of all parameters, which is what is drawn and measured; 0: no mean."""
    schedule: ScheduleName = "steps"
    """Of the learning rate. steps: it decays at `decay_from`, and every `decay_every` steps from there on; shares: at
    1/2, 3/4 and 9/10 of the steps."""
    warm_up: int = 0
    """Steps in which the learning rate rises evenly, from a hundredth."""
    decay_factor: float = 0.33
    """Multiplies the learning rate where it decays."""
    decay_from: int = 20_000
    """Step of the first decay of the learning rate."""
    decay_every: int = 10_000
    """Steps between decays of the learning rate; 0: it decays once."""
    loss_scale: float = 1024.0
    """Multiplies the loss before the backward pass, so that its gradients do not vanish in half."""
    seed: int = 0
    """Of the first parameters and of the samples."""
    marched: int = 4
    """Radiance: batches of samples that are marched and asked for their density alone, to fill one with those that can
    be seen; 0: steps are of all samples."""
    least_alpha: float = 0.0
    """Radiance, with `marched`: samples that take less of the light are left out of steps too."""
    huber: float = 0.1
    """Radiance: error of a colour above which the loss grows linearly."""
    report_every: int = 100
    """Steps between lines of metrics.jsonl."""
    eval_every: int = 0
    """Steps between measurements; 0: only at the end."""
    checkpoint_every: int = 10_000
    """Steps between checkpoints; 0: only by time and at the end."""
    checkpoint_minutes: float = 5.0
    """Minutes between checkpoints at most; 0: only by steps and at the end."""
    keep: int = 2
    """How many of the newest checkpoints are kept."""

    def with_finest(self, points: int) -> FieldConfig:
        """The same with so many points along an axis of the finest level."""
        return dataclasses.replace(self, finest=points)

    def rate_at(self, step: int) -> float:
        """The learning rate of a step, the first of which is 0."""
        risen = step / self.warm_up if step < self.warm_up else 1.0
        return self.rate * (0.01 + 0.99 * risen) * self.decay_factor ** self._decays(step)

    def _decays(self, step: int) -> int:
        if self.schedule == "shares":
            return sum(step >= share * self.steps for share in SHARES)
        if step < self.decay_from:
            return 0
        return 1 if self.decay_every <= 0 else 1 + (step - self.decay_from) // self.decay_every

    def check(self) -> None:
        """Raises LuxelError for values that make no field."""
        problems = [
            (not 3 <= self.log2_entries <= 28, "log2_entries must be 3 to 28"),
            (self.finest is not None and not 16 <= self.finest <= 2**22, "finest must be 16 to 2^22"),
            (self.width not in (16, 32, 64, 128), "width must be 16, 32, 64 or 128"),
            (not 0 <= self.hidden <= 8, "hidden must be 0 to 8"),
            (self.precise and self.backend != "luxel", f"{self.backend} computes in half: not precise"),
            (self.hashing == "blocks" and self.backend != "luxel", f"{self.backend} hashes no blocks"),
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
            (not 0 <= self.marched <= 64, "marched must be 0 to 64"),
            (not 0 <= self.least_alpha < 1, "least_alpha must be at least 0 and below 1"),
            (not self.huber > 0, "huber must be positive"),
            (self.seed < 0, "seed must not be negative"),
            (self.report_every < 1, "report_every must be at least 1"),
            (self.keep < 1, "keep must be at least 1"),
        ]
        for wrong, message in problems:
            if wrong:
                raise LuxelError(f"Configuration of the field: {message}.", "Correct that option.")

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; hashing is what it comes to."""
        return {**dataclasses.asdict(self), "hashing": "blocks" if self.hashes_blocks else "spatial"}

    @property
    def hashes_blocks(self) -> bool:
        """Whether points are hashed in blocks."""
        return self.hashing == "blocks" or (self.hashing is None and self.backend == "luxel")

    @staticmethod
    def from_dict(values: dict[str, Any]) -> FieldConfig:
        """The reverse of `to_dict`; values that are absent take the defaults of their kind, but hashing is spatial.

        Raises:
            LuxelError: an unknown name or a value of the wrong kind.
        """
        values = {"hashing": "spatial", **values}  # of files from before there were blocks
        known = from_plain(FieldConfig, values, "")
        return dataclasses.replace(defaults(known.field), **{name: getattr(known, name) for name in values})


def defaults(field: FieldName) -> FieldConfig:
    """The configuration that a kind of field starts from.

    Raises:
        LuxelError: there is no such kind.
    """
    own: dict[str, dict[str, Any]] = {
        "image": {"decay_from": 2_000, "decay_every": 2_000, "ema": 0.99},
        "sdf": {"rate": 5e-3, "decay_factor": 0.5, "decay_from": 5_000, "decay_every": 500},
        "volume": {"decay_from": 5_000, "decay_every": 2_000},
        "radiance": {"steps": 35_000, "hidden": 1, "sparse": True, "schedule": "shares", "weight_decay": 0.0},
    }
    if field not in own:
        raise LuxelError(f"There is no field of {field!r}.", f"There are {', '.join(own)}.")
    return FieldConfig(field=field, **own[field])
