"""Long-axis splits: what a split keeps, which are split, and how many."""

import math
from typing import Any

import pytest
import torch

from luxel.render.errors import LuxelError
from luxel.render.primitives.gaussians import Gaussians, quat_to_matrix
from luxel.render.raster.rasterize import DensifyStatistics
from luxel.render.train.densify import McmcStrategy, SplitStrategy
from luxel.render.train.densify.situation import Situation
from luxel.render.train.densify.split import split_in_two
from luxel.render.train.store.resident import ResidentStore


def gaussians(count: int, seed: int = 0) -> Gaussians:
    random = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=random, dtype=torch.float64)

    return Gaussians(
        means=normal(count, 3),
        quats=normal(count, 4),
        log_scales=normal(count, 3),
        opacity_logits=normal(count),
        sh_dc=normal(count, 3),
        sh_rest=normal(count, 15, 3),
    )


def covariances(scene: Gaussians) -> torch.Tensor:
    axes = quat_to_matrix(scene.quats) * scene.log_scales.exp()[:, None]
    return axes @ axes.mT


def situation(
    pull: torch.Tensor, cap: int | None = None, detail: int = 10**9, step: int = 1000, **images: Any
) -> Situation:
    """After a step at which Gaussians are split, with these mean absolute gradients."""
    statistics = DensifyStatistics.zeros(pull.numel())
    statistics.data[:, 1], statistics.data[:, 2] = 3 * pull, 3
    return Situation(
        step,
        float(step),
        images.pop("steps", 30_000),
        1.0,
        cap,
        torch.Generator(),
        detail=detail,
        statistics=statistics,
        **images,
    )


def test_both_parts_together_have_the_parents_mean_covariance_and_colour() -> None:
    parents = gaussians(50)
    first, second = split_in_two(parents)
    torch.testing.assert_close((first.means + second.means) / 2, parents.means, rtol=1e-12, atol=1e-12)
    apart = (first.means - second.means) / 2
    mixture = covariances(first) + apart[:, :, None] * apart[:, None]
    torch.testing.assert_close(covariances(first), covariances(second), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(mixture, covariances(parents), rtol=1e-10, atol=1e-10)
    for name in ("quats", "sh_dc", "sh_rest"):
        assert torch.equal(getattr(first, name), getattr(parents, name))


def test_only_the_longest_axis_gets_shorter() -> None:
    parents = gaussians(50)
    longest = parents.log_scales.argmax(-1, keepdim=True)
    shorter = parents.log_scales - split_in_two(parents)[0].log_scales
    expected = torch.zeros_like(shorter).scatter_(1, longest, 0.5 * math.log(2))
    torch.testing.assert_close(shorter, expected, rtol=0, atol=1e-12)


def test_faint_parts_keep_the_parents_mass() -> None:
    parents = gaussians(50)
    parents.opacity_logits = torch.full_like(parents.opacity_logits, -9.0)
    before = parents.opacities * parents.log_scales.sum(-1).exp()
    parts = split_in_two(parents)
    after = sum(part.opacities * part.log_scales.sum(-1).exp() for part in parts)
    torch.testing.assert_close(after, before, rtol=1e-4, atol=0)


def test_the_largest_gradients_are_split_first_up_to_growth_and_cap() -> None:
    strategy = SplitStrategy(grow_grad2d=1.0, finer_power=0, growth=0.5, growth_until=0, cap_max=100)
    pull, lives = torch.arange(10.0), torch.ones(10, dtype=torch.bool)  # 8 above the threshold
    assert sorted(strategy.choose(lives, situation(pull)).tolist()) == [5, 6, 7, 8, 9]
    assert sorted(strategy.choose(lives, situation(pull, cap=12)).tolist()) == [8, 9]
    assert strategy.choose(lives, situation(pull, cap=10)).numel() == 0
    strategy.growth = 1.0
    assert strategy.choose(lives, situation(pull)).tolist() == [2, 3, 4, 5, 6, 7, 8, 9]
    lives[9] = False  # removed: it neither counts nor is split
    assert 9 not in strategy.choose(lives, situation(pull)).tolist()
    strategy.cap_max = 11
    assert sorted(strategy.choose(lives, situation(pull)).tolist()) == [7, 8]


def test_longer_runs_split_finer() -> None:
    strategy = SplitStrategy(grow_grad2d=2e-4, finer_power=0.2, growth=1.0, growth_until=0, cap_max=100)
    pull, lives = torch.tensor([1.4e-4, 1.6e-4, 1.9e-4, 2.1e-4]), torch.ones(4, dtype=torch.bool)
    split = [
        strategy.choose(lives, situation(pull, steps=steps)).tolist()
        for steps in (3000, 7000, 12_000, 30_000)
    ]
    assert split == [[3], [3], [2, 3], [1, 2, 3]]
    strategy.finer_power = 0
    assert strategy.choose(lives, situation(pull)).tolist() == [3]


def test_the_loss_of_several_views_is_their_mean() -> None:
    strategy = SplitStrategy(grow_grad2d=1.0, finer_power=0, growth=1.0, growth_until=0, cap_max=100)
    pull, lives = torch.tensor([0.3, 0.6, 1.2]), torch.ones(3, dtype=torch.bool)
    for batch, chosen in ((1, [2]), (2, [1, 2]), (4, [0, 1, 2])):
        assert strategy.choose(lives, situation(pull, batch=batch)).tolist() == chosen


def test_growth_is_spread_over_the_first_part_of_the_window() -> None:
    strategy = SplitStrategy(grow_grad2d=1.0, growth=0.5, growth_until=0.5, cap_max=8000)
    window = strategy.window(30_000)
    middle = (window.start + window.stop) // 2
    count = 1000
    for step in range(window.start + window.every, middle + 1, window.every):
        pull, lives = torch.full((count,), 2.0), torch.ones(count, dtype=torch.bool)
        before, count = count, count + strategy.choose(lives, situation(pull, step=step)).numel()
        assert step == middle or count < 1.04 * before
    assert count == pytest.approx(8000, rel=0.01)
    late = situation(torch.full((1000,), 2.0), step=middle + window.every)
    assert strategy.growth_at(late, 1000, 8000) == 0.5  # behind: at full speed
    assert strategy.growth_at(late, 9000, 8000) == 0
    with pytest.raises(LuxelError, match="growth_until"):
        SplitStrategy(growth_until=1.5).check()


def test_the_cap_follows_the_detail() -> None:
    strategy = SplitStrategy(grow_grad2d=1.0, growth=1.0, growth_until=0, pixels_each=100)
    pull, lives = torch.full((30_000,), 2.0), torch.ones(30_000, dtype=torch.bool)
    assert strategy.choose(lives, situation(pull, detail=3_500_000)).numel() == 5000
    assert strategy.choose(lives, situation(pull, detail=1000)).numel() == 0


def test_soft_photographs_carry_fewer() -> None:
    strategy = SplitStrategy(sharp_share=0.2)
    pull = torch.ones(3)
    counted = [
        strategy.detail_that_counts(situation(pull, detail=detail, pixels=10_000_000, coverage=coverage))
        for detail, coverage in ((2_000_000, 1.0), (500_000, 1.0), (500_000, 0.25))
    ]
    assert counted == [2_000_000, 250_000, 500_000], "a cut-out that is sharp is not soft"
    strategy.sharp_share = 0
    assert strategy.detail_that_counts(situation(pull, detail=5, pixels=10_000_000)) == 5


def test_a_refinement_splits_removes_and_restarts_moments_of_parts() -> None:
    scene = gaussians(6)
    scene.opacity_logits[:] = 0.0
    scene.opacity_logits[2] = -8.0  # transparent
    store = ResidentStore(scene.map(lambda t: t.float()))
    for moments in store.begin()[1:]:
        for tensor in moments.values():
            tensor.fill_(1.0)
    pull = torch.tensor([5.0, 0.1, 9.0, 0.1, 0.1, 0.1])
    done = SplitStrategy(grow_grad2d=1.0, growth=1.0, growth_until=0).after_step(store, situation(pull))
    assert done is not None and (done.split, done.pruned) == (1, 1)
    assert store.count == 6
    expected, _ = split_in_two(scene.map(lambda t: t.float()).select(torch.tensor([0])))
    assert torch.equal(store.scene.means[0], expected.means[0])
    assert torch.equal(store.scene.means[1], scene.means[1].float())
    for moments in store.begin()[1:]:
        for name, tensor in moments.items():
            assert tensor[0].abs().sum() == 0 and tensor[5].abs().sum() == 0, name
            assert bool((tensor[1:5] == 1).all()), name


def test_without_a_cap_the_strategy_follows_the_detail() -> None:
    assert SplitStrategy().follows_images and not McmcStrategy().follows_images


def test_nothing_happens_outside_of_the_window() -> None:
    store, pull = ResidentStore(gaussians(3)), torch.full((3,), 1.0)
    for step in (0, 400, 1050, 15_000, 29_000):
        assert SplitStrategy().after_step(store, situation(pull, step=step)) is None
    assert SplitStrategy().window(30_000).stop == 15_000


@pytest.mark.parametrize(
    "wrong",
    [{"growth": -0.1}, {"grow_grad2d": 0.0}, {"pixels_each": 0}, {"cap_max": 0}, {"prune_opacity": 0.5}],
)
def test_invalid_options_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(LuxelError, match=next(iter(wrong))):
        SplitStrategy(**wrong)
