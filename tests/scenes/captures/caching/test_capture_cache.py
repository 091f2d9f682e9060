"""Results that come with a capture are claims: what is damaged, linked or foreign is computed again, and left alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tree_snapshot import snapshot

from luxel.render.storage import places
from luxel.render.storage.manifest import NAME as MANIFEST
from luxel.scenes.captures.caching import capture_cache
from luxel.scenes.captures.caching.capture_cache import CaptureCache
from luxel.scenes.errors import CaptureError

CONTENT = {"model.bin": b"0123456789" * 50, "images/a.txt": b"first", "images/b.txt": b"second"}


class Results:
    """A result of three files that is computed where it is not there; counts how often."""

    def __init__(self) -> None:
        self.count = 0

    def make(self, folder: Path) -> None:
        self.count += 1
        for name, content in CONTENT.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(content)

    @staticmethod
    def read(folder: Path) -> Path:
        if {name: (folder / name).read_bytes() for name in CONTENT} != CONTENT:
            raise ValueError("other content")
        return folder

    def of(self, capture: Path, inside: str = "sfm-key", cache_dir: Path | None = None) -> Path:
        names = [] if inside else list(CONTENT)
        return CaptureCache(capture, cache_dir).result(inside, self.read, self.make, names=names)


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    folder = tmp_path / "capture"
    folder.mkdir()
    (folder / "a.jpg").write_bytes(b"an image")
    return folder


@pytest.mark.parametrize("inside", ["sfm-key", "panoramas/key", ""])
def test_a_result_is_computed_once(capture: Path, inside: str) -> None:
    results = Results()
    folder = results.of(capture, inside)
    assert folder == (capture / ".luxel" / inside if inside else capture / ".luxel")
    assert results.of(capture, inside) == folder and results.count == 1
    assert {path.name for path in folder.iterdir()} == {"model.bin", "images", MANIFEST}


def test_where_results_are(capture: Path, own_cache: Path, tmp_path: Path) -> None:
    results = Results()
    assert results.of(capture, cache_dir=tmp_path / "mine") == tmp_path / "mine/sfm-key"
    assert not (capture / ".luxel").exists()
    capture.chmod(0o555)  # the superuser could write all the same, but a capture marked so is left alone
    folder = results.of(capture)
    assert own_cache / "captures" in folder.parents and not (capture / ".luxel").exists()
    assert results.of(capture) == folder and results.count == 2
    capture.chmod(0o755)
    other = tmp_path / "other"
    other.mkdir(0o555)
    assert results.of(other) != folder, "names and sizes of the files of two captures may agree"
    blocked = tmp_path / "blocked"
    blocked.write_text("no folder")
    assert own_cache in results.of(tmp_path / "third", cache_dir=blocked).parents


def test_results_of_earlier_versions_are_used(capture: Path, own_cache: Path) -> None:
    """Without a manifest: existing runs have the very poses that they were trained with."""
    results = Results()
    for place in (capture / ".luxel/sfm-key", own_cache / "sfm-other"):
        place.mkdir(parents=True)
        results.make(place)
    before = snapshot(capture)
    results.count = 0
    assert results.of(capture) == capture / ".luxel/sfm-key"
    assert results.of(capture, "sfm-other") == own_cache / "sfm-other" and results.count == 0
    assert snapshot(capture) == before


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def made_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def made_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def made_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def made_device_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: os.truncate(path, path.stat().st_size // 2),
    "flipped": flipped,
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"more"),
    "missing": Path.unlink,
    "pipe": made_pipe,
    "folder": made_folder,
    "link": made_link,
    "link to a device": made_device_link,
    "another file": lambda path: path.with_name("more.jpg").write_bytes(b"foreign"),
}


@pytest.mark.parametrize("manifest", [True, False])
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", [*CONTENT, MANIFEST])
def test_damaged_results_are_computed_again(capture: Path, name: str, damage: str, manifest: bool) -> None:
    """Once: the new one is used from then on. What is there stays, unless luxel is known to have written it."""
    results = Results()
    folder = results.of(capture)
    if not manifest:
        (folder / MANIFEST).unlink()
    if not (folder / name).exists():
        return
    DAMAGES[damage](folder / name)
    before = snapshot(capture)
    again = results.of(capture)
    usable = name == MANIFEST or not (manifest or damage in ("empty", "cut"))
    assert results.count <= 2 and (results.count == 2 or usable)
    count = results.count
    assert results.of(capture) == again and results.count == count
    if again != folder:
        assert snapshot(capture) == before


@pytest.mark.parametrize("to", ["folder", "file", "nothing"])
@pytest.mark.parametrize("inside", ["sfm-key", ""])
def test_no_link_in_the_place_of_what_is_written_is_followed(
    capture: Path, tmp_path: Path, inside: str, to: str
) -> None:
    """Each path that storing a result makes, folders as well, becomes a link in turn."""
    Results().of(capture, inside)
    written = [".luxel", *(f".luxel/{path}" for path in snapshot(capture / ".luxel"))]
    assert len(written) >= 6
    outside = tmp_path / "outside"
    for path in written:
        shutil.rmtree(capture)
        shutil.rmtree(outside, ignore_errors=True)
        (outside / "images").mkdir(parents=True)
        for name in ("model.bin", "precious.txt", "images/a.txt", MANIFEST):
            (outside / name).write_text("precious")
        (capture / path).parent.mkdir(parents=True, exist_ok=True)
        target = {"folder": outside, "file": outside / "precious.txt", "nothing": outside / "new"}[to]
        (capture / path).symlink_to(target)
        before = snapshot(outside), snapshot(capture)[path]
        folder = Results().of(capture, inside)
        assert (snapshot(outside), snapshot(capture)[path]) == before, path
        assert Results.read(folder) == folder and not folder.is_relative_to(outside)
        shutil.rmtree(places.cache_folder() / "captures")  # type: ignore[operator]


@pytest.mark.parametrize("what", ["file", "folder with a foreign file"])
def test_something_else_in_the_place_of_the_cache(capture: Path, own_cache: Path, what: str) -> None:
    if what == "file":
        (capture / ".luxel").write_text("notes")
    else:
        (capture / ".luxel" / "sfm-key").mkdir(parents=True)
        (capture / ".luxel/sfm-key/notes.txt").write_text("notes")
    before = snapshot(capture)
    assert own_cache in Results().of(capture).parents and snapshot(capture) == before


def test_without_a_home(capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user id without an account: results of a capture that cannot be written are in one folder of the user."""

    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    monkeypatch.delenv("XDG_CACHE_HOME")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(capture_cache.tempfile, "tempdir", str(tmp_path / "tmp"))
    results = Results()
    assert results.of(capture) == capture / ".luxel/sfm-key"
    capture.chmod(0o555)
    shutil.rmtree(capture / ".luxel")
    folder = results.of(capture)
    assert results.of(capture) == folder and results.count == 2
    assert folder.relative_to(tmp_path / "tmp").parts[0] == f"luxel-{os.getuid()}"
    assert [entry.name for entry in (tmp_path / "tmp").iterdir()] == [f"luxel-{os.getuid()}"]


NO_CACHE = """
import sys
from pathlib import Path
from luxel.scenes.captures.caching.capture_cache import CaptureCache
def make(folder):
    (folder / "a.txt").write_text("a")
folder = CaptureCache(Path(sys.argv[1])).result("sfm-key", lambda folder: (folder / "a.txt").parent, make)
print(folder, (folder / "a.txt").read_text())
"""


def test_where_no_cache_can_be_written_nothing_is_left(capture: Path, tmp_path: Path) -> None:
    capture.chmod(0o555)
    temporary, nothing = tmp_path / "tmp", tmp_path / "nothing"
    temporary.mkdir()
    nothing.write_text("no folder")
    (temporary / f"luxel-{os.getuid()}").write_text("of somebody else")
    environment = {"HOME": str(nothing), "TMPDIR": str(temporary), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-c", NO_CACHE, str(capture)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(temporary)) and done.stdout.endswith(" a\n")
    assert [entry.name for entry in temporary.iterdir()] == [f"luxel-{os.getuid()}"]
    assert [entry.name for entry in capture.iterdir()] == ["a.jpg"]


def test_no_folder_at_all(capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_cache.places, "cache_folder", lambda: None)
    monkeypatch.setattr(capture_cache.tempfile, "tempdir", str(tmp_path / "missing"))
    capture_cache._temporary_folder.cache_clear()
    with pytest.raises(
        CaptureError, match="neither a cache folder nor the one for temporary files"
    ) as caught:
        Results().of(capture)
    assert "XDG_CACHE_HOME" in caught.value.remedy


def test_compressed_arrays_are_refused(tmp_path: Path) -> None:
    """A file of a few bytes may hold more than fits into the memory."""
    import numpy as np

    np.savez(tmp_path / "stored.npz", a=np.zeros(1000))
    np.savez_compressed(tmp_path / "small.npz", a=np.zeros(1000))
    assert capture_cache.load_arrays(tmp_path / "stored.npz")["a"].shape == (1000,)
    with pytest.raises(ValueError, match="is compressed"):
        capture_cache.load_arrays(tmp_path / "small.npz")
