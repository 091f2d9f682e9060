"""The course of a training as its run folder records it: series for plots, and events."""

from __future__ import annotations

import json
import os
from collections import deque
from pathlib import Path
from typing import Any

from luxel.render.runs.folder.metrics_log import LARGEST, LONGEST
from luxel.render.storage.descriptors import open_regular

PIECE = 1 << 20  # bytes that are read at once
MAX_POINTS = 600  # of a series; above, every second one is dropped
EVENTS = 200  # that are retained
RECORDED = {
    "loss": 1.0,
    "psnr": 1.0,
    "count": 1.0,
    "memory": 1e-9,
    "frame_ms": 1.0,
}  # and what they are multiplied by
SPEED_OVER = 1.0  # seconds of training, at least, between values of the speed


class Series:
    """Values over steps; where there are many, evenly thinned out.

    Attributes:
        steps, values: of equal length, in the order of the steps.
    """

    def __init__(self) -> None:
        self.steps: list[float] = []
        self.values: list[float] = []
        self._every, self._skipped = 1, 0

    def add(self, step: float, value: Any) -> None:
        """Appends a value unless it is no finite number, or one of those that are left out."""
        if not _is_number(value):
            return
        self._skipped += 1
        if self._skipped < self._every:
            return
        self._skipped = 0
        self.steps.append(step)
        self.values.append(value)
        if len(self.steps) > MAX_POINTS:
            self.steps, self.values, self._every = self.steps[::2], self.values[::2], 2 * self._every


class TrainingLog:
    """Follows the metrics.jsonl of a run folder.

    Args:
        folder: of the run.

    Attributes:
        series: by name: loss, psnr (training views, dB), test_psnr (held out, dB), count, memory (10^9 bytes), speed
            (steps a second of training), frame_ms (time to render a held-out view).
        events: (step, text) of evaluations, densification and changed options, the newest last.
    """

    def __init__(self, folder: Path) -> None:
        self._path = Path(folder) / "metrics.jsonl"
        self._clear()

    def _clear(self) -> None:
        self._offset, self._part = 0, b""
        self.series = {name: Series() for name in (*RECORDED, "test_psnr", "speed")}
        self._from: tuple[int, float] | None = None  # step and seconds since which the speed is counted
        self.events: deque[tuple[int, str]] = deque(maxlen=EVENTS)

    def poll(self) -> bool:
        """Reads what was written since the last call; whether there was anything."""
        took = False
        try:
            with open_regular(self._path) as file:
                size = os.fstat(file.fileno()).st_size
                if size > LARGEST:
                    return False
                if size < self._offset:  # rewritten by a resumed run
                    self._clear()
                file.seek(self._offset)
                left = size - self._offset
                while left > 0 and (new := file.read(min(left, PIECE))):
                    left -= len(new)
                    took = self._take_piece(new) or took
        except OSError:
            return took
        return took

    def _take_piece(self, new: bytes) -> bool:
        """Takes the lines that end in a piece; whether there are any."""
        self._offset += len(new)
        *lines, rest = new.split(b"\n")
        if lines:
            lines[0] = self._part + lines[0]
            self._part = b""
        self._part = (self._part + rest)[: LONGEST + 1]
        for line in lines:
            if len(line) <= LONGEST:
                self._take(line)
        return bool(lines)

    def _take(self, line: bytes) -> None:
        try:
            entry = json.loads(line)
            step = int(entry["step"])
            if abs(step) >= 2**63:
                return
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return  # a damaged line is left out
        for name, factor in RECORDED.items():
            value = entry.get(name)
            self.series[name].add(step, value * factor if _is_number(value) else None)
        self._take_speed(step, entry.get("seconds"))
        test = entry.get("test")
        if isinstance(test, dict):
            self.series["test_psnr"].add(step, test.get("psnr"))
        if text := describe(entry):
            self.events.append((step, text))

    def _take_speed(self, step: int, seconds: Any) -> None:
        """Adds the mean speed since the last value, if that is long enough ago."""
        if not _is_number(seconds):
            return
        if self._from is None or step < self._from[0] or seconds < self._from[1]:
            self._from = step, seconds
        elif seconds - self._from[1] >= SPEED_OVER:
            self.series["speed"].add(step, (step - self._from[0]) / (seconds - self._from[1]))
            self._from = step, seconds


def _is_number(value: Any) -> bool:
    """Whether a value is a finite number, of a size that floats have."""
    return type(value) in (int, float) and abs(value) < 1e300


def describe(entry: dict[str, Any]) -> str:
    """What a line of metrics.jsonl reports besides numbers, or an empty string."""
    if isinstance(changed := entry.get("changed"), dict):
        return "changed " + ", ".join(f"{name} = {value}" for name, value in changed.items())
    if isinstance(test := entry.get("test"), dict):
        psnr = test.get("psnr")
        return f"held-out PSNR {psnr:.2f} dB" if _is_number(psnr) else ""
    names = ("cloned", "split", "relocated", "added", "pruned")
    parts = [f"{entry[name]:,} {name}" for name in names if isinstance(entry.get(name), int) and entry[name]]
    if entry.get("reset"):
        parts.append("opacities reset")
    return ", ".join(parts)
