"""Latency and cost of the images of one page."""

from __future__ import annotations

import statistics
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

WINDOW = 10.0  # seconds over which figures are taken
MOST = 1200  # images over which figures are taken


@dataclass(frozen=True)
class Figures:
    """Figures of the last seconds.

    Args:
        images: number of images drawn.
        fps: images displayed in the last second, by the gaps between them; 0 for fewer than three.
        latency_ms, latency_p95_ms: from a frame of the page until the image of its camera was displayed, median and
            95th percentile; None before the first.
        render_ms, encode_ms, decode_ms: medians; waiting excluded.
        kilobytes: median size of an image, 1000 bytes.
        encoding: what most images were: JPEG, PNG or a video codec.
    """

    images: int
    fps: float
    latency_ms: float | None
    latency_p95_ms: float | None
    render_ms: float
    encode_ms: float
    decode_ms: float
    kilobytes: float
    encoding: str


@dataclass(frozen=True, slots=True)
class _Displayed:
    at: float
    render_ms: float
    encode_ms: float
    decode_ms: float
    latency_ms: float | None
    size: int
    encoding: str


class StreamFigures:
    """Collects what the server and the page measure of each image; may be called from any thread.

    Args:
        clock: seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._sent: dict[int, tuple[float, float, int, str]] = {}
        self._displayed: deque[_Displayed] = deque(maxlen=MOST)

    def sent(self, image: int, render_ms: float, encode_ms: float, size: int, encoding: str = "JPEG") -> None:
        """Notes that image number ``image`` of ``size`` bytes is on its way."""
        with self._lock:
            self._sent[image] = (render_ms, encode_ms, size, encoding)

    def drawn(self, image: int, decode_ms: float, latency_ms: float | None) -> None:
        """Notes that an image is on the page; unknown numbers are ignored."""
        with self._lock:
            known = self._sent.get(image)
            self._sent = {number: costs for number, costs in self._sent.items() if number > image}
            if known is not None:
                now = self._clock()
                self._displayed.append(_Displayed(now, *known[:2], decode_ms, latency_ms, *known[2:]))
                while (
                    now - self._displayed[0].at >= WINDOW
                ):  # or each page would hold MOST of them after a while
                    self._displayed.popleft()

    def forget_sent(self) -> None:
        """Forgets images that were not displayed: their connection ended."""
        with self._lock:
            self._sent.clear()

    def summary(self, seconds: float = WINDOW) -> Figures | None:
        """The figures of the last ``seconds``, at most WINDOW; None if nothing was displayed in them."""
        now = self._clock()
        with self._lock:
            recent = [one for one in self._displayed if now - one.at < min(seconds, WINDOW)]
        if not recent:
            return None
        times = [one.at for one in recent if now - one.at < 1.0]
        latencies = sorted(one.latency_ms for one in recent if one.latency_ms is not None)
        return Figures(
            images=len(recent),
            fps=(len(times) - 1) / (times[-1] - times[0]) if len(times) > 2 and times[-1] > times[0] else 0.0,
            latency_ms=statistics.median(latencies) if latencies else None,
            latency_p95_ms=percentile(latencies, 0.95) if latencies else None,
            render_ms=statistics.median(one.render_ms for one in recent),
            encode_ms=statistics.median(one.encode_ms for one in recent),
            decode_ms=statistics.median(one.decode_ms for one in recent),
            kilobytes=statistics.median(one.size for one in recent) / 1000,
            encoding=statistics.mode(one.encoding for one in recent),
        )


def percentile(ordered: list[float], share: float) -> float:
    """The smallest of the ordered values that at least ``share`` of them do not exceed."""
    index = -int(-share * len(ordered) // 1) - 1
    return ordered[min(max(index, 0), len(ordered) - 1)]
