"""What an interrupted run leaves is used again, and nothing else stays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from luxel.scenes.captures.contents import SourceImage
from luxel.scenes.captures.images.images import read_header
from luxel.scenes.captures.lenses.lens import Lens
from luxel.scenes.captures.poses.workspace import FOCAL_35MM, MODEL, Workspace, working_folder
from luxel.scenes.errors import CaptureError


def test_the_folder_stays_after_an_interruption_only(tmp_path: Path, own_cache: Path) -> None:
    def work(error: type[BaseException] | None, text: str | None) -> None:
        with working_folder(tmp_path, "key") as folder:
            file = folder / "pairs.txt"
            assert (file.read_text() if file.exists() else None) == text
            file.write_text("some")
            if error is not None:
                raise error("problem", "remedy")

    with pytest.raises(KeyboardInterrupt):
        work(KeyboardInterrupt, None)
    with pytest.raises(CaptureError):
        work(CaptureError, "some")
    assert not list(own_cache.iterdir()) and not list(tmp_path.iterdir())
    work(None, None)
    assert not list(own_cache.iterdir()) and not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["images", "database.db", "notes.txt"])
def test_a_folder_with_something_else_is_left_alone(tmp_path: Path, own_cache: Path, name: str) -> None:
    """What luxel did not make stays there; the work is done in an empty folder."""
    with pytest.raises(KeyboardInterrupt), working_folder(tmp_path, "key") as folder:
        raise KeyboardInterrupt
    outside = tmp_path / "outside"
    outside.mkdir()
    (folder / name).symlink_to(outside)
    with working_folder(tmp_path, "key") as other:
        assert other != folder and not list(other.iterdir())
    assert (folder / name).is_symlink() and not list(outside.iterdir()) and not other.exists()
    assert [entry.name for entry in own_cache.iterdir()] == ["working"]


def test_captures_of_the_same_files_have_their_own_folders(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    with working_folder(tmp_path / "a", "key") as first, working_folder(tmp_path / "b", "key") as second:
        assert first != second


def source(path: Path) -> SourceImage:
    width, height = Image.open(path).size
    lens = Lens(width, height, 1.0, 1.0, 0.5 * width, 0.5 * height)
    return SourceImage(path.name, path, lens, np.eye(4), oriented=True)


def test_photographs_of_one_lens(tmp_path: Path) -> None:
    """Size, camera and focal length make a lens."""
    facts = [("A", 28), ("A", 28), ("A", 50), ("B", 28), None, None]
    for index, fact in enumerate(facts):
        exif = Image.Exif()
        if fact is not None:
            exif[MODEL] = fact[0]
            exif.get_ifd(0x8769)[FOCAL_35MM] = fact[1]
        size = (48, 32) if index < 5 else (32, 48)
        Image.new("RGB", size, (index, 9, 9)).save(tmp_path / f"{index}.jpg", exif=exif)
    paths = sorted(tmp_path.glob("*.jpg"))
    (tmp_path / "work").mkdir()
    space = Workspace(tmp_path / "work", [source(p) for p in paths], [read_header(p) for p in paths])
    groups = [[int(name[:6]) for name in group] for group in space.lenses()]
    assert groups == [[0, 1], [2], [3], [4], [5]]
    space.prepare()
    assert sorted(entry.name for entry in space.images.iterdir()) == space.names
    before = {entry: entry.lstat().st_mtime_ns for entry in space.images.iterdir()}
    space.prepare()
    assert before == {entry: entry.lstat().st_mtime_ns for entry in space.images.iterdir()}
