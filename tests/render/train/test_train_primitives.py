"""Every primitive goes through the same trainer: it learns, stops, goes on, and grows."""

from __future__ import annotations

from dataclasses import replace
from math import log
from pathlib import Path
from typing import Any

import pytest
import torch
from moving import Moving, assert_resumed_alike, assert_waits_for_nothing, brisk

from luxel.render.errors import LuxelError
from luxel.render.primitives import PRIMITIVES
from luxel.render.primitives.convexes import ConvexRates
from luxel.render.primitives.gaussians import GaussianRates
from luxel.render.primitives.gaussians4d import Gaussians4dInit
from luxel.render.train import TrainConfig, Trainer
from luxel.render.train.config import Checkpoints, Resolution
from luxel.render.train.densify.fixed import FixedCount
from luxel.render.train.densify.mcmc import McmcStrategy
from luxel.render.train.memory.instance_capacity import InstanceCapacity
from luxel.render.train.presets import preset
from luxel.render.train.store import resident

NAMES = list(PRIMITIVES)


@pytest.fixture(scope="module")
def still() -> Moving:
    return Moving(0.0)


@pytest.fixture(scope="module")
def moving() -> Moving:
    return Moving(1.0)


@pytest.mark.parametrize("name", NAMES)
def test_it_learns(still: Moving, tmp_path: Path, device: torch.device, name: str) -> None:
    config = still.config(name, steps=200, strategy=FixedCount())
    trainer = still.trainer(tmp_path / "run", config, device=device)
    before = trainer.evaluate()
    assert before is not None
    result = trainer.run(progress=False)
    assert result.evaluation is not None and result.count > 100
    assert result.evaluation.mean.psnr > before.mean.psnr + 3
    assert type(trainer.scene) is PRIMITIVES[name].engine.parameters


@pytest.mark.parametrize("name", NAMES)
def test_it_grows_and_goes_on_as_if_it_had_not_stopped(moving: Moving, tmp_path: Path, name: str) -> None:
    whole = assert_resumed_alike(moving, brisk(moving.config(name)), tmp_path, every=25, stop=37)
    assert whole.store.count != 300, "density control did nothing"


@pytest.mark.parametrize(
    "every", [pytest.param(1, marks=pytest.mark.slow), 7, pytest.param(1000, marks=pytest.mark.slow)]
)
def test_neighbours_that_are_kept_go_on_too(moving: Moving, tmp_path: Path, every: int) -> None:
    """Wherever a run is cut: within the life of neighbours, and just after rows were added or changed places."""
    config = brisk(moving.config("gaussians4d", steps=50, reorder_every=23))
    config.loss.neighbours_every, config.loss.consistency_weight = every, 1.0
    whole = moving.trainer(tmp_path / "whole", config)
    whole.run(progress=False)
    config.checkpoints = Checkpoints(every=1, minutes=0, keep=99)
    moving.trainer(tmp_path / "often", config).run(progress=False)
    for cut in (20, 23, 25, 44):
        folder = tmp_path / f"cut-{cut}"
        (folder / "checkpoints").mkdir(parents=True)
        for path in (tmp_path / "often" / "checkpoints").glob(f"step-*{cut}.*"):
            (folder / "checkpoints" / path.name).write_bytes(path.read_bytes())
        (folder / "config.json").write_bytes((tmp_path / "often" / "config.json").read_bytes())
        again = Trainer.resume(folder, moving.train, moving.test, say=lambda _: None)
        assert again.steps_done == cut
        again.run(progress=False)
        for key, tensor in whole.store.tensors().items():
            assert torch.equal(tensor, again.store.tensors()[key]), (cut, key)


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_steps_with_and_without_a_search_are_replayed(
    moving: Moving, tmp_path: Path, device: torch.device
) -> None:
    config = moving.config("gaussians4d", steps=30_000, strategy=FixedCount(), batch=1)
    config.reorder_every, config.sh_every, config.loss.neighbours_every = 0, 0, 3
    trainer = moving.trainer(tmp_path / "run", config, device=device)
    for _ in range(20):
        trainer.step()
    assert trainer.queue.captures == 2
    assert_waits_for_nothing(trainer)


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_replayed_searches_train_as_single_steps_do(
    moving: Moving, tmp_path: Path, device: torch.device, monkeypatch: Any
) -> None:
    config = brisk(moving.config("gaussians4d", deterministic=True, batch=1))
    config.loss.neighbours_every, config.loss.consistency_weight = 3, 1.0
    replayed, single = (moving.trainer(tmp_path / name, config, device=device) for name in "ab")
    replayed.run(progress=False)
    monkeypatch.setattr(single.queue._replay, "run", lambda epoch, key, work: work())
    single.run(progress=False)
    assert replayed.queue.captures >= 2
    for key, tensor in replayed.store.tensors().items():
        assert torch.equal(tensor, single.store.tensors()[key]), key


def test_what_moves_is_learned_at_its_time(moving: Moving, tmp_path: Path, device: torch.device) -> None:
    scores = {}
    for name in ("gaussians", "gaussians4d"):
        config = moving.config(name, steps=300, strategy=FixedCount())
        if isinstance(config.init, Gaussians4dInit):
            config.init.time_scale = 0.3
        result = moving.trainer(tmp_path / name, config, device=device).run(progress=False)
        assert result.evaluation is not None
        scores[name] = result.evaluation.mean.psnr
    assert scores["gaussians4d"] > scores["gaussians"] + 2


@pytest.mark.parametrize("name", NAMES)
def test_room_that_does_not_suffice_loses_nothing(
    moving: Moving, tmp_path: Path, device: torch.device, name: str, monkeypatch: Any
) -> None:
    config = brisk(moving.config(name, deterministic=True, batch=2 if name == "gaussians4d" else 1))
    exact, roomy = (moving.trainer(tmp_path / part, config, device=device) for part in "ab")
    exact.queue.estimates, roomy.queue.estimates = False, True
    exact.run(progress=False)
    stalls = []

    def too_little(room: InstanceCapacity, needed: int) -> int:
        room.limit = needed // 2
        return room.limit

    def enough_after_a_stall(room: InstanceCapacity, most: int, stalled: bool) -> None:
        stalls.append(stalled)
        if most > 0:
            room.limit = 2 * most if stalled else most // 2

    monkeypatch.setattr(InstanceCapacity, "begin", too_little)
    monkeypatch.setattr(InstanceCapacity, "adapt", enough_after_a_stall)
    assert roomy.run(progress=False).step == 60 and sum(stalls) >= 1
    for key, tensor in exact.store.tensors().items():
        assert torch.equal(tensor, roomy.store.tensors()[key]), key


@pytest.mark.parametrize(
    ("primitive", "name"), [(p, n) for p, spec in PRIMITIVES.items() for n in spec.presets]
)
def test_presets_make_sense(primitive: str, name: str) -> None:
    config = preset(name, primitive)
    config.check()
    assert config.primitive == primitive
    assert preset(name, primitive) is not config and TrainConfig.from_dict(config.to_dict()) == config
    rates = config.rates.at(0.5, 2.0)
    assert tuple(rates) == PRIMITIVES[primitive].engine.parameters.names and all(
        rate > 0 for rate in rates.values()
    )


def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(LuxelError, match="4D Gaussians have no strategy mcmc"):
        replace(preset("default", "gaussians4d"), strategy=McmcStrategy()).check()
    with pytest.raises(LuxelError, match="rates must be those of convexes"):
        replace(preset("light", "convexes"), rates=GaussianRates()).check()
    with pytest.raises(LuxelError, match="the gsplat backend does not draw convexes"):
        replace(preset("light", "convexes"), backend="gsplat").check()
    with pytest.raises(LuxelError, match="no preset 'fast' for convexes"):
        preset("fast", "convexes")
    with pytest.raises(LuxelError, match="no primitive 'cubes'"):
        preset("fast", "cubes")


def test_rates_fall_as_they_say() -> None:
    for spec in PRIMITIVES.values():
        rates = spec.rates()
        rates.final_factor, rates.final_from = 0.25, 0.5  # type: ignore[attr-defined]
        start, middle, end = (rates.at(progress, 3.0) for progress in (0.0, 0.5, 1.0))
        for name in start:
            if hasattr(rates, f"{name}_final"):
                assert end[name] == pytest.approx(0.01 * start[name])
                assert middle[name] == pytest.approx(0.1 * start[name])
            else:
                assert middle[name] == start[name] and end[name] == pytest.approx(0.25 * start[name])
        scaled = {name: start[name] / spec.rates().at(0.0, 1.0)[name] for name in start}
        assert scaled == pytest.approx({name: 3.0 if name == "means" else 1.0 for name in start})


def test_a_capture_without_times_is_named(still: Moving, tmp_path: Path) -> None:
    said: list[str] = []
    views = [replace(view, time=0.0) for view in still.train]
    Trainer(still.config("gaussians4d"), views, [], still.points, tmp_path / "run", say=said.append)
    assert any("same time" in line for line in said)


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "autograd"])
@pytest.mark.parametrize("name", NAMES)
def test_spare_rows_change_nothing(
    moving: Moving, tmp_path: Path, name: str, fused: bool, monkeypatch: Any
) -> None:
    """As on a GPU: rows that are not used yet take part in every step."""
    config = brisk(moving.config(name, batch=2 if name == "gaussians4d" else 1))
    exact = moving.trainer(tmp_path / "a", config)
    exact.queue._fused = fused
    exact.run(progress=False)
    monkeypatch.setattr(resident, "_rows_for", lambda count, device: -(-(count + 30) // 100) * 100)
    roomy = moving.trainer(tmp_path / "b", config)
    roomy.queue._fused, roomy.queue.estimates = fused, True
    roomy.run(progress=False)
    assert roomy.store.capacity > roomy.store.count == exact.store.count
    for key, tensor in exact.store.tensors().items():
        if key == "gaussians.quats" and name == "surfels":
            # Gradients of rotations of surfels that are seen from the side have errors of 3.6e-4 in float32, and Adam
            # takes whole steps where they vanish: a row in a hundred may differ, all together may not.
            assert (roomy.store.tensors()[key] - tensor).norm() <= 1e-3 * tensor.norm()
            continue
        torch.testing.assert_close(
            roomy.store.tensors()[key], tensor, rtol=1e-3, atol=1e-4, msg=lambda m, k=key: k + m
        )


@pytest.mark.parametrize("until", [0.5, 1.0])
def test_smoothness_follows_the_size_of_images(moving: Moving, tmp_path: Path, until: float) -> None:
    """Edges count in square pixels: where images are half as wide, the smoothness is four times as large."""
    config = moving.config("convexes", steps=12, strategy=FixedCount(prune_opacity=0.0), reorder_every=0)
    config.rates = ConvexRates(**dict.fromkeys(vars(ConvexRates()), 1e-12) | {"final_factor": 1.0})
    config.resolution = Resolution(halvings=2, until=until, smallest=4)
    trainer = moving.trainer(tmp_path / "run", config)
    first, levels = trainer.scene.log_delta.clone(), []
    for _ in range(config.steps):
        halvings = trainer.timeline.at(trainer.steps_done).halvings
        trainer.step()
        levels.append(halvings)
        expected = first + 2 * halvings * log(2)
        torch.testing.assert_close(trainer.scene.log_delta, expected, rtol=0, atol=1e-4)
    assert levels[0] == 2 and levels[-1] == (0 if until < 1 else 1)


def test_a_run_cut_while_images_are_halved_goes_on_as_if_it_had_not_stopped(
    moving: Moving, tmp_path: Path
) -> None:
    config = moving.config("convexes", steps=24, strategy=FixedCount(prune_opacity=0.0), reorder_every=0)
    config.resolution = Resolution(halvings=2, until=0.75, smallest=4)
    config.checkpoints = Checkpoints(every=1, minutes=0, keep=99)
    whole = moving.trainer(tmp_path / "whole", config)
    whole.run(progress=False)
    for cut in (8, 9, 10, 17, 18, 19):  # images change before steps 9 and 18
        folder = tmp_path / f"cut-{cut}"
        (folder / "checkpoints").mkdir(parents=True)
        for path in (tmp_path / "whole" / "checkpoints").glob(f"step-*{cut:02d}.*"):
            (folder / "checkpoints" / path.name).write_bytes(path.read_bytes())
        (folder / "config.json").write_bytes((tmp_path / "whole" / "config.json").read_bytes())
        again = Trainer.resume(folder, moving.train, moving.test, say=lambda _: None)
        assert again.steps_done == cut
        again.run(progress=False)
        for key, tensor in whole.store.tensors().items():
            assert torch.equal(tensor, again.store.tensors()[key]), (cut, key)
