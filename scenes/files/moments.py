"""4D Gaussians moment by moment, as scene files that any viewer of Gaussians opens."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from luxel.render.primitives import Parameters
from luxel.scenes.files.primitive_ply import save_primitive_ply


def save_moments(folder: str | Path, scene: Parameters, times: Iterable[float]) -> list[Path]:
    """Writes frame-00000.ply, frame-00001.ply, ...: what is visible at each time, see `Gaussians4d.at`.

    Args:
        folder: made if it is not there.
        gaussians: 4D Gaussians.
        times: one for each file.

    Returns:
        The files.

    Raises:
        CaptureError: there is no permission or no room.
    """
    paths = []
    for number, time in enumerate(times):
        paths.append(Path(folder) / f"frame-{number:05d}.ply")
        save_primitive_ply(paths[-1], scene.at(time))
    return paths
