"""Schedules of a run: SH degree, image size, the window of densification, and the order of primitives in memory.

A run of S steps has a progress p in [0, 1]: step / S, or the share of the time limit where that is larger and the
configuration paces by time. An extended run (a larger S on resuming) continues with p = step / S of the new length,
so the rate of the means rises to its value in a run of that length.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def sh_degree(step: float, steps: int, every: int, highest: int) -> int:
    """Degree of spherical harmonics in use: one more every ``every`` steps, or every seventh of a shorter run."""
    interval = max(1.0, min(every, steps / 7)) if every > 0 else 0
    return highest if interval == 0 else min(highest, int(step / interval))


def halvings(progress: float, first: int, until: float) -> int:
    """Times that images are halved: ``first`` at the start, one fewer every ``until / first`` of the run."""
    if first == 0 or progress >= until:
        return 0
    return first - int(progress / until * first)


@dataclass(frozen=True)
class Window:
    """The steps at which densification acts, for one length of run.

    Published schedules are for 30,000 steps. In shorter runs the start is at most 5 % of the run, the interval 2 %
    (not below 20 steps), the end the share that the strategy states; opacity resets retain their interval.

    Args:
        start, stop, every: acts after step t when start < t < stop and t is a multiple of every.
    """

    start: int
    stop: int
    every: int

    @staticmethod
    def scaled(start: int, stop: int, every: int, steps: int, share: float) -> Window:
        """The window of a run of ``steps`` steps; ``share`` is the part of a short run that it may fill."""
        return Window(
            start=min(start, int(0.05 * steps)),
            stop=min(stop, int(share * steps)),
            every=min(every, max(20, int(0.02 * steps))),
        )

    def acts(self, step: int, clock: float | None = None) -> bool:
        """Whether to act after ``step`` steps; ``clock`` is the step that the schedules are at; it differs in
        runs paced by time."""
        now = step if clock is None else clock
        return self.start < now < self.stop and step % self.every == 0


def morton_order(means: Tensor) -> Tensor:
    """The permutation that sorts points along a Z-order (Morton) curve, int64 [N].

    Coordinates are quantised to 16 bits over the range from the 1st to the 99th percentile; outliers are
    clamped.

    Args:
        means: points, [N, 3].
    """
    import torch

    if means.shape[0] < 2:
        return torch.arange(means.shape[0], device=means.device)
    x = means.detach().float().nan_to_num()
    ordered = x.sort(dim=0).values
    last = x.shape[0] - 1
    low, high = ordered[int(0.01 * last)], ordered[int(0.99 * last + 0.5)]
    cells = ((x - low) / (high - low).clamp_min(1e-12)).clamp(0, 1).mul(0xFFFF).long()
    code = torch.zeros(x.shape[0], dtype=torch.int64, device=x.device)
    for axis in range(3):
        code |= _spread(cells[:, axis]) << axis
    return code.argsort(stable=True)


def _spread(v: Tensor) -> Tensor:
    """Moves bit i of a 16-bit number to bit 3 i."""
    v = (v | (v << 16)) & 0x0000FF0000FF
    v = (v | (v << 8)) & 0x00F00F00F00F
    v = (v | (v << 4)) & 0x0C30C30C30C3
    return (v | (v << 2)) & 0x249249249249
