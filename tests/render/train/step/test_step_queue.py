"""Steps that nobody waits for: repeated where there was no room, replayed on a GPU, the same as with autograd."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from luxel.render.raster.rasterize import rasterize
from luxel.render.train.densify.adaptive import AdaptiveStrategy
from luxel.render.train.densify.mcmc import McmcStrategy
from luxel.render.train.memory import instance_capacity as instance_room
from luxel.render.train.memory.instance_capacity import InstanceCapacity
from luxel.render.train.store import resident

STRATEGIES = {
    "default": AdaptiveStrategy(grow_grad2d=1e-5, refine_every=20),
    "mcmc": McmcStrategy(refine_every=20),
}


def same_tensors(a: Any, b: Any) -> bool:
    left, right = a.store.tensors(), b.store.tensors()
    return all(torch.equal(left[name], right[name]) for name in left)


def steps_logged(folder: Path) -> list[int]:
    return sorted(json.loads(line)["step"] for line in (folder / "metrics.jsonl").read_text().splitlines())


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "autograd"])
@pytest.mark.parametrize(
    "views", [pytest.param(1, marks=pytest.mark.slow), 3], ids=["one view", "three views"]
)
@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_steps_without_room_are_repeated(
    toy: Any, tmp_path: Path, device: torch.device, strategy: Any, views: int, fused: bool, monkeypatch: Any
) -> None:
    config = toy.config(
        steps=60,
        strategy=strategy,
        max_gaussians=450,
        reorder_every=30,
        report_every=5,
        deterministic=True,
        batch=views,
    )
    exact, roomy = (toy.trainer(tmp_path / name, config, device=device) for name in "ab")
    exact.queue.estimates, roomy.queue.estimates = False, True
    for trainer in (exact, roomy):
        trainer.queue._fused = fused
    exact.run(progress=False)
    stalls = []

    def too_little(room: InstanceCapacity, needed: int) -> int:
        room.limit = needed // 2
        return room.limit

    def barely(room: InstanceCapacity, most: int, stalled: bool) -> None:
        stalls.append(stalled)
        if most > 0:  # enough after a stall; else too little again, three times
            room.limit = max(room.limit or 0, most) if stalled or sum(stalls) > 2 else most // 2

    monkeypatch.setattr(InstanceCapacity, "begin", too_little)
    monkeypatch.setattr(InstanceCapacity, "adapt", barely)
    assert roomy.run(progress=False).step == 60
    assert sum(stalls) >= 2, "the test did not make it stall"
    assert steps_logged(tmp_path / "a") == steps_logged(tmp_path / "b"), "lines were lost or doubled"
    assert same_tensors(exact, roomy)


@pytest.mark.parametrize("alpha", [False, True], ids=["opaque", "alpha"])
@pytest.mark.parametrize("antialiased", [False, True])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_the_fused_step_is_the_step_of_autograd(
    toy: Any,
    toy_cutout: Any,
    tmp_path: Path,
    device: torch.device,
    alpha: bool,
    antialiased: bool,
    sparse: bool,
) -> None:
    scene = toy_cutout if alpha else toy
    strategy = McmcStrategy(noise=0.0) if alpha else AdaptiveStrategy(absolute=True)
    scene.points.xyz[:20] += 50  # nobody sees these
    config = scene.config(
        steps=2000,
        strategy=strategy,
        antialiased=antialiased,
        sh_every=0,
        sparse_adam=sparse,
        sh_rest_every=2 if sparse else 1,
        deterministic=True,  # else the room decides about rounding, and that about the sign of an error near 0
    )

    def other(*args: Any, **options: Any) -> Any:
        return rasterize(*args, **options)

    fused = scene.trainer(tmp_path / "a", config, device=device)
    plain = scene.trainer(tmp_path / "b", config, device=device, render=other)
    for _ in range(3):
        before = fused.scene.means.clone()
        # From the same numbers each time: Adam makes a step of the sign of a gradient near 0, which rounding decides.
        for name, tensor in plain.store.tensors().items():
            tensor.copy_(fused.store.tensors()[name])
        plain.densifier.statistics.data.copy_(fused.densifier.statistics.data)
        fused.step()
        plain.step()
        fused.synchronize(), plain.synchronize()
        left, right = fused.store.tensors(), plain.store.tensors()
        for name in left:
            if not name.startswith("gaussians"):
                torch.testing.assert_close(
                    left[name], right[name], rtol=1e-3, atol=1e-6, msg=lambda m, n=name: n + m
                )
        left, right = fused.densifier.statistics.data, plain.densifier.statistics.data
        torch.testing.assert_close(left, right, rtol=1e-3, atol=1e-5)
        assert (fused.scene.means - before).abs().max() > 0
        moved = fused.scene.means - plain.scene.means
        assert moved.abs().max() < 1e-3 * fused.timeline.rates(0)["means"] * 300


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_a_deterministic_run_repeats_to_the_bit(
    toy_cutout: Any, tmp_path: Path, device: torch.device, strategy: Any
) -> None:
    config = toy_cutout.config(
        steps=60,
        strategy=strategy,
        max_gaussians=450,
        reorder_every=30,
        deterministic=True,
        background="random",
    )
    first, again = (toy_cutout.trainer(tmp_path / name, config, device=device) for name in "ab")
    first.run(progress=False)
    again.run(progress=False)
    assert first.store.count > 300 and same_tensors(first, again)


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_spare_rows_change_nothing(toy: Any, tmp_path: Path, strategy: Any, monkeypatch: Any) -> None:
    config = toy.config(steps=60, strategy=strategy, max_gaussians=450, reorder_every=30)
    exact = toy.trainer(tmp_path / "a", config)
    exact.run(progress=False)
    monkeypatch.setattr(resident, "_rows_for", lambda count, device: -(-(count + 30) // 100) * 100)
    roomy = toy.trainer(tmp_path / "b", config)
    kept = roomy.store.generation
    roomy.run(progress=False)
    assert roomy.store.capacity > roomy.store.count and roomy.store.generation <= kept + 2
    assert same_tensors(exact, roomy)
    spare = roomy.store.begin()[0]["opacity_logits"][roomy.store.count :]
    assert bool((spare == -math.inf).all()), "a spare row became visible"


def test_early_growth_of_room_needs_no_stall(toy: Any, tmp_path: Path, device: torch.device) -> None:
    trainer = toy.trainer(
        tmp_path / "run", toy.config(steps=40, strategy=STRATEGIES["default"]), device=device
    )
    trainer.queue.estimates = True
    trainer.run(progress=False)
    room = trainer.queue._instance_capacity.limit
    assert room is not None and room > instance_room.SPARE


@pytest.mark.gpu
@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_a_step_is_replayed_and_waits_for_nothing(
    toy_cutout: Any, tmp_path: Path, strategy: Any, device: torch.device
) -> None:
    config = toy_cutout.config(
        steps=30_000, strategy=strategy, sh_every=0, reorder_every=0, report_every=10, background="random"
    )
    trainer = toy_cutout.trainer(tmp_path / "run", config, device=device)
    for _ in range(10):
        trainer.step()
    captured = trainer.queue.captures
    assert captured == 1
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(400):  # more than the table of rows holds
            trainer.step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert trainer.queue.captures == captured, "the same step was captured again"
    assert not trainer.synchronize() and trainer.steps_done == 410
    assert trainer.monitor.psnr is not None


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_replays_train_as_single_steps_do(
    toy: Any, tmp_path: Path, device: torch.device, monkeypatch: Any
) -> None:
    config = toy.config(steps=120, strategy=STRATEGIES["default"], deterministic=True, max_gaussians=500)
    replayed, single = (toy.trainer(tmp_path / name, config, device=device) for name in "ab")
    replayed.run(progress=False)
    monkeypatch.setattr(single.queue._replay, "run", lambda epoch, key, work: work())
    single.run(progress=False)
    assert replayed.queue.captures >= 3 and single.queue.captures == 0
    assert same_tensors(replayed, single)
