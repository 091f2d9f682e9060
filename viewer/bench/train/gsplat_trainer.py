"""Training with gsplat's own strategies and schedules, as its examples do: the competitor of `luxel bench train`.

A plain training loop on the public interface of gsplat 1.5.3, with the settings of its examples. The parts that are not
gsplat's are at least as fast as those of its examples, so that the comparison is fair: images are on the device (where
they fit), Adam is torch's fused one, loss and gradient are luxel's fused photometric loss (that of fused-ssim, with the
same "valid" borders), and the loss is not read back during training.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from luxel.render.backends import gsplat as backend
from luxel.render.errors import LuxelError
from luxel.render.metrics.evaluate import Evaluation, evaluate
from luxel.render.ops.train.loss import photometric_loss
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.primitives.training import Init
from luxel.render.runs.progress import duration
from luxel.render.train import TrainConfig
from luxel.render.train.start import first_primitives, scene_extent
from luxel.render.train.views.dataset import Target
from luxel.scenes import Capture
from luxel.viewer.bench.train import measure
from luxel.viewer.bench.train.gsplat_scene import FAR, NEAR, Normalisation, TrainingImages
from luxel.viewer.bench.train.gsplat_settings import MCMC_STRATEGY, GsplatSettings


class GsplatTrainer:
    """A training of gsplat on a capture, in its normalised scene.

    Args:
        settings: strategy, schedules and learning rates.
        capture: views and points; held-out views are used for evaluation only.
        config: of the run that it is compared with; gives seed, background and placement of the images.
        device: where to train.
        bound: most Gaussians, see `GsplatSettings.bound`.
        say: receives messages.

    Attributes:
        parameters: raw parameters by gsplat's names.
        steps_done: steps taken.
        train_seconds: time of the steps, up to the last `train_until`.

    Raises:
        LuxelError: gsplat cannot be used here, or there is nothing to train on.
    """

    def __init__(
        self,
        settings: GsplatSettings,
        capture: Capture,
        config: TrainConfig,
        device: torch.device,
        *,
        bound: int | None = None,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.settings = settings = settings.scheduled()
        self.device, self.steps_done, self.train_seconds = device, 0, 0.0
        self.say = say
        torch.manual_seed(config.seed)  # its strategies draw from torch's global generator
        views = [*capture.train, *capture.test]
        world = Normalisation.of([view.camera for view in views])
        self.scene_scale = scene_extent([world.view(view) for view in views])
        self.test_views = [world.view(view) for view in capture.test]
        start = TrainConfig(
            max_gaussians=None if settings.count is None else bound,
            seed=config.seed,
            init=Init(settings.sh_degree, settings.opacity, settings.scale, max_points=None),
        )
        train_views = [world.view(view) for view in capture.train]
        first = first_primitives(world.points(capture.points), start, train_views, device)
        assert isinstance(first, Gaussians)
        self.images = TrainingImages(train_views, first, config, device, say)
        self.background = self.images.background
        self._take(first)
        self._choose_strategy(bound)

    @property
    def scene(self) -> Gaussians:
        """The present Gaussians, in the normalised scene and without gradients."""
        p = {name: tensor.detach() for name, tensor in self.parameters.items()}
        return Gaussians(p["means"], p["quats"], p["scales"], p["opacities"], p["sh0"][:, 0], p["shN"])

    @property
    def count(self) -> int:
        """Number of Gaussians."""
        return len(self.parameters["means"])

    def train_until(self, step: int) -> None:
        """Trains up to a step and waits for the device; all of this is training time."""
        self._wait()
        started = time.perf_counter()
        while self.steps_done < step:
            self.step()
        self._wait()
        self.train_seconds += time.perf_counter() - started

    def step(self) -> None:
        """One step: a view, its loss, the optimizers, the strategy."""
        step, settings = self.steps_done, self.settings
        target, matrices, behind = self.images.at(step)
        image, info = self._draw(target, matrices, behind, min(step // settings.sh_every, settings.sh_degree))
        arguments = (self.parameters, self.optimizers, self.state, step, info)
        self.strategy.step_pre_backward(*arguments)
        self._loss(image, target).backward()
        for optimizer in self.optimizers.values():
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        rate = self._rate_of_means(step + 1)
        self.optimizers["means"].param_groups[0]["lr"] = rate
        if settings.strategy == MCMC_STRATEGY:
            self.strategy.step_post_backward(*arguments, lr=rate)
        else:
            self.strategy.step_post_backward(*arguments, packed=False)
            self._reset_opacities(step)
        self.steps_done = step + 1

    def evaluate(self, *, lpips: bool = False) -> Evaluation | None:
        """Scores of the held-out views, rendered by gsplat, by luxel's metrics; None where there are none."""
        if not self.test_views:
            return None
        behind = torch.full((3,), 0.0 if self.background == "black" else 1.0, device=self.device)
        return evaluate(
            self.scene,
            self.test_views,
            background=behind,
            device=self.device,
            lpips=lpips,
            render=backend.rasterize,
            say=self.say,
        )

    def close(self) -> None:
        """Stops reading images."""
        self.images.dataset.close()

    def _take(self, first: Gaussians) -> None:
        tensors = {
            "means": first.means,
            "scales": first.log_scales,
            "quats": torch.rand_like(first.quats),
            "opacities": first.opacity_logits,
            "sh0": first.sh_dc[:, None],
            "shN": first.sh_rest,
        }
        self.parameters = {name: torch.nn.Parameter(t.clone()) for name, t in tensors.items()}
        rates = {**self.settings.rates, "means": self._rate_of_means(0)}
        self.optimizers = {
            name: torch.optim.Adam([parameter], lr=rates[name], eps=1e-15, fused=True)
            for name, parameter in self.parameters.items()
        }

    def _choose_strategy(self, bound: int | None) -> None:
        settings, module = self.settings, _strategies()
        options = dict(settings.options)
        if settings.strategy == MCMC_STRATEGY:
            options["cap_max"] = bound
            self.strategy = module.MCMCStrategy(**options)
            self.state = self.strategy.initialize_state()
        else:
            base = module.DefaultStrategy
            self.strategy = (base if bound is None else bounded(base, bound))(**options)
            self.state = self.strategy.initialize_state(scene_scale=self.scene_scale)
        self.strategy.check_sanity(self.parameters, self.optimizers)

    def _draw(
        self, target: Target, matrices: Tensor, behind: Tensor | None, degree: int
    ) -> tuple[Tensor, dict[str, Any]]:
        """The image of a view, [H, W, 3], and the intermediate results that gsplat's strategies take."""
        p, camera = self.parameters, target.camera
        image, _, info = backend.call(
            means=p["means"],
            quats=p["quats"],
            scales=p["scales"].exp(),
            opacities=p["opacities"].sigmoid(),
            colors=torch.cat([p["sh0"], p["shN"]], 1),
            viewmats=camera.world_to_cam[None],
            Ks=matrices,
            width=camera.width,
            height=camera.height,
            near_plane=NEAR,
            far_plane=FAR,
            sh_degree=degree,
            packed=False,
            backgrounds=behind,
        )
        return image.squeeze(0), info

    def _loss(self, image: Tensor, target: Target) -> Tensor:
        settings, p = self.settings, self.parameters
        loss = photometric_loss(image, target.rgb, target.weight, settings.ssim_weight, "valid")
        if settings.opacity_weight > 0:
            loss = loss + settings.opacity_weight * p["opacities"].sigmoid().mean()
        if settings.scale_weight > 0:
            loss = loss + settings.scale_weight * p["scales"].exp().mean()
        return loss

    def _rate_of_means(self, step: int) -> float:
        """Learning rate of the means: exponential, in the normalised scene."""
        settings = self.settings
        first = settings.rates["means"] * self.scene_scale
        return first * settings.means_final ** (step / settings.steps)

    def _reset_opacities(self, step: int) -> None:
        """Resets opacities when due, which release 1.5.3 documents but never does; see `GsplatSettings.reset`."""
        options = self.settings.options
        due = step > 0 and step % options["reset_every"] == 0 and step < options["refine_stop_iter"]
        if self.settings.reset and due:
            ops = importlib.import_module("gsplat.strategy.ops")
            value = 2 * options["prune_opa"]
            ops.reset_opa(params=self.parameters, optimizers=self.optimizers, state=self.state, value=value)

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def bounded(base: type[Any], bound: int) -> type[Any]:
    """gsplat's DefaultStrategy with a bound of the count, which gsplat itself does not have.

    Where more Gaussians are to be duplicated or split than there is capacity for, those of the highest gradients are;
    all else is as in ``base``.

    Args:
        base: gsplat.strategy.DefaultStrategy.
        bound: most Gaussians.

    Raises:
        LuxelError: the strategy of this version of gsplat has no method ``_grow_gs``.
    """
    if not hasattr(base, "_grow_gs"):
        raise LuxelError("This version of gsplat cannot be given a count.", "Install gsplat 1.5.3.")

    class Bounded(base):
        def _grow_gs(self, params: Any, optimizers: Any, state: Any, step: int) -> Any:
            capacity = bound - len(params["means"])
            retain_highest(state, capacity, self.grow_grad2d)
            return super()._grow_gs(params, optimizers, state, step)

    return Bounded


@torch.no_grad()
def retain_highest(state: dict[str, Any], capacity: int, threshold: float) -> None:
    """Of the Gaussians whose mean gradient is above the threshold, retains the highest ``capacity``; all others are 0.

    Args:
        state: of DefaultStrategy: grad2d (sums) and count (of views), [N]; grad2d is changed in place.
        capacity: how many may remain; 0 or less: none.
        threshold: of the mean gradient.
    """
    means = state["grad2d"] / state["count"].clamp_min(1)
    due = int((means > threshold).sum())
    if due <= capacity:
        return
    retained = torch.zeros_like(means)
    chosen = means.topk(max(0, capacity)).indices
    retained[chosen] = state["grad2d"][chosen]
    state["grad2d"].copy_(retained)


def train_gsplat(
    settings: GsplatSettings,
    capture: Capture,
    config: TrainConfig,
    device: torch.device,
    *,
    evaluations: int,
    bound: int | None = None,
) -> dict[str, Any]:
    """Trains a capture to the end and returns what was measured, as `measure.train_once` does.

    Args:
        settings, capture, config, device, bound: see `GsplatTrainer`; LPIPS is measured if ``config.lpips`` is set.
        evaluations: number of measurements at equal intervals of steps; four earlier ones are added.
    """
    steps = measure.WARM_UP_STEPS[device.type]
    few = replace(capture, train=capture.train[:steps], test=[])
    warm = GsplatTrainer(settings, few, config, device, bound=bound)
    warm.train_until(min(steps, settings.steps))
    warm.close()
    del warm
    before = measure.quiet_device(device)
    started = time.perf_counter()
    trainer = GsplatTrainer(settings, capture, config, device, bound=bound, say=_say)
    prepared = time.perf_counter() - started
    curve, evaluation = [], None
    for step in measure.measured_steps(max(1, settings.steps // evaluations), settings.steps):
        trainer.train_until(step)
        last = step == settings.steps
        if (evaluation := trainer.evaluate(lpips=last and config.lpips)) is not None:
            psnr = evaluation.mean.as_dict()["psnr"]
            curve.append({"step": step, "seconds": trainer.train_seconds, "psnr": psnr})
    trainer.close()
    _say(f"{settings.steps} steps in {duration(trainer.train_seconds)}, {trainer.count:,} Gaussians.")
    return {
        **measure.outcome(evaluation, curve, trainer.scene, settings.steps, trainer.train_seconds, "steps"),
        **measure.facts(device, started, prepared, before),
    }


def require(device: torch.device) -> None:
    """Checks that gsplat can be used here, with its strategies.

    Raises:
        LuxelError: it is not installed or cannot be imported, there is no GPU, or the device is not a GPU.
    """
    backend.require(device)
    _strategies()


def _strategies() -> ModuleType:
    backend.library()
    return importlib.import_module("gsplat.strategy")


def _say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)
