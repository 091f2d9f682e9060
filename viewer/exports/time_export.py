"""A dynamic scene as a folder of static ones, for `luxel export --frames`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from luxel.render.primitives import Parameters
from luxel.scenes import save_time_slices
from luxel.scenes.files.scene_format import SceneFacts
from luxel.scenes.files.scenes.time_slices import FRAME


def write_times(
    out: Path,
    scene: Parameters,
    start: float,
    end: float,
    frames: int,
    facts: SceneFacts,
    *,
    force: bool = False,
) -> None:
    """Writes static scenes at even times and prints how many; those of an earlier export with more are deleted.

    Args:
        out: the folder.
        scene: dynamic primitives.
        start, end: first and last time.
        frames: number of times.
        facts: of the scene, written into each file.
        force: replace files of the same names that luxel did not write.
    """
    written = save_time_slices(out, scene, np.linspace(start, end, frames).tolist(), facts, force=force)
    print(f"{len(written)} times from {start:g} to {end:g}: {out}")
    names = {path.name for path in written}
    if others := sorted(
        path.name for path in out.iterdir() if FRAME.fullmatch(path.name) and path.name not in names
    ):
        print(
            f"{others[0]}{' and others' if len(others) > 1 else ''} in {out}: luxel did not write this, and it stays"
        )
