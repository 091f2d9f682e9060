"""The capture that comes with the package, so that the first run needs no download."""

from __future__ import annotations

from pathlib import Path

CREDIT = "Tudor tankard from the Mary Rose, photographs by Daniel Pett (vork/maryRose), CC BY 4.0"


def demo_path() -> Path:
    """The folder of the packaged capture: 69 photographs of a tankard with masks, poses and points."""
    return Path(__file__).parents[1] / "data" / "tankard-tiny"
