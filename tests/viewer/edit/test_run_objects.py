"""Objects of an edited scene and objects.json: what is written, and what is refused."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest
import torch
from test_object_edits import row_of_balls

from luxel.render.errors import LuxelError
from luxel.render.runs.folder.owner import OWNER
from luxel.render.segment import Prompt
from luxel.render.segment.objects import FILE, Objects, load_objects, save_objects, scene_digest
from luxel.viewer.edit import Document
from luxel.viewer.edit import object_edits as edits
from luxel.viewer.edit.run_objects import RunObjects


def segmented(folder: Path) -> Objects:
    """Writes the objects of a run, with a prompt and a map."""
    objects = Objects(scene_digest(row_of_balls()), torch.zeros(24, dtype=torch.uint8))
    objects.labels[:6] = objects.add("low").label
    objects.prompts = [Prompt(1, "a.jpg", ((1.0, 2.0, True),))]
    objects.maps = {"a.jpg": torch.eye(3, dtype=torch.uint8)}
    save_objects(folder, objects)
    return objects


def opened(folder: Path | None) -> tuple[Document, RunObjects]:
    """A document of the run, and its records."""
    scene = row_of_balls()
    records = RunObjects(folder, scene)
    return Document(scene, objects=records.read(), keep=records.keep), records


def test_changes_are_written_and_masks_stay(tmp_path: Path) -> None:
    before = segmented(tmp_path)
    document, records = opened(tmp_path)
    assert document.state.objects.objects == before.objects and not records.outdated
    document.select(torch.arange(24) > 20)
    document.apply(edits.add_object(document.state, "tail"))
    document.apply(edits.change_object(document.state, 1, "head", (1, 2, 3)))
    written = load_objects(tmp_path)
    assert [(o.name, o.colour[0]) for o in written.objects] == [
        ("head", 1),
        ("tail", written.objects[1].colour[0]),
    ]
    assert written.labels.tolist() == [1] * 6 + [0] * 15 + [2] * 3
    assert written.by_hand is not None and written.by_hand.tolist() == [False] * 21 + [True] * 3
    assert written.prompts == before.prompts and torch.equal(written.maps["a.jpg"], before.maps["a.jpg"])
    assert written.voted(torch.full((24,), 1, dtype=torch.uint8)).tolist() == [1] * 21 + [2] * 3
    with pytest.raises(ValueError, match=r"labels must be \[24\] as before"):
        written.voted(torch.zeros(3, dtype=torch.uint8))
    assert records.voted(1) and not records.voted(2) and not records.outdated
    assert document.undo() and document.undo()
    assert load_objects(tmp_path).labels.tolist() == before.labels.tolist()
    assert load_objects(tmp_path).objects == before.objects


def test_a_run_without_objects_gets_its_first(tmp_path: Path) -> None:
    document, records = opened(tmp_path)
    document.select_all()
    document.apply(edits.add_object(document.state, "all"))
    objects = load_objects(tmp_path)
    assert objects.fits(row_of_balls()) and objects.labels.tolist() == [1] * 24 and not records.voted(1)


def test_without_a_run_objects_live_with_the_edits() -> None:
    document, records = opened(None)
    document.select_all()
    document.apply(edits.add_object(document.state, "all"))
    assert document.state.objects.named("all") is not None and not records.outdated and not records.voted(1)


def test_what_another_program_has_written_is_not_replaced(tmp_path: Path) -> None:
    segmented(tmp_path)
    document, records = opened(tmp_path)
    document.select_all()
    other = load_objects(tmp_path)
    other.objects[0].name = "renamed elsewhere"
    save_objects(tmp_path, other)
    with pytest.raises(LuxelError, match="another program has changed it"):
        document.apply(edits.add_object(document.state, "all"))
    assert load_objects(tmp_path).objects == other.objects and len(document.state.objects.objects) == 1
    assert records.outdated
    document.state.objects = records.read()
    document.apply(edits.add_object(document.state, "all"))
    assert [entry.name for entry in load_objects(tmp_path).objects] == ["renamed elsewhere", "all"]


def test_a_run_that_another_process_writes_into_is_left_alone(tmp_path: Path) -> None:
    segmented(tmp_path)
    document, _ = opened(tmp_path)
    document.select_all()
    before = (tmp_path / FILE).read_bytes()
    with (tmp_path / OWNER).open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(LuxelError, match="the objects stay as they were") as raised:
            document.apply(edits.add_object(document.state, "all"))
    assert "Wait until that process has ended" in raised.value.remedy
    assert (tmp_path / FILE).read_bytes() == before
    document.apply(edits.add_object(document.state, "all"))
    assert load_objects(tmp_path).named("all") is not None


@pytest.mark.parametrize("damage", ["another scene", "broken"])
def test_objects_that_are_not_of_this_scene_are_neither_used_nor_replaced(
    tmp_path: Path, damage: str
) -> None:
    segmented(tmp_path)
    if damage == "broken":
        (tmp_path / FILE).write_text("{}")
    else:
        other = load_objects(tmp_path)
        other.scene = "0" * 64
        save_objects(tmp_path, other)
    before = (tmp_path / FILE).read_bytes()
    document, records = opened(tmp_path)
    assert not document.state.objects.objects and records.problem is not None
    document.select_all()
    with pytest.raises(
        LuxelError, match="another state of its scene" if damage != "broken" else "is damaged"
    ):
        document.apply(edits.add_object(document.state, "all"))
    assert (tmp_path / FILE).read_bytes() == before


def test_damaged_files_are_not_built_upon(tmp_path: Path) -> None:
    segmented(tmp_path)
    objects = load_objects(tmp_path)
    objects.by_hand = torch.ones(24, dtype=torch.bool)
    save_objects(tmp_path, objects)
    marks = next((tmp_path / "objects").glob("*.hand"))
    assert load_objects(tmp_path, maps=False).maps == {}
    (tmp_path / FILE).write_text((tmp_path / FILE).read_text().replace('"low"', '"bow"'))
    with pytest.raises(LuxelError, match="is damaged"):
        save_objects(tmp_path, objects, keep_maps=True)
    save_objects(tmp_path, objects)
    marks.write_bytes(b"\0")
    with pytest.raises(LuxelError, match="does not match its checksum"):
        load_objects(tmp_path)
