"""Sessions: the share of time that pages may take from training, and what they lend."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from shown import StaticSession, TrainingSession

from luxel.render.errors import LuxelError
from luxel.render.primitives import Convexes, Gaussians, Gaussians4d, Parameters
from luxel.render.runs.fair_lock import FairLock
from luxel.viewer.web import session as session_module


class FakeTrainer:
    """Trains nothing, in steps of 2 ms, as the real trainer does: lock, step, lock, step."""

    def __init__(self) -> None:
        self.lock = FairLock()
        self.scene: Parameters = Gaussians.empty(0)
        self.step = 0
        self.inside = False
        self.resting = False
        self.paused = False
        self.done = False
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self.done:
            while self.paused and not self.done:
                self.resting = True
                time.sleep(0.005)
            self.resting = False
            with self.lock:
                self.inside = True
                time.sleep(0.002)
                self.step += 1
                self.inside = False

    def pause(self) -> None:
        self.paused = True

    def resume_training(self) -> None:
        self.paused = False

    def status(self) -> dict[str, Any]:
        return {"step": self.step, "paused": self.paused, "done": self.done, "count": 0}

    def __enter__(self) -> FakeTrainer:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.done = True
        self.thread.join(5)


class Clock:
    """Stands in for `time` in the session: its time passes when the session sleeps and when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of sessions, moved by hand: shares of time are exact, however busy the machine is."""
    clock = Clock()
    monkeypatch.setattr(session_module, "time", clock)
    return clock


def borrow_often(session: TrainingSession, clock: Clock, times: int, hold: float = 0.01) -> None:
    """Borrows as soon as allowed, and holds the scene for a while of the clock."""
    for _ in range(times):
        with session.borrow():
            clock.now += hold


def until(condition: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Waits for what a busy machine may take long to do."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)
    return condition()


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_renders_keep_to_their_share(clock: Clock, share: float) -> None:
    with FakeTrainer() as trainer:
        session = TrainingSession(trainer)
        session.share_of_time = share
        borrow_often(session, clock, 40)
        waited = clock.now - 40 * 0.01
        assert waited == pytest.approx(39 * 0.01 * (1 / share - 1)), (
            "the last render has not been paid for yet"
        )
        assert until(lambda: trainer.step > 30)


def test_two_pages_share_one_share(clock: Clock) -> None:
    with FakeTrainer() as trainer:
        session = TrainingSession(trainer)
        session.share_of_time = 0.2
        pages = [threading.Thread(target=borrow_often, args=(session, clock, 20)) for _ in range(2)]
        for page in pages:
            page.start()
        for page in pages:
            page.join(60)
        assert not any(page.is_alive() for page in pages), "each page gets its turns"
    assert clock.now == pytest.approx(40 * 0.01 + 39 * 0.04)


def test_paused_training_is_not_spared(clock: Clock) -> None:
    with FakeTrainer() as trainer:
        session = TrainingSession(trainer)
        session.share_of_time = 0.05
        session.pause()
        assert until(lambda: trainer.resting)
        before = trainer.step
        assert session.paused
        borrow_often(session, clock, 20)
        assert clock.now == pytest.approx(20 * 0.01), "no render has to wait"
        assert trainer.step == before
        session.resume()
        assert until(lambda: trainer.step > before) and not session.paused


def test_no_step_while_lent() -> None:
    with FakeTrainer() as trainer:
        session = TrainingSession(trainer)
        session.share_of_time = 1.0
        for _ in range(20):
            with session.borrow():
                step = trainer.step
                assert not trainer.inside
                time.sleep(0.004)
                assert trainer.step == step and not trainer.inside


def test_an_error_gives_the_scene_back() -> None:
    with FakeTrainer() as trainer:
        session = TrainingSession(trainer)
        with pytest.raises(ZeroDivisionError), session.borrow():
            _ = 1 / 0
        before = trainer.step
        assert until(lambda: trainer.step > before)


def test_a_trainer_that_hangs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "LOCK_PATIENCE", 0.05)
    trainer = FakeTrainer()
    held, free = threading.Event(), threading.Event()

    def hang() -> None:
        with trainer.lock:
            held.set()
            free.wait(5)

    thread = threading.Thread(target=hang)
    thread.start()
    held.wait(5)
    session = TrainingSession(trainer)
    with pytest.raises(LuxelError, match="locked the scene"), session.borrow():
        pass
    free.set()
    thread.join(5)
    with session.borrow() as shown:
        gaussians = shown.parts[Parameters]
        assert gaussians.count == 0


def test_lent_gaussians_carry_no_gradients() -> None:
    trainer = FakeTrainer()
    trainer.scene = Gaussians(
        torch.zeros(2, 3),
        torch.zeros(2, 4),
        torch.zeros(2, 3),
        torch.zeros(2),
        torch.zeros(2, 3),
        torch.zeros(2, 0, 3),
    ).requires_grad_()
    with TrainingSession(trainer).borrow() as shown:
        gaussians = shown.parts[Parameters]
        assert not any(t.requires_grad for t in gaussians.tensors().values())
        assert gaussians.tensors()["means"].data_ptr() == trainer.scene.tensors()["means"].data_ptr(), (
            "lent, not copied"
        )


def test_static_session_shows_what_it_is_given() -> None:
    session = StaticSession(Gaussians.empty(0))
    version = session.version
    other = Gaussians.empty(2)
    session.show(other)
    assert session.version != version
    assert session.status() == {"count": 0, "sh_degree": 2}
    with session.borrow() as shown:
        gaussians = shown.parts[Parameters]
        assert gaussians.sh_degree == 2
    assert not session.trains and not session.paused


def test_sessions_know_their_primitive_and_its_times(carousel: Callable[..., Gaussians4d]) -> None:
    assert (
        StaticSession(Gaussians.empty()).times is None
        and StaticSession(Convexes.empty()).primitives is Convexes
    )
    assert StaticSession(Convexes.empty(), times=(0.0, 1.0)).times is None, "nothing of them moves"
    session = StaticSession(carousel())
    assert session.primitives is Gaussians4d and session.times == pytest.approx((0.0, 1.0), abs=0.02)
    assert StaticSession(carousel(), times=(2.0, 3.0)).times == (2.0, 3.0)
    trainer = FakeTrainer()
    assert TrainingSession(trainer).times is None and TrainingSession(trainer).primitives is Gaussians
    trainer.scene = carousel(times=(0.0, 6.0))
    training = TrainingSession(trainer)
    assert training.primitives is Gaussians4d and training.times == pytest.approx((0.0, 6.0), abs=0.1)
    assert TrainingSession(trainer, times=(1.0, 2.0)).times == (1.0, 2.0)


def test_a_session_keeps_its_primitive(carousel: Callable[..., Gaussians4d]) -> None:
    session = StaticSession(carousel())
    session.show(carousel(3))
    with session.borrow() as shown:
        scene = shown.parts[Parameters]
        assert scene.count == 15
    with pytest.raises(ValueError, match="scene must be 4D Gaussians as this session shows, got convexes"):
        session.show(Convexes.empty())
    assert session.version == 1
