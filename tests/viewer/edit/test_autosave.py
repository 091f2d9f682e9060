"""Edits on the disk: resumed after a crash, refused where damaged or of another scene."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from luxel.render.errors import LuxelError
from luxel.render.primitives import Gaussians, Parameters
from luxel.render.primitives.similarity import Similarity
from luxel.viewer.edit import Autosave, Document, operations
from luxel.viewer.edit import autosave as autosave_module


def edited(scene: Parameters, folder: Path) -> tuple[Document, Autosave]:
    """A document with six edits, the last of which was undone."""
    autosave = Autosave(folder, scene)
    document = Document(scene, autosave)
    document.select(scene.centres[:, 0] > 2)
    document.apply(operations.store_set(document.state, "right"))
    document.apply(operations.transform(document.state, Similarity(scale=1.5, translation=(0, 1, 0))))
    document.apply(operations.recolour(document.state, brightness=0.1))
    document.apply(operations.delete(document.state))
    document.select_all()
    document.undo()
    autosave.flush()
    return document, autosave


def assert_same(a: Document, b: Document) -> None:
    """Scene, masks, sets and history are equal."""
    for name, tensor in a.state.scene.tensors().items():
        assert torch.equal(tensor, getattr(b.state.scene, name)), name
    for name, mask in a.state.masks.items():
        assert torch.equal(mask, b.state.masks[name]), name
    assert list(a.state.sets) == list(b.state.sets)
    assert a.history.undo_titles == b.history.undo_titles
    assert a.history.redo_titles == b.history.redo_titles


def test_a_session_is_resumed_as_it_was(any_scene: Parameters, tmp_path: Path) -> None:
    document, _ = edited(any_scene, tmp_path / "edits")
    again = Autosave(tmp_path / "edits", any_scene)
    assert again.resumable() == 5
    resumed = Document(any_scene, again)
    assert again.resume(resumed) == 5
    assert_same(resumed, document)
    document.on_edit = None  # as one session has a folder at a time
    for each in (document, resumed):
        each.undo()
        each.apply(operations.hide(each.state))  # drops the two edits that were undone
    again.flush()
    third = Document(any_scene)
    assert Autosave(tmp_path / "edits", any_scene).resume(third) == 5
    assert_same(third, resumed)
    while resumed.undo():
        pass
    assert all(
        torch.equal(a, b)
        for a, b in zip(resumed.remaining().tensors().values(), any_scene.tensors().values(), strict=True)
    )
    names = {entry["file"] for entry in json.loads((tmp_path / "edits" / "edits.json").read_text())["edits"]}
    assert {path.name for path in (tmp_path / "edits").glob("*.safetensors")} == names


def test_edits_of_another_scene_are_not_offered(grid: Callable[..., Gaussians], tmp_path: Path) -> None:
    edited(grid(), tmp_path / "edits")
    other = grid()
    other.means[0, 0] += 1
    autosave = Autosave(tmp_path / "edits", other)
    assert autosave.resumable() == 0
    with pytest.raises(LuxelError, match="no edits of this scene"):
        autosave.resume(Document(other))
    document = Document(other, autosave)
    document.select_all()
    autosave.flush()
    assert not autosave.problem and Autosave(tmp_path / "edits", other).resumable() == 1
    assert Autosave(tmp_path / "edits.previous", grid()).resumable() == 5, "moved aside, not lost"


def test_discarded_edits_are_brought_back(grid: Callable[..., Gaussians], tmp_path: Path) -> None:
    document, first = edited(grid(), tmp_path / "edits")
    assert first.changed_at == (tmp_path / "edits" / "edits.json").stat().st_mtime
    autosave = Autosave(tmp_path / "edits", grid())
    autosave.discard()
    autosave.discard()  # nothing is left
    assert (autosave.resumable(), autosave.discarded(), autosave.changed_at) == (0, 5, 0.0)
    again = Autosave(tmp_path / "edits", grid())
    again.bring_back()
    resumed = Document(grid(), again)
    assert again.discarded() == 0 and again.resume(resumed) == 5
    assert_same(resumed, document)
    resumed.select_all()
    again.flush()
    assert not again.problem and Autosave(tmp_path / "edits", grid()).resumable() == 6
    with pytest.raises(LuxelError, match="no edits of this scene were discarded"):
        again.bring_back()


def test_edits_of_several_sessions_are_retained(
    grid: Callable[..., Gaussians], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(autosave_module.MAX_ASIDE + 3):
        document = Document(grid(), Autosave(tmp_path / "edits", grid()))
        for _ in range(number + 1):
            document.select_all()
            document.select_none()
        document.on_edit.flush()  # pyright: ignore
        os.utime(tmp_path / "edits" / "edits.json", (number, number))
    counts = [Autosave(folder, grid()).resumable() for folder in tmp_path.iterdir()]
    assert sorted(counts) == [6, 8, 10, 12, 14, 16], "those of the newest sessions"
    autosave = Autosave(tmp_path / "edits", grid())
    assert autosave.discarded() == 14
    monkeypatch.setattr(Path, "rename", _refused)
    with pytest.raises(LuxelError, match="cannot be moved aside"):
        autosave.discard()
    with pytest.raises(LuxelError, match=r"cannot be moved aside|cannot be moved back"):
        autosave.bring_back()


def _refused(*arguments: object) -> None:
    raise PermissionError(13, "Permission denied")


def test_interrupted_and_damaged_files(grid: Callable[..., Gaussians], tmp_path: Path) -> None:
    document, _ = edited(grid(), tmp_path / "edits")
    (tmp_path / "edits" / "000099.safetensors").write_bytes(b"written, but not in the list yet")
    resumed = Document(grid())
    assert Autosave(tmp_path / "edits", grid()).resume(resumed) == 5
    assert_same(resumed, document)
    file = tmp_path / "edits" / "000003.safetensors"
    file.write_bytes(file.read_bytes()[:-9])
    untouched = Document(grid())
    with pytest.raises(LuxelError, match="cannot be read"):
        Autosave(tmp_path / "edits", grid()).resume(untouched)
    assert not untouched.history.undo_titles
    (tmp_path / "edits" / "edits.json").write_text("{")
    assert Autosave(tmp_path / "edits", grid()).resumable() == 0


def test_two_sessions_of_a_scene_do_not_write_into_one_folder(
    grid: Callable[..., Gaussians], tmp_path: Path
) -> None:
    first, second = (Autosave.within(tmp_path, grid()) for _ in range(2))
    assert first.folder != second.folder
    for autosave in (first, second):
        Document(grid(), autosave).select_all()
        autosave.close()
    third = Autosave.within(tmp_path, grid())
    assert third.folder == first.folder and third.resumable() == 1


def test_editing_goes_on_where_nothing_can_be_written(grid: Callable[..., Gaussians], tmp_path: Path) -> None:
    (tmp_path / "edits").write_text("a file, not a folder")
    document, autosave = edited(grid(), tmp_path / "edits")
    assert autosave.problem and document.numbers["kept"] == 108
    autosave.close()
