"""How a run in a folder has ended, as its files say."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

from luxel.render.errors import LuxelError
from luxel.render.primitives import PRIMITIVES
from luxel.render.runs.folder.metrics_log import NAME as METRICS
from luxel.render.runs.strict_json import LARGEST, JsonError, parse_object
from luxel.render.storage.descriptors import open_regular
from luxel.render.train.monitor.reports import Reached
from luxel.render.train.resume import read_config
from luxel.viewer.web.run_end import RunEnd

TAIL = 1 << 16  # bytes of the log that are read
PAGE, RECORD = "index.html", "report.json"


def end_of_folder(folder: Path) -> RunEnd | None:
    """The result of a run of primitives; None where its files do not say it.

    Args:
        folder: of the run.
    """
    try:
        config = read_config(folder)[0]
        entry = _last_entry(folder / METRICS)
        step, seconds, count = int(entry["step"]), float(entry["seconds"]), int(entry["count"])
    except (LuxelError, OSError, KeyError, TypeError, ValueError):
        return None
    if not math.isfinite(seconds):
        return None
    report = _report(folder / "eval" / RECORD)
    mean = report.get("mean")
    mean = mean if isinstance(mean, dict) else {}
    psnr, ssim = (_number(mean.get(name)) for name in ("psnr", "ssim"))
    views = report.get("views")
    page = folder / "eval" / PAGE
    return RunEnd(
        config.limit_reached(Reached(step, seconds, count, 0, psnr)) or "stopped",
        step,
        config.steps,
        seconds,
        count,
        PRIMITIVES[config.primitive].noun,
        psnr,
        ssim,
        len(views) if isinstance(views, list) else 0,
        page.resolve() if page.is_file() else None,
    )


def _last_entry(path: Path) -> dict[str, Any]:
    """The last values of step, seconds and count in a log."""
    with open_regular(path) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
        lines = file.read(TAIL).split(b"\n")
    last: dict[str, Any] = {}
    for line in lines:
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict):
            last |= {name: entry[name] for name in ("step", "seconds", "count") if name in entry}
    return last


def _report(path: Path) -> dict[str, Any]:
    try:
        with open_regular(path) as file:
            return parse_object(file.read(LARGEST))
    except (OSError, JsonError):
        return {}


def _number(value: Any) -> float | None:
    return float(value) if type(value) in (int, float) and math.isfinite(value) else None
