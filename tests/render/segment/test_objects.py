"""The objects of a run on disk."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
import torch

from luxel.render.errors import LuxelError
from luxel.render.segment import Prompt
from luxel.render.segment.objects import FILE, FOLDER, Objects, has_objects, load_objects, save_objects


def two_objects() -> Objects:
    objects = Objects("0" * 64, torch.tensor([0, 1, 2, 255], dtype=torch.uint8))
    for name in ("toy", "table"):
        objects.add(name)
    objects.prompts = [Prompt(1, "a.jpg", ((1.5, 2.0, True),)), Prompt(2, "b.jpg", box=(1.0, 2.0, 3.0, 4.0))]
    objects.maps = {"b.jpg": torch.eye(3, dtype=torch.uint8), "a.jpg": torch.zeros(2, 5, dtype=torch.uint8)}
    return objects


def test_objects_are_read_as_written(tmp_path: Path):
    objects = two_objects()
    assert save_objects(tmp_path, objects) == tmp_path / FILE
    same = load_objects(tmp_path)
    assert torch.equal(same.labels, objects.labels)
    assert same.objects == objects.objects and same.prompts == objects.prompts
    assert list(same.maps) == ["b.jpg", "a.jpg"]
    assert all(torch.equal(same.maps[name], objects.maps[name]) for name in same.maps)
    assert same.named("table") is same.objects[1] and same.named("chair") is None
    assert len({entry.colour for entry in same.objects}) == 2


def test_files_of_objects_that_are_gone_are_removed(tmp_path: Path):
    save_objects(tmp_path, two_objects())
    later = two_objects()
    del later.maps["a.jpg"]
    save_objects(tmp_path, later)
    assert len(list((tmp_path / FOLDER).glob("*.png"))) == 1
    assert list(load_objects(tmp_path).maps) == ["b.jpg"]


def test_there_are_at_most_254_objects():
    objects = Objects("0" * 64, torch.zeros(1, dtype=torch.uint8))
    for number in range(254):
        objects.add(f"object-{number}")
    assert sorted(entry.label for entry in objects.objects) == list(range(1, 255))
    with pytest.raises(LuxelError, match="254 objects already"):
        objects.add("one more")


def test_objects_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LuxelError, match=r"objects\.json: cannot be written \(No space") as refused:
        save_objects(tmp_path, two_objects())
    assert "disk space" in refused.value.remedy and not has_objects(tmp_path)


def test_objects_that_cannot_be_written_or_read(tmp_path: Path):
    (tmp_path / FOLDER).write_text("a file in the place of the folder")
    with pytest.raises(LuxelError, match="this is no folder"):
        save_objects(tmp_path, two_objects())
    (tmp_path / FOLDER).unlink()
    save_objects(tmp_path, two_objects())
    next((tmp_path / FOLDER).glob("*.labels")).unlink()
    with pytest.raises(LuxelError, match="a file of the objects cannot be read"):
        load_objects(tmp_path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"objects": [', ""),
        ("toy", "boy"),
        ('"format": 1', '"format": 9'),
        ('"primitives": 4', '"primitives": "4"'),
    ],
)
def test_damaged_objects(tmp_path: Path, old: str, new: str):
    path = save_objects(tmp_path, two_objects())
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(LuxelError, match="is damaged") as raised:
        load_objects(tmp_path)
    assert "--replace" in raised.value.remedy


def test_a_damaged_map(tmp_path: Path):
    save_objects(tmp_path, two_objects())
    next((tmp_path / FOLDER).glob("*.png")).write_bytes(b"")
    with pytest.raises(LuxelError, match="does not match its checksum"):
        load_objects(tmp_path)
