"""Runs without a manifest, of luxel 0.2.0 and earlier: what they wrote is theirs, and nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from luxel.render.runs.folder.earlier_versions import adopt_earlier_version, is_sealed_config
from luxel.render.runs.folder.run_folder import RunFolder
from luxel.render.storage.descriptors import ForeignFileError
from luxel.render.storage.folder import OutputFolder
from luxel.render.storage.manifest import NAME as MANIFEST
from luxel.render.train.config import Checkpoints
from luxel.scenes import save_scene


@pytest.fixture
def run(toy: Any, tmp_path: Path) -> Path:
    """A finished run of 30 steps without its manifest."""
    config = toy.config(steps=30, checkpoints=Checkpoints(every=10, minutes=0))
    toy.trainer(tmp_path / "run", config, export=lambda scene, path: save_scene(path, scene)).run(
        progress=False
    )
    (tmp_path / "run" / MANIFEST).unlink()
    return tmp_path / "run"


def test_its_own_files_are_replaced_and_deleted(toy: Any, run: Path) -> None:
    again = toy.resume(run, overrides={"steps": 40}, export=lambda scene, path: save_scene(path, scene))
    result = again.run(progress=False)
    assert result.step == 40 and result.scene is not None
    assert not (run / "checkpoints" / "step-00000020.json").exists(), "two are retained"
    assert not list(run.glob("**/*.before-*"))


def test_a_result_that_was_changed_is_not_its_own(toy: Any, run: Path) -> None:
    (run / "scene.ply").write_bytes(b"edited by the user")
    with pytest.raises(ForeignFileError, match=r"scene\.ply"):
        toy.resume(run)
    assert (run / "scene.ply").read_bytes() == b"edited by the user"


def test_damaged_and_foreign_checkpoints_are_not_its_own(toy: Any, run: Path, tmp_path: Path) -> None:
    damaged = run / "checkpoints" / "step-00000030.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    toy.trainer(tmp_path / "other", toy.config(steps=5, seed=3)).run(progress=False)
    for path in (tmp_path / "other" / "checkpoints").iterdir():
        shutil.copy(path, run / "checkpoints")
    output = OutputFolder(run)
    assert adopt_earlier_version(output)
    own = {name for name in output.names() if name.startswith("checkpoints/")}
    assert own == {f"checkpoints/step-00000020.{suffix}" for suffix in ("json", "safetensors")}
    assert not adopt_earlier_version(output), "once"


@pytest.mark.parametrize("damage", ["no config", "no json", "configuration alone"])
def test_a_folder_that_is_no_run_is_left_alone(run: Path, damage: str) -> None:
    if damage == "no config":
        (run / "config.json").unlink()
    elif damage == "no json":
        (run / "config.json").write_text("{")
    else:
        for name in ("checkpoints", "scene.ply", "scene.json"):
            path = run / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert not adopt_earlier_version(OutputFolder(run))
    assert is_sealed_config(run) == (damage == "configuration alone")


def test_a_configuration_that_others_wrote_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"mine": 1}')
    with pytest.raises(ForeignFileError, match=r"config\.json"):
        RunFolder(tmp_path, print).require_new()
    assert (tmp_path / "config.json").read_text() == '{"mine": 1}'
