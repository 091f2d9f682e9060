"""Work that is captured once and replayed: what is dropped meanwhile, and by whom."""

from __future__ import annotations

import gc
import threading

import pytest
import torch

from luxel.render.replay import Replay, release_memory


def used(device: torch.device) -> Replay[torch.Tensor]:
    """One that has captured something."""
    replay: Replay[torch.Tensor] = Replay(device)
    numbers = torch.ones(1000, device=device)
    for _ in range(3):
        replay.run("epoch", "key", lambda: numbers * 2)
    return replay


def test_on_a_cpu_work_runs_each_time():
    replay: Replay[int] = Replay(torch.device("cpu"))
    calls: list[int] = []

    def work() -> int:
        calls.append(len(calls))
        return calls[-1]

    assert [replay.run(epoch, "key", work) for epoch in (0, 0, 1)] == [0, 1, 2]
    assert replay.captures == 0
    replay.forget()


@pytest.mark.gpu
def test_captured_once_and_again_in_a_new_epoch(gpu):
    replay: Replay[torch.Tensor] = Replay(gpu)
    numbers, calls = torch.ones(1000, device=gpu), []

    def work() -> torch.Tensor:
        calls.append(0)
        return numbers * 2

    for epoch, times, called in ((0, 5, 2), (1, 4, 4)):
        for _ in range(times):
            assert replay.run(epoch, "key", work).sum().item() == 2 * numbers.sum().item()
            numbers += 1
        assert len(calls) == called
    assert replay.captures == 2


@pytest.mark.gpu
def test_the_garbage_collector_may_find_an_old_one_while_a_new_one_captures(gpu):
    """torch ends the process if a pool is freed while another is filled."""
    replay: Replay[torch.Tensor] = Replay(gpu)
    numbers = torch.ones(1000, device=gpu)

    def work() -> torch.Tensor:
        old = used_and_in_a_cycle.pop() if used_and_in_a_cycle else None
        del old
        return sum(
            (torch.cat([numbers[:k] for k in range(1, 50)]) for _ in range(50)), torch.zeros((), device=gpu)
        )

    used_and_in_a_cycle = []
    threshold = gc.get_threshold()
    try:
        gc.set_threshold(1, 1, 1)
        for _ in range(2):
            for _ in range(3):
                cycle: list[object] = [used(gpu)]
                cycle.append(cycle)
                used_and_in_a_cycle.append(cycle)
                del cycle
            for _ in range(4):
                replay.run("epoch", "key", work)
            replay.forget()
    finally:
        gc.set_threshold(*threshold)
    assert gc.isenabled()


@pytest.mark.gpu
def test_another_thread_may_drop_its_own_meanwhile(gpu):
    stop, failures = threading.Event(), []

    def come_and_go() -> None:
        try:
            while not stop.is_set():
                used(gpu)
                release_memory()
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        for _ in range(100):
            used(gpu).forget()
    finally:
        stop.set()
        thread.join()
    assert not failures
