"""Undo and redo of more edits than memory may hold: those further away are in a file, and nothing is lost."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.primitives import Gaussians, Parameters
from luxel.render.primitives.similarity import Similarity
from luxel.viewer.edit import Document, Edit, History, history, operations
from luxel.viewer.edit.edit_files import unpack_edit


def everything(document: Document) -> list[Tensor]:
    """All that edits change."""
    return [*document.state.scene.tensors().values(), *document.state.masks.values()]


def same(a: list[Tensor], b: list[Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def edit_often(document: Document, edits: int) -> list[list[Tensor]]:
    """Edits of several kinds; the states before and after each."""
    states = [everything(document)]
    for i in range(edits):
        if i % 5 == 0:
            document.select(document.state.scene.centres[:, i % 3] > 2 + 0.1 * i)
        elif i % 5 == 4:
            document.apply(operations.store_set(document.state, f"set{i}"))
        else:
            document.apply(operations.transform(document.state, Similarity(translation=(0.1 * i, 0, 1))))
        states.append(everything(document))
    return states


def file_sizes(undo: History) -> list[int]:
    return [os.fstat(s._file.fileno()).st_size if s._file else 0 for s in (undo._done, undo._undone)]


def test_edits_beyond_the_limit_are_read_back_bit_for_bit(any_scene: Parameters, tmp_path: Path) -> None:
    undo = History(tmp_path / "cache", max_bytes=2000)
    document = Document(any_scene, history=undo)
    states = edit_often(document, 30)
    undo.flush()
    assert undo.nbytes < 9000 and file_sizes(undo)[0] > 20_000, "one edit may be larger than the limit"
    assert len(undo.undo_titles) == len(states) - 1
    for _ in range(2):
        for state in reversed(states[:-1]):
            assert document.undo() and same(everything(document), state)
        undo.flush()
        assert not document.undo() and file_sizes(undo)[0] == 0, "what was read back leaves the file"
        assert not document.state.sets and undo.nbytes < 9000
        for state in states[1:]:
            assert document.redo() and same(everything(document), state)
        undo.flush()
        assert not document.redo() and file_sizes(undo)[1] == 0
    for _ in range(10):
        document.undo()
    undo.flush()
    document.select_none()
    assert not undo.redo_titles and file_sizes(undo)[1] == 0, "a new edit drops what was taken back"
    assert list((tmp_path / "cache").iterdir()) == [], "the file has no name"


def test_undo_while_edits_are_being_written(
    grid: Callable[..., Gaussians], monkeypatch: pytest.MonkeyPatch
) -> None:
    undo = History(max_bytes=100)
    document = Document(grid(), history=undo)
    states = edit_often(document, 11)
    undo.flush()
    pack, interrupted = history.pack_edit, []

    def slow(edit: Edit) -> bytes:
        content = pack(edit)
        while not interrupted or interrupted[-1] is not edit:  # until that edit itself has been taken back
            interrupted.append(undo._done.entries[-1].edit)
            document.undo()
        monkeypatch.undo()
        return content

    monkeypatch.setattr(history, "pack_edit", slow)
    document.apply(operations.transform(document.state, Similarity(translation=(0, 0, 1))))
    undo.flush()
    assert interrupted
    undo.flush()
    while document.undo():
        pass
    assert same(everything(document), states[0])
    for state in states[1:]:
        assert document.redo() and same(everything(document), state)


def test_edits_that_cannot_be_written_stay_in_memory(
    grid: Callable[..., Gaussians], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "cache").write_text("a file, not a folder")
    undo = History(tmp_path / "cache", max_bytes=2000)
    document = Document(grid(), history=undo)
    states = edit_often(document, 20)
    undo.flush()
    assert undo.nbytes > 9000 and "stay in memory" in caplog.text
    for state in reversed(states[:-1]):
        assert document.undo() and same(everything(document), state)


def test_an_edit_whose_file_was_cut_is_refused_and_nothing_changes(
    grid: Callable[..., Gaussians], tmp_path: Path
) -> None:
    undo = History(tmp_path / "cache", max_bytes=0)
    document = Document(grid(), history=undo)
    edit_often(document, 6)
    undo.flush()
    file = undo._done._file
    assert file is not None
    os.ftruncate(file.fileno(), 10)
    before = everything(document)
    with pytest.raises(LuxelError, match=r"the edit '\w+.*' cannot be read back.*Save the scene"):
        while document.undo():
            before = everything(document)
    assert same(everything(document), before)
    document.save(tmp_path / "saved.ply")
    assert (tmp_path / "saved.ply").is_file(), "the remedy works"


def test_nothing_is_hidden(grid: Callable[..., Gaussians]) -> None:
    document = Document(grid())
    with pytest.raises(LuxelError, match=r"nothing is hidden\. Hide a selection first"):
        document.apply(operations.show_all(document.state))
    document.select_all()
    document.apply(operations.hide(document.state))
    document.apply(operations.show_all(document.state))
    assert bool(document.shown.all())


@pytest.mark.parametrize(
    ("kind", "tensors", "message"),
    [
        (
            ["rows"],
            {"0.": torch.tensor([216])},
            r"rows must be int64 from 0 to 215, got torch.int64 216 to 216",
        ),
        (
            ["rows"],
            {"0.": torch.tensor([1]), "0.means": torch.zeros(1, 2)},
            r"means must be torch.float32 \[1, 3\]",
        ),
        (["turn", "all"], {}, r"changes must be rows, set, mask or objects, got \['turn', 'all'\]"),
    ],
)
def test_edits_that_are_of_no_such_scene(
    grid: Callable[..., Gaussians], kind: list[str], tensors: dict[str, Tensor], message: str
) -> None:
    content = save({"x": torch.zeros(1), **tensors}, {"changes": json.dumps([kind])})
    with pytest.raises(ValueError, match=f"no edit of this scene: ValueError: {message}"):
        unpack_edit(content, "an edit", Document(grid()).state)
