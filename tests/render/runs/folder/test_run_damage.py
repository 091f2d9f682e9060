"""Whatever happens to a file of a run folder: the same result, another one that is announced, or a refusal by name."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import run_damage
import torch
from toy_run import ToyRun

from luxel.render.errors import LuxelError
from luxel.render.runs.checkpoints.checkpoint import load
from luxel.render.runs.notices import forget_printed
from luxel.render.runs.strict_json import sealed
from luxel.render.train.config import Checkpoints
from luxel.scenes import save_scene
from luxel.scenes.loading.run_results import load_run_scene
from luxel.viewer.scene_loading.runs import allow_replacing

STEPS = (10, 20, 30)
NAMES = [
    "config.json",
    "metrics.jsonl",
    "scene.json",
    "scene.ply",
    *(f"checkpoints/step-000000{step}.{kind}" for step in STEPS for kind in ("json", "safetensors")),
]
JSON = [name for name in NAMES if name.endswith((".json", ".jsonl"))]


class Runs(NamedTuple):
    """Two finished runs on the same capture, with what their checkpoints hold."""

    toy: ToyRun
    whole: Path
    foreign: Path
    expected: dict[int, dict[str, torch.Tensor]]
    config: Any


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    folder, toy = tmp_path_factory.mktemp("damage"), ToyRun()

    def train(name: str, seed: int) -> Any:
        config = toy.config(steps=30, seed=seed, checkpoints=Checkpoints(every=10, minutes=0, keep=9))
        trainer = toy.trainer(folder / name, config, export=lambda scene, path: save_scene(path, scene))
        trainer.run(progress=False)
        return trainer.config

    config = train("whole", 0)
    train("foreign", 1)
    saved = (folder / "whole" / "checkpoints").glob("*.json")
    expected = {c.step: c.tensors for c in map(load, saved)}
    assert sorted(expected) == list(STEPS)
    return Runs(toy, folder / "whole", folder / "foreign", expected, config)


@pytest.fixture
def check(runs: Runs, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[str, str]]:
    """Damages a copy of the run, then shows and resumes it; returns the two outcomes."""

    def attempt(damage: Callable[[Path], Any], exact: bool = True) -> tuple[str, str]:
        folder = tmp_path / "run"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(runs.whole, folder)
        damage(folder)
        forget_printed()
        capfd.readouterr()
        return _shown(runs, folder, capfd, exact), _resumed(runs, folder, exact)

    return attempt


def _shown(runs: Runs, folder: Path, capfd: pytest.CaptureFixture[str], exact: bool) -> str:
    try:
        scene = load_run_scene(folder)
    except LuxelError as error:
        assert str(folder) in error.problem, error
        assert error.remedy
        return "refused"
    said = capfd.readouterr().err
    for step, tensors in sorted(runs.expected.items(), reverse=True):
        if all(torch.equal(t, tensors[f"gaussians.{n}"]) for n, t in scene.tensors().items()):
            assert step == STEPS[-1] or str(folder) in said, f"silently step {step}"
            return "same" if step == STEPS[-1] else "fallback"
    assert not exact, f"the scene is none of the run; said: {said}"
    return "other"


def _resumed(runs: Runs, folder: Path, exact: bool) -> str:
    said: list[str] = []
    forget_printed()
    try:
        trainer = runs.toy.resume(folder, say=said.append)
    except LuxelError as error:
        assert str(folder) in error.problem, error
        assert error.remedy
        return "refused"
    trainer.dataset.close()
    if not exact:
        return "other"
    assert trainer.config == runs.config
    for name, tensor in trainer.store.tensors().items():
        assert torch.equal(tensor, runs.expected[trainer.steps_done][name]), name
    lost = STEPS[-1] - trainer.steps_done
    assert lost == 0 or any(f"steps lost: {lost}" in line for line in said), said
    assert len([line for line in said if "steps lost" in line]) == (lost > 0)
    return "fallback" if lost else "same"


RESULT = ("scene.json", "scene.ply")


def _stays(name: str, damage: Callable[..., Any]) -> bool:
    """Whether a changed file is one that a resumed run would replace, which luxel does not, as others may have changed
    it."""
    return name in RESULT and damage is not run_damage.delete


@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_file_changes_nothing_in_silence(check: Any, name: str) -> None:
    rng, outcomes = random.Random(name), Counter()
    for damage in run_damage.DAMAGES:
        shown, resumed = check(lambda folder, damage=damage: damage(folder / name, rng))
        assert shown == "same", "all other files are whole"
        newest = f"step-000000{STEPS[-1]}" in name
        expected = ("fallback", "same") if newest else ("refused",) if _stays(name, damage) else ("same",)
        assert resumed in expected, (damage.__name__, resumed)
        outcomes[resumed] += 1
    assert outcomes["fallback"] >= 4 or not newest, "a flipped bit of indentation may change nothing"


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_another_run_is_noticed(check: Any, runs: Runs, name: str) -> None:
    shown, resumed = check(lambda folder: shutil.copy(runs.foreign / name, folder / name))
    if name == "config.json":
        assert (shown, resumed) == ("refused", "refused")
    else:
        assert shown == "same"
        assert resumed == ("fallback" if "30." in name else "refused" if name in RESULT else "same")


def test_swapped_files_are_noticed(check: Any) -> None:
    names, rng = [name for name in NAMES if name != "metrics.jsonl"], random.Random(0)
    outcomes = Counter()
    for first in names:
        for second in rng.sample(names, 2):
            shown, resumed = check(lambda folder, a=first, b=second: run_damage.swap(folder / a, folder / b))
            assert (resumed == "refused") == bool({first, second} & set(RESULT)), (first, second)
            outcomes[shown, resumed] += 1
    assert {shown for shown, _ in outcomes} <= {"same", "fallback"}, outcomes


def test_a_result_that_was_changed_is_replaced_where_the_user_says_so(check: Any) -> None:
    def edited(folder: Path) -> None:
        (folder / "scene.ply").write_bytes(b"edited by the user")
        allow_replacing(folder)

    assert check(edited) == ("same", "same")


@pytest.mark.parametrize("pair", ["checkpoints/step-00000030.safetensors", "scene.ply"])
def test_a_result_and_its_record_of_another_run_are_noticed(check: Any, runs: Runs, pair: str) -> None:
    def both(folder: Path) -> None:
        for name in (pair, str(Path(pair).with_suffix(".json"))):
            shutil.copy(runs.foreign / name, folder / name)

    assert check(both) == (("same", "fallback") if "30" in pair else ("same", "refused"))


@pytest.mark.parametrize("count", [6, pytest.param(60, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", JSON)
@pytest.mark.parametrize("reseal", [False, True], ids=["checksum wrong", "checksum right"])
def test_mutated_json(check: Any, name: str, reseal: bool, count: int) -> None:
    """With a right checksum there is nothing to notice, but never a traceback."""
    rng = random.Random(f"{name} {reseal} {count}")
    for _ in range(count):
        check(lambda folder: run_damage.mutate(folder / name, rng, reseal=reseal), exact=not reseal)


@pytest.mark.parametrize("name", ["", ".", "..", "/", "other.ply", "../scene.ply\0"])
def test_a_record_that_names_no_file_is_damaged(check: Any, name: str) -> None:
    def renamed(folder: Path) -> None:
        path = folder / "scene.json"
        path.write_text(json.dumps(sealed({**json.loads(path.read_text()), "file": name})))

    assert check(renamed) == ("same", "refused")
