"""Optimization of a field: Adam, the running mean of its parameters, and the captured step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from luxel.render.fields.application import Application
from luxel.render.fields.nets.mlp import Mlp
from luxel.render.fields.training.weight_balance import State, WeightBalance
from luxel.render.ops.train.adam import adam_schedule, scheduled_adam_
from luxel.render.replay import Replay
from luxel.render.runs.checkpoints.checkpoint import Checkpoint
from luxel.render.runs.checkpoints.tensor_schema import (
    FLOATS,
    TensorSchema,
    like,
    require_generator,
    require_tensors,
)

OF_DATA = ("auxiliary", "auxiliary_exp_avg", "auxiliary_exp_avg_sq")  # prefixes; known once data are there
ROWS = 256  # steps whose schedule is uploaded at once
AUXILIARY_RATE = 0.1  # of the learning rate
AUXILIARY_START = 0.05  # share of the run in which auxiliary parameters stay as they are
# Of a row: learning rates of the field and of auxiliary parameters, Adam's corrections, weight of the running mean,
# then the scalars of the loss.
RATES, ADAM, MEAN, SCALARS = slice(0, 2), slice(0, 4), 4, slice(5, None)


class FieldOptimizer:
    """Parameters of an application with Adam's moments and their running mean; nothing waits for the device.

    Between steps the application holds the running mean of its parameters (if there is one), so that renders and
    evaluations use it; during a step it holds the parameters that Adam updates.

    The loss is scaled, and its gradients stay scaled: Adam (Kingma & Ba 2015) is invariant to the factor except for its
    eps, which is scaled too. With ``sparse`` it skips entries of tables without gradient (Müller et al. 2022, section
    4). The running mean has no bias towards the first parameters (Kingma & Ba, section 3). A step whose gradients of
    weights are not finite, for example after overflow of half precision, changes nothing; nor does one whose gradients
    of tables are not finite, with backends that hold these in half precision. Where weights have no L2
    penalty, a `WeightBalance` retains the scale of hidden layers.

    Auxiliary parameters have a tenth of the learning rate, 0 in the first twentieth of the run, and no running mean.

    Args:
        application: its parameters are on the device, and it has begun if it has auxiliary ones.

    Attributes:
        skipped: number of steps that changed nothing, on the device, int64 [1]; counted from 0 when a run is resumed.
    """

    def __init__(self, application: Application) -> None:
        self.application, config = application, application.config
        device = application.device
        named = dict(application.named_parameters())
        self._shown = list(named.values())
        self._names = list(named)
        weights = {id(parameter) for parameter in application.weight_parameters()}
        self._decays = [i for i, parameter in enumerate(self._shown) if id(parameter) in weights]
        self._by_luxel = config.backend == "luxel"
        self._watched = self._decays if self._by_luxel else range(len(self._shown))
        self._means = [parameter.data for parameter in self._shown]
        self._moved = [t.clone() if config.ema > 0 else t for t in self._means]
        self._first = [torch.zeros_like(p) for p in self._moved]
        self._second = [torch.zeros_like(p) for p in self._moved]
        modules = application.modules() if config.weight_decay == 0 else ()  # the penalty bounds weights, too
        networks = [module for module in modules if isinstance(module, Mlp)]
        states = zip(self._moved, self._means, self._first, self._second, strict=True)
        self._balance = WeightBalance(networks, self._shown, [State(*tensors) for tensors in states])
        self.skipped = torch.zeros(1, dtype=torch.int64, device=device)
        self._auxiliary = application.auxiliary_parameters()
        self._auxiliary_moments = {
            name: (torch.zeros_like(p), torch.zeros_like(p)) for name, p in self._auxiliary.items()
        }
        self.generator = torch.Generator(device).manual_seed(config.seed)
        self._replay: Replay[Tensor] = Replay(device, [self.generator])
        width = 5 + len(config.loss_scalars_at(0))
        self._rows = torch.zeros(ROWS, width, dtype=self._moved[0].dtype, device=device)
        self._cursor = torch.zeros(1, dtype=torch.int64, device=device)
        self._sent_from, self._next = 0, -1
        self._scheduled: list[tuple[float, ...]] = []  # of the rows: rates, then scalars of the loss

    @property
    def captures(self) -> int:
        """How many CUDA graphs have been captured."""
        return self._replay.captures

    def step(self, step: int, elapsed: float = 0.0) -> Tensor:
        """Submits a step.

        Args:
            step: its number, from 0.
            elapsed: share of the run's seconds that have elapsed, where they are limited.

        Returns:
            Its loss, a scalar that the next step overwrites.
        """
        self._reach(step, elapsed)
        application = self.application
        application.before_step(step)
        with self._updating():
            if application.capturable and self._by_luxel:
                loss = self._replay.run(application.capture_key(), "step", self._work)
            else:
                loss = self._work()
            if self._balance.due(step):
                self._balance.apply()
            application.after_step(step)
        return loss

    def tensors(self) -> dict[str, Tensor]:
        """The complete state by name, for a checkpoint."""
        state = {f"field.{name}": t for name, t in self.application.state_dict().items()}
        groups = {"moved": self._moved, "exp_avg": self._first, "exp_avg_sq": self._second}
        for prefix, tensors in groups.items():
            state |= {f"{prefix}.{name}": t for name, t in zip(self._names, tensors, strict=True)}
        state |= self._auxiliary_state()
        state |= {f"samples.{name}": t for name, t in self.application.stored_samples().items()}
        return state | {"generator": self.generator.get_state()}

    def restore(self, tensors: dict[str, Tensor]) -> bool:
        """Restores a state of `tensors`.

        Returns:
            Whether random state and stored samples were restored too; neither is if the device type or the shapes of
            the samples differ.

        Raises:
            RuntimeError: it is of a different field.
            KeyError: it is incomplete.
        """
        prefix = "field."
        state = {name[len(prefix) :]: t for name, t in tensors.items() if name.startswith(prefix)}
        self.application.load_state_dict(state)
        groups = {"moved": self._moved, "exp_avg": self._first, "exp_avg_sq": self._second}
        for prefix, present in groups.items():
            for name, tensor in zip(self._names, present, strict=True):
                tensor.copy_(tensors[f"{prefix}.{name}"])
        for name, tensor in self._auxiliary_state().items():
            tensor.copy_(tensors[name])
        samples = {f"samples.{name}": t for name, t in self.application.stored_samples().items()}
        fits = all(name in tensors and tensors[name].shape == t.shape for name, t in samples.items())
        if not fits or tensors["generator"].numel() != self.generator.get_state().numel():
            return False
        for name, tensor in samples.items():
            tensor.copy_(tensors[name])
        self.generator.set_state(tensors["generator"].cpu())
        return True

    def _auxiliary_state(self) -> dict[str, Tensor]:
        state = {f"auxiliary.{name}": p.detach() for name, p in self._auxiliary.items()}
        for i, prefix in enumerate(("auxiliary_exp_avg", "auxiliary_exp_avg_sq")):
            state |= {f"{prefix}.{name}": pair[i] for name, pair in self._auxiliary_moments.items()}
        return state

    @contextmanager
    def _updating(self) -> Iterator[None]:
        """Context in which the application holds the parameters that Adam updates."""
        self._point_at(self._moved)
        try:
            yield
        finally:
            self._point_at(self._means)

    def _point_at(self, tensors: list[Tensor]) -> None:
        for parameter, tensor in zip(self._shown, tensors, strict=True):
            parameter.data = tensor

    def _work(self) -> Tensor:
        """One step; everything that differs between steps is on the device."""
        application, config = self.application, self.application.config
        row = self._rows.index_select(0, self._cursor)[0]
        self._cursor.add_(1)
        application.loss_scalars = row[SCALARS]
        loss = application.loss(application.draw_batch(self.generator))
        application.loss_scalars = None
        auxiliary = list(self._auxiliary.values())
        gradients = list(torch.autograd.grad(loss * config.loss_scale, [*self._shown, *auxiliary]))
        gradients, of_auxiliary = gradients[: len(self._shown)], gradients[len(self._shown) :]
        with torch.no_grad():
            finite = [gradients[i].isfinite().all() for i in self._watched]
            finite += [gradient.isfinite().all() for gradient in of_auxiliary]
            skip = torch.stack(finite).all().logical_not().to(torch.int32).reshape(1) if finite else None
            if skip is not None:
                self.skipped.add_(skip)
            for i in self._decays if config.weight_decay > 0 else ():
                gradients[i] = gradients[i].add(self._moved[i], alpha=config.loss_scale * config.weight_decay)
            betas, eps = (config.beta1, config.beta2), config.eps * config.loss_scale
            for chosen, visible in self._groups(gradients):
                scheduled_adam_(
                    [self._moved[i] for i in chosen],
                    [gradients[i] for i in chosen],
                    [self._first[i] for i in chosen],
                    [self._second[i] for i in chosen],
                    [0] * len(chosen),
                    row[ADAM],
                    betas,
                    eps,
                    visible=visible,
                    skip=skip,
                )
            if auxiliary:
                first, second = (list(t) for t in zip(*self._auxiliary_moments.values(), strict=True))
                rate_indices = [1] * len(auxiliary)
                scheduled_adam_(
                    auxiliary, of_auxiliary, first, second, rate_indices, row[ADAM], betas, eps, skip=skip
                )
            if config.ema > 0:
                for mean, moved in zip(self._means, self._moved, strict=True):
                    mean.lerp_(moved, row[MEAN])
        return loss.detach()

    def _groups(self, gradients: list[Tensor]) -> list[tuple[list[int], Tensor | None]]:
        """Parameters that Adam updates together, and which rows of them; None: all."""
        if not self.application.config.sparse:
            return [(list(range(len(gradients))), None)]
        groups: list[tuple[list[int], Tensor | None]] = [(self._decays, None)] if self._decays else []
        tables = [i for i in range(len(gradients)) if i not in self._decays]
        return groups + [([i], (gradients[i] != 0).flatten(1).any(-1)) for i in tables]

    def _reach(self, step: int, elapsed: float) -> None:
        """Makes the cursor point at ``step``, uploading rows if it is not among those present, or if time has changed
        the schedule since."""
        config = self.application.config
        present = step == self._next and step < self._sent_from + ROWS
        if present and self._scheduled[step - self._sent_from] == self._schedule_at(step, elapsed):
            self._next += 1
            return
        self._scheduled = [self._schedule_at(s, elapsed) for s in range(step, step + ROWS)]
        betas = config.beta1, config.beta2
        rows = [
            [
                *adam_schedule(numbers[RATES], s + 1, betas),
                (1 - config.ema) / (1 - config.ema ** (s + 1)),
                *numbers[2:],
            ]
            for s, numbers in enumerate(self._scheduled, step)
        ]
        sent = torch.tensor(rows, dtype=self._rows.dtype)
        if self._rows.is_cuda:
            sent = sent.pin_memory()
        self._rows.copy_(sent, non_blocking=True)
        self._cursor.zero_()
        self._sent_from, self._next = step, step + 1

    def _schedule_at(self, step: int, elapsed: float) -> tuple[float, ...]:
        config = self.application.config
        rate = config.rate_at(step, elapsed)
        learns = config.share_at(step, elapsed) >= AUXILIARY_START
        return rate, AUXILIARY_RATE * rate if learns else 0.0, *config.loss_scalars_at(step, elapsed)


def require_field_tensors(checkpoint: Checkpoint, application: Application) -> None:
    """Checks all tensors that a `luxel.render.fields.training.trainer.FieldTrainer` restores.

    Args:
        application: of the configuration of the run, with any parameters.

    Raises:
        CheckpointError: one is missing or cannot be restored; the message names it.
    """
    tensors = checkpoint.tensors
    parameters = {name: p.detach() for name, p in application.named_parameters()}
    schema = {
        f"field.{name}": like(t, finite=name in parameters) for name, t in application.state_dict().items()
    }
    for name, parameter in parameters.items():
        schema[f"moved.{name}"] = like(parameter, finite=True)
        schema[f"exp_avg.{name}"] = like(parameter)
        schema[f"exp_avg_sq.{name}"] = like(parameter, positive=True)
    for name, tensor in tensors.items():
        if name.partition(".")[0] in OF_DATA:
            schema[name] = TensorSchema((None,) * tensor.dim(), FLOATS, True)
    require_tensors(tensors, schema)
    require_generator(tensors)
