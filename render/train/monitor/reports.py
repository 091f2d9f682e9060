"""Results of a step and of a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from luxel.render.train.densify.situation import Refinement

if TYPE_CHECKING:
    from luxel.render.metrics.evaluate import Evaluation


class Reached(NamedTuple):
    """What a run has reached, to be compared with its limits.

    Args:
        steps: completed steps.
        seconds: of training.
        count: number of primitives.
        memory: bytes in use.
        psnr: of the held-out views, dB; None: not measured.
        frame_ms: time to render a held-out view; None: not measured.
    """

    steps: int
    seconds: float
    count: int
    memory: int = 0
    psnr: float | None = None
    frame_ms: float | None = None


@dataclass
class StepReport:
    """A step: the number of completed steps, the number of primitives, and what densification changed, if anything."""

    step: int
    count: int
    refinement: Refinement | None = None


@dataclass
class TrainResult:
    """How a run ended.

    Args:
        reason: "steps", "target_psnr", "target_minutes", "target_frame_ms", "target_gigabytes", "max_gaussians",
            "stopped" or "interrupted".
        step: completed steps.
        train_seconds: time spent in training steps; evaluation, pauses and viewers do not count.
        count: number of primitives.
        test_psnr: held-out PSNR in dB, or None where nothing was held out or measured.
        evaluation: the measurement that it is from, or None.
        checkpoint: JSON file of the last checkpoint, or None where none could be written.
        scene: the exported scene, or None.
    """

    reason: str
    step: int
    train_seconds: float
    count: int
    test_psnr: float | None
    evaluation: Evaluation | None
    checkpoint: Path | None
    scene: Path | None
