"""Share, of a run: each entry makes its file, and the command that it shows makes the same."""

from __future__ import annotations

import json
import os
import shlex
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import imageio.v3 as imageio
import numpy as np
import pytest
import torch
from page_driver import until

from luxel.scenes import load_primitives
from luxel.scenes.files.meshes.mesh_files import read_mesh
from luxel.viewer.cli import main
from luxel.viewer.web.app import ViewerApp
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.offline import open_offline_page
from luxel.viewer.web.opening import open_session
from luxel.viewer.web.panels.camera_path import CameraPathPanel
from luxel.viewer.web.share.jobs import Job, ShareJobs
from luxel.viewer.web.share.share_messages import ShareMessage


@pytest.fixture(scope="module")
def state() -> str | None:
    return os.environ.get("XDG_STATE_HOME")


@pytest.fixture(scope="module")
def run(toy_capture: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("share") / "a run"
    options = ["--steps", "6", "--device", "cpu", "--no-lpips"]
    assert main(["train", str(toy_capture), "--run", str(folder), *options]) == 0
    return folder


@pytest.fixture(scope="module")
def app(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ViewerApp]:
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        session = open_session(run, torch.device("cpu"))
        with ViewerApp(session, port=0, panels=(CameraPathPanel,)) as app:
            yield app


@pytest.fixture(autouse=True)
def _of_the_one_who_trained(app: ViewerApp, state: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands know the run as their own: tests of pages have a state of their own otherwise."""
    if state is None:
        monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    else:
        monkeypatch.setenv("XDG_STATE_HOME", state)


@pytest.fixture
def opened(app: ViewerApp) -> Any:
    view = app.session.views[0]
    return open_offline_page(app, Pose.of_camera(view.camera), width=96, height=64)


def made(opened: Any, entry: str, **options: Any) -> Job:
    """The job of an entry, ended."""
    share, jobs = opened.page.share, ShareJobs.of(opened.page.session)
    before = len(jobs.jobs)
    share.receive(ShareMessage("start", entry, options))
    assert len(jobs.jobs) == before + 1, "nothing was begun"
    job = jobs.jobs[-1]
    until(lambda: job.ended, "the job does not end")
    assert job.state == "done", job.message
    jobs.dismiss(job.id)
    return job


def repeated(job: Job, folder: Path, patch: pytest.MonkeyPatch) -> Path:
    """The file that the command of a job writes in a folder."""
    patch.chdir(folder)
    assert main(shlex.split(job.describe()["command"])[1:]) == 0
    return folder / (job.plan.name + job.plan.suffix)


@pytest.mark.parametrize(
    "options", [{"format": ".png"}, {"format": ".png", "transparent": True, "size": "2x"}]
)
def test_an_image_and_its_command(
    opened: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    job = made(opened, "image", **options)
    own = imageio.imread(str(job.file))
    assert own.shape == ((128, 192, 4) if "transparent" in options else (64, 96, 3)) and own.std() > 5
    other = imageio.imread(repeated(job, tmp_path, monkeypatch))
    assert np.abs(own.astype(int) - other).max() <= 1


@pytest.mark.parametrize("suffix", [".jpg", ".webp"])
def test_images_of_other_formats_and_their_commands(
    opened: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    job = made(opened, "image", format=suffix, name="other")
    assert imageio.imread(str(job.file)).shape == (64, 96, 3)
    other = imageio.imread(repeated(job, tmp_path, monkeypatch)).reshape(-1, 64, 96, 3)
    assert np.abs(imageio.imread(str(job.file)).astype(int) - other[0]).mean() < 6


def test_a_scene_file_and_its_command(
    opened: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Path
) -> None:
    job = made(opened, "scene", format=".splat", upright=True)
    assert job.file is not None and job.file.parent == run and str(run) in job.message
    other = repeated(job, tmp_path, monkeypatch)
    assert job.file.read_bytes() == other.read_bytes()
    assert "--upright" in job.describe()["command"]
    plain, again = (made(opened, "scene", format=".ply") for _ in range(2))
    assert (plain.file, again.file) == (run / "scene-2.ply", run / "scene-3.ply"), (
        "scene.ply is that of the run"
    )
    assert torch.equal(load_primitives(plain.file).means, load_primitives(run / "scene.ply").means)  # pyright: ignore[reportArgumentType, reportAttributeAccessIssue]


def test_a_web_page_and_its_command(opened: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = made(opened, "page")
    assert job.file is not None and job.link.endswith("/page.html")
    assert job.file.read_bytes() == repeated(job, tmp_path, monkeypatch).read_bytes()


def test_a_mesh_and_its_command(opened: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = made(opened, "mesh", format=".ply", cells="128")
    mesh, other = read_mesh(str(job.file)), read_mesh(repeated(job, tmp_path, monkeypatch))
    assert len(mesh.faces) > 100 and f"{len(mesh.faces):,} triangles" in job.message
    assert np.array_equal(mesh.faces, other.faces) and np.allclose(mesh.xyz, other.xyz, atol=1e-6)


def test_a_film_and_its_command(
    opened: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Path
) -> None:
    panel = next(panel for panel in opened.panels if isinstance(panel, CameraPathPanel))
    assert "Add keyframe" in offers(opened)["film"]["problem"]
    for view in opened.page.session.views[:2]:
        opened.page.place(Pose.of_camera(view.camera))
        panel.add()
    panel._seconds.value = 0.2
    job = made(opened, "film", format=".gif", rate="24")
    assert job.file == run / "film.gif" and "5 frames" in job.message
    assert json.loads((run / "film.json").read_text())["fps"] == 24
    frames, others = imageio.imread(job.file), imageio.imread(repeated(job, tmp_path, monkeypatch))
    assert frames.shape[0] == 5 and np.abs(frames.astype(int) - others).mean() < 2
    opened.page.share.receive(ShareMessage("start", "film", {"format": ".gif", "rate": "60"}))
    problems = []
    opened.page.share.connect(lambda message: problems.append(message.get("problem", "")))
    opened.page.share.receive(ShareMessage("look", "film", {"format": ".gif", "rate": "60"}))
    assert any("at most 50 frames per second" in problem for problem in problems)


def test_the_report_is_opened_and_packed(opened: Any, run: Path) -> None:
    link = offers(opened)["report"]["link"]
    files = ShareJobs.of(opened.page.session).files
    assert link == offers(opened)["report"]["link"], "the address stays"
    answer = files.answer(link)
    assert answer.status_code == 200 and answer.body == (run / "eval" / "index.html").read_bytes()
    assert "script" not in answer.headers["Content-Security-Policy"]
    image = next((run / "eval" / "images").iterdir())
    assert files.answer(link.replace("index.html", f"images/{image.name}")).body == image.read_bytes()
    for wrong in ("../config.json", "images/../index.html", "config.json", ""):
        assert files.answer(link.replace("index.html", wrong)).status_code == 404
    job = made(opened, "report")
    with zipfile.ZipFile(str(job.file)) as packed:
        assert (
            packed.read("report/index.html") == answer.body
            and f"report/images/{image.name}" in packed.namelist()
        )
    assert job.describe()["command"] == f"luxel eval '{run}'"


def offers(opened: Any) -> dict[str, Any]:
    """What the menu offers, by entry."""
    sent: list[dict[str, Any]] = []
    opened.page.share.connect(sent.append)
    opened.page.share.receive(ShareMessage("look", "image", {}))
    entries = next(message["entries"] for message in sent if message["type"] == "share")
    return {entry["name"]: entry for entry in entries}


def test_a_link_excludes_other_cameras(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    link = "position=3,0,1&target=0,0,0&up=0,0,1&fov=0.9"
    out = tmp_path / "view.png"
    words = ["render", str(run), "--view", f"http://127.0.0.1:8080/#{link}", "--out", str(out)]
    assert main([*words, "--at", "photographs"]) != 0
    assert "--view, --path and --at exclude each other." in capsys.readouterr().err
    assert main([*words, "--height", "18"]) == 0
    assert imageio.imread(out).shape == (18, 32, 3)


def test_the_command_of_a_scene_file_names_its_capture(
    run: Path, toy_capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    own = tmp_path / "own.ply"
    own.write_bytes((run / "scene.ply").read_bytes())
    session = open_session(own, torch.device("cpu"), capture=toy_capture, axes="RDF")
    with ViewerApp(session, port=0, panels=()) as app:
        opened = open_offline_page(app, Pose.of_camera(session.views[0].camera), width=32, height=24)
        job = made(opened, "mesh", format=".ply", cells="128")
        words = job.describe()["command"]
        assert f"--scene-axes RDF --capture {toy_capture}" in words
        mesh = read_mesh(repeated(job, tmp_path, monkeypatch))
        assert f"{len(mesh.faces):,} triangles" in job.message
