"""The manifest: claims about contents that survive kills, power cuts, full disks, forgers and a second process."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from luxel.render.storage import manifest as module
from luxel.render.storage.descriptors import ForeignFileError
from luxel.render.storage.folder import OutputFolder
from luxel.render.storage.manifest import HEAD, NAME, Content, Manifest


def content(text: str) -> Content:
    return Content(len(text.encode()), hashlib.sha256(text.encode()).hexdigest())


def test_contents_are_added_and_dropped(tmp_path: Path) -> None:
    manifest = Manifest(tmp_path)
    assert manifest.read() == {} and not manifest.exists()
    manifest.add({"a": content("1"), "b/c": content("2")})
    manifest.add({"a": content("3")})
    assert manifest.read() == {"a": [content("1"), content("3")], "b/c": [content("2")]}
    manifest.drop(["a"])
    assert Manifest(tmp_path).read() == {"b/c": [content("2")]} and manifest.exists()


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_a_torn_last_line_is_passed_over(tmp_path: Path, cut: int) -> None:
    manifest = Manifest(tmp_path)
    manifest.add({"a": content("1")})
    manifest.add({"b": content("2")})
    manifest.path.write_bytes(manifest.path.read_bytes()[:-cut])
    assert "a" in manifest.read()
    manifest.add({"c": content("3")})
    assert {"a", "c"} <= manifest.read().keys()


@pytest.mark.parametrize("left", [b"", b'{"luxel": "ma', json.dumps(HEAD).encode(), bytes(900)])
def test_what_a_power_cut_left_of_the_first_write_is_written_anew(tmp_path: Path, left: bytes) -> None:
    (tmp_path / NAME).write_bytes(left)
    manifest = Manifest(tmp_path)
    assert manifest.read() == {}
    manifest.add({"a": content("1")})
    assert manifest.read() == {"a": [content("1")]}
    assert manifest.path.read_bytes().startswith(json.dumps(HEAD).encode() + b"\n")


@pytest.mark.parametrize("foreign", [b"my notes\n", b'{"luxel": "other"}\n', b"\0\0x"])
def test_a_file_of_others_is_not_appended_to(tmp_path: Path, foreign: bytes) -> None:
    (tmp_path / NAME).write_bytes(foreign)
    with pytest.raises(ForeignFileError, match="manifest"):
        Manifest(tmp_path).add({"a": content("1")})
    assert (tmp_path / NAME).read_bytes() == foreign


def test_links_and_second_names_are_refused(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(json.dumps(HEAD).encode() + b"\n")
    before = victim.read_bytes()
    for number, make in enumerate((os.symlink, os.link)):
        folder = tmp_path / f"folder{number}"
        folder.mkdir()
        make(victim, folder / NAME)
        with pytest.raises(ForeignFileError):
            Manifest(folder).add({"a": content("1")})
    assert victim.read_bytes() == before


def test_a_link_on_the_path_is_no_manifest(tmp_path: Path) -> None:
    Manifest(tmp_path / "other").add({"a": content("1")})
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "eval").symlink_to(tmp_path / "other")
    manifest = Manifest(tmp_path / "root", ("eval",))
    assert not manifest.exists() and manifest.read() == {}
    with pytest.raises(ForeignFileError, match="eval"):
        manifest.add({"b": content("2")})


FORGED = [
    '{"name": "../../secret", "size": 1, "sha256": "x"}',
    '{"name": "/etc/passwd", "size": 1, "sha256": "x"}',
    '{"name": 5, "size": 1, "sha256": "x"}',
    '{"name": "a", "size": "1", "sha256": "x"}',
    '{"name": "a", "size": 1, "sha256": null}',
    '{"name": "a"}',
    "[]",
    "null",
    "[" * 100_000,
    "\udcff",
]


def test_forged_lines_are_passed_over(tmp_path: Path) -> None:
    lines = [json.dumps(HEAD), *FORGED, json.dumps({"name": "b", "size": 1, "sha256": "y"})]
    (tmp_path / NAME).write_bytes("\n".join(lines).encode(errors="surrogateescape"))
    assert Manifest(tmp_path).read() == {"b": [Content(1, "y")]}


def test_a_claim_is_no_permission(tmp_path: Path) -> None:
    """A manifest that names a file of the user: only its true content counts, and links never do."""
    (tmp_path / "victim").write_text("precious")
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "thesis").write_text("mine")
    (folder / "link").symlink_to(tmp_path / "victim")
    Manifest(folder).add({"thesis": content("other"), "link": content("precious")})
    output = OutputFolder(folder)
    assert output.delete(["thesis", "link"]) == ["thesis", "link"]
    with pytest.raises(ForeignFileError, match="thesis"):
        output.write("thesis", b"new")
    assert (folder / "thesis").read_text() == "mine" and (tmp_path / "victim").read_text() == "precious"


def test_its_name_is_flushed_with_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda handle: flushed.append(os.readlink(f"/proc/self/fd/{handle}")))
    Manifest(tmp_path).add({"checkpoints/a": content("1")})
    assert flushed == [str(tmp_path / NAME), str(tmp_path)]


def test_a_full_disk_leaves_it_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = Manifest(tmp_path)
    manifest.add({"a": content("1")})
    before, write = manifest.path.read_bytes(), os.write

    def half(handle: int, data: bytes) -> int:
        if len(data) < 50:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(handle, bytes(data)[:40])

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(OSError, match="space"):
        manifest.add({"b": content("2")})
    assert manifest.path.read_bytes() == before


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compaction after a few lines."""
    monkeypatch.setattr(module, "COMPACT", 20)
    monkeypatch.setattr(module, "LOOK_EVERY", 1000)


def test_compaction_retains_what_a_file_has(tmp_path: Path, small: None) -> None:
    """The newest content is noted before the file has it: where that write fails, the file has an older one."""
    output = OutputFolder(tmp_path)
    output.write("a", b"present")
    output.write("b/c", b"present")
    output.write("gone", b"x")
    output.delete(["gone"])
    for number in range(100):
        output.manifest.add({"a": content(f"failed {number}"), "b/c": content(f"failed {number}")})
    assert output.manifest.path.read_bytes().count(b"\n") < 40
    again = OutputFolder(tmp_path)
    assert again.is_own("a") and again.is_own("b/c") and again.names() == ["a", "b/c"]
    assert [
        path.name for path in tmp_path.iterdir() if path.name.startswith(".luxel-") and path.name != NAME
    ] == []


def test_a_compacted_manifest_is_flushed_with_its_folder(
    tmp_path: Path, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    fsync, rename = os.fsync, os.rename
    monkeypatch.setattr(
        os, "fsync", lambda handle: (calls.append(os.readlink(f"/proc/self/fd/{handle}")), fsync(handle))
    )
    monkeypatch.setattr(os, "rename", lambda *a, **o: (calls.append("rename"), rename(*a, **o)))
    manifest = Manifest(tmp_path)
    for number in range(60):
        manifest.add({"a": content(str(number))})
    assert calls[calls.index("rename") + 1] == str(tmp_path)


WRITER = """
import sys
from pathlib import Path
from luxel.render.storage import manifest
manifest.COMPACT, manifest.LOOK_EVERY = 20, 1000
for number in range(150):
    manifest.Manifest(Path(sys.argv[1])).add({f"{sys.argv[2]}-{number % 12}": manifest.Content(number, "x")})
"""


def test_two_processes_lose_nothing_while_it_is_compacted(tmp_path: Path) -> None:
    commands = [[sys.executable, "-c", WRITER, str(tmp_path), name] for name in ("a", "b")]
    children = [subprocess.Popen(command) for command in commands]
    assert [child.wait() for child in children] == [0, 0]
    contents = Manifest(tmp_path).read()
    assert sorted(contents) == sorted(f"{name}-{number}" for name in "ab" for number in range(12))
    for name, known in contents.items():
        assert known[-1].size == max(n for n in range(150) if n % 12 == int(name[2:]))
    assert Manifest(tmp_path).path.read_bytes().count(b"\n") < 200


def test_a_lock_that_another_process_does_not_give_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LONGEST_WAIT", 0.05)
    manifest = Manifest(tmp_path)
    manifest.add({"a": content("1")})
    with manifest.path.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        manifest.add({"b": content("2")})
    assert sorted(manifest.read()) == ["a", "b"]


def test_file_systems_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    Manifest(tmp_path).add({"a": content("1")})
    assert Manifest(tmp_path).read() == {"a": [content("1")]}
