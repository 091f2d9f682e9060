"""The estimate of a link's speed, on links whose speed and delay are known."""

from __future__ import annotations

import pytest

from luxel.viewer.web.transport.link import Link


class Simulation:
    """A link of a speed (bytes a second) and a delay (seconds, one way), by a clock of its own."""

    def __init__(self, speed: float, delay: float) -> None:
        self.now, self.speed, self.delay, self.free_at, self.number = 0.0, speed, delay, 0.0, 0
        self.link = Link(lambda: self.now)
        self.pending: list[tuple[float, int]] = []

    def send(self, size: int) -> None:
        self.number += 1
        self.link.sent(self.number, size)
        self.free_at = max(self.free_at, self.now) + size / self.speed
        self.pending.append((self.free_at + 2 * self.delay, self.number))

    def wait(self) -> None:
        self.now, number = self.pending.pop(0)
        self.link.received(number, 0.0)


@pytest.mark.parametrize("delay", [0.0005, 0.05])
@pytest.mark.parametrize("speed", [1e5, 1e6])
@pytest.mark.parametrize("at_once", [1, 2])
def test_speed_of_a_link(speed: float, delay: float, at_once: int) -> None:
    simulation = Simulation(speed, delay)
    simulation.link.answered(2 * delay)
    for _ in range(at_once):
        simulation.send(60_000)
    for size in (50_000, 80_000, 60_000, 70_000, 40_000, 60_000):
        simulation.wait()
        simulation.send(size)
    estimate = simulation.link.speed
    assert estimate is not None
    # Two messages on their way keep a link busy unless its delay is longer than they take.
    exact = at_once == 1 or 60_000 / speed > 2 * delay
    assert estimate == pytest.approx(speed, rel=0.02) if exact else estimate > speed / 2


def test_small_messages_tell_the_delay() -> None:
    simulation = Simulation(1e6, 0.1)
    for size in (500, 60_000, 60_000, 60_000):
        simulation.send(size)
        simulation.wait()
    assert simulation.link.speed == pytest.approx(1e6, rel=0.02)


def test_speed_follows_a_change_and_is_unknown_at_first() -> None:
    simulation = Simulation(1e6, 0.0)
    for number in range(40):
        assert (simulation.link.speed is None) == (number < 3)
        simulation.speed = 1e6 if number < 20 else 1e5
        simulation.send(50_000)
        simulation.wait()
    assert simulation.link.speed == pytest.approx(1e5, rel=0.05)


def test_unknown_messages_are_ignored() -> None:
    simulation = Simulation(1e6, 0.0)
    simulation.send(50_000)
    simulation.link.forget_sent()
    simulation.wait()
    simulation.link.received(99, 0.0)
    assert simulation.link.speed is None
