"""Dynamic scenes as time slices: one scene file of Gaussians per time, for any viewer of Gaussians."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from luxel.render.primitives import Parameters
from luxel.render.storage.folder import OutputFolder
from luxel.scenes.files.ply import writable
from luxel.scenes.files.scene_format import SceneFacts
from luxel.scenes.files.scenes.primitive_ply import primitive_chunks

FRAME = re.compile(r"frame-\d{5,}\.ply")


def save_time_slices(
    folder: str | Path,
    scene: Parameters,
    times: Iterable[float],
    facts: SceneFacts | None = None,
    *,
    force: bool = False,
) -> list[Path]:
    """Writes frame-00000.ply, frame-00001.ply, ...: the scene at each time, see `Parameters.at`.

    Files of an earlier call that luxel wrote there are replaced, and those beyond the last time deleted.

    Args:
        folder: created if it does not exist.
        scene: primitives that move.
        times: one per file.
        facts: what is known of the scene; written into each file.
        force: replace files of these names that luxel did not write, too; such files beyond the last time stay.

    Returns:
        Paths of the files.

    Raises:
        CaptureError: a file cannot be written.
        ForeignFileError: a file of one of the names is not luxel's; nothing was changed.
    """
    output, times = OutputFolder(Path(folder), force=force), list(times)
    names = [f"frame-{number:05d}.ply" for number in range(len(times))]
    with writable(Path(folder)):
        output.require(names)
        for name, time in zip(names, times, strict=True):
            with writable(output.path / name):
                output.write(name, primitive_chunks(scene.at(time), facts=facts))
    output.delete(set(output.names(FRAME)).difference(names))
    return [output.path / name for name in names]
