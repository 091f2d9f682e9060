"""Folders of photographs that bring a cache of their own, as a stranger may have prepared it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tree_snapshot import snapshot

from luxel.scenes.captures.caching.capture_cache import CaptureCache
from luxel.scenes.captures.capture_format import Progress
from luxel.scenes.captures.contents import CaptureContents
from luxel.scenes.captures.poses import sfm
from luxel.scenes.captures.poses.workspace import Workspace

COUNT = 6


def ignore(stage: str, fraction: float) -> None:
    pass


def estimate(folder: Path) -> CaptureContents:
    return sfm.estimate_poses(folder, folder, on_progress=ignore)


def poses(contents: CaptureContents) -> dict[str, list[list[float]]]:
    return {source.name: source.world_to_cam.tolist() for source in contents.images}


class Estimations:
    """Counts how often poses are computed; the second time gives what the first one gave, whose threads may differ."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, self.files = 0, dict[str, bytes]()
        self._reconstruct = sfm._reconstruct
        monkeypatch.setattr(sfm, "_reconstruct", self._recorded)

    def _recorded(self, space: Workspace, folder: Path, target: Path, on_progress: Progress) -> None:
        self.count += 1
        if not self.files:
            self._reconstruct(space, folder, target, on_progress)
            self.files = {file.name: file.read_bytes() for file in target.iterdir()}
        for name, content in self.files.items():
            (target / name).write_bytes(content)


@pytest.fixture
def estimations(monkeypatch: pytest.MonkeyPatch) -> Estimations:
    return Estimations(monkeypatch)


# Names in the working folder of luxel 0.2, all of which COLMAP or luxel opened for writing.
WORKING = (
    ".owner", "database.db", "database.db-wal", "database.db-shm", "pairs.txt", "images", "images/000000.jpg", "masks",
    "incremental", "global", "global/database.db", "finished",
)  # fmt: skip


def test_a_working_folder_in_a_capture_is_not_touched(few_images: Path, tmp_path: Path) -> None:
    """A database that crashes COLMAP, and links in the place of everything else: neither read, written nor deleted."""
    sizes = [(p.name, p.stat().st_size, 0) for p in sorted(few_images.iterdir())]
    key = sfm.content_key(["sfm", sfm.VERSION, 1024, 400, sfm.EXHAUSTIVE_UP_TO, *sizes])
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("precious")
    work = few_images / f".luxel/working-sfm-{key}"
    work.mkdir(parents=True)
    for name in WORKING:
        if (work / name).parent == work:
            folder = name in ("images", "masks", "incremental", "global", "finished")
            (work / name).symlink_to(outside if folder else outside / "precious")
    (work / "database.db").unlink()
    (work / "database.db").write_bytes(b"SQLite format 3\0" + os.urandom(4000))
    before, beyond = snapshot(work), snapshot(outside)
    contents = estimate(few_images)
    assert len(contents.images) >= COUNT - 1
    assert (snapshot(work), snapshot(outside)) == (before, beyond)
    assert sorted(p.name[:8] for p in (few_images / ".luxel").iterdir()) == [
        f"sfm-{key}"[:8],
        "working-",
    ]


def test_a_damaged_model_gives_the_same_poses_again(
    few_images: Path, own_cache: Path, estimations: Estimations
) -> None:
    """Every file of it, in every manner: computed once more, and never refused."""
    whole = poses(estimate(few_images))
    (model,) = (few_images / ".luxel").glob("sfm-*")
    undamaged = snapshot(model)
    copy = model.with_name("copy")
    shutil.copytree(model, copy)
    random = np.random.default_rng(0)
    for name in ("images.bin", *sorted({*undamaged} - {"images.bin"})):
        content = (copy / name).read_bytes()
        for damaged in (
            b"",
            content[: len(content) // 2],
            random.bytes(len(content)),
            b"\xff" * len(content),
            None,
        ):
            shutil.rmtree(model)
            shutil.copytree(copy, model)
            if damaged is None:
                (model / name).unlink()
                os.mkfifo(model / name)
            else:
                (model / name).write_bytes(damaged)
            before = snapshot(model)
            assert poses(estimate(few_images)) == whole
            assert snapshot(model) == before
    assert len(list(own_cache.rglob("images.bin"))) == 1 and estimations.count == 2, (
        "then stored for this user"
    )


def test_a_model_of_other_photographs_is_not_used(
    few_images: Path, own_cache: Path, estimations: Estimations
) -> None:
    """The hashes are right, but it names photographs that are not there, or says that the poses are refused."""
    whole = poses(estimate(few_images))
    (model,) = (few_images / ".luxel").glob("sfm-*")
    content = {name: (model / name).read_bytes() for name in (*sfm.MODEL_FILES, sfm.REPORT)}
    altered = (
        {"images.bin": content["images.bin"].replace(b"IMG_", b"../_")},
        {sfm.REPORT: content[sfm.REPORT].replace(b'"refusal": ""', b'"refusal": "you must pay"')},
        {sfm.REPORT: content[sfm.REPORT].replace(b'"cut": 0', b'"cut": "0", "more": 1')},
    )
    for changes in altered:
        assert all(content[name] != change for name, change in changes.items())
        shutil.rmtree(few_images / ".luxel")

        def forge(folder: Path, forged: dict[str, bytes] = content | changes) -> None:
            for name, data in forged.items():
                (folder / name).write_bytes(data)

        CaptureCache(few_images).result(model.name, lambda folder: folder, forge)
        shutil.rmtree(own_cache / "captures", ignore_errors=True)
        assert poses(estimate(few_images)) == whole


NO_HOME = """
import pathlib, sys
def no_home():
    raise RuntimeError("Could not determine home directory.")
pathlib.Path.home = no_home
from luxel.scenes.captures.colmap_process import features
from luxel.scenes.captures.poses import sfm
features.FEATURE_IMAGE_SIZE, features.FEATURES = 400, 1024
folder = pathlib.Path(sys.argv[1])
print(len(sfm.estimate_poses(folder, folder, on_progress=lambda stage, fraction: None).images))
"""


@pytest.mark.slow
@pytest.mark.parametrize("writable", [True, False])
def test_photographs_without_a_home(few_images: Path, tmp_path: Path, writable: bool) -> None:
    """A user id without an account, as in a container: poses are estimated, and no intermediate files stay."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    few_images.chmod(0o755 if writable else 0o555)
    environment = {"TMPDIR": str(temporary), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-c", NO_HOME, str(few_images)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and int(done.stdout) >= COUNT - 1, done.stderr
    assert (few_images / ".luxel").exists() == writable
    (user,) = temporary.iterdir()  # the cache of this user id
    results = [path for path in user.rglob("*") if path.is_file()]
    assert user.name == f"luxel-{os.getuid()}" and bool(results) != writable
    assert all((user / "captures") in path.parents for path in results)
