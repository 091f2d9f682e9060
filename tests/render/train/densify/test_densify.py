"""Density control against counts and values worked out by hand, and what it does to the store's state."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from luxel.render.errors import LuxelError
from luxel.render.primitives.gaussians import Gaussians, quat_to_matrix
from luxel.render.primitives.terms import StepScene
from luxel.render.raster.rasterize import DensifyStatistics
from luxel.render.reference.train.relocate import shared_appearance
from luxel.render.train.config import TrainConfig
from luxel.render.train.densify.adaptive import AdaptiveStrategy
from luxel.render.train.densify.fixed import FixedCount
from luxel.render.train.densify.mcmc import McmcStrategy
from luxel.render.train.densify.situation import Situation
from luxel.render.train.step.objective import loss_context
from luxel.render.train.step.terms.penalties import mean_opacity, mean_scale
from luxel.render.train.store.resident import ResidentStore
from luxel.render.train.store.stores import restored_store


def row_of(scales: list[float], opacities: list[float]) -> ResidentStore:
    """Isotropic Gaussians at x = 0, 1, 2 ..., with moments that identify the rows (1, 2, 3 ...)."""
    n = len(scales)
    gaussians = Gaussians(
        means=torch.arange(n).float()[:, None] * torch.tensor([1.0, 0, 0]),
        quats=torch.tensor([1.0, 0, 0, 0]).repeat(n, 1),
        log_scales=torch.tensor(scales).log()[:, None].repeat(1, 3),
        opacity_logits=torch.tensor(opacities).logit(),
        sh_dc=torch.zeros(n, 3),
        sh_rest=torch.zeros(n, 0, 3),
    )
    store = ResidentStore(gaussians)
    for moments in (store.exp_avg, store.exp_avg_sq):
        for tensor in moments.values():
            tensor += torch.arange(1.0, n + 1).reshape(-1, *[1] * (tensor.dim() - 1))
    return store


def moment(store: ResidentStore, name: str = "opacity_logits") -> list[float]:
    assert torch.equal(store.exp_avg[name], store.exp_avg_sq[name])
    return store.exp_avg[name].tolist()


def moment_at(step: int, pulls: list[float] | None = None, **changes: Any) -> Situation:
    """A situation in a long run of a scene of extent 1; each Gaussian was seen twice with that mean pull."""
    statistics = None
    if pulls is not None:
        statistics = DensifyStatistics.zeros(len(pulls))
        statistics.data[:, 0] = 2 * torch.tensor(pulls)
        statistics.data[:, 1] = 8 * torch.tensor(pulls)
        statistics.data[:, 2] = 2
    plain = {
        "step": step,
        "clock": step,
        "steps": 30_000,
        "extent": 1.0,
        "cap": None,
        "generator": torch.Generator().manual_seed(0),
        "statistics": statistics,
    }
    return Situation(**{**plain, **changes})


def test_default_clones_small_and_splits_large() -> None:
    # small and pulled, large and pulled, small and quiet, large and quiet, never seen
    store = row_of([0.005, 0.05, 0.005, 0.05, 0.005], [0.5] * 5)
    now = moment_at(600, [3e-4, 3e-4, 1e-4, 1e-4, 0.0])
    now.statistics.data[4] = 0
    done = AdaptiveStrategy().after_step(store, now)
    assert done is not None and (done.cloned, done.split, done.pruned, done.reset) == (1, 1, 0, False)
    # the rest in order without the one that was split, then the clone, then the two parts; new ones start at 0
    assert moment(store) == [1, 3, 4, 5, 0, 0, 0]
    held = store.scene
    torch.testing.assert_close(held.means[4], torch.tensor([0.0, 0, 0]))
    torch.testing.assert_close(held.scales[5:, 0], torch.full((2,), 0.05 / 1.6))
    apart = (held.means[5:] - torch.tensor([1.0, 0, 0])).norm(dim=-1)
    assert (apart > 1e-3).all() and (apart < 0.25).all()
    assert not any(t.requires_grad for t in held.tensors().values())


def test_default_keeps_to_its_times() -> None:
    strategy = AdaptiveStrategy()
    for step in (100, 500, 650, 15_000, 20_000):
        store = row_of([0.005], [0.5])
        assert strategy.after_step(store, moment_at(step, [1.0])) is None, step
    assert strategy.after_step(row_of([0.005], [0.5]), moment_at(14_900, [1.0])) is not None
    assert strategy.needs_statistics(14_999, 30_000) and not strategy.needs_statistics(15_000, 30_000)


def test_default_takes_the_hardest_pulled_up_to_the_cap() -> None:
    store = row_of([0.005] * 4, [0.5] * 4)
    done = AdaptiveStrategy().after_step(store, moment_at(600, [3e-4, 9e-4, 5e-4, 1e-4], cap=6))
    assert done is not None and done.cloned == 2 and store.count == 6
    assert store.scene.means[4:, 0].tolist() == [1, 2]


def test_default_prunes_transparent_huge_and_broken() -> None:
    store = row_of([0.005, 0.005, 0.5, 0.005, 0.005], [0.5, 0.004, 0.5, 0.5, 0.0051])
    store.scene.means.data[3, 1] = math.nan
    AdaptiveStrategy().after_step(store, moment_at(600, [0.0] * 5))
    assert moment(store) == [1, 3, 5], "before the first reset huge ones stay"
    AdaptiveStrategy().after_step(store, moment_at(3100, [0.0] * 3))
    assert moment(store) == [1, 5]


def test_default_resets_opacities_and_their_moments() -> None:
    store = row_of([0.005] * 3, [0.5, 0.008, 0.9])
    done = AdaptiveStrategy().after_step(store, moment_at(3000, [0.0] * 3))
    assert done is not None and done.reset
    torch.testing.assert_close(store.scene.opacities, torch.tensor([0.01, 0.008, 0.01]))
    assert moment(store) == [0, 0, 0] and moment(store, "sh_dc")[2] == [3, 3, 3]
    # a run of 7,000 steps grows until 4,200: time enough after a reset at 3,000, but not in one of 6,000
    assert (
        AdaptiveStrategy().after_step(row_of([0.005], [0.5]), moment_at(3000, [0.0], steps=7000)) is not None
    )
    assert (
        AdaptiveStrategy(refine_every=7).after_step(row_of([0.005], [0.5]), moment_at(3000, steps=6000))
        is None
    )


def test_default_with_absolute_gradients_and_revised_opacity() -> None:
    strategy = AdaptiveStrategy(absolute=True, revised_opacity=True)
    store = row_of([0.05, 0.05], [0.75, 0.5])
    done = strategy.after_step(store, moment_at(600, [2.1e-4, 1.9e-4]))  # four times that in absolute terms
    assert done is not None and done.split == 1
    torch.testing.assert_close(store.scene.opacities, torch.tensor([0.5, 0.5, 0.5]))


def test_split_parts_follow_the_rotation() -> None:
    """A needle along y, rotated to lie along x, splits along x."""
    store = row_of([0.05] * 400, [0.5] * 400)
    store.scene.means.data.zero_()
    store.scene.log_scales.data[:] = torch.tensor([1e-4, 0.5, 1e-4]).log()
    store.scene.quats.data[:] = torch.tensor([math.sqrt(0.5), 0, 0, math.sqrt(0.5)])  # 90 degrees about z
    AdaptiveStrategy().after_step(store, moment_at(600, [1.0] * 400))
    spread = store.scene.means.detach().std(0)
    assert store.count == 800 and abs(spread[0] - 0.5) < 0.05 and spread[1] < 1e-3 and spread[2] < 1e-3


def test_rotations_are_rotations() -> None:
    matrices = quat_to_matrix(torch.randn(50, 4, dtype=torch.float64))
    torch.testing.assert_close(matrices @ matrices.mT, torch.eye(3, dtype=torch.float64).expand(50, 3, 3))
    torch.testing.assert_close(torch.linalg.det(matrices), torch.ones(50, dtype=torch.float64))
    quarter = quat_to_matrix(torch.tensor([[math.sqrt(0.5), 0, 0, math.sqrt(0.5)]]))[0]
    torch.testing.assert_close(quarter @ torch.tensor([1.0, 0, 0]), torch.tensor([0.0, 1, 0]))


def test_mcmc_relocates_the_transparent() -> None:
    store = row_of([0.1, 0.1, 0.1], [0.004, 0.8, 0.002])
    strategy = McmcStrategy(growth=0.0)
    moved = strategy.relocate(store, seed=0, step=600)
    held = store.scene
    assert moved == 2 and store.count == 3
    assert held.means[:, 0].tolist() == [1, 1, 1]
    expected, factor = shared_appearance(torch.tensor([0.8]), torch.tensor([3]))
    torch.testing.assert_close(held.opacities, expected.expand(3))
    torch.testing.assert_close(held.scales, (0.1 * factor).expand(3, 3))
    assert moment(store) == [0, 0, 0]
    assert strategy.relocate(store, seed=0, step=700) == 0


def test_mcmc_grows_five_per_cent_up_to_the_cap() -> None:
    store = row_of([0.1] * 100, [0.5] * 100)
    strategy, now = McmcStrategy(cap_max=107), moment_at(600)
    done = strategy.after_step(store, now)
    assert done is not None and (done.added, store.count) == (5, 105)
    assert moment(store)[100:] == [0] * 5
    sources = {int(x.round()) for x in store.scene.means[100:, 0].detach()}
    assert all((value == 0) == (i in sources) for i, value in enumerate(moment(store)[:100]))
    done = strategy.after_step(store, now)
    assert done is not None and store.count == 107
    assert strategy.after_step(store, moment_at(650)) is None
    assert strategy.after_step(store, moment_at(600, cap=50)).added == 0  # type: ignore[union-attr]


def test_mcmc_regulariser_by_hand() -> None:
    store = row_of([0.1, 0.3], [0.5, 0.7])
    weights = loss_context(TrainConfig(strategy=McmcStrategy()), False, 2.0, 0.5).penalties
    scene = StepScene(store.scene, store.inverse_count, lambda: store.inverse_count)
    penalty = weights[0] * mean_opacity(scene) + weights[1] * mean_scale(scene)
    assert float(penalty) == pytest.approx(0.01 * 0.6 + 0.05 * 0.2 / 2, rel=1e-5)


def test_fixed_count_only_removes() -> None:
    store = row_of([0.1] * 3, [0.5, 0.001, 0.5])
    assert FixedCount().after_step(store, moment_at(501)) is None
    done = FixedCount().after_step(store, moment_at(500))
    assert done is not None and done.pruned == 1 and moment(store) == [1, 3]
    assert FixedCount().after_step(store, moment_at(1000)) is None


def test_optimiser_surgery() -> None:
    store = row_of([0.1] * 3, [0.5] * 3)
    store.select(torch.tensor([2, 0]))
    assert moment(store) == [3, 1] and store.scene.means[:, 0].tolist() == [2, 0]
    store.append(store.scene.select(torch.tensor([1])))
    assert moment(store) == [3, 1, 0] and store.scene.means[:, 0].tolist() == [2, 0, 0]
    assert store.inverse_count.item() == pytest.approx(1 / 3)
    store.extend(2)
    assert store.inverse_count.item() == pytest.approx(0.2)
    assert moment(store) == [3, 1, 0, 0, 0] and store.count == 5
    assert store.scene.opacities.tolist()[3:] == [0, 0], "not to be seen until they are filled"
    scene = StepScene(store.primitives(store.begin()[0]), store.inverse_count, lambda: store.inverse_count)
    spare = mean_opacity(scene)
    assert float(spare) == pytest.approx(0.3), "what is not filled counts with opacity 0"


def test_state_survives_its_tensors() -> None:
    store = row_of([0.1] * 3, [0.5] * 3)
    tensors = {k: t.clone() for k, t in store.tensors().items()}
    again = restored_store(tensors, 9, Gaussians, TrainConfig())
    assert again.steps == 9 and moment(again) == [1, 2, 3]
    assert all(torch.equal(t, again.tensors()[k]) for k, t in store.tensors().items())


def test_mcmc_cap_follows_the_photographs() -> None:
    strategy = McmcStrategy(pixels_each=10, growth=1.0)
    few = row_of([0.1] * 100, [0.5] * 100)
    done = strategy.after_step(few, moment_at(600, pixels=1500))
    assert done is not None and few.count == 200, "few pixels must not stop the start"
    many = row_of([0.1] * 15_000, [0.5] * 15_000)
    strategy.after_step(many, moment_at(600, pixels=220_000))
    assert many.count == 22_000
    strategy.after_step(many, moment_at(600, pixels=220_000, cap=100))
    assert many.count == 22_000


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: AdaptiveStrategy(refine_every=0), "refine_every 0"),
        (lambda: McmcStrategy(cap_max=0), "cap_max 0"),
        (lambda: FixedCount(prune_opacity=2.0), r"prune_opacity 2\.0"),
    ],
)
def test_options_without_sense_are_refused(make: Callable[[], object], name: str) -> None:
    with pytest.raises(LuxelError, match=name):
        make()
