"""Scores over several views against weights that are rendered one by one, and what is done with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from luxel.render.camera import Camera
from luxel.render.errors import LuxelError
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.rasterize import rasterize
from luxel.render.train.config import Resolution, TrainConfig
from luxel.render.train.dataset import Dataset, Target, ViewOrder
from luxel.render.train.densify import scores
from luxel.render.train.densify.mcmc import McmcStrategy
from luxel.render.train.densify.pruning import Pruning
from luxel.render.train.densify.scores import blending_scores, error_maps, sampled
from luxel.scenes.synthetic.toy import torus_knot

CPU = torch.device("cpu")
GREY = (0.5, 0.5, 0.5)


def sixteen(device: torch.device) -> Gaussians:
    """Few enough for one feature channel each, one of them out of sight."""
    few = torus_knot(300).select(torch.arange(0, 300, 20)[:16]).to(device)
    few.log_scales += 1.5
    few.means[3] += 1000
    return few


def views(device: torch.device, sizes: list[tuple[int, int]]) -> list[Target]:
    random = torch.Generator().manual_seed(0)
    made = []
    for i, (width, height) in enumerate(sizes):
        camera = Camera.look_at((3.0 * (-1) ** i, -3, 0.5 * i), (0, 0, 0), width=width, height=height)
        weight = torch.ones(height, width)
        weight[: height // 2] = 0
        rgb = torch.rand(height, width, 3, generator=random)
        made.append(Target(camera.to(device), rgb.to(device), None, weight.to(device)))
    return made


def by_features(gaussians: Gaussians, target: Target, grey: torch.Tensor) -> torch.Tensor:
    """The same sums from an image of each Gaussian's weight."""
    each = torch.eye(gaussians.count, device=gaussians.device)
    frame = rasterize(gaussians, target.camera, background=grey, features=each)
    assert frame.features is not None
    return torch.einsum("hwn,hwk->nk", frame.features, error_maps(frame.rgb, target))


def test_scores_are_sums_of_weights_times_maps(device: torch.device, monkeypatch: Any) -> None:
    gaussians, grey = sixteen(device), torch.full((3,), 0.5, device=device)
    targets = views(device, [(64, 48), (64, 48), (48, 64), (64, 48)])
    expected = torch.stack([by_features(gaussians, t, grey) for t in targets]).mean(0)
    assert (expected[:, 0] > 1).sum() > 8, "the test sees too little"
    for at_once in (1, scores.AT_ONCE):
        monkeypatch.setattr(scores, "AT_ONCE", at_once)
        actual = blending_scores(gaussians, iter(targets), background=grey, deterministic=True)
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
    assert actual[3].tolist() == [0, 0, 0]
    again = blending_scores(gaussians, targets, background=grey, deterministic=True)
    assert torch.equal(actual, again)


def test_masked_pixels_have_no_part() -> None:
    gaussians, grey = sixteen(CPU), torch.full((3,), 0.5)
    (target,) = views(CPU, [(64, 48)])
    assert target.weight is not None
    changed = target._replace(rgb=torch.where(target.weight[..., None] > 0, target.rgb, 7.0))
    first, second = (blending_scores(gaussians, [t], background=grey) for t in (target, changed))
    assert torch.equal(first, second)
    nothing = target._replace(weight=torch.zeros_like(target.weight))
    assert not blending_scores(gaussians, [nothing], background=grey).any()


def test_nothing_to_look_at_scores_nothing() -> None:
    grey = torch.full((3,), 0.5)
    assert blending_scores(sixteen(CPU), [], background=grey).tolist() == [[0, 0, 0]] * 15
    actual = blending_scores(Gaussians.empty(), views(CPU, [(32, 32)]), background=grey)
    assert actual.shape == (0, 3)


def test_a_draw_of_views_is_a_function_of_seed_and_step() -> None:
    assert sampled(5, 5, 0, 1) == sampled(5, 9, 3, 7) == [0, 1, 2, 3, 4]
    chosen = sampled(50, 8, 0, 100)
    assert len(set(chosen)) == 8 and chosen == sampled(50, 8, 0, 100) == sorted(chosen)
    assert chosen != sampled(50, 8, 0, 200) and chosen != sampled(50, 8, 1, 100)


@pytest.mark.parametrize("halvings", [0, 1])
def test_photographs_come_by_their_index(toy_cutout: Any, halvings: int) -> None:
    kept, sent = (Dataset(toy_cutout.train, ViewOrder(10, 0), CPU, stream=s) for s in (False, True))
    for a, b, index in zip(
        kept.targets([7, 2], halvings, GREY), sent.targets([7, 2], halvings, GREY), [7, 2], strict=True
    ):
        assert torch.equal(a.rgb, b.rgb) and torch.equal(a.camera.intrinsics, b.camera.intrinsics)
        assert torch.equal(a.camera.world_to_cam, toy_cutout.train[index].camera.world_to_cam.float())
    sent.close()


def test_draws_by_error(toy: Any) -> None:
    """All draws by error: only primitives with an error are copied; half of them: those without one too."""
    for share, low, high in ((1.0, 0, 0), (0.5, 150, 250), (0.0, 350, 450)):
        strategy = McmcStrategy(error_share=share)
        opacities, errors = torch.tensor([0.8, 0.2]), torch.tensor([0.0, 3.0])
        weights = strategy._weights(opacities, errors)
        assert float(weights.sum()) == pytest.approx(1.0)
        assert low <= 500 * float(weights[0]) <= high
    strategy = McmcStrategy(error_share=1.0)
    assert torch.equal(strategy._weights(opacities, torch.zeros(2)), opacities)
    assert strategy._weights(torch.tensor([0.8, 0.001]), errors).tolist() == pytest.approx([0.8, 0.0])


def test_copies_share_the_error(toy: Any, tmp_path: Path) -> None:
    trainer = toy.trainer(tmp_path / "run")
    optimiser = trainer.optimizer
    optimiser.scene.opacity_logits[1:4] = -9
    errors = torch.zeros(optimiser.count)
    errors[0] = 4.0
    moved, shared = McmcStrategy(error_share=1.0).relocate(optimiser, 0, 600, errors)
    assert moved == 3 and shared is not None and shared[:5].tolist() == [1, 1, 1, 1, 0]
    assert torch.equal(optimiser.scene.means[:4], optimiser.scene.means[:1].expand(4, 3))


def test_pruning_takes_the_least_important() -> None:
    importance = torch.tensor([0.0, 5.0, 0.0, torch.nan, 2.0, 1.0])
    assert Pruning(share=0.5).keep(importance).tolist() == [1, 4, 5]
    assert Pruning(share=0.99).keep(importance[:1]).tolist() == [0], "one stays"
    pruning = Pruning(share=0.1, start=0.5, stop=0.9, every=0.1)
    assert [s for s in range(1001) if pruning.due(s, s, 1000)] == [500, 600, 700, 800, 900]
    assert not any(Pruning().due(s, s, 1000) for s in range(1001))
    with pytest.raises(LuxelError, match="Pruning options"):
        TrainConfig(pruning=Pruning(share=1.0)).check()


def both(toy: Any, **changes: Any) -> TrainConfig:
    return toy.config(
        steps=80,
        strategy=McmcStrategy(refine_every=20, error_share=0.5, error_views=4),
        pruning=Pruning(share=0.1, start=0.3, stop=0.9, every=0.25, views=6),
        resolution=Resolution(1, until=0.4, smallest=16),
        deterministic=True,
        **changes,
    )


def test_runs_with_both_repeat(
    toy_cutout: Any, tmp_path: Path, same_state: Any, device: torch.device
) -> None:
    first, second = (toy_cutout.trainer(tmp_path / name, both(toy_cutout), device=device) for name in "ab")
    first.run(progress=False)
    second.run(progress=False)
    assert same_state(first, second)
    logged = (tmp_path / "a" / "metrics.jsonl").read_text()
    assert logged.count("unimportant") == 2 and "added" in logged


def test_streamed_photographs_score_the_same(toy_cutout: Any, tmp_path: Path, same_state: Any) -> None:
    kept = toy_cutout.trainer(tmp_path / "kept", both(toy_cutout))
    sent = toy_cutout.trainer(tmp_path / "sent", both(toy_cutout, images="stream"))
    kept.run(progress=False)
    sent.run(progress=False)
    assert same_state(kept, sent)
