"""Schedules, configuration, memory estimates, the lock and the display."""

from __future__ import annotations

import io
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera, Pixels, View
from luxel.render.primitives import PRIMITIVES
from luxel.render.primitives.convexes import ConvexLoss
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.primitives.training import Init, Loss, exponential
from luxel.render.runs.fair_lock import FairLock
from luxel.render.runs.memory import is_out_of_memory
from luxel.render.runs.progress import ProgressDisplay, duration
from luxel.render.train import TrainConfig
from luxel.render.train.config import Resolution
from luxel.render.train.densify.adaptive import AdaptiveStrategy
from luxel.render.train.densify.mcmc import McmcStrategy
from luxel.render.train.densify.split import SplitStrategy
from luxel.render.train.memory import plan as memory_plan
from luxel.render.train.start import scene_extent
from luxel.render.train.step.schedules import Window, halvings, morton_order, sh_degree
from luxel.render.train.step.timeline import Timeline


def test_exponential_by_hand() -> None:
    assert exponential(1e-4, 1e-6, 0.0) == pytest.approx(1e-4)
    assert exponential(1e-4, 1e-6, 0.5) == pytest.approx(1e-5)
    assert exponential(1e-4, 1e-6, 1.0) == exponential(1e-4, 1e-6, 7.0) == pytest.approx(1e-6)


def test_sh_degree_ramp() -> None:
    assert [sh_degree(s, 30_000, 1000, 3) for s in (0, 999, 1000, 2000, 3000, 9000)] == [0, 0, 1, 2, 3, 3]
    assert [sh_degree(s, 700, 1000, 3) for s in (0, 99, 100, 250, 300, 699)] == [0, 0, 1, 2, 3, 3]
    assert sh_degree(5000, 30_000, 1000, 1) == 1 and sh_degree(0, 30_000, 0, 3) == 3


def test_a_longer_run_keeps_the_sh_degree_that_it_has_reached() -> None:
    def degrees(steps: int, reached: int) -> list[int]:
        config = TrainConfig(steps=steps, sh_every=1000, init=Init(sh_degree=2))
        timeline = Timeline(config, 1.0, 0, "black", lambda: 0.0, reached)
        return [timeline.at(step).sh_degree for step in (600, 1200, 2000)]

    assert degrees(4000, 0) == [1, 2, 2] and degrees(6000, 0) == [0, 1, 2]
    assert degrees(6000, 2) == [2, 2, 2] and degrees(6000, 3) == [2, 2, 2]


def test_resolution_comes_in_equal_parts() -> None:
    assert [halvings(p, 2, 0.4) for p in (0.0, 0.19, 0.21, 0.39, 0.4, 1.0)] == [2, 2, 1, 1, 0, 0]
    assert halvings(0.0, 0, 0.5) == 0 and halvings(0.0, 3, 0.0) == 0


def test_window_scales_down_for_short_runs() -> None:
    published = Window.scaled(500, 15_000, 100, 30_000, 0.6)
    assert published == Window(500, 15_000, 100)
    assert Window.scaled(500, 15_000, 100, 7000, 0.6) == Window(350, 4200, 100)
    assert Window.scaled(500, 15_000, 100, 1000, 0.6) == Window(50, 600, 20)
    assert [published.acts(s) for s in (500, 600, 650, 14_900, 15_000)] == [False, True, False, True, False]
    assert not published.acts(600, clock=15_500), "a run paced by time is further than its steps"


def test_morton_order_is_the_z_curve() -> None:
    corners = torch.tensor([[x, y, z] for x in (0.0, 1.0) for y in (0.0, 1.0) for z in (0.0, 1.0)])
    order = morton_order(corners)
    assert corners[order].tolist() == [[x, y, z] for z in (0, 1) for y in (0, 1) for x in (0, 1)]
    points = torch.rand(4000, 3, generator=torch.Generator().manual_seed(0))
    sorted_points = points[morton_order(points)]
    assert (sorted_points[1:] - sorted_points[:-1]).norm(dim=-1).mean() < 0.15 * (
        points[1:] - points[:-1]
    ).norm(dim=-1).mean()
    points[7] = float("nan")
    assert sorted(morton_order(points).tolist()) == list(range(4000))
    assert morton_order(torch.zeros(0, 3)).shape == (0,)


def test_extent_of_cameras() -> None:
    def view(x: float) -> View:
        return View(
            str(x), Camera.look_at((x, -3, 0), (x, 0, 0)), lambda: Pixels(np.zeros((480, 640, 3), np.uint8))
        )

    assert scene_extent([view(0.0), view(4.0)]) == pytest.approx(2.2)
    assert scene_extent([view(5.0)]) == 1.0


@pytest.mark.parametrize(
    "config", [TrainConfig(), TrainConfig.demo(), TrainConfig(strategy=McmcStrategy(cap_max=5))]
)
def test_config_survives_json(config: TrainConfig) -> None:
    config.check()
    assert TrainConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_runs_from_before_primitives_had_options_of_their_own_are_read() -> None:
    """Their config.json holds fields of every primitive, and the first name of the adaptive strategy."""
    old = TrainConfig().to_dict()
    old["loss"] = vars(Loss()) | {"mask_weight": 5e-4, "entropy_weight": 1e-3, "neighbours": 8}
    old["init"] |= {"points_each": 6, "sigma": 9.5e-4, "time_scale": None, "time_margin": 0.0}
    assert TrainConfig.from_run(old, 1.0) == TrainConfig()
    with pytest.raises(LuxelError, match=r"unknown field loss\.mask_weight"):
        TrainConfig.from_dict(old)
    old["primitive"], old["rates"], old["strategy"] = "convexes", {}, {"kind": "shaping"}
    old["loss"]["mask_weight"] = 0.25
    config = TrainConfig.from_run(old, 1.0)
    assert isinstance(config.loss, ConvexLoss) and config.loss.mask_weight == 0.25
    named = TrainConfig.from_run({"strategy": {"kind": "default", "refine_every": 7}}, 1.0)
    assert named.strategy == AdaptiveStrategy(refine_every=7)
    with pytest.raises(LuxelError, match=r"unknown field loss\.nonsense"):
        TrainConfig.from_run({"loss": {"nonsense": 1}}, 1.0)


@pytest.mark.parametrize(
    ("kind", "removed", "enabled"),
    [
        ("mcmc", {"error_share": 0.0, "error_views": 3, "error_power": 1}, {"error_share": 0.5}),
        ("adaptive", {"hold_back": 0.0, "error_views": 8}, {"hold_back": 0.3}),
        ("default", {"hold_back": 0.0, "error_views": 8}, {"hold_back": 0.3}),
        ("spacetime", {"hold_back": 0.0, "error_views": 8}, {"hold_back": 0.3}),
    ],
)
def test_removed_options_of_past_runs_are_dropped(
    kind: str, removed: dict[str, Any], enabled: dict[str, Any]
) -> None:
    strategy = {"kind": kind, "refine_every": 7, **removed}
    old: dict[str, Any] = {"strategy": strategy, "pruning": {"share": 0.0, "start": 0.85, "views": 4}}
    if kind == "spacetime":
        old["primitive"] = "gaussians4d"
    config = TrainConfig.from_run(old, 1.0)
    config.check()
    assert config.strategy_name == {"default": "adaptive"}.get(kind, kind)
    assert config.strategy.refine_every == 7  # type: ignore[attr-defined]
    assert TrainConfig.removed_in_use(old) == []
    old |= {"strategy": strategy | enabled, "pruning": {"share": 0.1}}
    assert TrainConfig.from_run(old, 1.0) == config
    assert TrainConfig.removed_in_use(old) == ["pruning.share", f"strategy.{next(iter(enabled))}"]
    with pytest.raises(LuxelError, match="unknown field"):
        TrainConfig.from_dict({"strategy": strategy})
    with pytest.raises(LuxelError, match=r"unknown field strategy\.error_share"):
        TrainConfig.from_run({"strategy": {"kind": "fixed", "error_share": 0.0}}, 1.0)


def test_noise_and_scale_regulariser_of_past_runs_were_in_capture_units() -> None:
    values = TrainConfig(strategy=McmcStrategy(noise=5e5, scale_regulariser=0.01)).to_dict()
    assert TrainConfig.from_run(values, 5.0).strategy == McmcStrategy(noise=5e5, scale_regulariser=0.01)
    del values["steps_by_size"]  # as the versions did that knew neither
    past = TrainConfig.from_run(values, 5.0).strategy
    assert past == McmcStrategy(noise=5e5 * 25, scale_regulariser=0.05)


def test_runs_from_before_the_images_and_the_length_changed_growth_go_on_as_they_began() -> None:
    old = TrainConfig().to_dict()
    del old["strategy"]["sharp_share"], old["strategy"]["finer_power"]
    assert TrainConfig.from_run(old, 1.0).strategy == SplitStrategy(sharp_share=0, finer_power=0)
    assert TrainConfig.from_run(TrainConfig().to_dict(), 1.0).strategy == SplitStrategy()


def test_steps_by_size_follow_the_pixels_of_the_training_images() -> None:
    config = TrainConfig(steps=500, steps_by_size=300)
    config.check()
    assert config.sized(10_000 * 10**6) == TrainConfig(steps=3000)
    assert config.sized(10).steps == 1000
    assert TrainConfig(steps=500).sized(100_000_000) == TrainConfig(steps=500)
    assert config.with_steps(700).sized(100_000_000) == TrainConfig(steps=700)
    with pytest.raises(LuxelError, match="steps_by_size"):
        TrainConfig(steps_by_size=-1).check()


def test_what_is_left_out_is_the_default_of_the_primitive() -> None:
    for name, spec in PRIMITIVES.items():
        config = TrainConfig(primitive=name)
        config.check()
        assert config.strategy_name == spec.strategies[0]
        assert (config.rates, config.loss, config.init) == (spec.rates(), spec.loss(), spec.init())
    with pytest.raises(LuxelError, match="primitive must be one of gaussians"):
        TrainConfig(primitive="cubes").check()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nonsense": 1}, "unknown field nonsense"),
        ({"rates": {"nonsense": 1}}, r"unknown field rates\.nonsense"),
        ({"steps": "many"}, "steps cannot be 'many'"),
        ({"steps": True}, "steps cannot be True"),
        ({"background": "green"}, "background cannot be 'green'"),
        ({"strategy": {"kind": "magic"}}, "unknown strategy 'magic'"),
        ({"strategy": {"kind": "mcmc", "absolute": True}}, r"strategy\.absolute"),
    ],
)
def test_config_names_what_is_wrong(change: dict[str, Any], message: str) -> None:
    with pytest.raises(LuxelError, match=message):
        TrainConfig.from_dict(change)


@pytest.mark.parametrize(
    "make",
    [
        lambda: TrainConfig(steps=0),
        lambda: TrainConfig(init=Init(sh_degree=4)),
        lambda: TrainConfig(init=Init(opacity=1.0)),
        lambda: TrainConfig(loss=Loss(ssim_weight=float("nan"))),
        lambda: TrainConfig(resolution=Resolution(halvings=-1)),
        lambda: TrainConfig(pace_by_time=True).check(),
        lambda: TrainConfig(strategy=AdaptiveStrategy(refine_every=0)),
    ],
)
def test_config_without_sense_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(LuxelError):
        make()


def hundred_views() -> list[View]:
    camera = Camera.look_at((0, -3, 0), (0, 0, 0), width=1000, height=1000)
    return [View(str(i), camera, lambda: Pixels(np.zeros((1000, 1000, 3), np.uint8))) for i in range(100)]


def plan(free: float, **changes: Any) -> memory_plan.Plan:
    each = memory_plan.bytes_of_one(Gaussians.empty(3))
    asked: dict[str, Any] = {"each": each, "pyramid": False, "images": "auto", "max_gaussians": None}
    return memory_plan.plan(
        hundred_views(), 10_000, device=torch.device("cpu"), free=int(free * 2**30), **{**asked, **changes}
    )


def test_photographs_stay_on_a_device_that_has_room() -> None:
    roomy = plan(100)
    assert (roomy.images, roomy.cap, roomy.notes) == ("device", None, ())
    tight = plan(1.0)
    assert tight.images == "stream" and "step by step" in tight.notes[0]
    assert plan(1.0, images="device").images == "device" and plan(100, images="stream").images == "stream"


def test_the_count_is_capped_by_memory() -> None:
    actual = plan(3.0, max_gaussians=50_000_000)
    assert actual.cap is not None and 10_000 < actual.cap < 50_000_000
    assert (
        actual.cap * memory_plan.bytes_of_one(Gaussians.empty(3)) < 3 * 2**30
        and "Gaussians fit" in actual.notes[-1]
    )
    assert plan(100, max_gaussians=20_000).cap == 20_000


def test_too_small_a_device_is_said_before() -> None:
    with pytest.raises(LuxelError, match=r"too small: 0\.25 GiB are free.*--max-size"):
        plan(0.25)


def test_a_gaussian_needs_its_adam() -> None:
    assert memory_plan.bytes_of_one(Gaussians.empty(0)) == 4 * 4 * 14 + memory_plan.SPLAT_WORKSPACE
    assert memory_plan.bytes_of_one(Gaussians.empty(3)) == 4 * 4 * 59 + memory_plan.SPLAT_WORKSPACE


def test_out_of_memory_is_known_by_its_words() -> None:
    assert is_out_of_memory(torch.OutOfMemoryError("x")) and is_out_of_memory(MemoryError())
    assert is_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory"))
    assert not is_out_of_memory(RuntimeError("shape mismatch")) and not is_out_of_memory(
        ValueError("out of memory")
    )


def test_the_lock_is_fair_and_reentrant() -> None:
    lock, turns, stop = FairLock(), [], threading.Event()

    def greedy() -> None:
        while not stop.is_set():
            with lock, lock:
                turns.append("training")
                time.sleep(0.002)

    thread = threading.Thread(target=greedy)
    thread.start()
    try:
        waits = []
        for _ in range(9):
            time.sleep(0.01)
            before = len(turns)
            with lock:
                waits.append(len(turns) - before)
        # On a busy machine this thread may be put aside before it asks for the lock, but not most times.
        assert sorted(waits)[4] <= 3, "waited for more than the step that was under way"
    finally:
        stop.set()
        thread.join(5)
    assert not thread.is_alive()


def test_the_lock_can_be_tried() -> None:
    lock = FairLock()
    answers: list[bool] = []
    with lock:
        other = threading.Thread(
            target=lambda: answers.extend([lock.acquire(False), lock.acquire(timeout=0.05)])
        )
        other.start()
        other.join(5)
    assert answers == [False, False]
    assert lock.acquire(blocking=False)
    lock.release()
    with pytest.raises(RuntimeError, match="does not hold"):
        lock.release()


def test_plain_progress_is_one_line() -> None:
    out = io.StringIO()
    with ProgressDisplay(Console(file=out, width=200), plain_every=1000) as display:
        assert display.due
        display.update(
            {
                "step": 50, "steps": 100, "progress": 0.5, "steps_per_s": 12.3, "psnr": 21.5, "test_psnr": None,
                "count": 12345, "noun": "Gaussians", "memory": 2**30, "elapsed": 65.2, "eta": None, "paused": False,
            }
        )  # fmt: skip
        assert not display.due
    assert out.getvalue() == (
        "step 50/100  steps/s 12.3  PSNR 21.50 dB  held-out -  Gaussians 12,345  "
        "memory 1.00 GiB  elapsed 1:05  left -\n"
    )


def test_progress_in_a_terminal_shows_a_bar() -> None:
    out = io.StringIO()
    status = {
        "step": 1, "steps": 2, "progress": 0.5, "steps_per_s": 1.0, "psnr": None, "test_psnr": 30.0, "count": 1,
        "noun": "Gaussians", "memory": 0, "elapsed": 1.0, "eta": 3700.0, "paused": False,
    }  # fmt: skip
    with ProgressDisplay(Console(file=out, force_terminal=True, width=120)) as display:
        display.update(status)
        display.say("a sentence [not markup]")
    assert "30.00 dB" in out.getvalue() and "1:01:40" in out.getvalue() and "[not markup]" in out.getvalue()


def test_durations_read_well() -> None:
    assert [duration(s) for s in (None, 0.2, 59.4, 187, 3765)] == ["-", "0 s", "59 s", "3:07", "1:02:45"]
