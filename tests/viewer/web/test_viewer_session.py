"""Sessions: the share of time that pages may take from training, and what they lend."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

from luxel.render.errors import LuxelError
from luxel.render.primitives import Convexes, Gaussians, Gaussians4d, Parameters
from luxel.render.runs.fair_lock import FairLock
from luxel.viewer.web import session as session_module
from luxel.viewer.web.session import StaticSession, TrainingSession


class FakeTrainer:
    """Trains nothing, in steps of 2 ms, as the real trainer does: lock, step, lock, step."""

    def __init__(self) -> None:
        self.lock = FairLock()
        self.scene: Parameters = Gaussians.empty(0)
        self.step = 0
        self.inside = False
        self.paused = False
        self.done = False
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self.done:
            while self.paused and not self.done:
                time.sleep(0.005)
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


def borrow_for(session: TrainingSession, seconds: float, hold: float = 0.01) -> float:
    """Borrows as often as allowed for a while; the fraction of the time that the scene was held."""
    held, start = 0.0, time.monotonic()
    while time.monotonic() - start < seconds:
        with session.borrow():
            began = time.monotonic()
            time.sleep(hold)
            held += time.monotonic() - began
    return held / (time.monotonic() - start)


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_renders_keep_to_their_share(share: float) -> None:
    with FakeTrainer() as trainer:
        session = TrainingSession(trainer)
        session.share_of_time = share
        fraction = borrow_for(session, 0.8)
    assert 0.3 * share < fraction < share * 1.15 + 0.02  # the last render has not been paid for yet
    assert trainer.step > 30


def test_two_pages_share_one_share() -> None:
    with FakeTrainer() as trainer:
        session = TrainingSession(trainer)
        session.share_of_time = 0.2
        fractions: list[float] = []
        pages = [
            threading.Thread(target=lambda: fractions.append(borrow_for(session, 0.8))) for _ in range(2)
        ]
        for page in pages:
            page.start()
        for page in pages:
            page.join(10)
    assert len(fractions) == 2 and min(fractions) > 0.02, "each page gets a turn"
    assert sum(fractions) < 0.2 * 1.15 + 0.03


def test_paused_training_is_not_spared() -> None:
    with FakeTrainer() as trainer:
        session = TrainingSession(trainer)
        session.share_of_time = 0.05
        session.pause()
        time.sleep(0.05)
        before = trainer.step
        assert session.paused
        assert borrow_for(session, 0.4) > 0.5
        assert trainer.step == before
        session.resume()
        time.sleep(0.3)
        assert not session.paused and trainer.step > before


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
        time.sleep(0.1)
        assert trainer.step > before


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
    with pytest.raises(LuxelError, match="held the scene"), session.borrow():
        pass
    free.set()
    thread.join(5)
    with session.borrow() as gaussians:
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
    with TrainingSession(trainer).borrow() as gaussians:
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
    with session.borrow() as gaussians:
        assert gaussians.sh_degree == 2
    assert not session.trains and not session.paused


def test_sessions_know_their_primitive_and_its_times(carousel: Callable[..., Gaussians4d]) -> None:
    assert (
        StaticSession(Gaussians.empty()).times is None
        and StaticSession(Convexes.empty()).scene_type is Convexes
    )
    assert StaticSession(Convexes.empty(), times=(0.0, 1.0)).times is None, "nothing of them moves"
    session = StaticSession(carousel())
    assert session.scene_type is Gaussians4d and session.times == pytest.approx((0.0, 1.0), abs=0.02)
    assert StaticSession(carousel(), times=(2.0, 3.0)).times == (2.0, 3.0)
    trainer = FakeTrainer()
    assert TrainingSession(trainer).times is None and TrainingSession(trainer).scene_type is Gaussians
    trainer.scene = carousel(times=(0.0, 6.0))
    training = TrainingSession(trainer)
    assert training.scene_type is Gaussians4d and training.times == pytest.approx((0.0, 6.0), abs=0.1)
    assert TrainingSession(trainer, times=(1.0, 2.0)).times == (1.0, 2.0)


def test_a_session_keeps_its_primitive(carousel: Callable[..., Gaussians4d]) -> None:
    session = StaticSession(carousel())
    session.show(carousel(3))
    with session.borrow() as scene:
        assert scene.count == 15
    with pytest.raises(ValueError, match="this session shows 4D Gaussians, not convexes"):
        session.show(Convexes.empty())
    assert session.version == 1
