"""The training loop with a run of numbers: pauses, Ctrl-C, stops, repeats, checkpoints and evaluations when due."""

from __future__ import annotations

import io
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from luxel.render.runs.checkpoints.checkpoint import Checkpoint, available, load
from luxel.render.runs.checkpoints.resume import with_overrides
from luxel.render.runs.controls import RunControls
from luxel.render.runs.folder.run_folder import RunFolder
from luxel.render.runs.loop import CheckpointPolicy, TrainingLoop
from luxel.render.runs.progress import ProgressDisplay
from luxel.render.runs.readback import RUN_AHEAD, ReadbackQueue


class Counting(RunControls[int, str]):
    """A run whose state is a number.

    Args:
        repeats: steps that have no effect the first time, found out by `synchronize`.
    """

    def __init__(
        self,
        folder: Path,
        steps: int = 10,
        policy: tuple[int, float, int] = (0, 0.0, 2),
        evaluate_every: int = 0,
        repeats: tuple[int, ...] = (),
    ) -> None:
        self.messages: list[str] = []
        self.loop = TrainingLoop(torch.device("cpu"), self.messages.append)
        self.folder = RunFolder(folder, self.say)
        self.steps, self.checkpoint_policy = steps, CheckpointPolicy(*policy)
        self.evaluate_every, self.repeats = evaluate_every, list(repeats)
        self.advanced: list[int] = []
        self.evaluated: list[int] = []
        self.saved: Path | None = None

    def advance(self) -> int:
        self.advanced.append(self.steps_done)
        self.steps_done += 1
        return self.steps_done

    def synchronize(self) -> bool:
        if self.repeats and self.steps_done > self.repeats[0]:
            self.steps_done = self.repeats.pop(0)
            return True
        return False

    def status(self) -> dict[str, Any]:
        counters = self.loop.counters(self.steps, None)
        return {
            **counters,
            "progress": self.steps_done / self.steps,
            "loss": 0.5,
            "count": 1,
            "noun": "number",
        }

    def checkpoint(self) -> Checkpoint:
        return Checkpoint(self.steps_done, {"number": torch.tensor([float(self.steps_done)])}, {})

    def finish_reason(self) -> str:
        return "steps" if self.steps_done >= self.steps else ""

    def evaluate_when_due(self) -> None:
        if self.loop.is_due(self.evaluate_every, self.steps):
            self.evaluated.append(self.steps_done)

    def finish(self, reason: str) -> str:
        self.saved = self.loop.final_checkpoint(self)
        if reason == "interrupted":
            self.loop.say_how_to_resume(self, self.saved)
        self.loop.done = reason != "interrupted"
        return reason


def at(step: int, action: Callable[[Any], None]) -> Callable[[Any], None]:
    """Calls ``action`` with the run after step ``step``."""
    return lambda run: action(run) if run.steps_done == step else None


def test_checkpoints_and_evaluations_come_when_due(tmp_path: Path) -> None:
    run = Counting(tmp_path, 10, policy=(3, 0.0, 9), evaluate_every=5)
    assert run.run(progress=False) == "steps" and run.done
    assert [step for step, _ in available(tmp_path / "checkpoints")] == [10, 9, 6, 3]
    assert run.evaluated == [5], "the last step is left to `finish`"
    assert run.saved is not None and load(run.saved).tensors["number"].item() == 10
    assert run.advanced == list(range(10)) and run.train_seconds > 0


def test_a_checkpoint_comes_by_time(tmp_path: Path) -> None:
    def an_hour_later(run: Any) -> None:
        run.loop.saver.taken_at -= 3600

    run = Counting(tmp_path, 5, policy=(0, 30.0, 9))
    run.run(at(2, an_hour_later), progress=False)
    assert [step for step, _ in available(tmp_path / "checkpoints")] == [5, 2]


def test_only_the_newest_checkpoints_are_kept(tmp_path: Path) -> None:
    Counting(tmp_path, 9, policy=(2, 0.0, 2)).run(progress=False)
    assert [step for step, _ in available(tmp_path / "checkpoints")] == [9, 8]


def test_a_checkpoint_that_was_resumed_is_not_written_again(tmp_path: Path) -> None:
    Counting(tmp_path, 4).run(progress=False)
    ((_, saved),) = available(tmp_path / "checkpoints")
    before = saved.stat().st_ino
    run = Counting(tmp_path, 4)
    run.loop.resume_at(4, 2.5)
    assert run.run(progress=False) == "steps" and run.train_seconds == 2.5
    assert run.advanced == [] and saved.stat().st_ino == before
    saved.unlink()
    run = Counting(tmp_path, 4)
    run.loop.resume_at(4, 2.5)
    run.run(progress=False)
    assert saved.exists(), "one that is gone is written again"


def test_steps_without_effect_are_repeated(tmp_path: Path) -> None:
    run = Counting(tmp_path, 6, policy=(3, 0.0, 9), repeats=(2, 5))
    assert run.run(progress=False) == "steps"
    assert run.advanced == [0, 1, 2, 2, 3, 4, 5, 5], "found at the checkpoint of step 3, and at the end"
    assert [step for step, _ in available(tmp_path / "checkpoints")] == [6, 3]


def test_a_stop_ends_the_run_early(tmp_path: Path) -> None:
    run = Counting(tmp_path, 10**9)
    assert run.run(at(4, lambda run: run.request_stop()), progress=False) == "stopped"
    assert run.done and run.steps_done == 4 and run.saved is not None


def test_ctrl_c_saves_and_names_the_command_to_resume(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    run = Counting(tmp_path, 10**9)
    assert run.run(at(3, lambda _: os.kill(os.getpid(), signal.SIGINT)), progress=False) == "interrupted"
    assert not run.done and load(run.saved or tmp_path).step == run.steps_done >= 3
    assert "Press it again to abort" in run.messages[0]
    assert run.messages[-1].endswith(f"Resume with: luxel train --resume {tmp_path}")
    assert signal.getsignal(signal.SIGINT) == before


def test_a_second_ctrl_c_aborts(tmp_path: Path) -> None:
    run = Counting(tmp_path, 10**9)

    def impatient() -> int:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)
        return 0

    run.advance = impatient
    with pytest.raises(KeyboardInterrupt):
        run.run(progress=False)
    assert not available(tmp_path / "checkpoints")


def test_a_pause_holds_the_run_until_it_is_resumed(tmp_path: Path) -> None:
    run = Counting(tmp_path, 10)
    thread = threading.Thread(
        target=run.run, args=(at(4, lambda run: run.pause()),), kwargs={"progress": False}
    )
    thread.start()
    deadline = time.monotonic() + 20
    while not run.paused and time.monotonic() < deadline:
        time.sleep(0.005)
    assert run.paused and run.steps_done == 4 and run.status()["paused"]
    thread.join(0.25)
    assert thread.is_alive() and run.steps_done == 4
    run.resume_training()
    thread.join(20)
    assert not thread.is_alive() and run.steps_done == 10 and run.done


def test_an_error_of_a_callback_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def broken(_: Any) -> None:
        raise RuntimeError("a page went away")

    assert Counting(tmp_path, 5).run(broken) == "steps"
    assert sum("on_step failed" in record.message for record in caplog.records) == 1


def test_the_lock_is_held_during_a_step_only(tmp_path: Path) -> None:
    run = Counting(tmp_path, 3)
    free: list[bool] = []

    def try_lock() -> None:
        free.append(run.lock.acquire(blocking=False))
        if free[-1]:
            run.lock.release()

    def look(_: Any = None) -> None:
        thread = threading.Thread(target=try_lock)
        thread.start()
        thread.join(20)

    advance = run.advance
    run.advance = lambda: (look(), advance())[1]
    run.run(look, progress=False)
    assert free == [False, True] * 3


def test_the_display_shows_the_status_of_a_run(tmp_path: Path) -> None:
    out, run = io.StringIO(), Counting(tmp_path, 4)
    run.loop._display = ProgressDisplay(Console(file=out, width=200), plain_every=0)
    run.run()
    assert "step 3/4" in out.getvalue() and "loss 0.5  number 1" in out.getvalue()
    assert out.getvalue().count("\n") == 4
    counters = run.loop.counters(4, 100.0)
    assert counters["step"] == counters["steps"] == 4 and counters["done"] and counters["eta"] == 0


def test_the_time_left_is_bounded_by_a_time_limit(tmp_path: Path) -> None:
    run = Counting(tmp_path, 10**9)
    run.step()
    assert 0 <= run.loop.counters(10**9, 60.0)["eta"] <= 60
    assert run.loop.counters(10**9, None)["eta"] > 60


class Late:
    """An event of a device that happens when it is waited for."""

    def __init__(self) -> None:
        self.happened = False

    def query(self) -> bool:
        return self.happened

    def synchronize(self) -> None:
        self.happened = True


def test_readbacks_wait_only_when_too_many_are_in_flight() -> None:
    queue, events = ReadbackQueue(torch.device("cpu")), [Late() for _ in range(RUN_AHEAD + 2)]
    for step, event in enumerate(events):
        queue.push(step, torch.tensor(float(step)), None)
        queue._in_flight[-1].event = event  # type: ignore[assignment]
    assert [readback.step for readback in queue.arrived()] == [0, 1]
    assert [event.happened for event in events] == [True, True] + [False] * RUN_AHEAD
    events[2].happened = True
    (arrived,) = queue.arrived()
    assert arrived.step == 2 and arrived.tensors[0] == 2 and arrived.tensors[1] is None
    assert [readback.step for readback in queue.arrived(wait=True)] == [3, 4, 5]
    queue.push(9)
    queue.clear()
    assert not list(queue.arrived(wait=True))


def test_readbacks_of_a_gpu_are_copies(gpu: torch.device) -> None:
    queue, status = ReadbackQueue(gpu), torch.zeros(4, dtype=torch.int32, device=gpu)
    queue.push(1, status, None)
    status += 1
    queue.push(2, status, None)
    taken = [readback.tensors[0] for readback in queue.arrived(wait=True)]
    assert [t.tolist() for t in taken if t is not None] == [[0] * 4, [1] * 4]
    assert all(t is not None and t.is_pinned() for t in taken)


def test_overrides_go_by_dotted_names() -> None:
    values = {"steps": 3, "rates": {"means": 1.0, "quats": 2.0}}
    changed = with_overrides(values, {"steps": 5, "rates.means": 0.5, "rates.nonsense": 1})
    assert changed == {"steps": 5, "rates": {"means": 0.5, "quats": 2.0, "nonsense": 1}}
    assert values == {"steps": 3, "rates": {"means": 1.0, "quats": 2.0}}
    assert with_overrides({}, {"strategy.kind": "mcmc"}) == {"strategy": {"kind": "mcmc"}}
