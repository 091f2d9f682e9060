"""Runs and scene files of any primitive through the command line: viewed, rendered through time, exported."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import imageio.v3 as imageio
import numpy as np
import pytest
import torch
from PIL import Image

from luxel.render.geometry.camera import Camera
from luxel.render.primitives import Convexes, Gaussians, Gaussians4d, Parameters
from luxel.render.runs.checkpoints.checkpoint import Checkpoint, CheckpointError, save
from luxel.render.storage.manifest import NAME as MANIFEST
from luxel.render.train import TrainConfig
from luxel.scenes import load_points, load_primitives, load_scene, save_dnerf, save_scene, static_scene
from luxel.scenes.loading.run_results import load_run_scene
from luxel.scenes.loading.scene_files import load_any_scene
from luxel.scenes.paths import orbit, save_path
from luxel.scenes.synthetic.captures.dnerf import CameraSample, hemisphere_camera
from luxel.scenes.synthetic.toy import torus_knot
from luxel.viewer.cli import main

SMALL = ["--width", "40", "--height", "30", "--device", "cpu"]


class Drawn:
    """Stands in for the rasterizer, and keeps what it was asked for."""

    def __init__(self, render: Callable[..., Any]) -> None:
        self.render = render
        self.times: list[float | None] = []
        self.options: list[dict[str, Any]] = []

    def __call__(self, scene: Parameters, camera: Camera, **options: Any) -> Any:
        self.times.append(options.get("time"))
        self.options.append(options)
        return self.render(scene, camera, **options)


@pytest.fixture
def drawn(draw_any: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Drawn:
    draw = Drawn(draw_any)
    monkeypatch.setattr("luxel.render.raster.primitive_scene.rasterizer", lambda *_: draw)
    return draw


@pytest.fixture
def moving(tmp_path: Path, carousel: Callable[..., Gaussians4d]) -> Path:
    """A scene file whose times go from 2 to 6."""
    save_scene(tmp_path / "moving.ply", carousel(times=(2.0, 6.0)))
    return tmp_path / "moving.ply"


@pytest.fixture
def hard(tmp_path: Path, crystals: Callable[..., Convexes]) -> Path:
    save_scene(tmp_path / "hard.ply", crystals(10))
    return tmp_path / "hard.ply"


@pytest.fixture
def knot(tmp_path: Path) -> Path:
    save_scene(tmp_path / "knot.ply", torus_knot(40, sh_degree=2))
    return tmp_path / "knot.ply"


@pytest.fixture(scope="module")
def film_capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five small images at the times 0, 0.25, ... 1."""
    folder = tmp_path_factory.mktemp("film") / "capture"
    samples = [CameraSample(hemisphere_camera(0.4 * i, 0.4, width=48, height=48), i / 4) for i in range(5)]
    return save_dnerf(static_scene(), folder, {"train": samples}, samples=1, ground_truth=False, points=50)


@pytest.fixture
def moving_run(film_capture: Path, tmp_path: Path, carousel: Callable[..., Gaussians4d]) -> Path:
    """What training on it might leave."""
    folder = tmp_path / "run"
    about = {"path": str(film_capture), "holdout_every": 0, "max_size": None, "masks": "auto"}
    folder.mkdir()
    body = {"config": TrainConfig().to_dict(), "capture": about, "background": "black"}
    (folder / "config.json").write_text(json.dumps(body))
    save_scene(folder / "scene.ply", carousel(times=(-3.0, 3.0)))
    return folder


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[..., None]:
    def check(*words: object, names: str) -> None:
        capsys.readouterr()
        assert main([str(word) for word in words]) == 2
        error = capsys.readouterr().err
        assert error.count("luxel: ") == 1 and "Traceback" not in error and names in error, error
        assert len(error.splitlines()) >= 2, f"no remedy: {error}"

    return check


# -- runs ---------------------------------------------------------------------------------------------------------


def write_checkpoint(folder: Path, scene: Parameters, **config: Any) -> None:
    tensors = {f"gaussians.{name}": tensor for name, tensor in scene.tensors().items()}
    save(folder / "checkpoints", Checkpoint(7, tensors, {"config": config}))


@pytest.mark.parametrize("kind", [Gaussians, Gaussians4d, Convexes])
def test_a_run_is_opened_by_its_scene_or_its_checkpoint(tmp_path: Path, kind: type[Any]) -> None:
    scene = kind.empty(sh_degree=1).map(lambda t: torch.randn(5, *t.shape[1:]))
    write_checkpoint(tmp_path / "going", scene, primitive=kind.primitive)
    (tmp_path / "done").mkdir()
    save_scene(tmp_path / "done/scene.ply", scene)
    for folder in ("going", "done"):
        loaded = load_any_scene(tmp_path / folder)
        assert type(loaded) is kind
        assert all(torch.equal(loaded.tensors()[n], t) for n, t in scene.tensors().items())


def test_checkpoints_that_do_not_say_are_of_gaussians(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, torus_knot(4))
    assert isinstance(load_run_scene(tmp_path), Gaussians)


def test_checkpoints_of_something_else_are_named(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "a", torus_knot(4), primitive="blobs")
    with pytest.raises(CheckpointError, match="'blobs', which is no primitive that luxel knows"):
        load_run_scene(tmp_path / "a")
    write_checkpoint(tmp_path / "b", torus_knot(4), primitive="convexes")
    with pytest.raises(CheckpointError, match=r"its tensor gaussians\.points is missing"):
        load_run_scene(tmp_path / "b")
    hurt = torus_knot(4)
    hurt.__dict__["quats"] = torch.zeros(4, 3)
    write_checkpoint(tmp_path / "c", hurt, primitive="gaussians")
    with pytest.raises(CheckpointError, match=r"quats must be \[4, 4\], got \[4, 3\]"):
        load_run_scene(tmp_path / "c")


# -- luxel render -------------------------------------------------------------------------------------------------


def test_a_scene_that_moves_plays_once(moving: Path, drawn: Drawn, tmp_path: Path) -> None:
    assert main(["render", str(moving), "--out", str(tmp_path / "a.mp4"), "--frames", "5", *SMALL]) == 0
    assert drawn.times == pytest.approx([2.0, 3.0, 4.0, 5.0, 6.0], abs=0.05)
    film = np.asarray(imageio.imread(tmp_path / "a.mp4"))
    assert film.shape == (5, 30, 40, 3)
    strongest = [int(np.argmax(frame.reshape(-1, 3).sum(0))) for frame in (film[0], film[2], film[4])]
    assert strongest == [0, 1, 2], "red, green, blue"


def test_times_and_one_moment_are_chosen(moving: Path, drawn: Drawn, tmp_path: Path) -> None:
    out = ["--out", str(tmp_path / "images"), "--frames", "3", *SMALL]
    assert main(["render", str(moving), "--times", "5", "-1.5", *out]) == 0
    assert drawn.times == pytest.approx([5.0, 1.75, -1.5])
    drawn.times.clear()
    assert main(["render", str(moving), "--freeze", "4.2", *out]) == 0
    assert drawn.times == [4.2] * 3


def test_static_scenes_get_no_time(knot: Path, hard: Path, drawn: Drawn, tmp_path: Path) -> None:
    for scene in (knot, hard):
        out = tmp_path / scene.stem
        assert main(["render", str(scene), "--out", str(out), "--frames", "1", *SMALL]) == 0
        assert np.asarray(Image.open(out / "00000.png")).std() > 5
    assert drawn.times == [None, None]
    assert "antialiased" in drawn.options[0] and "antialiased" not in drawn.options[1]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (["--times", "0", "nan"], "out of bounds"),
        (["--freeze", "inf"], "out of bounds"),
        (["--times", "0", "1", "--freeze", "0.5"], "Give one of them"),
    ],
)
def test_invalid_times(moving: Path, refused: Callable[..., None], options: list[str], names: str) -> None:
    refused("render", moving, *options, *SMALL, names=names)


@pytest.mark.parametrize("options", [["--times", "0", "1"], ["--freeze", "0.5"]])
def test_times_are_for_dynamic_scenes(
    knot: Path, hard: Path, refused: Callable[..., None], options: list[str]
) -> None:
    refused("render", knot, *options, names="for dynamic scenes, and this scene of Gaussians is static")
    refused("render", hard, *options, names="for dynamic scenes, and this scene of convexes is static")


def test_paths_have_times(moving: Path, drawn: Drawn, tmp_path: Path) -> None:
    cameras = orbit((0, 0, 0), 4.0, frames=3, width=24, height=18)
    save_path(tmp_path / "path.json", cameras, times=[3.0, 6.0, 2.0])
    along = ["render", str(moving), "--path", str(tmp_path / "path.json"), "--out", str(tmp_path / "o")]
    assert main([*along, "--device", "cpu"]) == 0
    assert main([*along, "--device", "cpu", "--frames", "5"]) == 0
    assert main([*along, "--device", "cpu", "--freeze", "5"]) == 0
    assert drawn.times == [3.0, 6.0, 2.0, 3.0, 4.5, 6.0, 4.0, 2.0, 5.0, 5.0, 5.0]
    save_path(tmp_path / "path.json", cameras)
    drawn.times.clear()
    assert main([*along, "--device", "cpu"]) == 0
    assert drawn.times == pytest.approx([2.0, 4.0, 6.0], abs=0.05), (
        "a path without times plays the scene once"
    )


@pytest.mark.usefixtures("first_use")
def test_a_run_plays_the_times_of_its_capture(moving_run: Path, drawn: Drawn, tmp_path: Path) -> None:
    out = ["--out", str(tmp_path / "o"), *SMALL]
    assert main(["render", str(moving_run), "--frames", "3", *out]) == 0
    assert drawn.times == [0.0, 0.5, 1.0]
    drawn.times.clear()
    assert main(["render", str(moving_run), "--at", "photographs", "--frames", "9", *out]) == 0
    assert drawn.times == pytest.approx(np.linspace(0, 1, 9).tolist())


def test_a_run_whose_capture_is_gone_plays_its_own_times(
    moving_run: Path, drawn: Drawn, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = json.loads((moving_run / "config.json").read_text())
    config["capture"]["path"] = str(tmp_path / "gone")
    (moving_run / "config.json").write_text(json.dumps(config))
    save_path(tmp_path / "path.json", orbit((0, 0, 0), 4.0, frames=3, width=24, height=18))
    path = ["--path", str(tmp_path / "path.json"), "--out", str(tmp_path / "o"), "--device", "cpu"]
    assert main(["render", str(moving_run), *path]) == 0
    assert drawn.times == pytest.approx([-3.0, 0.0, 3.0], abs=0.07)
    assert "gone" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["view", "render"])
def test_gsplat_draws_gaussians_only(
    moving: Path,
    hard: Path,
    command: str,
    refused: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("luxel.render.backends.gsplat.require", lambda device=None: None)
    refused(command, moving, "--backend", "gsplat", "--device", "cpu", names="of 4D Gaussians")
    refused(command, hard, "--backend", "gsplat", "--device", "cpu", names="of convexes")


# -- luxel export -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["knot", "moving", "hard"])
@pytest.mark.parametrize("name", ["out.ply", "deep/er/out.safetensors"])
def test_export_keeps_the_scene(
    source: str, name: str, tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    path = request.getfixturevalue(source)
    assert main(["export", str(path), "--out", str(tmp_path / name)]) == 0
    exported, expected = load_primitives(tmp_path / name), load_primitives(path)
    assert type(exported) is type(expected)
    assert all(torch.equal(exported.tensors()[n], t) for n, t in expected.tensors().items())
    assert f"{expected.count} {expected.noun}: " in capsys.readouterr().out


def test_export_of_a_run(moving_run: Path, tmp_path: Path) -> None:
    assert main(["export", str(moving_run), "--out", str(tmp_path / "a.safetensors"), "--half"]) == 0
    assert isinstance(load_primitives(tmp_path / "a.safetensors"), Gaussians4d)
    assert (tmp_path / "a.safetensors").stat().st_size < (moving_run / "scene.ply").stat().st_size


def test_export_as_splat(knot: Path, moving: Path, tmp_path: Path) -> None:
    assert main(["export", str(knot), "--out", str(tmp_path / "a.splat")]) == 0
    assert load_scene(tmp_path / "a.splat").count == 40
    assert main(["export", str(moving), "--out", str(tmp_path / "b.splat"), "--time", "4"]) == 0
    assert 0 < load_scene(tmp_path / "b.splat").count < load_primitives(moving).count


@pytest.mark.parametrize("name", ["a.ply", "a.obj"])
def test_export_of_a_mesh(hard: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(hard), "--out", str(tmp_path / name), "--mesh"]) == 0
    assert "10 convexes as " in capsys.readouterr().out
    if name == "a.ply":
        assert len(load_points(tmp_path / name).xyz) > 40
    strict = ["--mesh", "--min-opacity", "0.99", "--force"]
    assert main(["export", str(hard), "--out", str(tmp_path / name), *strict]) == 0
    assert "0 convexes as" in capsys.readouterr().out


def test_export_moment_by_moment(moving: Path, tmp_path: Path, carousel: Callable[..., Gaussians4d]) -> None:
    folder = tmp_path / "moments"
    assert main(["export", str(moving), "--out", str(folder), "--frames", "4", "--times", "2", "5"]) == 0
    assert sorted(p.name for p in folder.iterdir()) == [MANIFEST, *(f"frame-0000{i}.ply" for i in range(4))]
    for path, time in zip(sorted(folder.glob("*.ply")), (2.0, 3.0, 4.0, 5.0), strict=True):
        assert load_scene(path).count == load_primitives(moving).at(time).count  # pyright: ignore
    (folder / "notes.txt").write_text("mine")
    assert main(["export", str(moving), "--out", str(folder), "--frames", "2"]) == 2
    assert len(list(folder.iterdir())) == 6
    assert main(["export", str(moving), "--out", str(folder), "--frames", "2", "--force"]) == 0
    names = sorted(p.name for p in folder.iterdir())
    assert names == [MANIFEST, "frame-00000.ply", "frame-00001.ply", "notes.txt"], (
        "no moment of before is left among them"
    )


@pytest.mark.usefixtures("first_use")
def test_export_of_a_run_takes_the_times_of_its_capture(
    moving_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(moving_run), "--out", str(tmp_path / "m"), "--frames", "2"]) == 0
    assert "2 times from 0 to 1" in capsys.readouterr().out


def test_export_replaces_only_when_forced(knot: Path, tmp_path: Path, refused: Callable[..., None]) -> None:
    out = tmp_path / "a.splat"
    out.write_bytes(b"mine")
    refused("export", knot, "--out", out, names="--force")
    assert out.read_bytes() == b"mine"
    assert main(["export", str(knot), "--out", str(out), "--force"]) == 0
    assert load_scene(out).count == 40
    before = load_scene(knot)
    refused("export", knot, "--out", knot, names="--force")
    assert main(["export", str(knot), "--out", str(knot), "--force"]) == 0, "even onto itself"
    assert torch.equal(load_scene(knot).means, before.means)
    (tmp_path / "folder.ply").mkdir()
    refused("export", knot, "--out", tmp_path / "folder.ply", "--force", names="is a folder")


@pytest.mark.parametrize(
    ("source", "options", "names"),
    [
        ("knot", ["--out", "a"], "not a format that luxel writes"),
        ("knot", ["--out", "a.obj"], "which needs --mesh"),
        ("hard", ["--out", "a.obj"], ".obj holds a mesh"),
        (
            "knot",
            ["--out", "a.obj", "--mesh"],
            "a mesh of Gaussians needs the cameras",
        ),
        ("moving", ["--out", "a.ply", "--mesh"], "Give --time T"),
        ("moving", ["--out", "a.ply", "--mesh", "--time", "1"], "needs the cameras"),
        ("knot", ["--out", "a.ply", "--mesh", "--min-opacity", "0.5"], "--min-opacity is not for Gaussians"),
        ("hard", ["--out", "a.ply", "--mesh", "--resolution", "64"], "--resolution is not for convexes"),
        ("hard", ["--out", "a.ply", "--mesh", "--fill-holes", "0.1"], "--fill-holes is not for convexes"),
        ("hard", ["--out", "a.ply", "--triangles", "9"], "--texture need --mesh"),
        ("hard", ["--out", "a.splat", "--mesh"], "a mesh is written as .ply or .obj"),
        ("hard", ["--out", "a.splat"], ".splat holds Gaussians"),
        ("moving", ["--out", "a.splat"], "--time T"),
        ("knot", ["--out", "a.ply", "--half"], "--half is for .safetensors"),
        ("hard", ["--out", "a.obj", "--mesh", "--half"], "--half is for .safetensors"),
        ("hard", ["--out", "a.ply", "--min-opacity", "0.5"], "--min-opacity needs --mesh"),
        (
            "hard",
            ["--out", "a.ply", "--mesh", "--min-opacity", "1"],
            "at least 0 and below 1",
        ),
        (
            "hard",
            ["--out", "a.ply", "--mesh", "--min-opacity", "nan"],
            "at least 0 and below 1",
        ),
        ("knot", ["--out", "a", "--frames", "3"], "for dynamic scenes"),
        ("hard", ["--out", "a.ply", "--time", "0"], "for dynamic scenes"),
        ("moving", ["--out", "a.ply", "--frames", "3"], "--frames writes a folder"),
        ("moving", ["--out", "a", "--frames", "0"], "--frames 0: this is out of bounds"),
        ("moving", ["--out", "a", "--frames", "3", "--time", "0"], "--frames and --time exclude each other"),
        ("moving", ["--out", "a.ply", "--times", "0", "1"], "--times needs --frames"),
        ("moving", ["--out", "a", "--frames", "2", "--times", "0", "inf"], "out of bounds"),
        ("moving", ["--out", "a.ply", "--time", "nan"], "out of bounds"),
        ("hard", ["--out", "a.ply", "--mesh", "--time", "0"], "for dynamic scenes"),
        ("moving", ["--out", "moving.ply", "--time", "3"], "--force"),
    ],
)
def test_invalid_exports(
    source: str,
    options: list[str],
    names: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    refused: Callable[..., None],
) -> None:
    path = request.getfixturevalue(source)
    options[1:2] = [str(tmp_path / options[1])]
    before = sorted(tmp_path.iterdir())
    refused("export", path, *options, names=names)
    assert sorted(tmp_path.iterdir()) == before, "nothing is written"


def test_exports_of_hurt_files(knot: Path, tmp_path: Path, refused: Callable[..., None]) -> None:
    refused("export", tmp_path / "none.ply", "--out", tmp_path / "a.ply", names="none.ply")
    refused("export", tmp_path / "no-run", "--out", tmp_path / "a.ply", names="no-run")
    knot.write_bytes(knot.read_bytes()[:-9])
    refused("export", knot, "--out", tmp_path / "a.ply", names="cut short")
    (tmp_path / "file").write_text("")
    shutil.copy(knot, tmp_path / "whole.ply")
    save_scene(tmp_path / "whole.ply", torus_knot(3))
    out = tmp_path / "file" / "a.ply"
    refused("export", tmp_path / "whole.ply", "--out", out, names="a.ply")
