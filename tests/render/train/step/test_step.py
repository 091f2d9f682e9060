"""The step that spends gradients where they are made, against the step through autograd, for every primitive."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from moving import Moving, assert_replayed_alike, brisk

from luxel.render.geometry.camera import Pixels
from luxel.render.primitives import PRIMITIVES
from luxel.render.train.densify.adaptive import AdaptiveStrategy
from luxel.render.train.densify.fixed import FixedCount
from luxel.render.train.densify.shaping import ShapingStrategy
from luxel.render.train.densify.spacetime import SpacetimeStrategy
from luxel.render.train.densify.split import SplitStrategy
from luxel.render.train.step.step_queue import general_step

NAMES = list(PRIMITIVES)
STRATEGIES: dict[str, Any] = {
    "gaussians": lambda: AdaptiveStrategy(opacity_regulariser=0.01, scale_regulariser=0.01, refine_start=100),
    "gaussians4d": lambda: SpacetimeStrategy(
        opacity_regulariser=0.01, scale_regulariser=0.01, refine_start=100
    ),
    "convexes": lambda: ShapingStrategy(refine_start=100),
    "surfels": lambda: AdaptiveStrategy(opacity_regulariser=0.01, scale_regulariser=0.01, refine_start=100),
}


def general(trainer: Any) -> Any:
    """The trainer, whose steps go through autograd from now on."""
    trainer.queue._fused = False
    return trainer


def in_the_middle(trainer: Any) -> None:
    """As after some steps: nothing is round any more, and Adam does not take a step of the sign of rounding."""
    generator = torch.Generator().manual_seed(5)
    for name, tensor in trainer.store.tensors().items():
        if name.startswith("gaussians"):
            tensor += 0.02 * torch.randn(tensor.shape, generator=generator).to(tensor)
        elif name.startswith("exp_avg_sq"):
            tensor.fill_(1e-8)


def assert_same_step(fused: Any, plain: Any) -> None:
    """After one step of each from the same numbers: moments, statistics and parameters to rounding."""
    before = {name: tensor.clone() for name, tensor in fused.store.tensors().items()}
    for name, tensor in plain.store.tensors().items():
        tensor.copy_(before[name])
    plain.densifier.statistics.data.copy_(fused.densifier.statistics.data)
    for trainer in (fused, plain):
        trainer.step()
        trainer.synchronize()
    # Conics of surfels that are seen from the side lose digits with the square of their aspect ratio, normals of depth
    # by the differences that they are made of: 1.4e-4 at most in these captures.
    loses = fused.config.primitive == "surfels" or fused.config.loss.geometry_at(1.0)
    share = 5e-4 if loses else 1e-4
    right = plain.store.tensors()
    for name, tensor in fused.store.tensors().items():
        moved = right[name] - before[name]
        assert not moved.numel() or moved.any() or "sh_rest" in name, name
        assert (tensor - right[name]).norm() <= share * moved.norm() + 1e-7 * right[name].norm(), name
    held = plain.densifier.statistics.data
    assert (fused.densifier.statistics.data - held).norm() <= 1e-4 * held.norm()


@pytest.mark.parametrize("estimates", [False, True], ids=["exact room", "estimated room"])
@pytest.mark.parametrize("masked", [False, True], ids=["plain", "masked"])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_the_fused_step_is_the_step_of_autograd(
    tmp_path: Path, device: torch.device, name: str, batch: int, masked: bool, estimates: bool
) -> None:
    capture = Moving(1.0, masked)
    capture.points.xyz[:20] += 50  # nobody sees these
    config = capture.config(name, steps=2000, strategy=STRATEGIES[name](), batch=batch, sh_every=0)
    config.deterministic, config.sparse_adam = True, masked
    config.loss.mask_weight, config.loss.entropy_weight, config.loss.consistency_weight = 0.5, 0.5, 0.5
    if batch == 3:
        config.background, config.sh_rest_every = "random", 2
    fused = capture.trainer(tmp_path / "a", config, device=device)
    plain = general(capture.trainer(tmp_path / "b", config, device=device))
    for trainer in (fused, plain):
        trainer.queue.estimates = estimates
    in_the_middle(fused)
    for _ in range(3):
        assert_same_step(fused, plain)
    assert fused.densifier.statistics.data.any()


@pytest.mark.parametrize("sums", [True, False])
@pytest.mark.parametrize("path", [lambda trainer: trainer, general], ids=["fused", "autograd"])
def test_splits_do_not_depend_on_the_views_of_a_step(
    tmp_path: Path, device: torch.device, path: Any, sums: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three times the same view in a step: three observations of its gradient, of which the loss has a third each."""
    monkeypatch.setattr(SplitStrategy, "sums_views", sums)
    capture = Moving(1.0)
    del capture.train[1:]
    gathered = []
    for batch in (1, 3):
        config = capture.config("gaussians", strategy=SplitStrategy(), batch=batch, deterministic=True)
        trainer = path(capture.trainer(tmp_path / f"{batch}", config, device=device))
        trainer.step()
        trainer.synchronize()
        gathered.append(trainer.densifier.statistics.data.clone())
    of_one, of_three = gathered
    assert of_one[:, :2].amax() > 0
    factors = torch.tensor([1, 1, 3, 1.0] if sums else [1 / 3, 1 / 3, 1, 1]).to(of_one)
    torch.testing.assert_close(of_three, of_one * factors, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_views_of_several_sizes_go_through_autograd(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture = Moving(1.0)
    config = capture.config(name, steps=40, strategy=FixedCount(), batch=2)
    for i, view in enumerate(capture.train[::2]):
        cut = Pixels(view.read().rgb[:36, :40].copy(), None)
        camera = replace(view.camera, width=40, height=36)
        capture.train[2 * i] = replace(view, camera=camera, read=lambda cut=cut: cut)
    ways: list[int] = []
    trainer = capture.trainer(tmp_path / "run", config)

    def counted(*arguments: Any) -> Any:
        ways.append(trainer.steps_done)
        return general_step(*arguments)

    monkeypatch.setattr("luxel.render.train.step.step_queue.general_step", counted)
    trainer.run(progress=False)
    assert 0 < len(ways) < 40


@pytest.mark.gpu
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_a_step_of_any_primitive_is_replayed(
    tmp_path: Path, device: torch.device, name: str, batch: int
) -> None:
    capture = Moving(1.0)
    config = brisk(capture.config(name, deterministic=True, batch=batch))
    assert_replayed_alike(capture, config, tmp_path, device)
