"""Dynamic scenes as time slices: one scene file of Gaussians per time, for any viewer of Gaussians."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from luxel.render.primitives import Parameters
from luxel.scenes.files.primitive_ply import save_primitive_ply
from luxel.scenes.files.scene_format import SceneFacts


def save_time_slices(
    folder: str | Path, scene: Parameters, times: Iterable[float], facts: SceneFacts | None = None
) -> list[Path]:
    """Writes frame-00000.ply, frame-00001.ply, ...: the scene at each time, see `Parameters.at`.

    Args:
        folder: created if it does not exist.
        scene: primitives that move.
        times: one per file.
        facts: what is known of the scene; written into each file.

    Returns:
        Paths of the files.

    Raises:
        CaptureError: a file cannot be written.
    """
    paths = []
    for number, time in enumerate(times):
        paths.append(Path(folder) / f"frame-{number:05d}.ply")
        save_primitive_ply(paths[-1], scene.at(time), facts=facts)
    return paths
