"""Databases that another program, a disk or a stranger has altered: COLMAP may end, luxel goes on with a message."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from luxel.scenes.captures.colmap_process import launch
from luxel.scenes.captures.colmap_process.reconstruction import DATABASE, FINISHED
from luxel.scenes.captures.poses import sfm
from luxel.scenes.captures.poses.workspace import suffix_for
from luxel.scenes.errors import CaptureError

FAR = "zeroblob(length(data)-8)||x'ffffff7fffffff7f'"
ALTERATIONS: dict[str, list[str] | Callable[[Path], object]] = {
    "nothing": [],
    "inlier matches out of range": [f"update two_view_geometries set data={FAR}"],
    "keypoints negative rows": ["update keypoints set rows=-5"],
    "keypoints fewer than matches say": ["update keypoints set rows=1, data=substr(data,1,cols*4)"],
    "keypoints rows x 1000": ["update keypoints set rows=rows*1000"],
    "keypoints rows = 2^31": ["update keypoints set rows=2147483648"],
    "keypoints cols = 3": ["update keypoints set cols=3"],
    "keypoints blob empty": ["update keypoints set data=x''"],
    "descriptors cut": ["update descriptors set data=substr(data,1,100)"],
    "descriptors rows=1": ["update descriptors set rows=1, data=substr(data,1,cols)"],
    "matches out of range": [f"update matches set data={FAR}"],
    "inlier matches random": ["update two_view_geometries set data=(select randomblob(length(data)))"],
    "pair ids of no image": [
        "update matches set pair_id=pair_id+999999999",
        "update two_view_geometries set pair_id=pair_id+999999999",
    ],
    "camera parameters short": ["update cameras set params=x'0000'"],
    "camera model 99": ["update cameras set model=99"],
    "image names with ../": ["update images set name='../../../'||name"],
    "trigger": ["create trigger t after insert on keypoints begin delete from images; end"],
    "view": ["alter table matches rename to m2", "create view matches as select * from m2"],
    "no database": lambda path: path.write_bytes(b"SQLite format 3\0" + os.urandom(4000)),
    "truncated": lambda path: os.truncate(path, path.stat().st_size // 2),
}
QUICK = ("inlier matches out of range", "keypoints negative rows", "keypoints fewer than matches say")


def alter(database: Path, alteration: list[str] | Callable[[Path], object]) -> None:
    """Changes a database as an attacker or a failing disk does."""
    if callable(alteration):
        alteration(database)
        return
    with closing(sqlite3.connect(database)) as opened:
        for statement in alteration:
            opened.execute(statement)
        opened.commit()


def ignore(stage: str, fraction: float) -> None:
    pass


@pytest.fixture
def interrupted(few_images: Path, own_cache: Path) -> Path:
    """The working folder of an interrupted estimation, whose photographs are matched."""

    def interrupt(stage: str, fraction: float) -> None:
        if stage.startswith("placing"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sfm.estimate_poses(few_images, few_images, on_progress=interrupt)
    (folder,) = (own_cache / "working").iterdir()
    return folder


def reconstruct(folder: Path, photographs: Path) -> Path:
    """Maps the images of a working folder by their database alone."""
    files = sorted(photographs.glob("*.jpg"))
    names = [f"{row:06d}{suffix_for(file)}" for row, file in enumerate(files)]
    launch.run_task(
        "reconstruct",
        folder,
        ignore,
        capture=str(photographs),
        names=names,
        stored_names=[file.name for file in files],
        lenses=[names],
    )
    return folder / FINISHED


def outcome(folder: Path, photographs: Path, work: Path, name: str) -> str:
    """What an altered database leads to: "poses", or the message."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(folder, work, symlinks=True)
    alter(work / DATABASE, ALTERATIONS[name])
    try:
        reconstruct(work, photographs)
    except CaptureError as error:
        assert error.remedy and "\n" not in str(error)
        return error.problem
    return "poses"


def test_a_crash_of_colmap_is_a_message(interrupted: Path, few_images: Path, tmp_path: Path) -> None:
    """Alterations that end the process: out of bounds, and checks of COLMAP's code."""
    problems = [outcome(interrupted, few_images, tmp_path / "work", name) for name in QUICK]
    assert any("COLMAP ended with SIG" in problem for problem in problems), problems


@pytest.mark.slow
def test_all_alterations_are_poses_or_messages(interrupted: Path, few_images: Path, tmp_path: Path) -> None:
    problems = {name: outcome(interrupted, few_images, tmp_path / "work", name) for name in ALTERATIONS}
    assert problems["nothing"] == "poses"
    assert sum("COLMAP ended with SIG" in problem for problem in problems.values()) >= 2, problems


def test_an_altered_database_in_the_cache_of_the_user(interrupted: Path, few_images: Path) -> None:
    """A failing disk: the work that is left is removed with the message, and the next call begins anew."""
    alter(interrupted / DATABASE, ALTERATIONS["keypoints negative rows"])
    try:
        contents = sfm.estimate_poses(few_images, few_images, on_progress=ignore)
    except CaptureError as error:
        assert "COLMAP" in error.problem and not interrupted.exists()
        contents = sfm.estimate_poses(few_images, few_images, on_progress=ignore)
    assert len(contents.images) >= 5
