"""The facts of a scene with what the user has measured instead of what its file or capture says."""

from __future__ import annotations

from pathlib import Path

from luxel.render.runs.notices import print_once
from luxel.render.scene import Scene
from luxel.scenes.measuring.measurements import Measurements
from luxel.scenes.measuring.measurements_file import FILE, MeasurementsFile, has_measured_scenes


def measured_in_run(folder: Path) -> Measurements:
    """The measurements of a run; none where they cannot be read, which is printed."""
    return _read(MeasurementsFile.of_run(folder)) if (folder / FILE).exists() else Measurements()


def measured_in_scene(scene: Scene) -> Measurements:
    """The measurements of a scene outside of a run, see `MeasurementsFile.of_scene`."""
    file = MeasurementsFile.of_scene(scene) if has_measured_scenes() else None
    return Measurements() if file is None else _read(file)


def _read(file: MeasurementsFile) -> Measurements:
    measurements = file.read()
    if file.problem is not None:
        print_once(str(file.problem))
    return measurements
