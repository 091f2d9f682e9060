"""Functions of positions, and snapshots of their parameters for the many queries of an image."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple, Protocol

import torch
from torch import Tensor


class Snapshot(Protocol):
    """A point function with its parameters of one moment, prepared for many calls. No gradients."""

    def __call__(self, x: Tensor, live: Tensor | None = None) -> Tensor:
        """Coherent positions [N, D] to [N, O].

        Args:
            x: positions.
            live: number of leading positions that count, int32 [1] on the device; other rows are undefined. None: all.
        """
        ...

    def fits(self, function: object) -> bool:
        """Whether `renew` makes a snapshot of this function, so that captured work stays valid."""
        ...

    def renew(self) -> None:
        """Updates the snapshot to the present parameters, in the same memory."""
        ...

    def key(self) -> Hashable:
        """What captured work depends on besides the contents of tensors; None: nothing may be captured."""
        ...

    def supports_live_count(self) -> bool:
        """Whether a live count saves the work of the other rows."""
        ...


class PointFunction(Protocol):
    """Positions [..., D] to O numbers each, with gradients."""

    def forward(self, x: Tensor, coherent: bool | None = None) -> Tensor:
        """The function at positions.

        Args:
            x: [..., D].
            coherent: whether neighbouring rows are mostly neighbours in space; None: as the function assumes.

        Returns:
            [..., O].
        """
        ...

    def snapshot(self) -> Snapshot:
        """The function with its present parameters."""
        ...


class PlainSnapshot(NamedTuple):
    """A snapshot that is a plain function of positions; made anew for each image, and never captured.

    Args:
        evaluate: positions [N, D] to [N, O].
    """

    evaluate: Callable[[Tensor], Tensor]

    @torch.no_grad()
    def __call__(self, x: Tensor, live: Tensor | None = None) -> Tensor:
        """As `Snapshot.__call__`; all rows are evaluated whatever the live count."""
        return self.evaluate(x)

    def fits(self, function: object) -> bool:
        """False."""
        return False

    def renew(self) -> None:
        """Does nothing, as it fits no function."""

    def key(self) -> Hashable:
        """None."""
        return None

    def supports_live_count(self) -> bool:
        """False."""
        return False


@torch.no_grad()
def refreshed_snapshot(function: PointFunction, before: Snapshot | None) -> Snapshot:
    """A snapshot of a function as it is now, in the memory of an earlier one if that fits.

    Args:
        function: of positions.
        before: the earlier snapshot.
    """
    if before is not None and before.fits(function):
        before.renew()
        return before
    return function.snapshot()
