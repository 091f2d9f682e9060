"""The file of the measurements: what is written is read again, and nothing of the user's is lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from luxel.render.errors import LuxelError
from luxel.render.fields.application import make_application
from luxel.render.fields.config import FieldConfig
from luxel.render.fields.drawing.field_scene import field_scene
from luxel.render.raster.primitive_scene import primitive_scene
from luxel.render.runs import sealed_file
from luxel.render.runs.folder import owner
from luxel.render.runs.strict_json import sealed
from luxel.scenes import save_scene
from luxel.scenes.loading.loader import LoadOptions
from luxel.scenes.loading.loaders import facts_of, open_scene
from luxel.scenes.measuring import measurements_file
from luxel.scenes.measuring.measurements import Measurements, Ruler
from luxel.scenes.measuring.measurements_file import FILE, MeasurementsFile, scene_identity
from luxel.scenes.synthetic.toy import torus_knot

MEASURED = Measurements(
    (0.6, 0.0, -0.8), 0.1 + 0.2, (Ruler("door ü", (500_000.1, -1e-7, 3.0), (500_002.1, 1 / 3, 3.0)),)
)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for the state of the user in which nothing was measured yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def test_what_is_written_is_read_again_to_the_last_bit(tmp_path: Path) -> None:
    file = MeasurementsFile.of_run(tmp_path)
    assert file.read() == Measurements() and not file.path.exists()
    file.write(MEASURED)
    assert MeasurementsFile.of_run(tmp_path).read() == MEASURED and not file.outdated
    file.write(Measurements())
    assert MeasurementsFile.of_run(tmp_path).read() == Measurements()


def test_a_change_by_another_program_is_noticed_and_not_overwritten(tmp_path: Path) -> None:
    ours, theirs = MeasurementsFile.of_run(tmp_path), MeasurementsFile.of_run(tmp_path)
    ours.read()
    theirs.read()
    theirs.write(MEASURED)
    with pytest.raises(LuxelError, match="another program has changed it"):
        ours.write(Measurements(metres=2.0))
    assert ours.outdated and ours.read() == MEASURED
    ours.write(Measurements(metres=2.0))
    assert theirs.outdated and not ours.outdated


def _broken(change: Callable[[dict], object], seal: bool = True) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        body = json.loads(path.read_bytes())
        change(body)
        path.write_text(json.dumps(sealed(body) if seal else body))

    return write


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:40]), "it is no JSON"),
        (_broken(lambda body: body.update(metres=7.0), seal=False), "it does not match its checksum"),
        (_broken(lambda body: body.update(format=99)), "format 99 is of a newer version"),
        (_broken(lambda body: body.update(of="0" * 32)), "they are of another run or scene"),
        (_broken(lambda body: body.update(up=[0, 0, 2])), "the up direction does not have the length 1"),
        (_broken(lambda body: body.update(metres=-1.0)), "a unit of -1 m is no scale of a scene"),
        (_broken(lambda body: body["rulers"].append(body["rulers"][0])), "there is a ruler 'door ü' already"),
        (_broken(lambda body: body["rulers"][0].update(end=[0, 0, 1e200])), "this point is too far away"),
        (_broken(lambda body: body["rulers"][0].update(name="\x1b[2J")), "a ruler cannot be called"),
    ],
)
def test_what_cannot_be_read_gets_another_name_and_stays(
    tmp_path: Path, spoil: Callable[[Path], None], reason: str
) -> None:
    file = MeasurementsFile(tmp_path, FILE, "1" * 32, in_run=True)
    file.read()
    file.write(MEASURED)
    spoil(file.path)
    spoilt = file.path.read_bytes()
    assert file.read() == Measurements()
    assert file.problem is not None and reason in str(file.problem)
    file.write(Measurements(metres=3.0))
    assert file.problem is None and file.read() == Measurements(metres=3.0)
    assert (tmp_path / f"{FILE}.before-1").read_bytes() == spoilt


def test_measurements_of_a_run_that_another_process_owns_are_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def owned(folder: Path) -> None:
        raise owner.OwnedError(f"{folder}: process 7 writes into this run folder.", "Wait.")

    file = MeasurementsFile.of_run(tmp_path)
    file.read()
    monkeypatch.setattr(sealed_file, "own", owned)
    with pytest.raises(LuxelError, match=r"not saved yet: .* process 7 writes into this run folder"):
        file.write(MEASURED)
    assert not file.path.exists()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    file = MeasurementsFile(tmp_path / "taken", "a.json", "", in_run=False)
    with pytest.raises(LuxelError, match=r"a\.json: cannot be written"):
        file.write(MEASURED)


def test_a_scene_file_has_its_measurements_under_any_name(tmp_path: Path, state: Path) -> None:
    knot = torus_knot(50)
    save_scene(tmp_path / "a.ply", knot)
    scene = open_scene(tmp_path / "a.ply")
    assert facts_of(scene).up is None and not state.joinpath("luxel", "measurements").exists()
    file = MeasurementsFile.of_scene(scene)
    assert file is not None and file.path.is_relative_to(state)
    file.read()
    file.write(MEASURED)
    (tmp_path / "a.ply").rename(tmp_path / "b.ply")
    facts = facts_of(open_scene(tmp_path / "b.ply"))
    assert (facts.up, facts.metres) == (MEASURED.up, MEASURED.metres)
    assert facts_of(open_scene(tmp_path / "b.ply", LoadOptions(measured=False))).metres is None
    save_scene(tmp_path / "c.ply", torus_knot(51))
    assert facts_of(open_scene(tmp_path / "c.ply")).metres is None


def test_without_a_folder_of_the_user_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurements_file, "state_folder", lambda: None)
    assert MeasurementsFile.of_scene(primitive_scene(torus_knot(5))) is None


def test_fields_of_one_box_are_different_scenes() -> None:
    first, second = (make_application(FieldConfig(field="sdf")) for _ in range(2))
    assert scene_identity(field_scene(first)) == scene_identity(field_scene(second))
    with torch.no_grad():
        next(second.parameters()).add_(1)
    assert scene_identity(field_scene(first)) != scene_identity(field_scene(second))
