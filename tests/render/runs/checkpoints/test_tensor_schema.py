"""Checkpoints whose checksums are right and whose tensors are not those that a run needs are passed over by name."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from toy_run import ToyRun

from luxel.render.errors import LuxelError
from luxel.render.native import cpu_instructions
from luxel.render.runs.checkpoints.checkpoint import Checkpoint, CheckpointError, load, save
from luxel.render.runs.checkpoints.resume import say_other_instructions
from luxel.render.runs.checkpoints.tensor_schema import TensorSchema, require_generator, require_tensors
from luxel.render.train.config import Checkpoints
from luxel.render.train.resume import read_run

Change = Callable[[dict[str, Tensor]], object]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[ToyRun, Path]:
    """A run with checkpoints of steps 2 and 4, and its views."""
    toy, run = ToyRun(cameras=6, size=(24, 20)), tmp_path_factory.mktemp("schema") / "run"
    config = toy.config(steps=4, checkpoints=Checkpoints(every=2, minutes=0, keep=9), refine_poses=True)
    toy.trainer(run, config).run(progress=False)
    return toy, run


@pytest.fixture
def stopped(trained: tuple[ToyRun, Path], tmp_path: Path) -> Path:
    """A copy of the run."""
    return Path(shutil.copytree(trained[1], tmp_path / "run"))


def resumed_at(toy: ToyRun, run: Path, said: list[str]) -> int:
    """The step of the checkpoint that a run is resumed from."""
    return read_run(run, toy.train, {}, said.append).start.step


CHANGES: dict[str, tuple[str, Change]] = {
    "missing": ("gaussians.quats is missing", lambda t: t.pop("gaussians.quats")),
    "renamed": ("exp_avg.means is missing", lambda t: t.update(x=t.pop("exp_avg.means"))),
    "flat": (
        "exp_avg_sq.means has shape",
        lambda t: t.update({"exp_avg_sq.means": t["exp_avg_sq.means"].flatten()}),
    ),
    "rows": ("do not fit together", lambda t: t.update({"gaussians.means": t["gaussians.means"][:7]})),
    "type": (
        "gaussians.means is of type int32",
        lambda t: t.update({"gaussians.means": t["gaussians.means"].int()}),
    ),
    "types": ("different types", lambda t: t.update({"gaussians.means": t["gaussians.means"].double()})),
    "empty": (
        "holds no primitives",
        lambda t: t.update({n: v[:0] for n, v in t.items() if n.startswith("gaussians.")}),
    ),
    "nan": ("not finite", lambda t: t["gaussians.means"].fill_(torch.nan)),
    "negative": ("exp_avg_sq.quats holds negative", lambda t: t["exp_avg_sq.quats"].sub_(1)),
    "statistics": ("statistics has shape", lambda t: t.update(statistics=t["statistics"][:, :2])),
    "poses": ("poses.values holds numbers that are not finite", lambda t: t["poses.values"].fill_(torch.inf)),
    "generator": ("generator is no state of a random", lambda t: t["generator"].zero_()),
    "short": ("generator is no state of a random", lambda t: t.update(generator=t["generator"][:100])),
}


@pytest.mark.parametrize("problem, change", CHANGES.values(), ids=CHANGES)
def test_the_next_checkpoint_is_used(
    trained: tuple[ToyRun, Path], stopped: Path, problem: str, change: Change
) -> None:
    path = stopped / "checkpoints" / "step-00000004.json"
    broken = load(path)
    change(broken.tensors)
    save(path.parent, broken, keep=9)
    messages: list[str] = []
    assert resumed_at(trained[0], stopped, messages) == 2
    (said,) = [line for line in messages if "steps lost" in line]
    assert str(path) in said and problem in said and "Using the checkpoint of step 2" in said


@pytest.mark.parametrize(
    "values", [{"halvings": 10**6}, {"adam_steps": 2**62}, {"train_seconds": 1e308}, {"psnr": 1e300}]
)
def test_impossible_numbers_of_the_state(
    trained: tuple[ToyRun, Path], stopped: Path, values: dict[str, Any]
) -> None:
    path = stopped / "checkpoints" / "step-00000004.json"
    broken = load(path)
    save(path.parent, replace(broken, state=broken.state | values), keep=9)
    assert resumed_at(trained[0], stopped, []) == 2


def test_states_of_a_gpu_generator() -> None:
    offset = torch.tensor([3, 8]).view(torch.uint8)
    require_generator({"generator": offset})
    for numbers in ([3, -4], [3, 6]):
        with pytest.raises(CheckpointError, match="no state of a random number generator"):
            require_generator({"generator": torch.tensor(numbers).view(torch.uint8)})
    with pytest.raises(CheckpointError, match=r"x has shape \[2\], not \[any, 3\]"):
        require_tensors({"x": torch.zeros(2)}, {"x": TensorSchema((None, 3))})


def test_other_instructions_of_the_cpu_are_said(stopped: Path) -> None:
    checkpoint = load(stopped / "checkpoints" / "step-00000004.json")
    assert checkpoint.run is not None and checkpoint.run["versions"]["cpu"] == cpu_instructions()
    said: list[str] = []
    say_other_instructions(checkpoint, torch.device("cpu"), said.append)
    assert said == []
    run = checkpoint.run | {"versions": {"cpu": "x86-64 level 1, torch DEFAULT"}}
    other = Checkpoint(10, {}, {}, run)
    say_other_instructions(other, torch.device("cuda"), said.append)
    say_other_instructions(Checkpoint(10, {}, {}, None), torch.device("cpu"), said.append)
    assert said == []
    say_other_instructions(other, torch.device("cpu"), said.append)
    assert len(said) == 1 and "other instructions of the CPU" in said[0] and "not bit for bit" in said[0]


def test_sizes_are_compared_before_tensors_are_read(stopped: Path) -> None:
    path = stopped / "checkpoints" / "step-00000004.json"
    size = json.loads(path.read_text())["tensors"]["bytes"]
    with path.with_suffix(".safetensors").open("r+b") as file:
        file.truncate(20 << 30)  # sparse
    with pytest.raises(LuxelError, match=f"has {20 << 30} of {size} bytes"):
        load(path)
