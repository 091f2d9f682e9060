"""Primitives with parameters that are not finite: found, described, left out."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from luxel.render.primitives.parameters import Parameters

P = TypeVar("P", bound=Parameters)

# Infinite values that other programs write with a meaning, an opacity of 0 or 1 and an extent of 0, and the finite
# value that draws the same: (for -infinity, for +infinity), None where it has no meaning.
LIMITS: dict[str, tuple[float, float | None]] = {
    "opacity_logits": (-100.0, 100.0),
    "mask_logits": (-100.0, 100.0),
    "log_scales": (-80.0, None),
}


class NonFinite(NamedTuple):
    """Which primitives have a parameter that is NaN or infinite."""

    rows: Tensor  # bool [N]
    counts: dict[str, int]  # of such primitives, by parameter; a primitive may count for several

    @property
    def count(self) -> int:
        """How many they are."""
        return int(self.rows.sum())

    def in_words(self, scene: Parameters) -> str:
        """For a message: "12 of 3,000 Gaussians have parameters that are not finite (means 12, quats 3)"."""
        counts = ", ".join(f"{name} {count:,}" for name, count in self.counts.items())
        return (
            f"{self.count:,} of {scene.count:,} {scene.noun} have parameters that are not finite ({counts})"
        )


def non_finite(scene: Parameters) -> NonFinite | None:
    """The primitives with a parameter that is not finite; None where all are finite. Waits for the device."""
    if not scene.count:
        return None
    rows = {name: ~t.isfinite().reshape(scene.count, -1).all(1) for name, t in scene.tensors().items()}
    counts = torch.stack([broken.sum() for broken in rows.values()]).tolist()
    if not any(counts):
        return None
    named = {name: count for name, count in zip(rows, counts, strict=True) if count}
    return NonFinite(torch.stack(list(rows.values())).any(0), named)


def with_limits(scene: P) -> tuple[P, int]:
    """The scene with the infinite values of `LIMITS` made finite, and in how many primitives there were any."""
    changed, touched = dict(scene.tensors()), torch.zeros(scene.count, dtype=torch.bool, device=scene.device)
    for name, (low, high) in LIMITS.items():
        if name not in changed:
            continue
        values = changed[name]
        infinite = values.isneginf() if high is None else values.isinf()
        if bool(infinite.any()):
            touched |= infinite.reshape(scene.count, -1).any(1)
            changed[name] = torch.where(infinite, values.clamp(low, high), values)
    count = int(touched.sum())
    return (type(scene)(**changed) if count else scene), count
