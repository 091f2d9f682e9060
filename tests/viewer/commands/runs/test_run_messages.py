"""Messages about runs that cannot be used, each with what to do."""

from __future__ import annotations

import errno
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from bad_input import Refused

from luxel.render.bounds import check_text
from luxel.render.errors import LuxelError
from luxel.render.fields.application import make_application
from luxel.render.fields.config import FieldConfig, config_of_run
from luxel.render.fields.files import load_field, save_field
from luxel.render.runs.folder import owner, results
from luxel.render.runs.folder.run_folder import RunFolder
from luxel.render.train import TrainConfig
from luxel.render.train.resume import read_config, read_run
from luxel.scenes.loading.run_results import load_run_field


def test_an_empty_name_is_no_folder(capture: Path, refused: Refused) -> None:
    assert "Give" in refused("train", capture, "--run", "", names="--run")
    with pytest.raises(LuxelError, match="--name is empty") as error:
        check_text("--name", "")
    assert "leave it out" in error.value.remedy


def test_configurations_that_are_none(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LuxelError, match=r"config\.json: no configuration of a field"):
        config_of_run(run, {"config": 3})
    body = {"config": TrainConfig().to_dict(), "extent": "wide"}
    monkeypatch.setattr(RunFolder, "read_body", lambda path, say=None: body)
    with pytest.raises(LuxelError, match=r"config\.json: no configuration of a run \(ValueError") as error:
        read_config(run)
    assert "Restore that file" in error.value.remedy


def test_a_configuration_that_may_not_be_trained_names_its_run(
    run: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(self: Any) -> None:
        raise LuxelError("steps and seconds do not go together.", "Give one.")

    monkeypatch.setattr(TrainConfig, "check", check)
    refused("train", "--resume", run, names=f"{run}: steps and seconds")
    with pytest.raises(LuxelError, match=r"config\.json: steps and seconds"):
        read_run(run, [], {}, print)


def test_a_full_disk_while_a_folder_is_claimed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: int, holder: owner.Owner) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(owner, "_write", full)
    with pytest.raises(LuxelError, match="No space left") as error:
        owner.own(tmp_path)
    assert "free some disk space" in error.value.remedy
    monkeypatch.undo()
    owner.own(tmp_path).release()


def test_a_scene_that_the_disk_does_not_give(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: Path) -> str:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(results, "_hash", broken)
    with pytest.raises(LuxelError, match=r"scene\.ply: cannot be read \(Input/output error") as error:
        results.examine(run / "scene.ply", None)
    assert "disk" in error.value.remedy


def test_fields_that_are_not_finite_or_not_in_the_checkpoint(
    tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    field = make_application(FieldConfig(log2_entries=8))
    with torch.no_grad():
        next(iter(field.parameters())).view(-1)[3] = math.nan
    save_field(tmp_path / "field.safetensors", field)
    with pytest.raises(LuxelError, match="parameters of the field are not finite") as error:
        load_field(tmp_path / "field.safetensors")
    assert "Train it again" in error.value.remedy
    with pytest.raises(LuxelError, match="checkpoints: "):  # of primitives
        load_run_field(run)


def test_no_number_of_clients(refused: Refused, tmp_path: Path) -> None:
    refused("bench", "view", "--client", "python", "--out", tmp_path, "--clients", names="--clients")
