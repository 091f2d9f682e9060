"""Folders that luxel writes into: all files of a batch or none, nothing foreign replaced, nothing left behind."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import threading
from pathlib import Path

import pytest

from luxel.render.storage.descriptors import ForeignFileError, foreign
from luxel.render.storage.drafts import Draft
from luxel.render.storage.folder import OutputFolder
from luxel.render.storage.manifest import NAME


def names(folder: Path) -> list[str]:
    """Files below a folder but the manifest."""
    return sorted(
        str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir() and path.name != NAME
    )


def test_files_are_replaced_while_they_are_its_own(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path)
    folder.write("a/b.txt", b"1")
    folder.write("a/b.txt", b"2")
    OutputFolder(tmp_path).write("a/b.txt", [b"3", memoryview(b"4")])
    assert (tmp_path / "a" / "b.txt").read_bytes() == b"34"
    (tmp_path / "a" / "b.txt").write_bytes(b"edited")
    for output in (folder, OutputFolder(tmp_path)):
        with pytest.raises(ForeignFileError, match=r"b\.txt"):
            output.write("a/b.txt", b"5")
    assert (tmp_path / "a" / "b.txt").read_bytes() == b"edited" and names(tmp_path) == ["a/b.txt"]


def test_a_file_of_the_same_size_and_times_is_recognised_as_foreign(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path)
    path = folder.write("a", b"mine")
    status = path.stat()
    path.write_bytes(b"your")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert not OutputFolder(tmp_path).is_own("a")


def test_force_replaces_named_regular_files_alone(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "victim").write_text("precious")
    (root / "a").write_text("mine")
    (root / "b").write_text("mine")
    (root / "link").symlink_to(tmp_path / "victim")
    (root / "folder").mkdir()
    os.mkfifo(root / "pipe")
    os.link(tmp_path / "victim", root / "hard")
    folder = OutputFolder(root, force=True)
    folder.write("a", b"new")
    folder.write("hard", b"new")  # the name alone: the other one stays what it is
    for name in ("link", "folder", "pipe"):
        with pytest.raises(ForeignFileError, match=name):
            folder.write(name, b"new")
    assert folder.delete(["b", "link", "folder", "pipe"]) == ["b", "link", "folder", "pipe"]
    assert (root / "a").read_text() == "new" and (root / "b").read_text() == "mine"
    assert (tmp_path / "victim").read_text() == "precious"


def test_all_foreign_files_are_named_before_long_work(tmp_path: Path) -> None:
    for number in range(8):
        (tmp_path / f"{number}.png").write_text("mine")
    with pytest.raises(ForeignFileError, match=r"0\.png.*So are 1\.png.*and 3 more") as caught:
        OutputFolder(tmp_path, force=False).require(f"{number}.png" for number in range(9))
    assert "--force" in caught.value.remedy
    with pytest.raises(ForeignFileError) as caught:
        OutputFolder(tmp_path).require(["0.png"])
    assert "--force" not in caught.value.remedy, "the command has none"
    assert NAME not in os.listdir(tmp_path)


def test_a_batch_names_all_files_or_none(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path)
    with pytest.raises(KeyError), folder.batch() as batch:
        batch.write("index.html", b"page")
        batch.write("images/a.jpg", b"a")
        raise KeyError
    assert names(tmp_path) == []
    with pytest.raises(ForeignFileError, match=r"b\.jpg"), folder.batch() as batch:
        batch.write("images/a.jpg", b"a")
        batch.write("images/b.jpg", b"b")
        (tmp_path / "images" / "b.jpg").write_text("mine")  # meanwhile
    assert names(tmp_path) == ["images/b.jpg"]
    with folder.batch() as batch:
        batch.write("images/a.jpg", b"a")
        batch.write("images/a.jpg", b"again")
        assert names(tmp_path) != ["images/b.jpg"] and not (tmp_path / "images" / "a.jpg").exists()
    assert (tmp_path / "images" / "a.jpg").read_bytes() == b"again"
    assert names(tmp_path) == ["images/a.jpg", "images/b.jpg"]


def test_a_batch_deletes_its_own_files_after_the_others_have_names(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path)
    folder.write("1.jpg", b"old")
    (tmp_path / "2.jpg").write_text("mine")
    with folder.batch() as batch:
        batch.write("index.html", b"page")
        batch.delete(["1.jpg", "2.jpg"])
        assert (tmp_path / "1.jpg").exists()
    assert names(tmp_path) == ["2.jpg", "index.html"]


@pytest.mark.parametrize("call", ["write", "fsync", "rename"])
def test_full_disks_leave_the_old_file_and_no_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    folder = OutputFolder(tmp_path)
    folder.write("a", b"old")
    before = len(os.listdir("/proc/self/fd"))

    def fail(*arguments: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)  # os.write: of the manifest
        with pytest.raises(OSError, match="space"):
            folder.write("a", b"new")
    assert (tmp_path / "a").read_bytes() == b"old" and names(tmp_path) == ["a"]
    assert len(os.listdir("/proc/self/fd")) == before
    folder.write("a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new"


def test_contents_are_flushed_before_names_and_names_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    fsync, rename = os.fsync, os.rename

    def record(handle: int) -> None:
        calls.append(f"sync {os.path.relpath(os.readlink(f'/proc/self/fd/{handle}'), tmp_path)}")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", record)
    monkeypatch.setattr(os, "rename", lambda a, b, **o: (calls.append(f"name {b}"), rename(a, b, **o)))
    with OutputFolder(tmp_path / "new").batch() as batch:
        batch.write("x/1", b"1")
        batch.write("2", b"2")
    shown = [call for call in calls if ".luxel-" not in call or NAME in call]
    assert shown == [
        "sync .",
        "sync new",
        f"sync new/{NAME}",
        "sync new",
        "name 1",
        "sync new/x",
        "name 2",
        "sync new",
    ]
    drafts = [index for index, call in enumerate(calls) if call.startswith("sync") and ".luxel-" in call]
    assert len(drafts) == 3 and max(drafts) < calls.index("name 1")


def test_deleted_names_are_flushed_before_the_manifest_forgets_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = OutputFolder(tmp_path)
    folder.write("x/a", b"1")
    calls: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda handle: calls.append(os.readlink(f"/proc/self/fd/{handle}")))
    folder.delete(["x/a"])
    assert calls == [str(tmp_path / "x"), str(tmp_path / NAME)] and folder.names() == []


def test_a_folder_that_is_deleted_meanwhile(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path / "run")
    folder.write("a", b"1")
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError), folder.writing("x/b") as draft:
        draft.file.write(b"2")
        shutil.rmtree(tmp_path / "run")
    assert len(os.listdir("/proc/self/fd")) == before
    assert not (tmp_path / "run" / "x" / "b").exists()


def test_a_folder_that_becomes_a_link_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    folder = OutputFolder(tmp_path / "run")
    with pytest.raises((ForeignFileError, OSError)), folder.writing("x/b") as draft:
        os.rename(tmp_path / "run" / "x", tmp_path / "moved")
        (tmp_path / "run" / "x").symlink_to(tmp_path / "elsewhere")
        draft.file.write(b"2")
    assert os.listdir(tmp_path / "elsewhere") == []


def test_long_names_and_names_that_are_not_utf8(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path)
    for name in ("n" * 255, os.fsdecode(b"\xff\xfe"), "a\nb"):
        folder.write(name, b"1")
        assert OutputFolder(tmp_path).is_own(name)
        folder.write(name, b"2")
        folder.delete([name])
        assert names(tmp_path) == []


def test_modes_are_those_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        OutputFolder(tmp_path / "run").write("x/a", b"1")
    finally:
        os.umask(before)
    modes = {name: stat.S_IMODE((tmp_path / "run" / name).stat().st_mode) for name in (".", "x", "x/a")}
    assert modes == {".": 0o750, "x": 0o750, "x/a": 0o640}


def test_libraries_write_to_the_path_and_may_replace_it(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path)
    with folder.writing("film.mp4", suffix=".mp4") as draft:
        assert draft.path.suffix == ".mp4" and draft.path.name.startswith(".luxel-")
        other = tmp_path / "other"
        other.write_bytes(b"frames")
        os.replace(other, draft.path)
    assert (tmp_path / "film.mp4").read_bytes() == b"frames" and OutputFolder(tmp_path).is_own("film.mp4")


def test_threads_write_and_list_at_once(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path)
    folder.names()
    errors: list[BaseException] = []
    done = threading.Event()

    def work(action: object) -> None:
        try:
            assert callable(action)
            action()
        except BaseException as error:
            errors.append(error)

    def write(prefix: str) -> None:
        for number in range(30):
            folder.write(f"{prefix}/{number}", b"x")

    def read() -> None:
        while not done.is_set():
            folder.names()

    reader = threading.Thread(target=work, args=(read,))
    writers = [threading.Thread(target=work, args=(lambda p=prefix: write(p),)) for prefix in "abc"]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    reader.join()
    assert not errors and sorted(folder.names()) == names(tmp_path) and len(names(tmp_path)) == 90


def test_a_folder_below_the_root_is_no_link(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "images-of-mine").mkdir()
    (tmp_path / "images-of-mine" / "001.jpg").write_text("mine")
    (tmp_path / "run" / "eval").symlink_to(tmp_path / "images-of-mine")
    folder = OutputFolder(tmp_path / "run", inside="eval")
    with pytest.raises(ForeignFileError, match="eval"):
        folder.write("index.html", b"page")
    with pytest.raises(ForeignFileError, match="eval"):
        folder.require(["index.html"])
    assert folder.delete(["001.jpg"]) == ["001.jpg"]
    folder.remove_folder()
    assert os.listdir(tmp_path / "images-of-mine") == ["001.jpg"]


def test_adopted_files_are_its_own_and_links_are_not_adopted(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    run = tmp_path / "run"
    run.mkdir()
    (run / "a").write_text("of an earlier version")
    (run / "link").symlink_to(tmp_path / "victim")
    folder = OutputFolder(run)
    folder.adopt(["a", "link", "missing"])
    assert folder.names() == ["a"] and folder.is_own("a")
    folder.delete(["a"])
    assert names(run) == ["link"]


def test_empty_folders_are_removed_and_others_stay(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path / "run")
    folder.write("x/a", b"1")
    folder.remove_folder("x")
    folder.remove_folder()
    assert (tmp_path / "run" / "x" / "a").exists()
    folder.delete(["x/a"])
    folder.remove_folder("x")
    folder.remove_folder()
    assert not (tmp_path / "run").exists()


def test_a_draft_is_open_inside_of_its_context_only(tmp_path: Path) -> None:
    with OutputFolder(tmp_path).writing("a.bin") as draft:
        draft.file.write(b"1")
    assert (tmp_path / "a.bin").read_bytes() == b"1"
    with pytest.raises(ValueError, match="inside of its context"):
        _ = Draft(tmp_path / "b.bin").file


def test_what_vanishes_meanwhile_is_named_too(tmp_path: Path) -> None:
    assert "gone: cannot be replaced" in str(foreign(tmp_path / "gone"))
