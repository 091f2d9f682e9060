"""The estimate of what an accelerator would do for a frame."""

from __future__ import annotations

import pytest

from luxel.viewer.bench.fields import report as fields_report
from luxel.viewer.bench.fields.accelerator import (
    PROCESSORS,
    PUBLISHED_SHARES,
    PUBLISHED_SPEEDUPS,
    ceiling,
    speedup,
)


def test_the_published_mean_shares_give_the_known_speed_ups() -> None:
    assert [round(speedup(PUBLISHED_SHARES, n), 1) for n in PROCESSORS] == [23.3, 28.3, 31.6, 33.7]
    assert round(ceiling(PUBLISHED_SHARES), 1) == 36.0
    assert speedup(PUBLISHED_SHARES, 64) == pytest.approx(PUBLISHED_SPEEDUPS[64], rel=0.2)


def test_more_processors_never_exceed_the_ceiling() -> None:
    shares = {"encoding": 0.5, "network": 0.2, "rest": 0.2, "gaps": 0.1}
    speedups = [speedup(shares, n) for n in (1, 8, 64, 10**6)]
    assert speedups == sorted(speedups) and speedups[-1] < ceiling(shares) == pytest.approx(9.94 / 0.3)
    assert ceiling({"encoding": 1.0, "network": 0.0, "rest": 0.0}) == float("inf")
    assert speedup({"encoding": 2.0, "network": 0.0}, 64) == pytest.approx(246)


@pytest.mark.parametrize("shares", [{"encoding": 0.0, "network": 0.0}, {"encoding": -0.1, "network": 1.0}])
def test_what_is_no_share_is_refused(shares: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="shares must be"):
        speedup(shares, 8)
    with pytest.raises(ValueError, match="processors must be"):
        speedup(PUBLISHED_SHARES, 0)


def test_the_report_has_a_row_for_each_frame_and_the_published_ones() -> None:
    shares = {"encoding": 0.5, "network": 0.25, "rest": 0.2, "gaps": 0.05}
    frame = {"width": 64, "height": 36, "shares": shares}
    report = {"rows": [{"field": "sdf", "encoding": "hash", "frames": [frame]}]}
    section = fields_report._accelerator(report)
    rows = section.tables[0].rows
    assert [row[0] for row in rows] == [
        "sdf, hash, 64x36",
        "published mean shares, RTX 3090",
        "published mean speed-ups",
    ]
    assert rows[0][1:4] == ["50 %", "25 %", "25 %"] and rows[0][-1] == f"{9.94 / 0.25:.1f}x"
    assert rows[1][4:] == ["23.3x", "28.3x", "31.6x", "33.7x", "36.0x"]
