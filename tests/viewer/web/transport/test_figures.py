"""Latency and cost of a page's images."""

from __future__ import annotations

import pytest

from luxel.viewer.web.transport.figures import WINDOW, StreamFigures, percentile


def test_figures_are_of_the_images_that_were_drawn() -> None:
    now = [100.0]
    figures = StreamFigures(lambda: now[0])
    assert figures.summary() is None
    for image in range(1, 21):
        now[0] += 0.02
        figures.sent(image, render_ms=3.0, encode_ms=2.0, size=40_000)
        figures.drawn(image, decode_ms=1.0, latency_ms=float(image))
    figures.drawn(99, decode_ms=1000.0, latency_ms=1000.0)  # never sent
    figures.sent(21, 900.0, 900.0, 1)  # never drawn
    summary = figures.summary()
    assert summary is not None
    assert (summary.images, summary.latency_ms, summary.latency_p95_ms) == (20, 10.5, 19.0)
    assert (summary.render_ms, summary.encode_ms, summary.decode_ms) == (3.0, 2.0, 1.0)
    assert summary.kilobytes == 40
    assert summary.fps == pytest.approx(50, rel=0.01)


def test_figures_are_of_the_last_seconds() -> None:
    now = [0.0]
    figures = StreamFigures(lambda: now[0])
    for at, latency in ((0.0, 500.0), (8.0, 20.0)):
        now[0] = at
        figures.sent(1, 1, 1, 1)
        figures.drawn(1, 1, latency)
    now[0] = 11.0
    summary = figures.summary()
    assert summary is not None and summary.latency_ms == 20.0
    now[0] = 30.0
    assert figures.summary() is None


def test_image_without_a_new_camera_has_no_latency() -> None:
    figures = StreamFigures()
    figures.sent(1, 1, 1, 1)
    figures.drawn(1, 1, None)
    summary = figures.summary()
    assert summary is not None and summary.latency_ms is None


def test_percentile_is_a_value_that_the_share_does_not_exceed() -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.0
    assert percentile([1.0], 0.95) == 1.0
    assert percentile([float(k) for k in range(1, 101)], 0.95) == 95.0


def test_images_of_long_ago_are_forgotten() -> None:
    now = [0.0]
    figures = StreamFigures(lambda: now[0])
    for image in range(1, 1001):
        now[0] += 1.0
        figures.sent(image, 1, 1, 1)
        figures.drawn(image, 1, 1.0)
    summary = figures.summary()
    assert summary is not None and summary.images == len(figures._displayed) == WINDOW
    assert not figures._sent
