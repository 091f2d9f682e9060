"""What moves the parameters of a field: Adam, the running mean, and the captured step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from luxel.render.fields.application import Application
from luxel.render.ops.train.adam import adam_schedule, scheduled_adam_
from luxel.render.replay import Replay

ROWS = 256  # steps whose schedule is sent to the device at once


class FieldOptimizer:
    """Parameters of an application with Adam's moments and their running mean; nothing waits for the device.

    Between steps the application has the running mean of its parameters (where there is one), so that whoever draws or
    measures it has the better ones; during a step it has those that Adam moves.

    The loss is scaled, and its gradients stay so: Adam (Kingma & Ba 2015) does not see a factor, but for its eps, which
    is scaled alike. With ``sparse`` it leaves out entries of tables that have no gradient (Müller et al. 2022, section
    4). The running mean has no bias towards the first parameters (Kingma & Ba, section 3). A step whose gradients of
    weights are not finite, as where half overflows, changes nothing; of tables neither, where another backend has them
    in half.

    Args:
        application: its parameters are on the device.
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
        self.generator = torch.Generator(device).manual_seed(config.seed)
        self._replay: Replay[Tensor] = Replay(device, [self.generator])
        self._rows = torch.zeros(ROWS, 4, dtype=self._moved[0].dtype, device=device)
        self._cursor = torch.zeros(1, dtype=torch.int64, device=device)
        self._sent_from, self._next = 0, -1

    @property
    def captures(self) -> int:
        """How many CUDA graphs have been captured."""
        return self._replay.captures

    def step(self, step: int) -> Tensor:
        """Asks for step number ``step``; gives its loss, a scalar that the next step overwrites."""
        self._reach(step)
        application = self.application
        with self._learning():
            if application.capturable and self._by_luxel:
                loss = self._replay.run(application.capture_key(), "step", self._work)
            else:
                loss = self._work()
            application.after_step(step)
        return loss

    def tensors(self) -> dict[str, Tensor]:
        """The whole state by name, for a checkpoint."""
        found = {f"field.{name}": t for name, t in self.application.state_dict().items()}
        groups = {"moved": self._moved, "exp_avg": self._first, "exp_avg_sq": self._second}
        for prefix, tensors in groups.items():
            found |= {f"{prefix}.{name}": t for name, t in zip(self._names, tensors, strict=True)}
        found |= {f"samples.{name}": t for name, t in self.application.kept_samples().items()}
        return found | {"generator": self.generator.get_state()}

    def restore(self, tensors: dict[str, Tensor]) -> bool:
        """Takes up a state that `tensors` gave; whether the samples go on, as on another device they cannot.

        Raises:
            RuntimeError: it is of another field.
            KeyError: it is not whole.
        """
        prefix = "field."
        state = {name[len(prefix) :]: t for name, t in tensors.items() if name.startswith(prefix)}
        self.application.load_state_dict(state)
        groups = {"moved": self._moved, "exp_avg": self._first, "exp_avg_sq": self._second}
        for prefix, kept in groups.items():
            for name, tensor in zip(self._names, kept, strict=True):
                tensor.copy_(tensors[f"{prefix}.{name}"])
        samples = {f"samples.{name}": t for name, t in self.application.kept_samples().items()}
        fits = all(name in tensors and tensors[name].shape == t.shape for name, t in samples.items())
        if not fits or tensors["generator"].numel() != self.generator.get_state().numel():
            return False
        for name, tensor in samples.items():
            tensor.copy_(tensors[name])
        self.generator.set_state(tensors["generator"].cpu())
        return True

    @contextmanager
    def _learning(self) -> Iterator[None]:
        """The application has the parameters that Adam moves."""
        self._point_at(self._moved)
        try:
            yield
        finally:
            self._point_at(self._means)

    def _point_at(self, tensors: list[Tensor]) -> None:
        for parameter, tensor in zip(self._shown, tensors, strict=True):
            parameter.data = tensor

    def _work(self) -> Tensor:
        """One step; everything that differs from step to step lies on the device."""
        config = self.application.config
        loss = self.application.loss(self.application.draw_batch(self.generator))
        gradients = list(torch.autograd.grad(loss * config.loss_scale, self._shown))
        with torch.no_grad():
            finite = [gradients[i].isfinite().all() for i in self._watched]
            skip = torch.stack(finite).all().logical_not().to(torch.int32).reshape(1) if finite else None
            for i in self._decays if config.weight_decay > 0 else ():
                gradients[i] = gradients[i].add(self._moved[i], alpha=config.loss_scale * config.weight_decay)
            row = self._rows.index_select(0, self._cursor)[0]
            self._cursor.add_(1)
            for chosen, visible in self._groups(gradients):
                scheduled_adam_(
                    [self._moved[i] for i in chosen],
                    [gradients[i] for i in chosen],
                    [self._first[i] for i in chosen],
                    [self._second[i] for i in chosen],
                    [0] * len(chosen),
                    row[:3],
                    (config.beta1, config.beta2),
                    config.eps * config.loss_scale,
                    visible=visible,
                    skip=skip,
                )
            if config.ema > 0:
                for mean, moved in zip(self._means, self._moved, strict=True):
                    mean.lerp_(moved, row[3])
        return loss.detach()

    def _groups(self, gradients: list[Tensor]) -> list[tuple[list[int], Tensor | None]]:
        """Parameters that Adam moves together, and which rows of them; None: all."""
        if not self.application.config.sparse:
            return [(list(range(len(gradients))), None)]
        groups: list[tuple[list[int], Tensor | None]] = [(self._decays, None)] if self._decays else []
        tables = [i for i in range(len(gradients)) if i not in self._decays]
        return groups + [([i], (gradients[i] != 0).flatten(1).any(-1)) for i in tables]

    def _reach(self, step: int) -> None:
        """Makes the cursor point at ``step``, sending rows where it has left those that are there."""
        if step == self._next and step < self._sent_from + ROWS:
            self._next += 1
            return
        config = self.application.config
        betas = config.beta1, config.beta2
        rows = [
            [
                *adam_schedule([config.rate_at(s)], s + 1, betas),
                (1 - config.ema) / (1 - config.ema ** (s + 1)),
            ]
            for s in range(step, step + ROWS)
        ]
        sent = torch.tensor(rows, dtype=self._rows.dtype)
        if self._rows.is_cuda:
            sent = sent.pin_memory()
        self._rows.copy_(sent, non_blocking=True)
        self._cursor.zero_()
        self._sent_from, self._next = step, step + 1
