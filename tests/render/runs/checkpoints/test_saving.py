"""Checkpoints that are written while a run goes on, and results that are written beside other work."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from luxel.render.errors import LuxelError
from luxel.render.runs import checkpoint_saving as saving
from luxel.render.runs import loop
from luxel.render.runs.checkpoints import checkpoint as checkpoints
from luxel.render.runs.checkpoints.checkpoint import Checkpoint, CheckpointError, available, load
from luxel.render.runs.controls import RunControls
from luxel.render.runs.folder import run_folder
from luxel.render.runs.folder.run_folder import RunFolder
from luxel.render.runs.loop import CheckpointPolicy, TrainingLoop
from luxel.render.storage.folder import OutputFolder

PATIENCE = 20.0  # seconds


class Growing(RunControls[int, str]):
    """A run whose only tensor, and a list beside it, are changed in place by each step.

    Args:
        fails: step that raises.
        device: of the tensor.
    """

    def __init__(
        self, folder: Path, steps: int = 10, every: int = 0, fails: int = -1, device: str = "cpu"
    ) -> None:
        self.messages: list[str] = []
        self.loop = TrainingLoop(torch.device(device), self.messages.append)
        self.folder = RunFolder(folder, self.say)
        self.steps, self.fails, self.checkpoint_policy = steps, fails, CheckpointPolicy(every, 0.0, 9)
        self.numbers, self.seen = torch.zeros(3, device=device), [0]

    def advance(self) -> int:
        if self.steps_done == self.fails:
            raise LuxelError("The step failed.", "Try another.")
        self.steps_done += 1
        self.numbers += 1
        self.seen[0] += 1
        return self.steps_done

    def synchronize(self) -> bool:
        return False

    def status(self) -> dict[str, Any]:
        return self.loop.counters(self.steps, None)

    def checkpoint(self) -> Checkpoint:
        return Checkpoint(self.steps_done, {"numbers": self.numbers}, {"seen": self.seen})

    def finish_reason(self) -> str:
        return "steps" if self.steps_done >= self.steps else ""

    def evaluate_when_due(self) -> None: ...

    def finish(self, reason: str) -> str:
        self.loop.final_checkpoint(self)
        return reason


class SlowDisk:
    """Checkpoints are not written before `go`; notes the threads that write them, and where their tensors are."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go, self.threads, self.devices, self._save = threading.Event(), [], [], checkpoints.save
        monkeypatch.setattr(run_folder, "save", self)

    def __call__(self, folder: OutputFolder, state: Checkpoint, keep: int, inside: str) -> Path:
        self.threads.append(threading.current_thread())
        self.devices.append(state.tensors["numbers"].device.type)
        assert self.go.wait(PATIENCE)
        return self._save(folder, state, keep, inside)


def steps_of(run: Growing) -> list[int]:
    return sorted(step for step, _ in available(run.folder.checkpoints))


def at(step: int, action: Callable[[], None]) -> Callable[[Any], None]:
    return lambda run: action() if run.steps_done == step else None


def test_steps_go_on_while_a_checkpoint_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, disk = Growing(tmp_path, steps=7, every=4), SlowDisk(monkeypatch)
    assert run.run(at(7, disk.go.set), progress=False) == "steps"
    assert steps_of(run) == [4, 7] and disk.threads[0] is not threading.current_thread()
    for step, path in available(run.folder.checkpoints):
        saved = load(path)
        assert saved.tensors["numbers"].tolist() == [float(step)] * 3 and saved.state["seen"] == [step]


@pytest.mark.gpu
@pytest.mark.parametrize("full", [False, True])
def test_the_state_is_copied_where_it_is_unless_the_gpu_is_full(
    full: bool, gpu: torch.device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, disk = Growing(tmp_path, steps=7, every=4, device=str(gpu)), SlowDisk(monkeypatch)
    if full:
        monkeypatch.setattr(saving, "free_memory", lambda device: 10 if device.type == "cuda" else 1 << 30)
    held: list[int] = []

    def go() -> None:
        held.append(run.loop.saver.held)
        disk.go.set()

    run.run(at(7, go), progress=False)
    assert disk.devices == ["cpu" if full else "cuda", "cuda"] and held == [0 if full else 12]
    assert [load(path).tensors["numbers"].tolist() for _, path in available(run.folder.checkpoints)] == [
        [float(step)] * 3 for step, _ in available(run.folder.checkpoints)
    ]


def test_memory_of_a_copy_does_not_count_as_memory_of_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, disk = Growing(tmp_path, steps=7, every=4), SlowDisk(monkeypatch)
    monkeypatch.setattr(loop, "used_memory", lambda device: 1000)
    used: list[int] = []

    def go() -> None:
        used.append(run.status()["memory"])
        disk.go.set()

    assert run.status()["memory"] == 1000
    run.run(at(6, go), progress=False)
    assert used == [1000 - 12] and run.status()["memory"] == 1000


def test_one_checkpoint_is_written_after_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, disk = Growing(tmp_path, steps=7, every=2), SlowDisk(monkeypatch)
    writing: list[int] = []
    monkeypatch.setattr(
        saving.Saver,
        "_written",
        lambda saver, run, state, real=saving.Saver._written: (
            writing.append(state.step) or real(saver, run, state)
        ),
    )
    threading.Timer(0.2, disk.go.set).start()
    run.run(at(4, lambda: writing.append(-4)), progress=False)
    assert writing == [2, -4, 4, 6, 7] and steps_of(run) == [2, 4, 6, 7]


def test_without_memory_for_a_copy_it_is_written_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, disk = Growing(tmp_path, steps=7, every=4), SlowDisk(monkeypatch)
    disk.go.set()
    monkeypatch.setattr(saving, "free_memory", lambda device: 10)
    run.run(at(4, lambda: None), progress=False)
    assert steps_of(run) == [4, 7] and set(disk.threads) == {threading.current_thread()}


def test_a_run_that_fails_ends_after_its_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, disk = Growing(tmp_path, steps=9, every=4, fails=6), SlowDisk(monkeypatch)
    threading.Timer(0.2, disk.go.set).start()
    with pytest.raises(LuxelError, match="The step failed"):
        run.run(progress=False)
    assert steps_of(run) == [4]


def test_a_checkpoint_that_a_thread_cannot_write_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> Path:
        raise CheckpointError("The disk is full.", "Free some space.")

    run = Growing(tmp_path, steps=7, every=4)
    monkeypatch.setattr(run_folder, "save", full)
    assert run.run(progress=False) == "steps"
    assert [line.startswith("The disk is full.") for line in run.messages] == [True, True]


def finished(folder: Path) -> Growing:
    run = Growing(folder, steps=4)
    run.loop.resume_at(4, 2.5)
    return run


def test_results_are_saved_while_other_work_is_done(tmp_path: Path) -> None:
    run, begun, ended = finished(tmp_path), threading.Event(), threading.Event()

    def results() -> bool:
        begun.set()
        return ended.wait(PATIENCE)

    def work() -> bool:
        together = begun.wait(PATIENCE)
        ended.set()
        return together

    path, saved, done = run.loop.save_alongside(run, results, work)
    assert saved and done and path is not None and load(path).step == 4
    before = path.stat().st_ino
    again, _, _ = run.loop.save_alongside(run, lambda: None, lambda: None)
    assert again == path and path.stat().st_ino == before, "it was there"


def test_results_are_saved_though_the_work_fails(tmp_path: Path) -> None:
    run, go, written = finished(tmp_path), threading.Event(), []

    def results() -> None:
        go.wait(PATIENCE)
        written.append(True)

    def work() -> None:
        threading.Timer(0.2, go.set).start()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.loop.save_alongside(run, results, work)
    assert written and steps_of(run) == [4]
