"""How a training ended, in numbers and words."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

BY_TIME = ("target_minutes", "seconds")
LIMITS = {  # that end a run, by the names of `TrainResult.reason`
    "target_psnr": "the PSNR that was asked for is reached",
    "target_frame_ms": "the render time that was asked for is reached",
    "target_gigabytes": "the memory limit is reached",
    "max_gaussians": "the largest number of Gaussians is reached",
}


@dataclass(frozen=True)
class RunEnd:
    """The result of a training.

    Args:
        reason: as `luxel.render.train.monitor.reports.TrainResult` has it.
        step, steps: steps that were done, and those of a complete run.
        seconds: of training.
        count, noun: number of elements of the scene, and what they are.
        psnr, ssim: means over the held-out views, dB and [-1, 1]; None: not measured.
        views: how many views were held out.
        report: page of the report; None: there is none.
        problem: why it could not be trained longer; empty: nothing went wrong.
    """

    reason: str
    step: int
    steps: int
    seconds: float
    count: int
    noun: str
    psnr: float | None = None
    ssim: float | None = None
    views: int = 0
    report: Path | None = None
    problem: str = ""

    @property
    def words(self) -> str:
        """Why and when it ended, a clause such as "Stopped after 60 s, at step 1,792"."""
        return end_in_words(self.reason, self.step, self.steps, self.seconds)


def end_in_words(reason: str, step: int, steps: int, seconds: float) -> str:
    """Why and when a training ended; arguments as in `RunEnd`."""
    if reason == "steps":
        return f"Finished all {steps:,} steps in {time_in_words(seconds)}"
    if reason in BY_TIME:
        return f"Stopped after {time_in_words(seconds)}, at step {step:,}"
    if reason in LIMITS:
        return f"Stopped at step {step:,}: {LIMITS[reason]}"
    return f"Ended by hand at step {step:,} of {steps:,}, after {time_in_words(seconds)}"


def time_in_words(seconds: float) -> str:
    """A duration such as "60 s", "12 min" or "1 h 5 min"."""
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    minutes = round(whole / 60)
    hours, minutes = divmod(minutes, 60)
    if not hours:
        return f"{minutes} min"
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
