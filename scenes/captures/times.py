"""Times of captures: they begin at 0 where float32, in which scenes have their times, could not tell them apart."""

from __future__ import annotations

from collections.abc import Sequence

from luxel.scenes.captures.contents import SourceImage

UNITS = {1: "seconds", 10**3: "milliseconds", 10**6: "microseconds", 10**9: "nanoseconds"}  # per second
UNIX_YEARS = (10**9, 4 * 10**9)  # seconds: 2001 to 2096
PRECISION = 2.0**-24  # of float32
SHARE = 1e-3  # of the mean distance of times, which rounding may change


def begin_at_zero(sources: Sequence[SourceImage], warnings: list[str]) -> None:
    """Counts the times of images from the first one, in float64, where float32 is too coarse for them as they are.

    Unix times become seconds, whatever their unit; other times retain theirs. Images without a time (0) among them stay
    at 0.

    Args:
        sources: whose times are changed.
        warnings: gets a sentence where they are.
    """
    timed = [source for source in sources if source.time != 0.0]
    times = sorted({source.time for source in timed})
    if len(times) < 2:
        return
    first, last = times[0], times[-1]
    gap = (last - first) / (len(times) - 1)
    if max(abs(first), abs(last)) * PRECISION <= SHARE * gap:
        return
    unit = next(
        (unit for unit in UNITS if UNIX_YEARS[0] * unit <= first <= last < UNIX_YEARS[1] * unit), None
    )
    if 0.0 <= first <= last - first:  # the span itself is as large: nothing is gained
        return
    for source in timed:
        source.time = (source.time - first) / (unit or 1)
    what = f"Unix times in {UNITS[unit]}" if unit else f"times of {first:.10g} to {last:.10g}"
    warnings.append(
        f"The images have {what}; they are counted {'in seconds ' if unit else ''}from the first one, {first:.10g}."
    )
