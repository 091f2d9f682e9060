"""Rulers as JSON and as CSV."""

from __future__ import annotations

import csv
import io
import json

from luxel.scenes.measuring.measurements import Measurements


def rulers_as_json(measurements: Measurements, metres: float | None) -> str:
    """The rulers with their lengths; coordinates are those of the capture.

    Args:
        measurements: of a scene.
        metres: length of a unit; None: it is not known, and lengths in metres are null.
    """
    body = {
        "metres_per_unit": metres,
        "up": measurements.up,
        "rulers": [
            {
                "name": ruler.name,
                "start": ruler.start,
                "end": ruler.end,
                "length": ruler.length,
                "length_m": None if metres is None else ruler.length * metres,
            }
            for ruler in measurements.rulers
        ],
    }
    return json.dumps(body, indent=1, ensure_ascii=False) + "\n"


def rulers_as_csv(measurements: Measurements, metres: float | None) -> str:
    """The same as a table; lengths in metres are empty where the length of a unit is not known."""
    text = io.StringIO()
    table = csv.writer(text)
    ends = [f"{end}_{axis}" for end in ("start", "end") for axis in "xyz"]
    table.writerow(["name", *ends, "length", "length_m"])
    for ruler in measurements.rulers:
        name = f"'{ruler.name}" if ruler.name[0] in "=+-@" else ruler.name  # no formula of a spreadsheet
        known = "" if metres is None else ruler.length * metres
        table.writerow([name, *ruler.start, *ruler.end, ruler.length, known])
    return text.getvalue()
