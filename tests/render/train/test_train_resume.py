"""Stopping and going on: exact on the CPU, whatever ended the run."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from toy_run import drop_checkpoints

from luxel.render.errors import LuxelError
from luxel.render.train import TrainConfig
from luxel.render.train.config import Checkpoints, Resolution
from luxel.render.train.densify.adaptive import AdaptiveStrategy
from luxel.render.train.densify.mcmc import McmcStrategy
from luxel.render.train.resume import read_config

# Runs in a process of its own, so that it can be killed; argv: run folder, config.json, "start" or "resume".
RUN = """
import importlib.util, json, sys
from pathlib import Path
spec = importlib.util.spec_from_file_location("toy_run", sys.argv[4])
toys = importlib.util.module_from_spec(spec); sys.modules["toy_run"] = toys; spec.loader.exec_module(toys)
from luxel.render.train import TrainConfig
toy = toys.ToyRun(alpha=True)
folder = Path(sys.argv[1])
if sys.argv[3] == "start":
    trainer = toy.trainer(folder, TrainConfig.from_dict(json.loads(Path(sys.argv[2]).read_text())), say=print)
else:
    trainer = toy.resume(folder, say=print)
def tell(trainer):
    trainer.loop.saver.wait()  # a kill that follows the line finds the checkpoints of the steps before
    print("step", trainer.steps_done, flush=True)
trainer.run(tell, progress=False)
"""


def busy(toy: Any, strategy: Any, **changes: Any) -> TrainConfig:
    """A short run in which everything that has state is at work."""
    return toy.config(
        steps=90,
        strategy=strategy,
        background="random",
        max_gaussians=450,
        resolution=Resolution(1, until=0.4, smallest=16),
        reorder_every=20,
        **changes,
    )


STRATEGIES = {
    "default": AdaptiveStrategy(grow_grad2d=1e-5, refine_every=20, reset_every=0),
    "mcmc": McmcStrategy(refine_every=20),
}


def launch(folder: Path, config: Path, how: str) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-c",
        RUN,
        str(folder),
        str(config),
        how,
        str(Path(__file__).parents[1] / "toy_run.py"),
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_resumes_exactly(toy_cutout: Any, tmp_path: Path, same_state: Any, strategy: Any) -> None:
    config = busy(toy_cutout, strategy, checkpoints=Checkpoints(every=25, minutes=0, keep=9))
    whole = toy_cutout.trainer(tmp_path / "whole", config)
    result = whole.run(progress=False)
    assert result.count > 300
    for cut in (50, 75):
        drop_checkpoints(tmp_path / "whole", after=cut)
        again = toy_cutout.resume(tmp_path / "whole")
        assert again.steps_done == cut
        assert again.run(progress=False).test_psnr == result.test_psnr
        assert same_state(whole, again)


def test_killed_in_the_middle_ends_the_same(toy_cutout: Any, tmp_path: Path, same_state: Any) -> None:
    config = busy(toy_cutout, STRATEGIES["default"], checkpoints=Checkpoints(every=15, minutes=0))
    whole = toy_cutout.trainer(tmp_path / "whole", config)
    expected = whole.run(progress=False)
    config_path = tmp_path / "config.json"
    config_path.write_text(json.dumps(config.to_dict()))
    process = launch(tmp_path / "killed", config_path, "start")
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("step 40"):
            os.kill(process.pid, signal.SIGKILL)
            break
    process.wait(60)
    assert process.returncode == -signal.SIGKILL
    trainer = toy_cutout.resume(tmp_path / "killed")
    assert trainer.steps_done == 30
    result = trainer.run(progress=False)
    assert result.test_psnr == expected.test_psnr
    assert same_state(whole, trainer)
    steps = [
        [json.loads(line)["step"] for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("whole", "killed")
    ]
    assert steps[0] == steps[1], "metrics.jsonl has lost or doubled lines"


def test_ctrl_c_saves_and_says_how_to_go_on(toy_cutout: Any, tmp_path: Path) -> None:
    config = replace(busy(toy_cutout, STRATEGIES["mcmc"]), steps=10**6)
    config_path = tmp_path / "config.json"
    config_path.write_text(json.dumps(config.to_dict()))
    process = launch(tmp_path / "run", config_path, "start")
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("step 5\n"):
            process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    said = "".join(line for line in lines if not line.startswith("step "))
    step = int(next((tmp_path / "run" / "checkpoints").glob("*.json")).stem[5:])
    assert step >= 5
    assert f"Stopped at step {step}. Resume with: luxel train --resume {tmp_path / 'run'}" in said
    assert "Traceback" not in said
    assert toy_cutout.resume(tmp_path / "run").steps_done == step


def test_a_finished_run_can_be_extended(toy: Any, tmp_path: Path, device: torch.device) -> None:
    first = toy.trainer(tmp_path / "run", toy.config(steps=30), device=device).run(progress=False)
    longer = toy.resume(tmp_path / "run", device=device, overrides={"steps": 150, "rates.means": 2e-4})
    assert longer.config.rates.means == 2e-4 and longer.steps_done == 30
    result = longer.run(progress=False)
    assert result.reason == "steps" and result.step == 150
    assert result.test_psnr > first.test_psnr + 0.5
    assert json.loads((tmp_path / "run" / "config.json").read_text())["config"]["steps"] == 150
    assert toy.resume(tmp_path / "run").run(progress=False).step == 150


def test_a_changed_length_lowers_no_sh_degree(toy: Any, tmp_path: Path) -> None:
    run = toy.trainer(tmp_path / "run", toy.config(steps=70, sh_every=1000))
    while run.steps_done < 30:
        run.step()
    assert run.status()["sh_degree"] == 1
    run.reconfigure({"steps": 300})
    assert run.status()["sh_degree"] == 1 and run.step().step == 31
    run.save_checkpoint()
    longer = toy.resume(tmp_path / "run", overrides={"steps": 600})
    assert longer.status()["sh_degree"] == 1


def test_a_damaged_checkpoint_gives_way_to_the_one_before(toy: Any, tmp_path: Path) -> None:
    config = toy.config(steps=30, checkpoints=Checkpoints(every=10, minutes=0, keep=3))
    toy.trainer(tmp_path / "run", config).run(progress=False)
    newest = tmp_path / "run" / "checkpoints" / "step-00000030.safetensors"
    newest.write_bytes(newest.read_bytes()[:-100])
    toy.said.clear()
    assert toy.resume(tmp_path / "run").steps_done == 20
    assert any("step-00000030" in line and "damaged" in line and "of step 20" in line for line in toy.said)


def test_wrong_resumes_have_clear_errors(toy: Any, tmp_path: Path) -> None:
    with pytest.raises(LuxelError, match=r"config\.json: not found"):
        toy.resume(tmp_path / "nothing")
    toy.trainer(tmp_path / "run", toy.config(steps=5)).run(progress=False)
    with pytest.raises(LuxelError, match=r"already holds a run.*--resume"):
        toy.trainer(tmp_path / "run")
    with pytest.raises(LuxelError, match="unknown field no_such_option"):
        toy.resume(tmp_path / "run", overrides={"no_such_option": 1})
    removed = toy.train.pop()
    with pytest.raises(LuxelError, match=r"training views .* differ .*9 now, 10 then"):
        toy.resume(tmp_path / "run")
    toy.train.append(removed)
    (tmp_path / "run" / "config.json").write_text("{ torn")
    for copy in (tmp_path / "run" / "checkpoints").glob("*.json"):
        copy.unlink()
    with pytest.raises(LuxelError, match=r"config\.json: cannot be read"):
        toy.resume(tmp_path / "run")


@pytest.mark.parametrize("name", STRATEGIES)
def test_runs_from_before_options_were_removed_resume(
    toy_cutout: Any, tmp_path: Path, same_state: Any, name: str
) -> None:
    """Their config.json and checkpoints hold those options, which were off."""
    config = busy(toy_cutout, STRATEGIES[name], checkpoints=Checkpoints(every=30, minutes=0, keep=9))
    whole = toy_cutout.trainer(tmp_path / "run", config)
    result = whole.run(progress=False)
    (tmp_path / "run" / "checkpoints" / "step-00000090.json").unlink()
    (tmp_path / "run" / "checkpoints" / "step-00000090.safetensors").unlink()
    for file in (tmp_path / "run" / "config.json", *(tmp_path / "run" / "checkpoints").glob("*.json")):
        add_removed_options(file)
    again = toy_cutout.resume(tmp_path / "run")
    assert again.steps_done == 60 and again.config == config
    assert again.run(progress=False).test_psnr == result.test_psnr
    assert same_state(whole, again)


def add_removed_options(file: Path, **strategy: float) -> None:
    """Adds to a file of a run the options that no longer exist, disabled unless ``strategy`` enables them."""
    body = json.loads(file.read_text())
    config = body["config"] if "config" in body else body["state"]["config"]
    config["pruning"] = {"share": 0.0, "start": 0.85, "stop": 0.9, "every": 0.05, "views": 0}
    removed = {
        "mcmc": {"error_share": 0.0, "error_views": 2, "error_power": 2},
        "adaptive": {"hold_back": 0.0, "error_views": 8},
    }
    config["strategy"] |= removed[config["strategy"]["kind"]] | strategy
    for name in ("format", "identity", "file", "run", "sha256"):  # those versions wrote no checksums
        body.pop(name, None)
    file.write_text(json.dumps(body))


def test_runs_that_used_a_removed_option_say_which(toy: Any, tmp_path: Path) -> None:
    toy.trainer(tmp_path / "run", toy.config(steps=5, strategy=McmcStrategy())).run(progress=False)
    for file in (tmp_path / "run" / "config.json", *(tmp_path / "run" / "checkpoints").glob("*.json")):
        add_removed_options(file, error_share=0.5)
    with pytest.raises(
        LuxelError, match=r"run: this run uses strategy\.error_share, which luxel no longer has"
    ):
        toy.resume(tmp_path / "run")
    config, _ = read_config(tmp_path / "run")
    assert config.strategy == McmcStrategy(), "it can still be viewed and evaluated"


def test_checkpoints_come_by_time_too(toy: Any, tmp_path: Path) -> None:
    config = toy.config(steps=10**6, checkpoints=Checkpoints(every=0, minutes=0.5 / 60, keep=100))
    trainer = toy.trainer(tmp_path / "run", config)
    folder, started = tmp_path / "run" / "checkpoints", time.monotonic()

    def stop(_: Any) -> None:
        if len(list(folder.glob("*.json"))) == 2 or time.monotonic() - started > 60:
            trainer.request_stop()

    result = trainer.run(stop, progress=False)
    steps = sorted(int(path.stem[5:]) for path in folder.glob("*.json"))
    assert len(steps) in (2, 3) and steps[-1] == result.step, "two by time, and that of the last step"
    assert steps[0] > 3 and steps[1] - steps[0] > 3, "half a second is many steps"


def test_the_run_of_a_field_is_none_of_primitives(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"config": {"field": "image"}}))
    with pytest.raises(LuxelError, match=rf"{re.escape(str(tmp_path))}: this is a run of a neural field"):
        read_config(tmp_path)
