"""The demo capture that is part of the package."""

from __future__ import annotations

from pathlib import Path

CREDIT = "Tudor tankard from the Mary Rose, photographs by Daniel Pett (vork/maryRose), CC BY 4.0"


def demo_path() -> Path:
    """Folder of the demo capture: 69 images of a tankard with masks, poses and points."""
    return Path(__file__).parents[1] / "data" / "tankard-tiny"
