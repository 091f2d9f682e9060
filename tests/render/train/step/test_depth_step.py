"""Steps with known depth: fused and through autograd, streamed, captured, resumed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from moving import Moving, assert_replayed_alike, brisk
from test_step import STRATEGIES, assert_same_step, general, in_the_middle

from luxel.render.errors import LuxelError
from luxel.render.ops.train.gather_view import ROW
from luxel.render.primitives import PRIMITIVES
from luxel.render.train import TrainConfig, Trainer
from luxel.render.train.config import Resolution
from luxel.render.train.step.timeline import Timeline
from luxel.render.train.views.dataset import Dataset, ViewOrder
from luxel.render.train.views.depth_targets import halved_depth, stored_depth

NAMES = list(PRIMITIVES)
CPU = torch.device("cpu")


@pytest.mark.parametrize("scale", ["metric", "align"])
@pytest.mark.parametrize("masked", [False, True], ids=["plain", "masked"])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_the_fused_step_is_the_step_of_autograd(
    tmp_path: Path, device: torch.device, name: str, batch: int, masked: bool, scale: str
) -> None:
    capture = Moving(1.0, masked, depth=True)
    config = capture.config(name, steps=2000, strategy=STRATEGIES[name](), batch=batch, sh_every=0)
    config.deterministic, config.sparse_adam = True, masked
    config.depth, config.depth_scale, config.depth_weight = "maps", scale, 5.0
    fused = capture.trainer(tmp_path / "a", config, device=device)
    plain = general(capture.trainer(tmp_path / "b", config, device=device))
    in_the_middle(fused)
    for _ in range(3):
        assert_same_step(fused, plain)


@pytest.mark.parametrize(
    "learnt", [{"exposure": "affine"}, {"refine_poses": True}, {"ignore_transients": True}]
)
def test_what_is_learnt_of_views_goes_together_with_depth(tmp_path: Path, learnt: dict[str, Any]) -> None:
    capture = Moving(0.5, depth=True)
    config = replace(capture.config("gaussians", steps=2000, sh_every=0, depth="maps"), **learnt)
    fused = capture.trainer(tmp_path / "a", config)
    plain = general(capture.trainer(tmp_path / "b", config))
    in_the_middle(fused)
    assert_same_step(fused, plain)


def test_depth_moves_what_the_images_leave_open(tmp_path: Path) -> None:
    """Without depth the gradient of the same step differs; with weight 0 it does not."""
    capture = Moving(0.5, depth=True)
    moments = {}
    for name, weight in (("none", 1.0), ("maps", 0.0), ("all", 1.0)):
        config = capture.config("gaussians", steps=2000, depth=name, depth_weight=weight)
        trainer = capture.trainer(tmp_path / name, config)
        trainer.step()
        trainer.synchronize()
        moments[name] = trainer.store.tensors()["exp_avg.means"].clone()
    assert torch.allclose(moments["maps"], moments["none"], rtol=1e-3, atol=1e-9)
    assert (moments["all"] - moments["none"]).norm() > 0.05 * moments["none"].norm()


def test_the_weight_falls_over_the_run() -> None:
    def weights(**changes: Any) -> list[float]:
        timeline = Timeline(TrainConfig(steps=100, **changes), 1.0, 0, "black", lambda: 0.0)
        return [timeline.depth_weight(step) for step in (0, 50, 100)]

    assert weights() == [0.0] * 3
    assert weights(depth="all")[0] == 0.2 and weights(depth="all", depth_scale="align")[0] == 0.05
    assert weights(depth="maps", depth_weight=0.4, depth_final=0.01) == pytest.approx([0.4, 0.04, 0.004])


def test_halved_depth_is_one_that_was_there() -> None:
    depth = torch.tensor(
        [[1.0, 9.0, 0, 0, 5], [2, 8, 0, 7, 5], [0, 0, 3, 4, 5], [0, 0, 0, 6, 5], [1, 1, 1, 1, 1]]
    )
    assert halved_depth(depth.half(), 1).tolist() == [[2, 7], [0, 4]]
    assert halved_depth(depth.half(), 2).tolist() == [[4]]
    assert halved_depth(depth.half(), 0) is not None and halved_depth(torch.zeros(4, 4).half(), 1).sum() == 0


def test_depth_is_kept_in_half_precision_where_pixels_count() -> None:
    capture = Moving(0.5, masked=True, depth=True)
    view = capture.train[0]
    pixels, known = view.read(), view.depth()  # type: ignore[misc]
    alpha, weight = (torch.from_numpy(p) for p in (pixels.alpha, pixels.weight))
    stored = stored_depth(view, alpha, weight, 3.0)
    here = (alpha >= 128) & (weight > 0) & torch.from_numpy(known > 0)
    assert stored.dtype == torch.float16 and torch.equal(stored > 0, here) and here.any()
    assert np.allclose(3.0 * stored.float()[here], known[here], rtol=1e-3)
    far = replace(view, depth=lambda: np.full(known.shape, 1e30, np.float32))
    assert bool(stored_depth(far, None, None, 1.0).isfinite().all())
    assert not stored_depth(replace(view, depth=None), None, None, 1.0).any()


@pytest.mark.parametrize("halvings", [0, 1])
def test_streaming_gives_the_same_depth(halvings: int) -> None:
    capture = Moving(0.5, depth=True)
    capture.train[3].depth = None  # a view without depth shares the stack of the others
    order = ViewOrder(len(capture.train), 0)
    kept, sent = (Dataset(capture.train, order, CPU, stream=s, depth_unit=2.5) for s in (False, True))
    table = torch.zeros(2, ROW, dtype=torch.int32)
    known = 0
    for step in range(6):
        targets = []
        for dataset in (kept, sent):
            table[1, 0], table[1, 1], _ = dataset.sample(step)
            targets.append(dataset.image_stack(step, halvings).gather(table)[0].depth)
        assert targets[0] is not None and torch.equal(*targets), step
        assert targets[0].shape == (40 >> halvings, 48 >> halvings)
        known += int((targets[0] > 0).sum())
        if halvings == 0 and (depth := capture.train[order.view_at(step)].depth):
            assert np.allclose(targets[0], depth(), rtol=1e-3)
    assert known > 100 and kept.image_stack(0, 0) is kept.image_stack(5, 0)
    sent.close()


@pytest.mark.parametrize(
    "depth",
    [
        np.zeros((40, 47), np.float32),
        np.zeros((40, 48), np.uint16),
        np.full((40, 48), np.nan),
        -np.ones((40, 48)),
    ],
    ids=["size", "type", "not a number", "negative"],
)
def test_depth_that_does_not_fit_its_view(depth: np.ndarray) -> None:
    capture = Moving(0.5)
    capture.train[1].depth = lambda: depth
    with pytest.raises(LuxelError, match=r"its depth is .* and must be float \[40, 48\]"):
        Dataset(capture.train, ViewOrder(2, 0), CPU, stream=False, depth_unit=1.0)


def test_depth_that_no_view_has(tmp_path: Path) -> None:
    capture = Moving(0.5)
    with pytest.raises(LuxelError, match="No training view has depth") as caught:
        capture.trainer(tmp_path / "run", capture.config("gaussians", depth="maps"))
    assert "luxel.scenes.supervise" in caught.value.remedy


def test_a_resumed_run_ends_with_the_same_bits(tmp_path: Path) -> None:
    capture = Moving(0.5, depth=True)
    config = capture.config(
        "gaussians", steps=24, depth="maps", resolution=Resolution(halvings=1, smallest=8)
    )
    whole = capture.trainer(tmp_path / "whole", config)
    whole.run(progress=False)
    part = capture.trainer(tmp_path / "part", config)
    for _ in range(9):
        part.step()
    part.loop.final_checkpoint(part)
    part.dataset.close()
    resumed = Trainer.resume(tmp_path / "part", capture.train, capture.test, say=lambda _: None)
    assert resumed.config.depth == "maps" and resumed.steps_done == 9
    resumed.run(progress=False)
    for name, tensor in whole.store.tensors().items():
        assert torch.equal(tensor, resumed.store.tensors()[name]), name


@pytest.mark.gpu
@pytest.mark.parametrize("scale", ["metric", "align"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_a_captured_step_is_the_step(tmp_path: Path, device: torch.device, name: str, scale: str) -> None:
    capture = Moving(1.0, depth=True)
    config = brisk(capture.config(name, deterministic=True, depth="maps", depth_scale=scale))
    assert_replayed_alike(capture, config, tmp_path, device)


@pytest.mark.gpu
@pytest.mark.parametrize("scale", ["metric", "align"])
@pytest.mark.parametrize("name", NAMES)
def test_a_step_on_the_gpu_is_that_of_the_cpu(
    tmp_path: Path, gpu: torch.device, name: str, scale: str
) -> None:
    capture = Moving(1.0, depth=True)
    config = capture.config(
        name, steps=2000, deterministic=True, depth="maps", depth_scale=scale, depth_weight=5.0
    )
    ours, theirs = (capture.trainer(tmp_path / d.type, config, device=d) for d in (gpu, CPU))
    in_the_middle(theirs)
    before = {name: tensor.clone() for name, tensor in theirs.store.tensors().items()}
    for key, tensor in ours.store.tensors().items():
        tensor.copy_(before[key])
    for trainer in (ours, theirs):
        trainer.step()
        trainer.synchronize()
    for key, right in theirs.store.tensors().items():
        off, moved = ours.store.tensors()[key].cpu() - right, right - before[key]
        assert off.norm() <= 1e-3 * moved.norm() + 1e-6 * right.norm(), key
