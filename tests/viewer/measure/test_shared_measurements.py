"""Measurements that all pages of a scene share: undo, saving, and other programs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from shown import StaticSession

from luxel.render.errors import LuxelError
from luxel.render.raster.primitive_scene import primitive_scene
from luxel.render.runs import sealed_file
from luxel.scenes.measuring import measurements_file, operations
from luxel.scenes.measuring.measurements import Measurements
from luxel.scenes.measuring.measurements_file import MeasurementsFile
from luxel.scenes.synthetic.toy import torus_knot
from luxel.viewer.measure.ruler_files import rulers_as_csv, rulers_as_json
from luxel.viewer.measure.shared_measurements import SharedMeasurements

SHIFT = (500_000.0, 5_000_000.0, 200.0)


def shared_in(folder: Path | None, **facts: object) -> SharedMeasurements:
    return SharedMeasurements(StaticSession(primitive_scene(torus_knot(20), **facts), folder=folder))


def add(shared: SharedMeasurements, name: str = "") -> None:
    shared.apply("New ruler", lambda m: operations.add_ruler(m, (0, 0, 0), (0, 3, 4), name))


def test_changes_are_undone_redone_and_saved_each_time(tmp_path: Path) -> None:
    shared = shared_in(tmp_path)
    counts: list[int] = []
    shared.on_change(lambda: counts.append(len(shared.present.rulers)))
    add(shared)
    shared.apply("Set scale", lambda m: operations.set_scale(m, "ruler-1", 2.5))
    shared.apply("Level", lambda m: operations.set_up(m, (0, 0, 2)))
    complete = shared.present
    assert shared.undo_titles == ["New ruler", "Set scale", "Level"] and shared.metres == 0.5
    for rest in (replaced(complete, up=None), Measurements(rulers=complete.rulers), Measurements()):
        shared.undo()
        assert shared.present == rest and MeasurementsFile.of_run(tmp_path).read() == rest
    shared.undo()  # nothing is left
    for _ in range(4):
        shared.redo()
    assert shared.present == complete and shared.redo_titles == []
    assert shared_in(tmp_path).present == complete, "another viewer has them after a restart"
    assert counts == [1, 1, 1, 1, 1, 0, 1, 1, 1]


def replaced(measurements: Measurements, **values: object) -> Measurements:
    from dataclasses import replace

    return replace(measurements, **values)


def test_a_change_that_is_refused_changes_nothing(tmp_path: Path) -> None:
    shared = shared_in(tmp_path)
    with pytest.raises(LuxelError, match="there is no ruler"):
        shared.apply("Set scale", lambda m: operations.set_scale(m, "wall", 1.0))
    shared.apply("Nothing", lambda m: m)
    assert shared.undo_titles == [] and not (tmp_path / measurements_file.FILE).exists()


def test_what_another_program_writes_is_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("luxel.viewer.shared_value.LOOK_EVERY", 0.0)
    ours, theirs = shared_in(tmp_path), shared_in(tmp_path)
    add(ours, "ours")
    theirs.follow()
    assert [ruler.name for ruler in theirs.present.rulers] == ["ours"]
    add(theirs, "theirs")
    add(ours, "second")  # takes over first: nothing is lost
    assert [ruler.name for ruler in ours.present.rulers] == ["ours", "theirs", "second"]


def test_a_change_that_cannot_be_saved_stays_and_is_saved_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("luxel.viewer.shared_value.LOOK_EVERY", 0.0)
    shared = shared_in(tmp_path)
    with monkeypatch.context() as full:
        full.setattr(sealed_file.OutputFolder, "write", _no_space)
        add(shared)
        shared.follow()
        assert "cannot be written (No space left on device)" in shared.problem
        assert len(shared.present.rulers) == 1
    shared.follow()
    assert shared.problem == "" and MeasurementsFile.of_run(tmp_path).read() == shared.present


def _no_space(*arguments: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_deleted_file_is_written_again(tmp_path: Path) -> None:
    shared = shared_in(tmp_path)
    add(shared)
    (tmp_path / measurements_file.FILE).unlink()
    shared.follow()
    add(shared)
    assert len(MeasurementsFile.of_run(tmp_path).read().rulers) == 2


def test_a_scene_without_a_run_has_them_in_the_state_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    add(shared_in(None))
    assert len(shared_in(None).present.rulers) == 1
    monkeypatch.setattr(measurements_file, "state_folder", lambda: None)
    assert "there is no folder for them" in shared_in(None).problem


def test_coordinates_are_those_of_the_capture() -> None:
    shared = shared_in(None, shift=SHIFT, metres=2.0)
    point = np.array([1.25, -2.5, 0.125])
    np.testing.assert_array_equal(shared.to_capture(point), point + SHIFT)
    np.testing.assert_array_equal(shared.to_scene(shared.to_capture(point)), point)
    assert shared.metres == 2.0, "that of the file until another one is measured"


def test_rulers_as_files() -> None:
    made = operations.add_ruler(Measurements((0, 0, 1)), (1, 0, 0), (1, 3, 4), "=1+1, x")
    rows = rulers_as_csv(made, 0.5).splitlines()
    assert rows[0] == "name,start_x,start_y,start_z,end_x,end_y,end_z,length,length_m"
    assert rows[1] == '"\'=1+1, x",1.0,0.0,0.0,1.0,3.0,4.0,5.0,2.5'
    assert rulers_as_csv(made, None).splitlines()[1].endswith(",5.0,")
    text = rulers_as_json(made, None)
    assert '"length": 5.0' in text and '"length_m": null' in text and '"metres_per_unit": null' in text
