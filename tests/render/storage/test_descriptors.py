"""Folders and files by descriptors: no link below the root is followed, nothing but a regular file is opened."""

from __future__ import annotations

import errno
import os
import socket
import threading
from pathlib import Path

import pytest

from luxel.render.storage.descriptors import (
    ForeignFileError,
    flush_folder,
    make_folders,
    open_in_place,
    open_regular,
    opened_folder,
    parts_of,
)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("name", ["", "/a", "..", "a/../b", "a\0b", "."])
def test_names_stay_below_their_folder(name: str) -> None:
    with pytest.raises(ValueError, match="below its folder"):
        parts_of(name)


def test_a_link_to_the_root_is_followed_and_none_below_it(tmp_path: Path) -> None:
    (tmp_path / "root" / "a").mkdir(parents=True)
    (tmp_path / "elsewhere" / "b").mkdir(parents=True)
    (tmp_path / "link").symlink_to("root")
    (tmp_path / "root" / "a" / "x").symlink_to(tmp_path / "elsewhere")
    with opened_folder(tmp_path / "link", ("a",)) as handle:
        assert os.listdir(handle) == ["x"]
    before = descriptors()
    for parts in (("a", "x"), ("a", "x", "b")):
        for make in (False, True):
            with (
                pytest.raises(ForeignFileError, match="symbolic link"),
                opened_folder(tmp_path / "link", parts, make=make),
            ):
                pass
    assert descriptors() == before
    assert os.listdir(tmp_path / "elsewhere") == ["b"]


@pytest.mark.parametrize("make", ["file", "pipe"])
def test_what_is_no_folder_is_refused(tmp_path: Path, make: str) -> None:
    os.mkfifo(tmp_path / "x") if make == "pipe" else (tmp_path / "x").write_text("mine")
    before = descriptors()
    with pytest.raises(ForeignFileError, match="no folder"), opened_folder(tmp_path, ("x",), make=True):
        pass
    assert descriptors() == before


def test_dangling_links_make_nothing(tmp_path: Path) -> None:
    (tmp_path / "x").symlink_to(tmp_path / "new")
    with pytest.raises(ForeignFileError), opened_folder(tmp_path, ("x", "y"), make=True):
        pass
    assert not (tmp_path / "new").exists()


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Folders and files that were flushed, by their paths."""
    paths: list[Path] = []
    fsync = os.fsync

    def record(handle: int) -> None:
        paths.append(Path(os.readlink(f"/proc/self/fd/{handle}")))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", record)
    return paths


def test_parents_of_new_folders_are_flushed(tmp_path: Path, flushed: list[Path]) -> None:
    with opened_folder(tmp_path / "a" / "b", ("c", "d"), make=True):
        pass
    a = tmp_path / "a"
    assert flushed == [tmp_path, a, a / "b", a / "b" / "c"]


def test_parents_are_flushed_where_another_process_made_the_folder(
    tmp_path: Path, flushed: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdir = os.mkdir

    def slower(path: str | Path, *arguments: int, **options: int) -> None:
        mkdir(path, *arguments, **options)  # of the other process
        mkdir(path, *arguments, **options)

    monkeypatch.setattr(os, "mkdir", slower)
    with opened_folder(tmp_path / "a", ("b",), make=True):
        pass
    assert flushed == [tmp_path, tmp_path / "a"]


def test_file_systems_without_flushing_of_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(handle: int) -> None:
        raise OSError(errno.EINVAL, "not on this file system")

    monkeypatch.setattr(os, "fsync", refuse)
    with opened_folder(tmp_path / "a", ("b",), make=True):
        pass
    assert (tmp_path / "a" / "b").is_dir()


def test_errors_of_the_disk_are_not_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(handle: int) -> None:
        raise OSError(errno.EIO, "damaged")

    monkeypatch.setattr(os, "fsync", fail)
    before = descriptors()
    with pytest.raises(OSError, match="damaged"):
        flush_folder(tmp_path)
    assert descriptors() == before


def test_folders_are_not_made_over_files(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("mine")
    with pytest.raises(NotADirectoryError):
        make_folders(tmp_path / "x")
    with pytest.raises(NotADirectoryError):
        make_folders(tmp_path / "x" / "y")


def test_threads_make_one_folder(tmp_path: Path) -> None:
    errors: list[BaseException] = []
    barrier = threading.Barrier(8)

    def work() -> None:
        try:
            barrier.wait()
            with opened_folder(tmp_path / "a" / "b", ("c", "d"), make=True):
                pass
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and (tmp_path / "a" / "b" / "c" / "d").is_dir()


def test_only_regular_files_are_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    before = descriptors()
    with socket.socket(socket.AF_UNIX) as server:
        monkeypatch.chdir(tmp_path)  # names of sockets are short
        server.bind("socket")
        for name in ("pipe", "folder", "socket"):
            with pytest.raises(OSError):
                open_regular(tmp_path / name)
    with pytest.raises(OSError):
        open_regular("/dev/zero")
    with pytest.raises(OSError, match="symbolic link"):
        open_regular(tmp_path / "link", follow=False)
    for name in ("file", "link"):
        with open_regular(tmp_path / name) as file:
            assert file.read() == b"content"
    assert descriptors() == before


def test_files_that_are_changed_in_place_have_one_name(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to(victim)
    (root / "dangling").symlink_to(tmp_path / "new")
    os.link(victim, root / "hard")
    os.mkfifo(root / "pipe")
    (root / "folder").mkdir()
    before = descriptors()
    with opened_folder(root) as handle:
        for name in ("link", "dangling", "hard", "pipe", "folder"):
            with pytest.raises(ForeignFileError, match=name):
                open_in_place(handle, name, root / name, os.O_RDWR)
        file = open_in_place(handle, "log", root / "log", os.O_RDWR)
        os.write(file, b"line")
        os.close(file)
    assert descriptors() == before
    assert victim.read_text() == "precious" and not (tmp_path / "new").exists()
    assert (root / "log").read_bytes() == b"line"


def test_second_names_are_refused_with_their_remedy(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    os.link(tmp_path / "a", tmp_path / "b")
    with opened_folder(tmp_path) as handle, pytest.raises(ForeignFileError, match="hard link"):
        open_in_place(handle, "b", tmp_path / "b", os.O_WRONLY)


def test_an_interrupt_right_after_a_call_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal arrives when a descriptor is closed, or belongs to a file, already: it is not closed twice."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "file").write_text("x")
    before, close, fdopen = descriptors(), os.close, os.fdopen

    def interrupted_close(handle: int) -> None:
        monkeypatch.setattr(os, "close", close)
        close(handle)
        raise KeyboardInterrupt

    def interrupted_fdopen(handle: int, mode: str) -> None:
        fdopen(handle, mode).close()
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "close", interrupted_close)
    with pytest.raises(KeyboardInterrupt), opened_folder(tmp_path, ["a", "b"]):
        pass
    monkeypatch.setattr(os, "fdopen", interrupted_fdopen)
    with pytest.raises(KeyboardInterrupt):
        open_regular(tmp_path / "file")
    assert descriptors() == before
