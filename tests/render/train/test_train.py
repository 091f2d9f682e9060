"""Training as a whole on a made-up scene: it learns, ends when it should, and survives what people do to it."""

from __future__ import annotations

import gc
import itertools
import json
import threading
import time
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Pixels, View
from luxel.render.primitives.gaussians import GaussianLoss
from luxel.render.raster.rasterize import rasterize
from luxel.render.train import Trainer
from luxel.render.train.config import Resolution
from luxel.render.train.densify.adaptive import AdaptiveStrategy
from luxel.render.train.densify.mcmc import McmcStrategy
from luxel.render.train.views.dataset import ByteImage


def test_learns_the_scene(toy: Any, tmp_path: Path, device: torch.device) -> None:
    trainer = toy.trainer(tmp_path / "run", toy.config(steps=300, save_renders=2), device=device)
    before = trainer.evaluate().mean.psnr
    result = trainer.run(progress=False)
    assert result.reason == "steps" and result.step == 300
    assert result.test_psnr is not None and result.test_psnr > before + 8, (
        f"{before} -> {result.test_psnr} dB"
    )
    assert result.test_psnr == result.evaluation.mean.psnr
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [x["step"] for x in lines if "loss" in x] == list(range(10, 301, 10))
    assert sorted(p.name for p in (tmp_path / "run" / "renders").iterdir()) == ["00.png.png", "06.png.png"]
    saved = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (
        saved["config"]["steps"] == 300
        and saved["seed"] == 0
        and saved["views"]["test"] == ["00.png", "06.png"]
    )
    assert trainer.status()["done"] and trainer.status()["eta"] == 0


@pytest.mark.parametrize(
    "strategy", [AdaptiveStrategy(grow_grad2d=1e-5), McmcStrategy(cap_max=400)], ids=["default", "mcmc"]
)
def test_strategies_learn_and_change_the_count(
    toy: Any, tmp_path: Path, strategy: Any, device: torch.device
) -> None:
    config = toy.config(steps=300, strategy=strategy, max_gaussians=500, resolution=Resolution(1, 0.3, 16))
    trainer = toy.trainer(tmp_path / "run", config, device=device)
    before = trainer.evaluate().mean.psnr
    result = trainer.run(progress=False)
    assert result.test_psnr is not None and result.test_psnr > before + 5
    assert result.count == 400 if isinstance(strategy, McmcStrategy) else 300 < result.count <= 500


def test_the_seed_decides(toy: Any, tmp_path: Path, same_state: Any) -> None:
    config = toy.config(steps=40, background="random")
    first, second = toy.trainer(tmp_path / "a", config), toy.trainer(tmp_path / "b", config)
    config_c = toy.config(steps=40, background="random", seed=1)
    third = toy.trainer(tmp_path / "c", config_c)
    for trainer in (first, second, third):
        trainer.run(progress=False)
    assert same_state(first, second)
    assert not same_state(first, third)


def test_ends_at_a_psnr(toy: Any, tmp_path: Path) -> None:
    trainer = toy.trainer(tmp_path / "run", toy.config(steps=5000, target_psnr=15.0, eval_every=10))
    result = trainer.run(progress=False)
    assert result.reason == "target_psnr" and result.test_psnr >= 15 and result.step % 10 == 0


def test_ends_after_minutes_and_paces_by_time(
    toy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = toy.config(steps=10**6, target_minutes=1 / 60, pace_by_time=True)
    trainer = toy.trainer(tmp_path / "run", config)
    ticks = itertools.count()  # a clock by which every step takes 1/16 s
    clock = SimpleNamespace(**{**vars(time), "perf_counter": lambda: next(ticks) / 16})
    monkeypatch.setattr("luxel.render.runs.loop.time", clock)
    result = trainer.run(progress=False)
    assert (result.reason, result.step, result.train_seconds) == ("target_minutes", 16, 1.0)
    assert trainer.progress == 1.0


def test_ends_at_a_time_to_render_or_a_size_of_memory(toy: Any, tmp_path: Path) -> None:
    config = toy.config(steps=5000, target_frame_ms=1e-6, eval_every=10)
    trainer = toy.trainer(tmp_path / "a", config)
    result = trainer.run(progress=False)
    assert result.reason == "target_frame_ms" and result.step == 10 and trainer.frame_ms > 0
    measured = [json.loads(line) for line in (tmp_path / "a" / "metrics.jsonl").read_text().splitlines()]
    assert any(line.get("frame_ms", 0) > 0 and line["test"]["psnr"] > 0 for line in measured)
    result = toy.trainer(tmp_path / "b", toy.config(steps=5000, target_gigabytes=1e-3)).run(progress=False)
    assert result.reason == "target_gigabytes" and result.step < 5000
    with pytest.raises(LuxelError, match="target_frame_ms needs held-out views"):
        Trainer(config, toy.train, [], toy.points, tmp_path / "c")
    with pytest.raises(LuxelError, match=r"target_gigabytes 0\.0: .* above 0"):
        toy.config(target_gigabytes=0.0)


def test_ends_at_a_count(toy: Any, tmp_path: Path) -> None:
    config = toy.config(
        steps=3000, strategy=McmcStrategy(), max_gaussians=350, end_at_max_gaussians=True, sh_every=0
    )
    result = toy.trainer(tmp_path / "run", config).run(progress=False)
    assert result.reason == "max_gaussians" and result.count == 350


def test_ignored_pixels_have_no_part(toy: Any, tmp_path: Path, same_state: Any) -> None:
    def spoil(view: View, value: int) -> View:
        pixels = view.read()
        rgb, weight = pixels.rgb.copy(), np.full(pixels.rgb.shape[:2], 255, np.uint8)
        rgb[10:30, 5:25], weight[10:30, 5:25] = value, 0
        return View(view.name, view.camera, lambda: Pixels(rgb, None, weight))

    honest = toy.train
    trainers = []
    for value in (0, 255):
        toy.train = [spoil(view, value) for view in honest]
        config = toy.config(steps=40, resolution=Resolution(1, until=0.5, smallest=16))
        trainer = toy.trainer(tmp_path / str(value), config)
        trainer.run(progress=False)
        trainers.append(trainer)
    assert same_state(*trainers)


@pytest.mark.parametrize("background", ["random", "white"])
def test_a_cutout_is_clean_outside(toy_cutout: Any, tmp_path: Path, background: str) -> None:
    far = np.random.default_rng(1).uniform(-2.5, 2.5, (300, 3)).astype(np.float32)
    toy_cutout.points.xyz = np.concatenate([toy_cutout.points.xyz, far])
    toy_cutout.points.rgb = np.concatenate([toy_cutout.points.rgb, np.full((300, 3), 255, np.uint8)])
    loss = GaussianLoss() if background == "white" else GaussianLoss(alpha_weight=0.0)
    trainer = toy_cutout.trainer(
        tmp_path / "run", toy_cutout.config(steps=400, background=background, loss=loss)
    )

    def outside() -> float:
        view = toy_cutout.train[0]
        with torch.no_grad():
            alpha = rasterize(trainer.scene, view.camera).alpha
        return float(alpha[torch.from_numpy(view.read().alpha) == 0].mean())

    before = outside()
    trainer.run(progress=False)
    assert before > 0.1
    assert outside() < 0.02


def test_pauses_stops_and_lets_others_in(toy: Any, tmp_path: Path) -> None:
    trainer = toy.trainer(tmp_path / "run", toy.config(steps=10**6))
    thread = threading.Thread(target=trainer.run, kwargs={"progress": False})
    thread.start()
    try:
        waits = []
        for _ in range(10):
            time.sleep(0.02)
            before = trainer.steps_done
            assert trainer.lock.acquire(timeout=60)
            step = trainer.steps_done
            waits.append(step - before)
            time.sleep(0.02)
            assert trainer.steps_done == step, "a step was made while a viewer held the lock"
            trainer.lock.release()
        assert sorted(waits)[5] <= 3, "others waited for more than the step that was under way"
        trainer.pause()
        with trainer.lock:
            held = trainer.steps_done
        time.sleep(0.3)
        assert trainer.paused and trainer.steps_done <= held + 1
        trainer.resume_training()
        deadline = time.monotonic() + 60
        while trainer.steps_done < held + 5 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert trainer.steps_done >= held + 5
    finally:
        trainer.request_stop()
        thread.join(60)
    assert not thread.is_alive() and trainer.done


def test_an_error_of_the_viewer_ends_nothing(toy: Any, tmp_path: Path, caplog: Any) -> None:
    def broken(_: Any) -> None:
        raise RuntimeError("a page went away")

    result = toy.trainer(tmp_path / "run", toy.config(steps=12)).run(broken, progress=False)
    assert result.step == 12
    assert sum("on_step" in record.message for record in caplog.records) == 1


def test_gives_way_when_memory_runs_out(toy: Any, tmp_path: Path) -> None:
    calls = 0

    def short_of_memory(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls in (5, 6, 7):
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return rasterize(*args, **options)

    trainer = toy.trainer(tmp_path / "run", toy.config(steps=20), render=short_of_memory)
    result = trainer.run(progress=False)
    assert result.step == 20 and trainer.dataset.streaming and result.count == 270 == trainer.memory.cap
    about = [line for line in toy.said if "Memory of cpu ran out at step 4" in line]
    assert [
        "streamed step by step" in about[0],
        "limited to 300" in about[1],
        "270 Gaussians remain" in about[2],
    ] == [True] * 3


def test_streams_where_the_upload_fails(toy: Any, tmp_path: Path, monkeypatch: Any) -> None:
    def full(image: ByteImage, device: torch.device) -> ByteImage:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(ByteImage, "to", full)
    trainer = toy.trainer(tmp_path / "run")
    monkeypatch.undo()
    assert trainer.dataset.streaming and any("do not fit into memory" in line for line in toy.said)
    assert trainer.run(progress=False).step == 60


def test_gives_up_where_giving_way_does_not_help(toy: Any, tmp_path: Path) -> None:
    def never(*args: Any, **options: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    with pytest.raises(
        LuxelError, match=r"ran out at step 0\. .*checkpoint is of step 0: .* smaller images.*--resume"
    ):
        toy.trainer(tmp_path / "run", render=never).run(progress=False)


def test_says_when_training_diverges(toy: Any, tmp_path: Path) -> None:
    def broken(*args: Any, **options: Any) -> Any:
        frame = rasterize(*args, **options)
        frame.rgb = frame.rgb * float("nan")
        return frame

    with pytest.raises(LuxelError, match=r"diverged at step 20.*There is no checkpoint from before"):
        toy.trainer(tmp_path / "run", render=broken).run(progress=False)


def test_bad_starts_have_clear_errors(toy: Any, tmp_path: Path) -> None:
    points, train = toy.points, toy.train
    toy.points = None
    with pytest.raises(LuxelError, match="no points"):
        toy.trainer(tmp_path / "a")
    toy.points, toy.train = points, []
    with pytest.raises(LuxelError, match="no views"):
        toy.trainer(tmp_path / "b")
    toy.train = train
    toy.points.xyz[:] = np.nan
    with pytest.raises(LuxelError, match="finite"):
        toy.trainer(tmp_path / "c")


def test_a_photograph_of_another_size_is_named(toy: Any, tmp_path: Path) -> None:
    wrong = toy.train[3]
    toy.train[3] = View("odd.png", wrong.camera, lambda: Pixels(np.zeros((3, 4, 3), np.uint8)))
    with pytest.raises(LuxelError, match=r"odd\.png.*\[3, 4, 3\].*\[40, 48, 3\]"):
        toy.trainer(tmp_path / "run")


def test_streaming_trains_on_every_device(toy: Any, tmp_path: Path, device: torch.device) -> None:
    trainer = toy.trainer(tmp_path / "run", toy.config(steps=100, images="stream"), device=device)
    before = trainer.evaluate().mean.psnr
    assert trainer.run(progress=False).test_psnr > before + 3


def test_streaming_trains_the_same(toy: Any, tmp_path: Path, same_state: Any) -> None:
    kept = toy.trainer(tmp_path / "a", toy.config(steps=25, images="device"))
    sent = toy.trainer(tmp_path / "b", toy.config(steps=25, images="stream"))
    kept.run(progress=False)
    sent.run(progress=False)
    assert sent.dataset.views and not kept.dataset.streaming
    assert same_state(kept, sent)


def test_exports_the_scene(toy: Any, tmp_path: Path) -> None:
    def export(gaussians: Any, path: Path) -> None:
        path.write_text(str(gaussians.count))

    result = toy.trainer(tmp_path / "run", toy.config(steps=3), export=export).run(progress=False)
    assert result.scene == tmp_path / "run" / "scene.ply" and result.scene.read_text() == "300"
    trainer = toy.trainer(tmp_path / "other", toy.config(steps=3), export=export)
    assert trainer.copy_scene(tmp_path / "copy.ply") == 0 and (tmp_path / "copy.ply").read_text() == "300"
    with pytest.raises(LuxelError, match="writes no scene files"):
        toy.trainer(tmp_path / "third", toy.config(steps=3)).copy_scene(tmp_path / "none.ply")


def test_nothing_holds_a_trainer_that_is_dropped(toy: Any, tmp_path: Path) -> None:
    trainer = toy.trainer(tmp_path / "run", toy.config(steps=30, target_minutes=10.0))
    trainer.run(progress=False)
    held = weakref.ref(trainer), weakref.ref(trainer.scene), weakref.ref(trainer.dataset)
    gc.collect()
    gc.disable()
    try:
        del trainer
        assert [part() is None for part in held] == [True, True, True], (
            "its memory waits for a search for garbage"
        )
    finally:
        gc.enable()
