"""Captures that are made from the date, with every kind of scene and preset, and what is not as promised there."""

from __future__ import annotations

import functools
from datetime import date
from typing import Any

from luxel.viewer.bench.record.part import Part, Row, Setup
from luxel.viewer.bench.strangers.run import Settings, chosen_tasks, gsplat_trains, run

BUDGET = 440.0  # seconds of a part


def rows(setup: Setup, *, captures: tuple[str, ...]) -> list[Row]:
    """The rows of some captures; what is not as promised, what failed and what did not run is in their warnings."""
    seed = int(date.today().strftime("%Y%m%d"))
    settings = Settings(seed, setup.device, BUDGET, setup.quick, gsplat_trains(setup.device))
    report = run(chosen_tasks(captures), settings, lambda so_far: setup.note(_note(so_far["rows"][-1])))
    return table_rows(report)


def table_rows(report: dict[str, Any]) -> list[Row]:
    """The rows of the record from a report of the benchmark."""
    warnings: dict[str, list[str]] = {}
    for one in report["promises"]:
        warnings.setdefault(one["capture"], []).append(one["text"])
    for one in report["skipped"]:
        warnings.setdefault(one["capture"], []).append(f"{one['method']} did not run: {one['reason']}")
    out = []
    for row in report["rows"]:
        failed = [
            f"{row['kind']}-{row['preset']} failed ({part}): {text.strip().splitlines()[-1]}"
            for part, text in row["failures"].items()
        ]
        figures = {name: value for name, value in row.items() if name not in ("failures", "options")}
        figures["method"] = f"{row['kind']}-{row['preset']}"
        about = [*failed, *warnings.pop(row["capture"], [])]
        out.append({**figures, "seed": str(report["seed"]), "warnings": about})
    return out


def _note(row: dict[str, Any]) -> str:
    figures = f"{row['psnr']:.2f} dB in {row['seconds']:.1f} s" if "psnr" in row else "failed"
    return f"{row['capture']}, {row['kind']}-{row['preset']}: {figures}"


def _part(name: str, title: str, seconds: float, *captures: str) -> Part:
    measure = functools.partial(rows, captures=captures)
    return Part(f"strangers-{name}", f"{title} (made from the date)", "strangers", seconds, measure)


PARTS = (
    _part("exact", "exact solid", 380, "exact"),
    _part("turntable", "object on a turntable", 380, "turntable"),
    _part("room", "room", 330, "room"),
    _part("street", "street of two scales, and in coordinates of a map", 330, "street", "utm"),
)
