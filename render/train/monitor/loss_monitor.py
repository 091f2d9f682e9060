"""Watches loss and PSNR of training steps for divergence."""

from __future__ import annotations

import math

from luxel.render.errors import LuxelError


class LossMonitor:
    """Loss and PSNR of the reported steps.

    Attributes:
        loss: of the last reported step; None before the first.
        psnr: running mean of the PSNR of training views in dB; None before the first.
        non_finite: whether a loss or PSNR since the last `recover` was not finite.
    """

    def __init__(self) -> None:
        self.loss: float | None = None
        self.psnr: float | None = None
        self.non_finite = False
        self._was_finite = True

    def take(self, loss: float, squared_error: float) -> float:
        """Takes the numbers of a step; returns its PSNR in dB."""
        psnr = -10 * math.log10(max(squared_error, 1e-10)) if math.isfinite(squared_error) else math.nan
        self.loss = loss
        if math.isfinite(loss) and math.isfinite(psnr):
            self.psnr = psnr if self.psnr is None else 0.9 * self.psnr + 0.1 * psnr
            self._was_finite = True
        else:
            self.non_finite = True
        return psnr

    def recover(self, step: int, remedy: str) -> None:
        """Allows training to continue after a non-finite loss, once until a loss is finite again.

        Args:
            step: completed steps.
            remedy: what the user can do, for the error message.

        Raises:
            LuxelError: no loss was finite since the last call.
        """
        self.non_finite = False
        if not self._was_finite:
            raise LuxelError(f"Training diverged at step {step}: the loss is {self.loss}.", remedy)
        self._was_finite = False
