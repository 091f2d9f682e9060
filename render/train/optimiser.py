"""Adam over the parameters of a growing and shrinking set of Gaussians."""

from __future__ import annotations

import torch
from torch import Tensor

from luxel.render.ops.adam import fused_adam_
from luxel.render.primitives.gaussians import Gaussians

BETAS = (0.9, 0.999)
EPS = 1e-15


class Optimiser:
    """Gaussians with Adam's moments (Kingma & Ba 2015), kept in step when elements come, go or move.

    Every change of the set first builds all new tensors, then takes them over at once: running out of memory
    in the middle leaves the old state whole.

    Args:
        gaussians: the parameters; copies that require gradients are kept in ``self.gaussians``.
    """

    def __init__(self, gaussians: Gaussians) -> None:
        self.gaussians = _leaves(gaussians)
        self.exp_avg = {name: torch.zeros_like(t) for name, t in gaussians.detach().tensors().items()}
        self.exp_avg_sq = {name: torch.zeros_like(t) for name, t in gaussians.detach().tensors().items()}
        self.steps = 0

    @property
    def count(self) -> int:
        """N."""
        return self.gaussians.count

    def step(self, rates: dict[str, float]) -> None:
        """One step in place from the gradients that the parameters hold, which are then dropped.

        Args:
            rates: learning rate by parameter name.
        """
        self.steps += 1
        live = [
            (name, t, t.grad)
            for name, t in self.gaussians.tensors().items()
            if t.grad is not None and t.numel()
        ]
        fused_adam_(
            [t.detach() for _, t, _ in live],
            [g for *_, g in live],
            [self.exp_avg[name] for name, *_ in live],
            [self.exp_avg_sq[name] for name, *_ in live],
            [rates[name] for name, *_ in live],
            self.steps,
            BETAS,
            EPS,
        )
        self.drop_gradients()

    def drop_gradients(self) -> None:
        """Forgets the gradients of all parameters."""
        for tensor in self.gaussians.tensors().values():
            tensor.grad = None

    def select(self, index: Tensor) -> None:
        """Keeps the elements at ``index`` (positions, or a boolean mask) in that order, with their
        moments."""
        gaussians = self.gaussians.detach().select(index)
        exp_avg = {name: t[index] for name, t in self.exp_avg.items()}
        exp_avg_sq = {name: t[index] for name, t in self.exp_avg_sq.items()}
        self._take(gaussians, exp_avg, exp_avg_sq)

    def append(self, more: Gaussians) -> None:
        """Adds elements at the end; their moments are 0."""
        added = more.detach().tensors()
        gaussians = Gaussians.cat(self.gaussians.detach(), more.detach())
        exp_avg = {name: torch.cat([t, torch.zeros_like(added[name])]) for name, t in self.exp_avg.items()}
        exp_avg_sq = {
            name: torch.cat([t, torch.zeros_like(added[name])]) for name, t in self.exp_avg_sq.items()
        }
        self._take(gaussians, exp_avg, exp_avg_sq)

    def zero(self, index: Tensor) -> None:
        """Sets the moments of the elements at ``index`` to 0: what they tracked has been replaced."""
        for moments in (self.exp_avg, self.exp_avg_sq):
            for tensor in moments.values():
                tensor[index] = 0

    def zero_parameter(self, name: str) -> None:
        """Sets the moments of one parameter of all elements to 0."""
        self.exp_avg[name].zero_()
        self.exp_avg_sq[name].zero_()

    def tensors(self) -> dict[str, Tensor]:
        """The whole state by name, for a checkpoint."""
        out = {f"gaussians.{name}": t.detach() for name, t in self.gaussians.tensors().items()}
        out |= {f"exp_avg.{name}": t for name, t in self.exp_avg.items()}
        return out | {f"exp_avg_sq.{name}": t for name, t in self.exp_avg_sq.items()}

    @staticmethod
    def from_tensors(tensors: dict[str, Tensor], steps: int) -> Optimiser:
        """The reverse of `tensors`."""
        out = Optimiser(Gaussians(**{name: tensors[f"gaussians.{name}"] for name in Gaussians.names}))
        out.exp_avg = {name: tensors[f"exp_avg.{name}"].clone() for name in Gaussians.names}
        out.exp_avg_sq = {name: tensors[f"exp_avg_sq.{name}"].clone() for name in Gaussians.names}
        out.steps = steps
        return out

    def _take(self, gaussians: Gaussians, exp_avg: dict[str, Tensor], exp_avg_sq: dict[str, Tensor]) -> None:
        self.gaussians, self.exp_avg, self.exp_avg_sq = _leaves(gaussians), exp_avg, exp_avg_sq


def _leaves(gaussians: Gaussians) -> Gaussians:
    return gaussians.detach().map(lambda t: t.clone().contiguous()).requires_grad_()
