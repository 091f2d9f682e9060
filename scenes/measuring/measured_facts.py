"""The facts of a scene with what the user has measured instead of what its file or capture says."""

from __future__ import annotations

from pathlib import Path

from luxel.render.fields.files import FIELD_FILE
from luxel.render.runs.folder.run_config import has_config
from luxel.render.runs.notices import print_once
from luxel.render.scene import Scene
from luxel.scenes.measuring.measurements import Measurements
from luxel.scenes.measuring.measurements_file import FILE, MeasurementsFile, has_measured_scenes

RESULTS = ("scene.ply", FIELD_FILE)  # in the folder of a run


def measured_in_run(folder: Path) -> Measurements:
    """The measurements of a run; none where they cannot be read, which is printed."""
    return _read(MeasurementsFile.of_run(folder)) if (folder / FILE).exists() else Measurements()


def run_of_result(path: Path) -> Path | None:
    """The folder of the run whose result a scene file is; None: it is that of no run."""
    is_result = path.name in RESULTS and has_config(path.parent)
    return path.resolve().parent if is_result else None


def measured_in_file(path: Path, scene: Scene) -> Measurements:
    """The measurements of the scene of a file: those of the run whose result it is, else its own."""
    run = run_of_result(path)
    return measured_in_scene(scene) if run is None else measured_in_run(run)


def measured_in_scene(scene: Scene) -> Measurements:
    """The measurements of a scene outside of a run, see `MeasurementsFile.of_scene`."""
    file = MeasurementsFile.of_scene(scene) if has_measured_scenes() else None
    return Measurements() if file is None else _read(file)


def _read(file: MeasurementsFile) -> Measurements:
    measurements = file.read()
    if file.problem is not None:
        print_once(str(file.problem))
    return measurements
