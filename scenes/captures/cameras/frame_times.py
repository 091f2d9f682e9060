"""The common time of frames of several cameras: by the timestamps of films, or the numbers in names of images."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from pathlib import PurePath

import numpy as np

SAME_TIME = 1e-3  # seconds within which frames are of one time: some formats round timestamps to milliseconds
UNITS = {10: 1, 13: 1000, 16: 10**6, 19: 10**9}  # per second, by the digits of numbers that are Unix times
UNIX_YEARS = (10**9, 4 * 10**9)  # seconds: 2001 to 2096


def frame_numbers(names: Sequence[str]) -> list[int] | None:
    """The numbers of frames in the names of their images: of the runs of digits the last that differs in all of them.

    None: there is none.
    """
    runs = [re.findall(r"\d+", PurePath(name).stem) for name in names]
    if len({len(run) for run in runs}) != 1 or max(len(digits) for run in runs for digits in [*run, ""]) > 30:
        return None
    for column in reversed(list(zip(*runs, strict=True))):
        if len({int(digits) for digits in column}) == len(names):
            return [int(digits) for digits in column]
    return None


def times_of_numbered(
    names: Mapping[str, Sequence[str]], rate: float | None, warnings: list[str]
) -> dict[str, list[float]]:
    """The times of the images of cameras: frames of one number are of one time.

    Args:
        names: of the images of each camera, by its name.
        rate: frames a second, of the numbers that there are; None: times are in [0, 1], or seconds where the numbers
            are Unix times.
        warnings: to which sentences are added.
    """
    numbers = {camera: frame_numbers(given) for camera, given in names.items()}
    known = {camera: values for camera, values in numbers.items() if values is not None}
    if len(known) < len(names):
        without = next(camera for camera in names if camera not in known)
        if len({len(given) for given in names.values()}) > 1:
            warnings.append(
                f"The names of the frames of {without} have no numbers, and the cameras have "
                f"{min(map(len, names.values()))} to {max(map(len, names.values()))} frames: they are matched by "
                "their order. Name them by the numbers of their times."
            )
        counted = {camera: list(range(len(given))) for camera, given in names.items()}
        return _scaled(counted, rate)
    unit = _unix_unit([number for values in known.values() for number in values])
    if unit is None:
        known = _with_own_numbers_shifted(known, warnings)
        _report_differences(known, warnings)
    start = min(min(values) for values in known.values())
    counted = {camera: [number - start for number in values] for camera, values in known.items()}
    if unit is not None:
        return {camera: [number / unit for number in values] for camera, values in counted.items()}
    return _scaled(counted, rate)


def _scaled(counted: Mapping[str, Sequence[int]], rate: float | None) -> dict[str, list[float]]:
    """Times of numbers from 0, whose common step is a frame; without a rate in [0, 1]."""
    largest = max(max(values) for values in counted.values())
    step = math.gcd(*(number for values in counted.values() for number in values)) or 1
    scale = step * rate if rate else max(1, largest)
    return {camera: [number / scale for number in values] for camera, values in counted.items()}


def _unix_unit(numbers: Sequence[int]) -> int | None:
    """How many of the numbers are a second, where they are Unix times; None: they are not."""
    unit = UNITS.get(len(str(numbers[0])))
    if unit and all(UNIX_YEARS[0] * unit <= number < UNIX_YEARS[1] * unit for number in numbers):
        return unit
    return None


def _with_own_numbers_shifted(numbers: dict[str, list[int]], warnings: list[str]) -> dict[str, list[int]]:
    """Numbers whose range overlaps with that of no other camera are those of a counter of its own: they begin anew."""
    ranges = {camera: (min(values), max(values)) for camera, values in numbers.items()}

    def is_alone(camera: str) -> bool:
        low, high = ranges[camera]
        others = [r for other, r in ranges.items() if other != camera]
        return bool(others) and all(high < first or last < low for first, last in others)

    alone = [camera for camera in numbers if is_alone(camera)]
    if not alone:
        return numbers
    low, high = ranges[alone[0]]
    rest = len(alone) - 1
    more = f" and {rest} more camera{'s' if rest > 1 else ''}" if rest else ""
    warnings.append(
        f"{alone[0]}{more}: its frames have numbers ({low} to {high}) that are not among those of other cameras, and "
        "are matched by their order. Give frames of one time one number."
    )
    start = min((ranges[camera][0] for camera in numbers if camera not in alone), default=0)
    return {
        camera: [number - ranges[camera][0] + start for number in values] if camera in alone else values
        for camera, values in numbers.items()
    }


def _report_differences(numbers: Mapping[str, Sequence[int]], warnings: list[str]) -> None:
    every = set().union(*numbers.values())
    shared = every.intersection(*numbers.values())
    if len(shared) == len(every):
        return
    camera = min(numbers, key=lambda name: len(numbers[name]))
    camera = (
        max(numbers, key=lambda name: min(numbers[name]) - min(every)) if _same_counts(numbers) else camera
    )
    values = numbers[camera]
    warnings.append(
        f"All cameras have {len(shared)} of the {len(every)} numbers of frames ({camera}: {len(values)}, from "
        f"{min(values)} to {max(values)}); frames of one number are taken at one time."
    )


def _same_counts(numbers: Mapping[str, Sequence[int]]) -> bool:
    return len({len(values) for values in numbers.values()}) == 1


def evenly_chosen(times: Mapping[str, Sequence[float]], limit: int) -> dict[str, list[int]]:
    """Which frames of each camera are used: at most ``limit``, of all cameras at the same times.

    Args:
        times: of the frames of each camera, ascending.
        limit: of the frames of one camera.
    """
    step = max(-(-len(values) // limit) * _interval(values) for values in times.values())
    if all(len(values) <= limit for values in times.values()) or step <= 0:
        return {camera: list(range(min(len(values), limit))) for camera, values in times.items()}
    start = min(values[0] for values in times.values())
    chosen = {}
    for camera, values in times.items():
        best: dict[int, tuple[float, int]] = {}
        for index, time in enumerate(values):
            part = round((time - start) / step)
            offset = abs(time - start - part * step)
            if part not in best or offset < best[part][0] - 1e-9:
                best[part] = (offset, index)
        near = 0.5 * _interval(values) + 1e-9
        first, last = (values[0] - start - near) / step, (values[-1] - start + near) / step
        chosen[camera] = [index for part, (_, index) in best.items() if first <= part <= last]
    return chosen


def _interval(values: Sequence[float]) -> float:
    """Median distance of ascending times; 0 of one."""
    return float(np.median(np.diff(values))) if len(values) > 1 else 0.0


def merged(times: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    """Times of which those within `SAME_TIME` (or a quarter of the shortest distance of frames) are made equal."""
    distances = [float(np.diff(values).min()) for values in times.values() if len(values) > 1]
    within = min([SAME_TIME, *(0.25 * distance for distance in distances)])
    common: list[float] = []

    def shared(time: float) -> float:
        at = bisect_left(common, time)
        near = min(common[max(0, at - 1) : at + 1], key=lambda other: abs(other - time), default=math.inf)
        if abs(near - time) <= within:
            return near
        common.insert(at, time)
        return time

    return {camera: [shared(time) for time in values] for camera, values in times.items()}


def report_films(times: Mapping[str, Sequence[float]], warnings: list[str]) -> None:
    """Says where films have different rates, or do not show the same time.

    Args:
        times: seconds of the frames that are used of each film.
        warnings: to which sentences are added.
    """
    intervals = {camera: _interval(values) for camera, values in times.items() if len(values) > 1}
    if intervals:
        slow, fast = (
            max(intervals, key=lambda name: intervals[name]),
            min(intervals, key=lambda name: intervals[name]),
        )
        if intervals[slow] > 1.05 * intervals[fast]:
            low, high = ((len(times[name]) - 1) / (times[name][-1] - times[name][0]) for name in (slow, fast))
            warnings.append(
                f"The films have {low:.3g} to {high:.3g} frames a second; their frames are matched by their timestamps."
            )
    tolerance = 1.5 * max(intervals.values(), default=0.0)
    begin, end = max(values[0] for values in times.values()), min(values[-1] for values in times.values())
    first, last = min(values[0] for values in times.values()), max(values[-1] for values in times.values())
    if begin - first <= tolerance and last - end <= tolerance:
        return
    late = max(times, key=lambda camera: times[camera][0])
    short = min(times, key=lambda camera: times[camera][-1])
    parts = [f"{late} begins at {begin:.2f} s"] if begin - first > tolerance else []
    parts += [f"{short} ends at {end:.2f} s"] if last - end > tolerance else []
    warnings.append(
        f"The films do not show the same time, which is {first:.2f} to {last:.2f} s of all: {', '.join(parts)}. "
        "All frames are used."
    )


def at_one_time(times: Mapping[str, Sequence[float]]) -> dict[str, int]:
    """The frame of each camera that is nearest to the first time at which all have begun."""
    moment = max(values[0] for values in times.values())
    return {
        camera: min(range(len(values)), key=lambda index: abs(values[index] - moment))
        for camera, values in times.items()
    }
