"""A dynamic scene as a folder of static ones, for `luxel export --frames`."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from luxel.render.primitives import Parameters
from luxel.scenes import save_time_slices
from luxel.scenes.files.scene_format import SceneFacts

FRAME = re.compile(r"frame-\d{5,}\.ply")


def write_times(
    out: Path, scene: Parameters, start: float, end: float, frames: int, facts: SceneFacts
) -> None:
    """Writes static scenes at even times and prints how many; those of an earlier export with more are removed.

    Args:
        out: the folder.
        scene: dynamic primitives.
        start, end: first and last time.
        frames: number of times.
        facts: of the scene, kept in each file.
    """
    written = save_time_slices(out, scene, np.linspace(start, end, frames).tolist(), facts)
    kept = {path.name for path in written}
    for old in out.iterdir():
        if FRAME.fullmatch(old.name) and old.name not in kept:
            old.unlink()
    print(f"{len(written)} times from {start:g} to {end:g}: {out}")
