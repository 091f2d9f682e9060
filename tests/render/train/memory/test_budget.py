"""What a training does when memory runs out: less of it, step by step; at last an error that names what is saved."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import cv2
import pytest
import torch

from luxel.render.errors import LuxelError
from luxel.render.raster.rasterize import rasterize
from luxel.render.runs import memory
from luxel.render.runs.checkpoints.checkpoint import available
from luxel.render.runs.memory import is_out_of_memory, where_memory_ran_out
from luxel.render.storage import reading
from luxel.render.train import trainer
from luxel.render.train.config import Checkpoints
from luxel.render.train.monitor import held_out

BAD_ALLOC = RuntimeError("std::bad_alloc")


def caused_by(cause: Exception) -> LuxelError:
    """An error for the user with a cause, as readers of files raise it."""
    error = LuxelError("a.png: an image that does not fit.", "Close other programs.")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "out"),
    [
        (BAD_ALLOC, True),
        (RuntimeError("[enforce fail] not enough memory: you tried to allocate 9 bytes"), True),
        (cv2.error("OpenCV(4) error: (-4:Insufficient memory) Failed to allocate 9 bytes"), True),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling"), True),
        (caused_by(MemoryError()), True),
        (caused_by(torch.OutOfMemoryError("x")), True),
        (caused_by(ValueError("cut short")), False),
        (OSError(errno.ENOSPC, "No space left on device"), False),
        (KeyError("a"), False),
    ],
)
def test_a_lack_of_memory_is_known(error: Exception, out: bool) -> None:
    assert is_out_of_memory(error) == out


def test_where_memory_ran_out() -> None:
    assert where_memory_ran_out(torch.OutOfMemoryError("x")) == "The GPU"
    assert where_memory_ran_out(RuntimeError("CUDA out of memory.")) == "The GPU"
    assert where_memory_ran_out(MemoryError()) == "This machine"


def test_free_memory_ends_at_limits(tmp_path: Path, monkeypatch: Any) -> None:
    cpu = torch.device("cpu")
    monkeypatch.setattr(reading, "PROCESS", tmp_path)
    monkeypatch.setattr(reading, "CONTROL_GROUPS", tmp_path / "groups")
    (tmp_path / "status").write_text("Name:\tpython\nVmSize:\t    2000 kB\nVmData:\t    1000 kB\n")
    assert memory.free_memory(cpu) > 50 << 20, "no limit"
    limits = {"RLIMIT_AS": 2000 * 1024 + 40_000, "RLIMIT_DATA": 1000 * 1024 + 30_000}
    kinds = {getattr(__import__("resource"), name): limit for name, limit in limits.items()}
    monkeypatch.setattr("resource.getrlimit", lambda kind: (kinds[kind], kinds[kind]))
    assert memory.free_memory(cpu) == 30_000
    inner = tmp_path / "groups/user/run"
    inner.mkdir(parents=True)
    (tmp_path / "cgroup").write_text("0::/user/run\n")
    for folder, most in ((inner, "max"), (inner.parent, "50000")):  # the outer group has the limit
        (folder / "memory.max").write_text(f"{most}\n")
        (folder / "memory.current").write_text("45000\n")
        (folder / "memory.stat").write_text("anon 1\ninactive_file 5000\n")
    assert memory.free_memory(cpu) == 10_000, "cached files count as free"
    old = tmp_path / "groups/memory/run"
    old.mkdir(parents=True)
    (tmp_path / "cgroup").write_text("4:memory:/run\n3:cpu:/other\n")
    (old / "memory.limit_in_bytes").write_text("7000\n")
    (old / "memory.usage_in_bytes").write_text("3000\n")
    (old / "memory.stat").write_text("total_inactive_file 0\n")
    assert memory.free_memory(cpu) == 4000


def test_a_step_has_fewer_views_where_streaming_does_not_help(toy: Any, tmp_path: Path) -> None:
    made: list[Any] = []

    def short_of_memory(*args: Any, **options: Any) -> Any:
        run = made[0] if made else None
        if run is None or not run.dataset.streaming or run.config.batch > 1:
            raise RuntimeError("std::bad_alloc")
        return rasterize(*args, **options)

    made.append(toy.trainer(tmp_path / "run", toy.config(steps=12, batch=4), render=short_of_memory))
    run = made[0]
    for _ in range(12):
        run.advance()
    assert run.steps_done == 12 and run.dataset.streaming and run.config.batch == 1
    about = [line.split(": ")[1] for line in toy.said if "ran out at step 0" in line]
    assert about == [
        "images are streamed step by step from now on.",
        "a step has 2 views from now on.",
        "a step has 1 view from now on.",
    ]
    run.save_checkpoint()
    body = json.loads((tmp_path / "run/config.json").read_text())
    assert body["config"]["batch"] == 1
    assert [change["options"] for change in body["changes"]] == [{"batch": 2}, {"batch": 1}]
    run.dataset.close()
    del run, made[:]
    resumed = toy.resume(tmp_path / "run")
    assert resumed.config.batch == 1 and resumed.steps_done == 12
    resumed.dataset.close()


def test_an_image_that_does_not_fit_steps_down_as_well(toy: Any, tmp_path: Path) -> None:
    failed: list[int] = []

    def short_of_memory(*args: Any, **options: Any) -> Any:
        if not failed:
            failed.append(1)
            raise caused_by(MemoryError())
        return rasterize(*args, **options)

    run = toy.trainer(tmp_path / "run", toy.config(steps=3), render=short_of_memory)
    assert run.run(progress=False).step == 3 and run.dataset.streaming


@pytest.mark.parametrize(("lpips", "failures"), [(False, 1), (True, 2), (True, 9)])
def test_measuring_gives_way(toy: Any, tmp_path: Path, monkeypatch: Any, lpips: bool, failures: int) -> None:
    whole, calls = held_out.measure, []

    def short_of_memory(*args: Any, **options: Any) -> Any:
        calls.append(options["lpips"])
        if len(calls) <= failures:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return whole(*args, **options)

    monkeypatch.setattr(held_out, "measure", short_of_memory)
    run = toy.trainer(tmp_path / "run", toy.config(steps=4, lpips=lpips), export=lambda _, path: path.touch())
    result = run.run(progress=False)
    said = [line for line in toy.said if "while the held-out views were measured" in line]
    assert run.dataset.streaming and "are streamed" in said[0]
    assert calls == ([True, True, False] if lpips else [False, False])
    assert len(said) == min(failures, len(calls))
    assert (result.evaluation is None) == (failures == 9)
    assert result.checkpoint is not None and result.scene is not None, "saved before anything is measured"
    if failures == 9:
        assert f"luxel eval {tmp_path / 'run'} measures them later" in said[-1]


def test_a_checkpoint_that_does_not_fit_ends_nothing(toy: Any, tmp_path: Path, monkeypatch: Any) -> None:
    whole, failed = trainer.state_of, []

    def short_of_memory(run: Any) -> Any:
        if run.steps_done == 4:
            failed.append(4)
            raise MemoryError
        return whole(run)

    monkeypatch.setattr(trainer, "state_of", short_of_memory)
    saving = Checkpoints(every=2, minutes=0, keep=9)
    result = toy.trainer(tmp_path / "run", toy.config(steps=6, checkpoints=saving)).run(progress=False)
    assert result.step == 6 and failed == [4]
    assert [step for step, _ in available(tmp_path / "run/checkpoints")] == [6, 2]
    assert any("No checkpoint of step 4: memory ran out" in line for line in toy.said)


def test_a_checkpoint_is_whole_or_absent(toy: Any, tmp_path: Path, monkeypatch: Any) -> None:
    def short_of_memory(*_: Any) -> Any:
        raise MemoryError

    run = toy.trainer(tmp_path / "run", toy.config(steps=2))
    assert run.save_checkpoint() is not None
    run.advance()
    monkeypatch.setattr("luxel.render.runs.checkpoints.checkpoint.write_tensors", short_of_memory)
    assert run.save_checkpoint() is None
    assert any("memory ran out" in line and "step 0 is untouched" in line for line in toy.said)
    assert [step for step, _ in available(tmp_path / "run/checkpoints")] == [0]
    run.dataset.close()


def test_a_scene_that_cannot_be_written_is_said(toy: Any, tmp_path: Path) -> None:
    def short_of_memory(*_: Any) -> None:
        raise RuntimeError("[enforce fail] not enough memory: you tried to allocate 9 bytes")

    result = toy.trainer(tmp_path / "run", toy.config(steps=2), export=short_of_memory).run(progress=False)
    assert result.scene is None and result.checkpoint is not None
    assert any("scene.ply could not be written (memory ran out)" in line for line in toy.said)
