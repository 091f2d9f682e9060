"""What is learnt of each training view, in steps that a GPU captures and replays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

LEARNT: dict[str, dict[str, Any]] = {
    "gain": {"exposure": "gain"},
    "affine": {"exposure": "affine"},
    "camera": {"exposure": "camera"},
    "sharpness": {"downweight_blur": True},
    "poses": {"refine_poses": True},
    "transients": {"ignore_transients": True},
    "floaters": {"suppress_floaters": True},
    "all": {"exposure": "affine", "refine_poses": True, "ignore_transients": True, "downweight_blur": True},
}


@pytest.fixture(autouse=True)
def _sharpness(toy_cutout: Any) -> None:
    known = np.linspace(0.1, 1.0, len(toy_cutout.train))
    toy_cutout.train = [replace(v, sharpness=float(x)) for v, x in zip(toy_cutout.train, known, strict=True)]


@pytest.mark.gpu
@pytest.mark.parametrize("learnt", LEARNT.values(), ids=LEARNT)
@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_a_step_is_replayed_and_waits_for_nothing(
    toy_cutout: Any, tmp_path: Path, learnt: dict[str, Any], device: torch.device
) -> None:
    config = toy_cutout.config(
        steps=4000, sh_every=0, reorder_every=0, report_every=10, background="random", **learnt
    )
    trainer = toy_cutout.trainer(tmp_path / "run", config, device=device)
    for _ in range(10):
        trainer.step()
    assert trainer.queue.captures == 1
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(400):
            trainer.step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert trainer.queue.captures == 1, "the same step was captured again"
    assert not trainer.synchronize() and trainer.monitor.psnr is not None
    assert all(table.values.abs().max() > 0 for table in trainer.models.tables if table is not None)


@pytest.mark.gpu
@pytest.mark.parametrize("learnt", LEARNT.values(), ids=LEARNT)
@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_a_gpu_learns_what_the_cpu_learns(
    toy_cutout: Any, tmp_path: Path, learnt: dict[str, Any], device: torch.device
) -> None:
    config = toy_cutout.config(batch=2, **learnt)
    on_cpu = toy_cutout.trainer(tmp_path / "cpu", config, device=torch.device("cpu"))
    on_gpu = toy_cutout.trainer(tmp_path / "gpu", config, device=device)
    for trainer in (on_cpu, on_gpu):
        for _ in range(7):
            trainer.step()
        trainer.synchronize()
    torch.testing.assert_close(on_gpu.scene.means.cpu(), on_cpu.scene.means, atol=1e-4, rtol=0)
    for ours, theirs in zip(on_gpu.models.tables, on_cpu.models.tables, strict=True):
        if theirs is not None and ours is not None:
            torch.testing.assert_close(ours.values.cpu(), theirs.values, atol=1e-4, rtol=1e-2)
