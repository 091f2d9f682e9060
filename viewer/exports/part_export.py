"""Exports of scenes by the writers of their parts, without further options."""

from __future__ import annotations

from luxel.render.errors import LuxelError
from luxel.render.scene import Scene
from luxel.scenes.loading.loaders import find_writer, writers_of
from luxel.viewer.exports.export_options import ExportOptions


def export(options: ExportOptions, scene: Scene) -> None:
    """Writes a part of a scene in the format of --out, and prints what was written.

    Raises:
        LuxelError: no writer of the scene has the format, there are further options, or the file cannot be written.
    """
    writer = find_writer(options.out, scene)
    if writer is None or options.special:
        suffixes = [suffix for each in writers_of(scene) for suffix in each.suffixes()]
        raise LuxelError(
            f"{options.scene}: this scene of {scene.about.noun} cannot be written like that.",
            f"Formats of such scenes, without further options: {', '.join(suffixes) or 'none'}.",
        )
    options.check_path()
    writer.write(options.out, scene.parts[writer.needs], {})
    print(f"{scene.count:,} {scene.about.noun}: {options.written()}")
