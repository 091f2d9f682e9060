"""Single files that the user chose: whole or not at all, under their name when they are on the disk."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from luxel.render.storage.places import cache_folder, home, socket_folders, state_folder
from luxel.render.storage.single import write_file, writing_file


def test_files_are_written_into_new_folders_and_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda handle: calls.append(os.readlink(f"/proc/self/fd/{handle}")))
    write_file(tmp_path / "a" / "b" / "scene.ply", [b"1", b"2"])
    assert (tmp_path / "a" / "b" / "scene.ply").read_bytes() == b"12"
    shown = [os.path.relpath(call, tmp_path) for call in calls if ".luxel-" not in call]
    assert shown == [".", "a", "a/b"] and ".luxel-" in calls[2]


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "out").symlink_to("victim")
    write_file(tmp_path / "out", b"new")
    assert (tmp_path / "victim").read_text() == "precious" and not (tmp_path / "out").is_symlink()


@pytest.mark.parametrize("make", ["file", "link", "dangling"])
def test_what_is_there_is_not_replaced_unless_that_is_allowed(tmp_path: Path, make: str) -> None:
    (tmp_path / "victim").write_text("precious")
    out = tmp_path / "out"
    out.write_text("mine") if make == "file" else out.symlink_to("victim" if make == "link" else "new")
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(FileExistsError):
        write_file(out, b"new", replace=False)
    assert sorted(os.listdir(tmp_path)) == before and (tmp_path / "victim").read_text() == "precious"


def test_a_file_that_comes_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(FileExistsError), writing_file(tmp_path / "out", replace=False) as draft:
        draft.file.write(b"new")
        (tmp_path / "out").write_text("mine")
    assert os.listdir(tmp_path) == ["out"] and (tmp_path / "out").read_text() == "mine"


def test_two_threads_write_one_name(tmp_path: Path) -> None:
    """Each file is whole, and one of them has the name at the end; without permission one of them is refused."""
    outcomes: list[str] = []
    barrier = threading.Barrier(2)

    def work(text: bytes, replace: bool) -> None:
        try:
            with writing_file(tmp_path / "out", replace=replace) as draft:
                draft.file.write(text)
                barrier.wait()
            outcomes.append("written")
        except FileExistsError:
            outcomes.append("refused")

    for replace, expected in ((True, ["written", "written"]), (False, ["refused", "written"])):
        outcomes.clear()
        threads = [threading.Thread(target=work, args=(text * 1000, replace)) for text in (b"a", b"b")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes) == expected
        assert len(set((tmp_path / "out").read_bytes())) == 1 and os.listdir(tmp_path) == ["out"]
        (tmp_path / "out").unlink()


def test_file_systems_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise OSError(errno.EPERM, "not on this file system")

    monkeypatch.setattr(os, "link", refuse)
    write_file(tmp_path / "out", b"new", replace=False)
    with pytest.raises(FileExistsError):
        write_file(tmp_path / "out", b"other", replace=False)
    assert os.listdir(tmp_path) == ["out"] and (tmp_path / "out").read_bytes() == b"new"


def test_folders_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(IsADirectoryError):
        write_file(tmp_path / "out", b"new")
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("call", ["fsync", "rename"])
def test_full_disks_leave_the_old_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    write_file(tmp_path / "out", b"old")

    def fail(*arguments: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    before = len(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(OSError, match="space"):
            write_file(tmp_path / "out", b"new")
    assert os.listdir(tmp_path) == ["out"] and (tmp_path / "out").read_bytes() == b"old"
    assert len(os.listdir("/proc/self/fd")) == before


def test_names_of_255_bytes(tmp_path: Path) -> None:
    name = "n" * 251 + ".ply"
    write_file(tmp_path / name, b"1", replace=False)
    assert os.listdir(tmp_path) == [name]


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write into every folder")
def test_read_only_folders(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError):
        write_file(tmp_path / "out", b"new")
    tmp_path.chmod(0o700)
    assert os.listdir(tmp_path) == []


def test_private_folders_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, folder in (("XDG_STATE_HOME", state_folder), ("XDG_CACHE_HOME", cache_folder)):
        chosen = tmp_path / variable / "deep"
        monkeypatch.setenv(variable, str(chosen))
        assert folder() == chosen / "luxel" and (chosen / "luxel").stat().st_mode & 0o777 == 0o700
        (chosen / "luxel").chmod(0o777)  # others could replace what is in it
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        assert folder() != chosen / "luxel"


def test_a_link_is_no_private_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "luxel").symlink_to("elsewhere")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert state_folder() == tmp_path / "home" / ".local" / "state" / "luxel"


def test_no_folder_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a home nor a folder for temporary files, as in a container of a foreign user."""

    def fail() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr("tempfile.gettempdir", fail)
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nothing")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    assert home() is None and state_folder() is None and cache_folder() is None
    assert all(str(folder).startswith("/run/user") for folder in socket_folders())
