"""Boolean masks of primitives: how a new selection joins the old one, compact storage."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

Mode = Literal["replace", "add", "subtract", "intersect"]
MODES: tuple[Mode, ...] = get_args(Mode)


def combine(before: Tensor, made: Tensor, mode: Mode) -> Tensor:
    """A selection after another one was made, bool [N] each.

    Raises:
        ValueError: the mode is unknown.
    """
    if mode == "replace":
        return made.clone()
    if mode == "add":
        return before | made
    if mode == "subtract":
        return before & ~made
    if mode == "intersect":
        return before & made
    raise ValueError(f"mode must be one of {', '.join(MODES)}, got {mode!r}")


class PackedMask:
    """A bool mask [N] in N / 8 bytes of host memory, or in 4 bytes for each that is set where they are few.

    Args:
        mask: bool [N], on any device.
    """

    def __init__(self, mask: Tensor) -> None:
        self.count = int(mask.shape[0])
        bits = mask.cpu().numpy()
        rows = np.flatnonzero(bits)
        self.few = len(rows) * 32 < self.count
        self.content: np.ndarray = rows.astype(np.int32) if self.few else np.packbits(bits)

    @property
    def nbytes(self) -> int:
        """Bytes of host memory."""
        return self.content.nbytes

    def unpack(self, device: torch.device) -> Tensor:
        """The mask, bool [N]."""
        if self.few:
            mask = torch.zeros(self.count, dtype=torch.bool, device=device)
            mask[torch.from_numpy(self.content).long().to(device)] = True
            return mask
        bits = np.unpackbits(self.content, count=self.count).view(np.bool_)
        return torch.from_numpy(bits).to(device)

    def arrays(self) -> dict[str, np.ndarray]:
        """What a file needs, see `load`."""
        return {"rows" if self.few else "bits": self.content}

    @staticmethod
    def load(arrays: dict[str, np.ndarray], count: int) -> PackedMask:
        """The reverse of `arrays`.

        Raises:
            ValueError: the content does not fit a mask of ``count``.
        """
        packed = PackedMask(torch.zeros(count, dtype=torch.bool))
        packed.few = "rows" in arrays
        content = arrays["rows"] if packed.few else arrays["bits"]
        expected = np.int32 if packed.few else np.uint8
        fits = len(content) <= count if packed.few else len(content) == (count + 7) // 8
        inside = not packed.few or not len(content) or (content.min() >= 0 and content.max() < count)
        if content.dtype != expected or content.ndim != 1 or not fits or not inside:
            raise ValueError(
                f"rows or bits must be a mask of {count} primitives, got {content.dtype} {list(content.shape)}"
            )
        packed.content = content
        return packed
