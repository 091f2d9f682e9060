"""The time that a page shows of a dynamic scene: paused, or playing by a clock."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

NORMALISED_SECONDS = 4.0  # playing time of a capture whose times are fractions of it, not seconds
STEPS = 1000  # least number of steps of a slider


def play_seconds(times: tuple[float, float]) -> float:
    """Seconds that a range of times takes at speed 1: 4 s if it lies within [0, 1], else its own length."""
    start, end = times
    return NORMALISED_SECONDS if start >= 0 and end <= 1 else end - start


def slider_step(times: tuple[float, float]) -> float:
    """A power of ten that divides a range into 1,000 to 10,000 steps."""
    return 10.0 ** math.floor(math.log10((times[1] - times[0]) / STEPS) + 1e-9)


@dataclass(frozen=True)
class Playback:
    """The playback state of one page. Changes return a new one; ``now`` is always a reading of the same clock, seconds.

    Args:
        start, end: of the scene, start < end.
        time: what is shown while paused; while playing, what was shown at ``since``.
        since: clock reading at which it began to play; None: paused.
        speed: 1 plays the range in `play_seconds`.
        loop: start again at the end, instead of stopping there.
    """

    start: float
    end: float
    time: float
    since: float | None = None
    speed: float = 1.0
    loop: bool = True

    @staticmethod
    def over(times: tuple[float, float], time: float | None = None) -> Playback:
        """Paused at ``time`` (clamped to the range), or at the start of the range."""
        start, end = times
        return Playback(start, end, start if time is None else min(max(time, start), end))

    def at(self, now: float) -> float:
        """The time that is shown, from ``start`` to ``end``."""
        if self.since is None:
            return self.time
        time = self._unbounded(now)
        if time <= self.end:
            return time
        return self.start + (time - self.start) % (self.end - self.start) if self.loop else self.end

    def runs(self, now: float) -> bool:
        """Whether it plays and has not come to its end."""
        return self.since is not None and (self.loop or self._unbounded(now) < self.end)

    def play(self, now: float) -> Playback:
        """Playing; from the start if it was at the end."""
        time = self.at(now)
        return replace(self, time=time if time < self.end else self.start, since=now)

    def pause(self, now: float) -> Playback:
        """Paused where it is."""
        return replace(self, time=self.at(now), since=None)

    def seek(self, time: float) -> Playback:
        """Paused at ``time``, clamped to the range; at the start for NaN."""
        return replace(
            self, time=min(max(time, self.start), self.end) if time == time else self.start, since=None
        )

    def with_speed(self, speed: float, now: float) -> Playback:
        """At the same time, with another speed."""
        return replace(self, time=self.at(now), since=None if self.since is None else now, speed=speed)

    def with_loop(self, loop: bool, now: float) -> Playback:
        """At the same time, with or without starting again at the end."""
        return replace(self, time=self.at(now), since=None if self.since is None else now, loop=loop)

    def _unbounded(self, now: float) -> float:
        assert self.since is not None
        rate = self.speed * (self.end - self.start) / play_seconds((self.start, self.end))
        return self.time + rate * max(0.0, now - self.since)
