"""Single files under names that nothing has, and scratch folders."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from luxel.render.storage import journal
from luxel.render.storage.single import write_file, writing_file, writing_unused


def test_the_first_unused_name_is_taken(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("mine")
    (tmp_path / "a-2.txt").symlink_to(tmp_path / "missing")
    (tmp_path / "a-3.txt").mkdir()
    with writing_unused(tmp_path, "a", ".txt") as draft:
        draft.file.write(b"new")
        (tmp_path / "a-4.txt").write_text("written meanwhile")
    assert draft.target == tmp_path / "a-5.txt" and (tmp_path / "a-5.txt").read_text() == "new"
    assert (tmp_path / "a.txt").read_text() == "mine" and not (tmp_path / "missing").exists()
    assert (tmp_path / "a-4.txt").read_text() == "written meanwhile"
    with pytest.raises(ZeroDivisionError), writing_unused(tmp_path, "b") as draft:
        raise ZeroDivisionError
    assert draft.target is None and len(list(tmp_path.iterdir())) == 5, "no temporary file is left"


def test_a_file_that_comes_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with pytest.raises(FileExistsError), writing_file(path, replace=False) as draft:
        draft.file.write(b"new")
        path.write_text("another")
    assert path.read_text() == "another" and os.listdir(tmp_path) == ["a.txt"]
    write_file(path, b"new")
    assert path.read_text() == "new"


def test_scratch_folders_are_those_of_the_system_unless_given(tmp_path: Path) -> None:
    with journal.scratch_folder() as folder:
        assert folder.parent == Path(tempfile.gettempdir()) and folder.stat().st_mode & 0o777 == 0o700
        (folder / "a").write_text("a")
    assert not folder.exists()
    with journal.scratch_folder(tmp_path) as folder:
        assert folder.parent == tmp_path
