"""Training of neural fields: the step against plain Adam, runs that are killed and go on, files."""

from __future__ import annotations

import itertools
import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from toy_run import drop_checkpoints

from luxel.render.errors import LuxelError
from luxel.render.fields.application import Application, make_application
from luxel.render.fields.applications import APPLICATIONS, application_type
from luxel.render.fields.config import FieldConfig, HashingName, defaults
from luxel.render.fields.encodings.grid_encoding import GridEncoding
from luxel.render.fields.files import FIELD_FILE, field_of_checkpoint, is_field, load_field, save_field
from luxel.render.fields.training.optimizer import FieldOptimizer
from luxel.render.fields.training.trainer import FieldTrainer
from luxel.render.geometry.camera import Camera
from luxel.render.runs.checkpoints.checkpoint import load_newest

TINY: dict[str, Any] = {"log2_entries": 10, "batch": 256, "width": 16, "steps": 60, "report_every": 10}


def smooth_image(side: int = 24) -> np.ndarray:
    """Smooth colours with an edge."""
    y, x = np.mgrid[:side, :side] / side
    image = np.stack([x, y, (x > 0.5) * 0.8], -1)
    return (255 * image).astype(np.uint8)


def tiny(**changes: Any) -> FieldConfig:
    """A short training of an image."""
    return replace(defaults("image"), **{**TINY, **changes})


def trainer(folder: Path, device: Any = "cpu", **changes: Any) -> FieldTrainer:
    """A run of it."""
    return FieldTrainer.new(tiny(**changes), smooth_image(), folder, device, say=lambda _: None)


def same_state(a: FieldTrainer, b: FieldTrainer) -> bool:
    """Whether two runs hold bit for bit the same."""
    left, right = a.optimizer.tensors(), b.optimizer.tensors()
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


class Line(Application):
    """A line with noise: one table, one weight, in double."""

    kind = "image"

    def __init__(self, config: FieldConfig) -> None:
        super().__init__(config)
        self.weight = nn.Parameter(torch.tensor([0.3, -0.7], dtype=torch.float64))
        self.table = nn.Parameter(torch.tensor([[0.1], [0.2]], dtype=torch.float64))
        self.poison = 0.0

    def table_parameters(self) -> list[nn.Parameter]:
        return [self.table]

    def begin(self, data: Any, device: torch.device) -> None:
        pass

    def draw_batch(self, generator: torch.Generator) -> Tensor:
        return torch.randn(8, 2, generator=generator, dtype=torch.float64)

    def loss(self, batch: Tensor) -> Tensor:
        actual = batch @ self.weight + (batch @ self.table)[:, 0].square()
        return (actual - 1).square().mean() + self.poison * self.weight.sum()

    def render(self, camera: Camera, background: Tensor | None = None) -> Tensor:
        raise NotImplementedError

    def evaluate(self) -> dict[str, float]:
        return {}


def test_a_step_is_adam_with_decay_of_weights_and_an_unbiased_mean() -> None:
    config = FieldConfig(rate=0.05, weight_decay=0.3, ema=0.9, decay_from=3, decay_every=2, decay_factor=0.5)
    line, plain = Line(config), Line(config)
    learner = FieldOptimizer(line)
    generator = torch.Generator().manual_seed(config.seed)
    groups = [
        {"params": [plain.weight], "weight_decay": config.weight_decay},
        {"params": [plain.table], "weight_decay": 0.0},
    ]
    adam = torch.optim.Adam(groups, lr=1.0, betas=(config.beta1, config.beta2), eps=config.eps)
    mean = [torch.zeros_like(p) for p in (plain.weight, plain.table)]
    for step in range(9):
        learner.step(step)
        for group in adam.param_groups:
            group["lr"] = 0.05 * 0.5 ** (0 if step < 3 else 1 + (step - 3) // 2)
        adam.zero_grad()
        plain.loss(plain.draw_batch(generator)).backward()
        adam.step()
        for kept, parameter in zip(mean, (plain.weight, plain.table), strict=True):
            kept.mul_(config.ema).add_(parameter.detach(), alpha=1 - config.ema)
        for kept, shown in zip(mean, (line.weight, line.table), strict=True):
            torch.testing.assert_close(
                shown.detach(), kept / (1 - config.ema ** (step + 1)), rtol=1e-12, atol=0
            )
    moved = learner.tensors()
    torch.testing.assert_close(moved["moved.weight"], plain.weight.detach(), rtol=1e-12, atol=0)


def test_the_learning_rate_decays_with_the_time_of_a_run_that_seconds_end() -> None:
    given = {"rate": 0.05, "schedule": "shares", "ema": 0.0}
    timed = FieldOptimizer(Line(FieldConfig(**given, steps=10**6)))
    stepped = FieldOptimizer(Line(FieldConfig(**given, steps=20)))
    for step in range(20):
        timed.step(step, elapsed=step / 20)
        stepped.step(step)
    assert torch.equal(timed.tensors()["moved.weight"], stepped.tensors()["moved.weight"])


def test_sparse_steps_leave_entries_without_a_gradient() -> None:
    class HalfLine(Line):
        off = False

        def draw_batch(self, generator: torch.Generator) -> Tensor:
            batch = super().draw_batch(generator)
            return batch * batch.new_tensor([1.0, 0.0]) if self.off else batch

    lines = [HalfLine(FieldConfig(rate=0.05, ema=0.0, sparse=sparse)) for sparse in (False, True)]
    dense, sparse = (FieldOptimizer(line) for line in lines)
    for step in range(3):
        for learner in (dense, sparse):
            learner.step(step)
    assert all(
        torch.equal(a, b) for a, b in zip(*(x.tensors().values() for x in (dense, sparse)), strict=True)
    )
    before = {name: t.clone() for name, t in sparse.tensors().items()}
    HalfLine.off = True
    for learner in (dense, sparse):
        learner.step(3)
    for name, actual in sparse.tensors().items():
        if name.endswith(".table"):
            assert torch.equal(actual[1], before[name][1]) and not torch.equal(actual[0], before[name][0])
            assert torch.equal(actual[0], dense.tensors()[name][0])
        else:
            assert torch.equal(actual, dense.tensors()[name])
    assert not torch.equal(lines[0].table[1], lines[1].table[1])


def test_a_step_whose_gradients_are_not_finite_changes_nothing() -> None:
    line = Line(FieldConfig())
    learner = FieldOptimizer(line)
    learner.step(0)
    before = {name: t.clone() for name, t in learner.tensors().items() if name != "generator"}
    line.poison = math.nan
    learner.step(1)
    after = learner.tensors()
    for name in ("moved.weight", "moved.table", "exp_avg.weight", "exp_avg_sq.table"):
        assert torch.equal(before[name], after[name]), name
    line.poison = 0.0
    learner.step(2)
    assert not torch.equal(before["moved.weight"], learner.tensors()["moved.weight"])


@pytest.mark.parametrize("ema", [0.0, 0.95])
def test_resumes_exactly(tmp_path: Path, ema: float) -> None:
    whole = trainer(tmp_path / "whole", ema=ema, checkpoint_every=20, keep=9, eval_every=30)
    result = whole.run(progress=False)
    assert result.reason == "steps" and result.step == 60 and result.scores["psnr"] > 15
    for cut in (40, 20):
        drop_checkpoints(tmp_path / "whole", after=cut)
        again = FieldTrainer.resume(tmp_path / "whole", smooth_image(), say=lambda _: None)
        assert again.steps_done == cut
        assert again.run(progress=False).scores == result.scores
        assert same_state(whole, again)
    lines = [json.loads(line) for line in (tmp_path / "whole" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [10, 20, 30, 30, 40, 50, 60, 60]


RUN = """
import sys
from pathlib import Path
sys.path[:0] = [sys.argv[2], str(Path(sys.argv[2]).parent)]  # of this file and of toy_run
from test_field_training import smooth_image, tiny
from luxel.render.fields.training.trainer import FieldTrainer
config = tiny(steps=int(sys.argv[3]), checkpoint_every=15)
run = FieldTrainer.new(config, smooth_image(), Path(sys.argv[1]))
def tell(run):
    run.loop.saver.wait()  # a kill that follows the line finds the checkpoints of the steps before
    print("step", run.steps_done, flush=True)
run.run(tell, progress=False)
"""


def launch(folder: Path, steps: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", RUN, str(folder), str(Path(__file__).parent), str(steps)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.slow
def test_killed_in_the_middle_ends_the_same(tmp_path: Path) -> None:
    whole = trainer(tmp_path / "whole", checkpoint_every=15)
    expected = whole.run(progress=False)
    process = launch(tmp_path / "killed", 60)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("step 40"):
            os.kill(process.pid, signal.SIGKILL)
            break
    process.wait(60)
    assert process.returncode == -signal.SIGKILL
    again = FieldTrainer.resume(tmp_path / "killed", smooth_image(), say=lambda _: None)
    assert again.steps_done == 30
    assert again.run(progress=False).scores == expected.scores
    assert same_state(whole, again)


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path: Path) -> None:
    process = launch(tmp_path / "run", 10**6)
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("step 5\n"):
            process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    said = "".join(line for line in lines if not line.startswith("step "))
    step = load_newest(tmp_path / "run" / "checkpoints", print).step
    assert step >= 5 and f"Stopped at step {step}. Resume with: luxel train --resume" in said
    assert is_field(tmp_path / "run" / FIELD_FILE)
    assert FieldTrainer.resume(tmp_path / "run", smooth_image(), say=lambda _: None).steps_done == step


def test_ends_by_time_and_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = itertools.count()  # a clock by which every step takes 1/16 s
    clock = SimpleNamespace(**{**vars(time), "perf_counter": lambda: next(ticks) / 16})
    with monkeypatch.context() as patched:
        patched.setattr("luxel.render.runs.loop.time", clock)
        by_time = trainer(tmp_path / "time", steps=10**6, seconds=0.5).run(progress=False)
    assert (by_time.reason, by_time.step, by_time.train_seconds) == ("seconds", 8, 0.5)
    asked = trainer(tmp_path / "asked", steps=10**6)
    result = asked.run(lambda it: it.request_stop() if it.steps_done == 7 else None, progress=False)
    assert (result.reason, result.step, asked.done) == ("stopped", 7, True)
    assert asked.status()["progress"] < 0.01 and asked.status()["scores"] == result.scores


def test_people_see_the_mean_while_it_trains(tmp_path: Path) -> None:
    run = trainer(tmp_path / "run", ema=0.99)
    for _ in range(5):
        run.step()
    state = run.optimizer.tensors()
    assert run.scene is run.application
    assert torch.equal(state["field.field.network.weights"], run.scene.state_dict()["field.network.weights"])
    assert not torch.equal(state["field.field.network.weights"], state["moved.field.network.weights"])


def test_divergence_is_said(tmp_path: Path) -> None:
    run = trainer(tmp_path / "run")
    with torch.no_grad():
        run.optimizer._moved[1].fill_(math.nan)
    with pytest.raises(LuxelError, match="diverged at step 10"):
        run.run(progress=False)


@pytest.mark.parametrize("hashing", ["spatial", "blocks"])
def test_a_field_in_a_file_is_the_same_field(tmp_path: Path, hashing: HashingName) -> None:
    run = trainer(tmp_path / "run", steps=5, hashing=hashing)
    run.run(progress=False)
    again = load_field(tmp_path / "run" / FIELD_FILE)
    assert again.config == run.config and again.kind == "image"
    grids = [part.grid for part in again.modules() if isinstance(part, GridEncoding)]
    assert grids and all(grid.hashed == ("blocks" if hashing == "blocks" else True) for grid in grids)
    with torch.no_grad():
        assert torch.equal(again.render_size(9, 7), run.application.render_size(9, 7))  # pyright: ignore
    held = field_of_checkpoint(load_newest(tmp_path / "run" / "checkpoints", print))
    assert all(
        torch.equal(a, b)
        for a, b in zip(held.state_dict().values(), again.state_dict().values(), strict=True)
    )


def test_files_that_are_no_field(tmp_path: Path) -> None:
    path = tmp_path / "field.safetensors"
    with pytest.raises(LuxelError, match="cannot be read"):
        load_field(path)
    path.write_bytes(b"nothing")
    assert not is_field(path)
    with pytest.raises(LuxelError, match="cannot be read"):
        load_field(path)
    field = make_application(tiny())
    save_field(path, field)
    data = path.read_bytes()
    path.write_bytes(data[:-100])
    with pytest.raises(LuxelError, match=r"cannot be read|damaged"):
        load_field(path)
    path.write_bytes(data.replace(b'\\"width\\": 16', b'\\"width\\": 17'))
    with pytest.raises(LuxelError, match="width must be"):
        load_field(path)


def test_configurations() -> None:
    for name in APPLICATIONS:
        config = defaults(name)  # pyright: ignore[reportArgumentType]
        config.check()
        assert FieldConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == replace(
            config, hashing="blocks"
        )
    assert FieldConfig.from_dict({"field": "sdf"}) == replace(defaults("sdf"), hashing="spatial")
    config = FieldConfig(rate=1.0, decay_from=20, decay_every=10, decay_factor=0.5)
    assert [config.rate_at(s) for s in (0, 19, 20, 29, 30, 40)] == [1, 1, 0.5, 0.5, 0.25, 0.125]
    assert replace(config, decay_every=0).rate_at(1000) == 0.5
    shares = replace(config, schedule="shares", steps=100)
    assert [shares.rate_at(s) for s in (0, 49, 50, 74, 75, 89, 90)] == [1, 1, 0.5, 0.5, 0.25, 0.25, 0.125]
    assert replace(shares, steps=200).rate_at(99) == 1  # a run that is made longer
    assert [shares.rate_at(10, t) for t in (0.49, 0.5, 0.8, 1.0)] == [1, 0.5, 0.25, 0.125]  # seconds end it
    assert config.rate_at(10, 1.0) == 1
    rising = replace(config, warm_up=10)
    assert [rising.rate_at(s) for s in (0, 5, 10, 20)] == pytest.approx([0.01, 0.505, 1, 0.5], abs=1e-12)
    for wrong in ({"field": "sound"}, {"hashing": "cubes"}, {"steps": "many"}, {"colour": 1}):
        with pytest.raises(LuxelError, match=r"config.json"):
            FieldConfig.from_dict(wrong)
    with pytest.raises(LuxelError, match="no field of 'sound'"):
        application_type("sound")


def test_another_field_does_not_go_on(tmp_path: Path) -> None:
    trainer(tmp_path / "run", steps=3).run(progress=False)
    with pytest.raises(LuxelError, match="is of a different field"):
        FieldTrainer.resume(tmp_path / "run", smooth_image(), overrides={"width": 32}, say=lambda _: None)
    with pytest.raises(LuxelError, match="already holds a run"):
        trainer(tmp_path / "run")


@pytest.mark.gpu
def test_captured_steps_do_what_steps_do(tmp_path: Path, gpu: torch.device, monkeypatch: Any) -> None:
    losses: dict[bool, list[float]] = {}
    for captured in (False, True):
        run = trainer(tmp_path / str(captured), gpu, batch=4096, width=64, precise=True)
        monkeypatch.setattr(type(run.application), "capturable", captured)
        losses[captured] = [float(run.optimizer.step(step)) for step in range(300)]
        assert run.optimizer.captures == captured
    assert losses[True] == pytest.approx(losses[False], rel=0.02, abs=1e-5)
    assert losses[True][-1] < 0.05 * losses[True][0]


@pytest.mark.gpu
def test_a_run_on_a_gpu_goes_on(tmp_path: Path, gpu: torch.device) -> None:
    first = trainer(tmp_path / "run", gpu, batch=4096, width=64, checkpoint_every=30)
    first.run(progress=False)
    again = FieldTrainer.resume(
        tmp_path / "run", smooth_image(), gpu, overrides={"steps": 400}, say=lambda _: None
    )
    assert again.steps_done == 60
    result = again.run(progress=False)
    assert result.step == 400 and result.scores["psnr"] > 25
    on_host = FieldTrainer.resume(tmp_path / "run", smooth_image(), "cpu", say=lambda _: None)
    assert on_host.evaluate()["psnr"] == pytest.approx(result.scores["psnr"], abs=0.2)


def test_parameters_that_are_not_finite_end_a_run_before_a_checkpoint(tmp_path: Path) -> None:
    run = trainer(tmp_path / "run")

    def spoil(running: Any) -> None:
        if running.steps_done == 5:
            with torch.no_grad():
                next(iter(running.application.parameters())).view(-1)[0] = math.nan
            with pytest.raises(LuxelError, match="diverged by step 5: parameters of the field"):
                running.checkpoint()
            running.request_stop()

    with pytest.raises(LuxelError, match="not finite"):
        run.run(spoil, progress=False)
    assert not list((tmp_path / "run" / "checkpoints").glob("*.json"))
