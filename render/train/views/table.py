"""Parameters of each training view, updated by Adam where a step has used the view."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.ops.train.view_adam import view_adam_
from luxel.render.train.store.protocol import BETAS

EPS = 1e-15
TYPICAL_VISITS = 450  # of a view in a run of 30,000 steps on 66 views; the rates below are for so many


class ViewTable:
    """Parameters per view with Adam's moments (Kingma & Ba 2015); all start at 0, unless ``values`` is
    set. What all views share is removed from them after each update.

    A view is used once an epoch, so the moments of a view know only the steps that saw it. Nothing here waits for the
    device, and an update can be captured and replayed.

    Args:
        name: of the tensors in a checkpoint.
        views: V, number of training views.
        width: P, parameters per view.
        rate: learning rate at the start of a run with 450 visits of each view; with fewer it is higher, by their
            ratio to the power of ``scaling``, and at most ``fastest``.
        final: learning rate at the end, as a share of ``rate``.
        device: of the tensors.
        start: share of the run at which learning begins; the values stay as they are before.
        penalty: weight of half the sum of squares of the values less those at the start, in the loss of their view.
        common: orthonormal directions of the space of all parameters that are removed, [V P, G]; None: the mean over
            the views of each parameter.

    Attributes:
        values: [V, P].
    """

    def __init__(
        self,
        name: str,
        views: int,
        width: int,
        rate: float,
        final: float,
        device: torch.device,
        common: Tensor | None = None,
        *,
        start: float = 0.0,
        penalty: float = 0.0,
        scaling: float = 0.5,
        fastest: float = math.inf,
    ) -> None:
        self.name, self.rate, self.final = name, rate, final
        self.start, self.penalty = start, penalty
        self.scaling, self.fastest = scaling, fastest
        self.values = torch.zeros(views, width, device=device)
        self._first, self._second = torch.zeros_like(self.values), torch.zeros_like(self.values)
        self._centre: Tensor | None = None
        self._common = None if common is None else common.to(self.values).contiguous()

    def begin_at(self, values: Tensor) -> None:
        """Sets the values that learning begins with, [V, P]; the penalty is 0 there."""
        self.values.copy_(values)
        self._centre = self.values.clone()

    def schedule(self, sample: int, samples: int) -> tuple[float, float]:
        """Step size and divisor of the second moment for one visit, bias corrections included.

        Args:
            sample: number of the visit among those of all views, from 0.
            samples: visits of all views in the complete run.
        """
        views = self.values.shape[0]
        visit, visits = sample // views + 1, max(1.0, samples / views)
        progress = (sample / max(1, samples) - self.start) / (1 - self.start)
        highest = min(self.fastest, self.rate * (TYPICAL_VISITS / visits) ** self.scaling)
        rate = highest * self.final**progress if progress >= 0 else 0.0
        first, second = (1 - beta**visit for beta in BETAS)
        return rate / first, second

    def rows(self, views: Tensor) -> Tensor:
        """The parameters of views, int64 [B], as a leaf that autograd gives gradients: [B, P]."""
        return self.values.index_select(0, views).requires_grad_()

    def update_(self, views: Tensor, gradients: Tensor, schedule: Tensor, skip: Tensor) -> None:
        """One step of Adam on the views that a training step saw.

        Args:
            views: int64 [B]; gradients of one that is there twice are added.
            gradients: [B, P].
            schedule: what `schedule` gave, float32 [2], on the device.
            skip: [1]; where it is not 0 nothing changes.
        """
        view_adam_(
            *self._state(),
            self._common,
            views,
            gradients,
            schedule,
            skip,
            betas=BETAS,
            eps=EPS,
            centre=self._centre,
            penalty=self.penalty,
        )

    def tensors(self) -> dict[str, Tensor]:
        """The complete state by name, for a checkpoint."""
        kinds = ("values", "exp_avg", "exp_avg_sq")
        return dict(zip((f"{self.name}.{kind}" for kind in kinds), self._state(), strict=True))

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """The reverse of `tensors`; a run that had none of these starts at 0."""
        for name, tensor in self.tensors().items():
            if name in tensors and tensors[name].shape == tensor.shape:
                tensor.copy_(tensors[name])

    def require(self, tensors: Mapping[str, Tensor], noun: str) -> None:
        """As `restore`, of a checkpoint that must have them.

        Args:
            noun: what the parameters are, in the plural.

        Raises:
            LuxelError: it has none, or they are of other views.
        """
        known = {name: tensors[name] for name in self.tensors() if name in tensors}
        if not known or any(t.shape != self.tensors()[name].shape for name, t in known.items()):
            raise LuxelError(
                f"The checkpoint has no {noun} of these views.", "Open the capture as it was trained on."
            )
        self.restore(known)

    def _state(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.values, self._first, self._second
