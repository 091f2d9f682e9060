"""Checkpoints are whole or not there; the run folder says clearly when it cannot be written."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from luxel.render.errors import LuxelError
from luxel.render.runs.checkpoints import checkpoint as checkpoints
from luxel.render.runs.checkpoints.checkpoint import Checkpoint, CheckpointError
from luxel.render.storage.manifest import NAME as MANIFEST
from luxel.render.train.config import Checkpoints


def example(step: int = 7) -> Checkpoint:
    tensors = {
        "a": torch.randn(5, 3),
        "empty": torch.zeros(0, 4),
        "bytes": torch.arange(9, dtype=torch.uint8),
        "transposed": torch.randn(4, 2).T,
        "double": torch.tensor(1 / 3, dtype=torch.float64),
    }
    return Checkpoint(step, tensors, {"seconds": 1.5, "nothing": None})


def test_comes_back_as_it_was(tmp_path: Path) -> None:
    saved = example()
    path = checkpoints.save(tmp_path / "new", saved)
    actual = checkpoints.load(path)
    assert actual.step == 7 and actual.state == saved.state
    for name, tensor in saved.tensors.items():
        assert torch.equal(actual.tensors[name], tensor) and actual.tensors[name].dtype == tensor.dtype
    other_reader = load_file(path.with_suffix(".safetensors"))
    assert torch.equal(other_reader["transposed"], saved.tensors["transposed"])
    assert [p.name for p in (tmp_path / "new").glob(".*")] == [MANIFEST], "a temporary file was left"


def test_keeps_the_newest(tmp_path: Path) -> None:
    for step in (1, 2, 30, 4):
        checkpoints.save(tmp_path, example(step), keep=2)
    names = sorted(path.name for path in tmp_path.glob("step-*"))
    assert names == [f"step-{s:08d}.{kind}" for s in (2, 4, 30) for kind in ("json", "safetensors")]
    checkpoints.save(tmp_path, example(31), keep=2)
    assert [step for step, _ in checkpoints.available(tmp_path)] == [31, 30]


def test_only_checkpoints_that_luxel_wrote_are_removed(tmp_path: Path) -> None:
    for step in (1, 2):
        checkpoints.save(tmp_path, example(step), keep=2)
    mine = tmp_path / "step-00000001.safetensors"
    mine.write_bytes(b"changed by the user")
    (tmp_path / "step-00000003.json").write_bytes(b"of the user")
    checkpoints.save(tmp_path, example(3), keep=1)
    checkpoints.save(tmp_path, example(4), keep=1)
    assert mine.read_bytes() == b"changed by the user"
    assert (tmp_path / "step-00000003.json.before-1").read_bytes() == b"of the user"
    assert [step for step, _ in checkpoints.available(tmp_path)] == [4]


def test_a_link_in_the_place_of_a_checkpoint_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "thesis.txt"
    victim.write_text("years of work")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "step-00000001.safetensors").symlink_to(victim)
    with pytest.raises(CheckpointError, match="symbolic link"):
        checkpoints.save(tmp_path / "run", example(1))
    assert victim.read_text() == "years of work"


@pytest.mark.parametrize("damage", ["cut", "flip", "zero", "gone", "json", "half json", "header"])
def test_damage_is_found_and_the_previous_one_used(tmp_path: Path, damage: str) -> None:
    for step in (1, 2):
        checkpoints.save(tmp_path, example(step))
    tensors, body = tmp_path / "step-00000002.safetensors", tmp_path / "step-00000002.json"
    raw = bytearray(tensors.read_bytes())
    if damage == "cut":
        tensors.write_bytes(raw[:-1])
    elif damage == "flip":
        raw[-5] ^= 1
        tensors.write_bytes(raw)
    elif damage == "zero":
        tensors.write_bytes(b"")
    elif damage == "gone":
        tensors.unlink()
    elif damage == "header":
        raw[0:8] = b"\xff" * 8
        tensors.write_bytes(raw)
    else:
        body.write_bytes(b"" if damage == "json" else body.read_bytes()[: body.stat().st_size // 2])
    with pytest.raises(CheckpointError, match="damaged"):
        checkpoints.load(body)
    said: list[str] = []
    assert checkpoints.load_newest(tmp_path, said.append).step == 1
    assert len(said) == 1 and "step-00000002.json" in said[0] and "step 1 " in said[0]


def test_nothing_whole_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="there is no checkpoint"):
        checkpoints.load_newest(tmp_path, print)
    checkpoints.save(tmp_path, example())
    (tmp_path / "step-00000007.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointError, match="all checkpoints are damaged"):
        checkpoints.load_newest(tmp_path, print)


def full_disk(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Lets every write into a checkpoint fail as on a full disk, once ``after`` bytes are written."""
    real, written = os.fsync, {}

    def fsync(file: int) -> None:
        if MANIFEST not in (path := os.readlink(f"/proc/self/fd/{file}")) and ".luxel-" in path:
            written[os.fstat(file).st_ino] = os.fstat(file).st_size
        if sum(written.values()) > after:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(file)

    monkeypatch.setattr(os, "fsync", fsync)


@pytest.mark.parametrize("after", [0, 700], ids=["tensors", "json"])
def test_a_full_disk_leaves_the_old_checkpoint(tmp_path: Path, monkeypatch: Any, after: int) -> None:
    checkpoints.save(tmp_path, example(1))
    before = {path.name: path.read_bytes() for path in tmp_path.glob("step-*")}
    full_disk(monkeypatch, after)
    with pytest.raises(
        CheckpointError, match=r"step 2 .*No space left.*step 1 is untouched.*Free some disk space"
    ):
        checkpoints.save(tmp_path, example(2), keep=1)
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*step-*")} == before
    with pytest.raises(CheckpointError):
        checkpoints.save(tmp_path, example(1), keep=1)
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*step-*")} == before


def test_training_goes_on_when_the_disk_is_full(toy: Any, tmp_path: Path, monkeypatch: Any) -> None:
    config = toy.config(steps=30, checkpoints=Checkpoints(every=10, minutes=0))
    trainer = toy.trainer(tmp_path / "run", config)

    def fill(trainer: Any) -> None:
        if trainer.steps_done == 15:
            trainer.loop.saver.wait()
            full_disk(monkeypatch, 0)

    result = trainer.run(fill, progress=False)
    assert result.step == 30 and result.checkpoint is None
    assert sum("No space left" in line and "Training continues" in line for line in toy.said) == 2
    monkeypatch.undo()
    assert toy.resume(tmp_path / "run").steps_done == 10


def test_a_real_full_disk(toy: Any, tmp_path: Path) -> None:
    device = Path("/dev/full")
    if not device.exists():
        pytest.skip("full disk not tried: there is no /dev/full")
    with pytest.raises(OSError, match="No space left"):
        checkpoints.write_tensors(device, {"a": torch.zeros(1 << 20)})


@pytest.mark.parametrize("where", ["file", "below a file"])
def test_a_folder_that_cannot_be_written(toy: Any, tmp_path: Path, where: str) -> None:
    blocked = tmp_path / "run"
    blocked.write_text("a file where the folder should be")
    folder = blocked if where == "file" else blocked / "deeper"
    with pytest.raises(LuxelError, match=r"run.*: the run folder cannot be written .*Choose another folder"):
        toy.trainer(folder)


@pytest.mark.skipif(os.geteuid() == 0, reason="not tried: root may write everywhere")
def test_a_folder_without_permission(toy: Any, tmp_path: Path) -> None:
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o500)
    with pytest.raises(LuxelError, match="Permission denied"):
        toy.trainer(folder / "run")


def test_metrics_that_cannot_be_written_end_nothing(toy: Any, tmp_path: Path) -> None:
    trainer = toy.trainer(tmp_path / "run", toy.config(steps=30))
    (tmp_path / "run" / "metrics.jsonl").mkdir()
    assert trainer.run(progress=False).step == 30
    assert sum("metrics.jsonl" in line for line in toy.said) == 1


def test_config_is_json(toy: Any, tmp_path: Path) -> None:
    toy.trainer(tmp_path / "run", about={"capture": "somewhere", "holdout": "every 6th"})
    body = json.loads((tmp_path / "run" / "config.json").read_text())
    assert body["capture"] == "somewhere" and set(body["versions"]) == {"luxel", "torch", "numpy", "cpu"}


def test_a_scene_that_cannot_be_written_loses_nothing_else(toy: Any, tmp_path: Path) -> None:
    def export(_: Any, path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    result = toy.trainer(tmp_path / "run", toy.config(steps=5), export=export).run(progress=False)
    assert result.scene is None and result.checkpoint is not None and result.test_psnr is not None
    assert any("scene.ply could not be written" in line and "No space left" in line for line in toy.said)
    assert not list((tmp_path / "run").glob("*.ply")) and not list((tmp_path / "run").glob(".*.ply"))
