"""The time that a page shows of a scene that moves: at rest, or running with a clock."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from luxel.render.camera import View
from luxel.render.primitives import Parameters
from luxel.viewer.web.drawable import Drawable

NORMALISED_SECONDS = 4.0  # for which a capture plays whose times are shares of it, not seconds
STEPS = 1000  # of a slider, at least


def time_range(scene: Drawable, views: Sequence[View] = ()) -> tuple[float, float] | None:
    """First and last time at which there is something to see of a scene.

    Args:
        scene: what is shown.
        views: its photographs; their times count where they differ. Else those of the scene itself do, from the 1st
            to the 99th percentile.

    Returns:
        Start and end, start < end, in the unit of the capture's times; None where nothing moves.
    """
    if not scene.moves:
        return None
    times = torch.tensor([view.time for view in views], dtype=torch.float64)
    if not _spread(times) and isinstance(scene, Parameters):
        own = scene.tensors()["times"].detach().flatten()
        own = own[:: max(1, own.numel() // 100_000)].cpu().double()
        own = own[own.isfinite()]
        if own.numel():
            times = torch.quantile(own, torch.tensor([0.01, 0.99], dtype=torch.float64))
    if _spread(times):
        return float(times.min()), float(times.max())
    middle = float(times[0]) if times.numel() and math.isfinite(times[0]) else 0.5
    return middle - 0.5, middle + 0.5


def _spread(times: torch.Tensor) -> bool:
    return times.numel() > 1 and bool(times.isfinite().all()) and float(times.max()) > float(times.min())


def play_seconds(times: tuple[float, float]) -> float:
    """How long a range of times takes at its usual speed: 4 s where it lies within [0, 1], else as many as it has."""
    start, end = times
    return NORMALISED_SECONDS if start >= 0 and end <= 1 else end - start


def slider_step(times: tuple[float, float]) -> float:
    """A power of ten that divides a range into 1,000 to 10,000 steps."""
    return 10.0 ** math.floor(math.log10((times[1] - times[0]) / STEPS) + 1e-9)


@dataclass(frozen=True)
class Playback:
    """The time of one page. Whatever changes gives a new one; ``now`` is always the reading of one clock, seconds.

    Args:
        start, end: of the scene, start < end.
        time: at rest; while it runs, where it was at ``since``.
        since: when it began to run; None: at rest.
        speed: times the usual one, see `play_seconds`.
        loop: begin anew at the end, instead of resting there.
    """

    start: float
    end: float
    time: float
    since: float | None = None
    speed: float = 1.0
    loop: bool = True

    @staticmethod
    def over(times: tuple[float, float], time: float | None = None) -> Playback:
        """At rest within a range, at ``time`` (the nearest in the range) or at its start."""
        start, end = times
        return Playback(start, end, start if time is None else min(max(time, start), end))

    def at(self, now: float) -> float:
        """The time that is shown, from ``start`` to ``end``."""
        if self.since is None:
            return self.time
        later = self._unbounded(now)
        if later <= self.end:
            return later
        return self.start + (later - self.start) % (self.end - self.start) if self.loop else self.end

    def runs(self, now: float) -> bool:
        """Whether the time goes on."""
        return self.since is not None and (self.loop or self._unbounded(now) < self.end)

    def play(self, now: float) -> Playback:
        """Running, from the start again where it had come to the end."""
        time = self.at(now)
        return replace(self, time=time if time < self.end else self.start, since=now)

    def pause(self, now: float) -> Playback:
        """At rest where it is."""
        return replace(self, time=self.at(now), since=None)

    def seek(self, time: float) -> Playback:
        """At rest at ``time``, or at the nearest in the range; the start for what is not a number."""
        return replace(
            self, time=min(max(time, self.start), self.end) if time == time else self.start, since=None
        )

    def paced(self, speed: float, now: float) -> Playback:
        """Where it is, at another speed."""
        return replace(self, time=self.at(now), since=None if self.since is None else now, speed=speed)

    def repeated(self, loop: bool, now: float) -> Playback:
        """Where it is, from now on with or without beginning anew at the end."""
        return replace(self, time=self.at(now), since=None if self.since is None else now, loop=loop)

    def _unbounded(self, now: float) -> float:
        assert self.since is not None
        rate = self.speed * (self.end - self.start) / play_seconds((self.start, self.end))
        return self.time + rate * max(0.0, now - self.since)
