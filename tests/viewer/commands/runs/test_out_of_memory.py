"""Commands that memory runs out of: one message, what is saved, and never a traceback."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from PIL import Image

from luxel.render.fields.training.trainer import FieldTrainer
from luxel.render.train.trainer import Trainer
from luxel.viewer.cli import main

SHORT = ["--device", "cpu", "--steps", "6", "--no-lpips"]


def refused(words: list[str], capfd: pytest.CaptureFixture[str]) -> str:
    """What a command that must fail with status 2 prints to stderr: one message."""
    capfd.readouterr()
    assert main(words) == 2
    said = capfd.readouterr().err
    assert "Traceback" not in said
    assert len([line for line in said.splitlines() if line.startswith("luxel: ")]) == 1, said
    return said


def test_the_newest_checkpoint_is_named(
    sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    whole, run = Trainer._one_step, tmp_path / "run"

    def short_of_memory(self: Trainer):
        if self.steps_done >= 3:
            raise RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes.")
        return whole(self)

    monkeypatch.setattr(Trainer, "_one_step", short_of_memory)
    said = refused(["train", str(sound), "--run", str(run), *SHORT], capfd)
    assert "memory of this machine ran out at step 3. The newest checkpoint is of step 3" in said
    assert str(run / "checkpoints/step-00000003.json") in said and f"luxel train --resume {run}" in said
    monkeypatch.undo()
    assert main(["train", "--resume", str(run), *SHORT]) == 0, "the advice works"


def test_without_a_checkpoint_it_says_so(
    sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def short_of_memory(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(Trainer, "_one_step", short_of_memory)
    monkeypatch.setattr(Trainer, "checkpoint", short_of_memory)
    said = refused(["train", str(sound), "--run", str(tmp_path / "run"), *SHORT], capfd)
    assert "ran out at step 0, before a checkpoint was saved" in said and "--max-size" in said


def test_an_image_that_is_damaged_meanwhile_ends_a_run_that_is_saved(
    sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    whole, run, bad = Trainer._one_step, tmp_path / "run", tmp_path / "capture/images"
    shutil.copytree(sound, tmp_path / "capture")

    def damaging(self: Trainer):
        if self.steps_done == 3:
            for image in bad.iterdir():
                image.write_bytes(b"no image")
        return whole(self)

    monkeypatch.setattr(Trainer, "_one_step", damaging)
    monkeypatch.setattr("luxel.scenes.captures.images.images.free_memory", lambda: 0)
    words = ["train", "--images", "stream", *SHORT[:2], "--no-lpips", "--no-check-capture"]
    said = refused([*words, str(tmp_path / "capture"), "--run", str(run), "--steps", "60"], capfd)
    assert "cannot be read as an image" in said and f"Then: luxel train --resume {run}" in said
    assert max(int(path.stem[5:]) for path in (run / "checkpoints").glob("*.json")) >= 3


def test_a_field_keeps_its_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    whole, run = FieldTrainer.advance, tmp_path / "run"

    def short_of_memory(self: FieldTrainer) -> int:
        if self.steps_done >= 4:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return whole(self)

    Image.new("RGB", (24, 16), "red").save(tmp_path / "image.png")
    monkeypatch.setattr(FieldTrainer, "advance", short_of_memory)
    words = ["train", str(tmp_path / "image.png"), "--field", "image", "--log2-entries", "8"]
    said = refused([*words, "--run", str(run), "--device", "cpu", "--steps", "6"], capfd)
    assert "ran out at step 4. The newest checkpoint is of step 4" in said
    assert "--batch" in said and f"luxel train --resume {run}" in said


def test_a_report_that_does_not_fit_leaves_the_run_complete(
    sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def short_of_memory(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr("luxel.viewer.training.train_scene.ReportAlongside.finish", short_of_memory)
    assert main(["train", str(sound), "--run", str(tmp_path / "run"), *SHORT]) == 0
    assert "memory ran out while the report was written" in capfd.readouterr().err
    assert (tmp_path / "run/scene.ply").is_file()


@pytest.mark.parametrize("words", [["eval"], ["export", "--out", "scene.ply"], ["view", "--port", "0"]])
def test_other_commands(
    words: list[str],
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def short_of_memory(*_: object, **__: object) -> None:
        raise RuntimeError("std::bad_alloc")

    monkeypatch.chdir(tmp_path)
    for place in (
        "luxel.scenes.loading.run_results.load_primitives",
        "luxel.viewer.commands.export.load_any_scene",
    ):
        monkeypatch.setattr(place, short_of_memory, raising=False)
    said = refused([words[0], str(run), *words[1:]], capfd)
    assert "This machine ran out of memory." in said
