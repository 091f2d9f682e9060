"""Whether two scenes lie in one coordinate system, as far as that can be seen from them."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

TURNED = math.radians(10)  # between up directions that count as different
UNITS = 20.0  # ratio of sizes from which the units seem to differ
OUTERMOST = 0.01  # share of the primitives on either side that bounds leave out
SOME = 100_000  # primitives that bounds are taken from


class Bounds(NamedTuple):
    """A box, capture units.

    Args:
        low, high: corners, [3].
    """

    low: np.ndarray
    high: np.ndarray

    def overlaps(self, other: Bounds) -> bool:
        """Whether two boxes have a point in common."""
        return bool(((self.low <= other.high) & (other.low <= self.high)).all())

    @property
    def size(self) -> float:
        """Length of the diagonal."""
        return float(np.linalg.norm(self.high - self.low))


def bounds_of(centres: Tensor) -> Bounds | None:
    """Box around points [N, 3] without the outermost hundredth along each axis; None where none is finite."""
    positions = centres.detach()[:: max(1, len(centres) // SOME)].float().cpu()
    positions = positions[torch.isfinite(positions).all(-1)].numpy()
    if len(positions) == 0:
        return None
    low, high = np.quantile(positions, [OUTERMOST, 1 - OUTERMOST], axis=0)
    return Bounds(low, high)


def find_problems(
    left: tuple[str, Bounds | None, np.ndarray | None], right: tuple[str, Bounds | None, np.ndarray | None]
) -> list[str]:
    """What speaks against one coordinate system, in sentences; empty where nothing does.

    Args:
        left, right: name, bounds, and up direction [3] of length 1; None where unknown.
    """
    (name, bounds, up), (other_name, other, other_up) = left, right
    problems = []
    if bounds is not None and other is not None:
        if not bounds.overlaps(other):
            problems.append(
                "The two scenes do not overlap: they are not in one coordinate system. "
                "Fit camera shows one of them."
            )
        sizes = sorted([(bounds.size, name), (other.size, other_name)])
        if sizes[0][0] > 0 and (ratio := sizes[1][0] / sizes[0][0]) > UNITS:
            problems.append(
                f"{sizes[1][1]} is {ratio:.0f} times as large as {sizes[0][1]}: their units seem to differ."
            )
    if up is not None and other_up is not None:
        angle = math.acos(float(np.clip(up @ other_up, -1, 1)))
        if angle > TURNED:
            problems.append(
                f"Their up directions differ by {math.degrees(angle):.0f} degrees: "
                f"{name} stands upright; Fit camera turns the page upright for either scene."
            )
    return problems
