"""The input of a densification strategy, and its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from luxel.render.primitives.parameters import Parameters


@dataclass
class Situation:
    """The state of a run in which a strategy acts.

    Args:
        step: completed steps.
        clock: the step that the schedules are at; differs from ``step`` in runs paced by time.
        steps: length of the run.
        extent: size of the scene in capture units (1.1 times the largest distance of a camera from their
            mean).
        cap: most primitives allowed; None: any number.
        generator: random numbers on the device.
        pixels: of all training images together.
        detail: how many of them show detail, see `ImageContent`; 0 unless the strategy follows the images.
        statistics: DensifyStatistics of the steps since the last refinement, or None.
        seed: of the run, for draws that are functions of it and of the step.
        duration: time between the first and the last training image, 1 where that is 0.
        coverage: share of the pixels that show the scene, likewise 1.
        batch: views a step, of which the loss is the mean.
    """

    step: int
    clock: float
    steps: int
    extent: float
    cap: int | None
    generator: torch.Generator
    pixels: int = 0
    detail: int = 0
    statistics: Any = None
    seed: int = 0
    duration: float = 1.0
    coverage: float = 1.0
    batch: int = 1


@dataclass
class Refinement:
    """What a strategy did: how many primitives were cloned, split, removed, relocated or added."""

    cloned: int = 0
    split: int = 0
    pruned: int = 0
    relocated: int = 0
    added: int = 0
    reset: bool = False

    def as_dict(self) -> dict[str, int | bool]:
        """The entries that are not 0, for metrics.jsonl."""
        return {name: value for name, value in vars(self).items() if value}


FEWEST = 20_000  # lower bound of a cap that is derived from the number of pixels


def count_limit(cap_max: int | None, pixels: int, pixels_each: int, bound: int | None) -> int:
    """Most primitives allowed.

    Args:
        cap_max: of the strategy; None: one for each ``pixels_each`` of ``pixels``, at least 20,000.
        bound: of the run; None: any number.
    """
    cap = max(FEWEST, pixels // pixels_each) if cap_max is None else cap_max
    return cap if bound is None else min(cap, bound)


def finite(scene: Parameters) -> Tensor:
    """Which primitives hold only finite numbers, bool [N]."""
    import torch

    rows = [t.flatten(1).sum(1) if t.dim() > 1 else t for t in scene.tensors().values()]
    return torch.stack(rows).sum(0).isfinite()  # a sum with a term that is not finite is not finite


def logit(opacity: Tensor) -> Tensor:
    """The inverse of the sigmoid, clamped to be finite."""
    return opacity.clamp(1e-7, 1 - 1e-6).logit()
