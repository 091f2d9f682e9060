"""Scene files on the command line: what is known beside the primitives, axes, cameras of a run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bad_input import Refused
from PIL import Image

import luxel.scenes as scenes
from luxel.render.primitives import Gaussians
from luxel.render.train import TrainConfig
from luxel.scenes import load_primitives, load_scene, save_scene
from luxel.scenes.captures.formats.colmap import read_model
from luxel.scenes.files.registry import SCENE_FORMATS
from luxel.scenes.files.scene_files import load_facts
from luxel.scenes.files.scene_format import SceneFacts, SceneFormat
from luxel.scenes.synthetic.captures.dnerf import CameraSample, hemisphere_camera, save_dnerf
from luxel.scenes.synthetic.example_scenes import static_scene
from luxel.scenes.synthetic.toy import torus_knot
from luxel.viewer.cli import main
from luxel.viewer.web.editing import SceneEditor
from luxel.viewer.web.opening import open_session

FACTS = SceneFacts(antialiased=True, up=(0.6, 0.0, 0.8))
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five images of 48 x 48 pixels."""
    folder = tmp_path_factory.mktemp("capture") / "knot"
    samples = [CameraSample(hemisphere_camera(0.9 * i, 0.4, width=48, height=48), 0.0) for i in range(5)]
    return save_dnerf(static_scene(), folder, {"train": samples}, samples=1, ground_truth=False, points=50)


def write_run(folder: Path, capture: Path, **about: Any) -> Path:
    """What training with antialiasing might leave."""
    folder.mkdir()
    known = {"path": str(capture), "holdout_every": 0, "max_size": None, "masks": "auto", **about}
    config = TrainConfig(antialiased=True).to_dict()
    (folder / "config.json").write_text(json.dumps({"config": config, "capture": known}))
    save_scene(folder / "scene.ply", torus_knot(40, sh_degree=2))
    return folder


@pytest.fixture
def run(capture: Path, tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", capture, up=list(FACTS.up or ()))


@pytest.fixture
def marked(tmp_path: Path) -> Path:
    """A scene file that has facts."""
    save_scene(tmp_path / "marked.ply", torus_knot(40, sh_degree=2), facts=FACTS)
    return tmp_path / "marked.ply"


# -- facts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.ply", "a.safetensors", "a.glb"])
def test_export_keeps_what_is_known(run: Path, tmp_path: Path, name: str, capsys: Any) -> None:
    assert main(["export", str(run), "--out", str(tmp_path / name)]) == 0
    assert load_facts(tmp_path / name) == FACTS
    assert "does not hold" not in capsys.readouterr().out
    assert main(["export", str(tmp_path / name), "--out", str(tmp_path / "b.ply")]) == 0
    assert load_facts(tmp_path / "b.ply") == FACTS


def test_export_says_what_is_lost(run: Path, marked: Path, tmp_path: Path, capsys: Any) -> None:
    for source in (run, marked):
        assert main(["export", str(source), "--out", str(tmp_path / f"{source.stem}.splat")]) == 0
        lines = capsys.readouterr().out.splitlines()
        lost = "spherical harmonics above degree 0, the antialiasing, the up direction"
        assert lines[-1] == f"{source.stem}.splat does not hold: {lost}"


@pytest.mark.usefixtures("first_use")
def test_a_run_that_does_not_know_its_up_direction(capture: Path, tmp_path: Path, capsys: Any) -> None:
    """Its capture is opened; without a capture the scene is exported all the same."""
    old = write_run(tmp_path / "old", capture)
    assert main(["export", str(old), "--out", str(tmp_path / "a.ply")]) == 0
    expected = scenes.open(capture).up
    up = load_facts(tmp_path / "a.ply").up
    assert expected is not None and up == pytest.approx(expected.tolist())
    alone = write_run(tmp_path / "alone", tmp_path / "absent")
    assert main(["export", str(alone), "--out", str(tmp_path / "b.ply")]) == 0
    assert "The up direction is not known: " in capsys.readouterr().err
    assert load_facts(tmp_path / "b.ply") == SceneFacts(antialiased=True)


def test_slices_of_time_have_facts(tmp_path: Path, carousel: Callable[..., Any]) -> None:
    save_scene(tmp_path / "moving.ply", carousel(), facts=FACTS)
    assert main(["export", str(tmp_path / "moving.ply"), "--out", str(tmp_path / "f"), "--frames", "2"]) == 0
    assert load_facts(tmp_path / "f/frame-00001.ply") == FACTS


def test_training_writes_what_is_known(capture: Path, tmp_path: Path) -> None:
    words = ["train", str(capture), "--run", str(tmp_path / "run"), "--steps", "2", "--device", "cpu"]
    assert main([*words, "--no-lpips", "--antialiased"]) == 0
    facts = load_facts(tmp_path / "run/scene.ply")
    about = json.loads((tmp_path / "run/config.json").read_text())["capture"]
    assert facts.antialiased is True and facts.up == pytest.approx(about["up"])


def test_the_viewer_takes_what_a_file_says(marked: Path, capture: Path, run: Path, tmp_path: Path) -> None:
    session = open_session(marked, CPU)
    assert session.antialiased and session.up is not None and session.up.tolist() == list(FACTS.up or ())
    turned = open_session(marked, CPU, axes="RUF")
    assert turned.up is not None and turned.up.tolist() == [0.6, 0.0, 0.8]
    with_capture = open_session(marked, CPU, capture=capture)
    expected = scenes.open(capture).up
    assert with_capture.up is not None and expected is not None and np.allclose(with_capture.up, expected)
    save_scene(tmp_path / "plain.ply", torus_knot(9))
    plain = open_session(tmp_path / "plain.ply", CPU)
    assert plain.up is None and not plain.antialiased
    assert open_session(run, CPU).antialiased


def frames_of(source: Path, folder: Path, *words: str) -> np.ndarray:
    small = ["--frames", "2", "--width", "32", "--height", "24", "--device", "cpu"]
    assert main(["render", str(source), "--out", str(folder), *small, *words]) == 0
    return np.stack([np.asarray(Image.open(path)) for path in sorted(folder.glob("*.png"))]).astype(int)


def test_render_takes_what_a_file_says(tmp_path: Path) -> None:
    """Antialiasing makes small Gaussians fainter; the orbit turns about the up direction."""
    scene = torus_knot(300)
    scene.log_scales -= 2
    frames = {}
    for name, facts in {
        "plain": SceneFacts(),
        "same": SceneFacts(antialiased=False, up=(0.0, -1.0, 0.0)),
        "fainter": SceneFacts(antialiased=True),
        "lying": SceneFacts(up=(1.0, 0.0, 0.0)),
    }.items():
        save_scene(tmp_path / f"{name}.ply", scene, facts=facts)
        frames[name] = frames_of(tmp_path / f"{name}.ply", tmp_path / name)
    assert (frames["same"] == frames["plain"]).all()
    assert 0 < frames["fainter"].sum() < 0.9 * frames["plain"].sum()
    assert (frames["lying"] != frames["plain"]).any()


def test_eval_takes_what_a_file_says(marked: Path, capture: Path, tmp_path: Path, capsys: Any) -> None:
    save_scene(tmp_path / "plain.ply", torus_knot(40, sh_degree=2))
    common = ["--capture", str(capture), "--split", "train", "--no-lpips", "--json", "--device", "cpu"]
    scores = {}
    for name, source, more in (
        ("file", marked, []),
        ("option", tmp_path / "plain.ply", ["--antialiased", "True"]),
        ("neither", tmp_path / "plain.ply", []),
        ("against", marked, ["--antialiased", "False"]),
    ):
        capsys.readouterr()
        assert main(["eval", str(source), *common, *more, "--out", str(tmp_path / name)]) == 0
        scores[name] = json.loads(capsys.readouterr().out)["mean"]["psnr"]
    assert scores["file"] == scores["option"] != scores["neither"] == scores["against"]


def test_edited_scenes_keep_what_is_known(marked: Path, tmp_path: Path) -> None:
    session = open_session(marked, CPU)
    SceneEditor.of(session).run(lambda document: document.save(tmp_path / "edited.glb"))
    assert load_facts(tmp_path / "edited.glb") == FACTS


# -- axes --------------------------------------------------------------------------------------------------------


def test_axes_of_what_is_read_and_written(marked: Path, tmp_path: Path) -> None:
    source = load_scene(marked)
    assert main(["export", str(marked), "--scene-axes", "rub", "--out", str(tmp_path / "a.safetensors")]) == 0
    turned = load_scene(tmp_path / "a.safetensors")
    assert torch.equal(turned.means, source.means * torch.tensor([1.0, -1, -1]))
    assert load_facts(tmp_path / "a.safetensors").up == pytest.approx((0.6, 0.0, -0.8))
    words = ["export", str(tmp_path / "a.safetensors"), "--out-axes", "RUB", "--out", str(tmp_path / "b.ply")]
    assert main(words) == 0
    for name, tensor in source.tensors().items():
        assert torch.equal(getattr(load_primitives(tmp_path / "b.ply"), name), tensor), name
    there = frames_of(marked, tmp_path / "there")
    turned_back = frames_of(tmp_path / "b.ply", tmp_path / "same", "--scene-axes", "RDF")
    assert (there == turned_back).all()
    assert (frames_of(marked, tmp_path / "else", "--scene-axes", "LDF") != there).any()


@pytest.mark.parametrize("command", ["view", "render", "export", "eval"])
def test_axes_that_are_refused(
    command: str, run: Path, marked: Path, tmp_path: Path, refused: Refused
) -> None:
    more = ["--out", str(tmp_path / "x.ply")] if command == "export" else []
    refused(command, marked, "--scene-axes", "RXB", *more, names="RXB: there are no such axes")
    refused(command, run, "--scene-axes", "RUB", *more, names="--scene-axes is for scene files")


def test_options_of_files_that_are_refused(
    run: Path, marked: Path, tmp_path: Path, refused: Refused, crystals: Callable[..., Any]
) -> None:
    out = str(tmp_path / "x.ply")
    refused("export", marked, "--out", out, "--out-axes", "up", names="up: there are no such axes")
    refused("export", marked, "--out", out, "--spz-version", "4", names="--spz-version is for .spz files")
    mesh = ["--mesh", "--out-axes", "RUB"]
    refused("export", marked, "--out", out, *mesh, names="--out-axes is for scene files")
    save_scene(tmp_path / "hard.ply", crystals(4))
    refused("export", tmp_path / "hard.ply", "--out", out, "--out-axes", "RUB", names="only Gaussians change")
    assert not (tmp_path / "x.ply").exists()


@pytest.fixture
def versioned() -> Iterator[list[dict[str, Any]]]:
    """A format with versions; the options that it was written with."""
    calls: list[dict[str, Any]] = []

    def save(path: Path, scene: Gaussians, **options: Any) -> None:
        path.write_bytes(b"x")
        calls.append(options)

    known = SceneFormat(".x.versioned", "test", save=save, primitives=(Gaussians,), options=("version",))
    SCENE_FORMATS.append(known)
    yield calls
    SCENE_FORMATS.remove(known)


def test_the_version_is_an_option_of_the_format(
    versioned: list[dict[str, Any]], marked: Path, tmp_path: Path
) -> None:
    """The longest suffix counts."""
    assert main(["export", str(marked), "--out", str(tmp_path / "a.x.versioned"), "--spz-version", "4"]) == 0
    assert main(["export", str(marked), "--out", str(tmp_path / "b.x.versioned")]) == 0
    assert versioned == [{"version": 4}, {}]


@pytest.fixture
def scene_folder(tmp_path: Path, marked: Path) -> Iterator[Path]:
    """A folder that is a scene itself, of a format that knows it by its content."""
    folder = tmp_path / "folder"
    folder.mkdir()
    shutil.copyfile(marked, folder / "means.ply")

    def load(path: Path) -> Any:
        return load_primitives(path / "means.ply")

    known = SceneFormat(".x.folder", "test", load, recognises=lambda path: (path / "means.ply").is_file())
    SCENE_FORMATS.append(known)
    yield folder
    SCENE_FORMATS.remove(known)


def test_a_folder_can_be_a_scene(
    scene_folder: Path, capture: Path, tmp_path: Path, capfd: Any, refused: Refused
) -> None:
    assert main(["export", str(scene_folder), "--out", str(tmp_path / "a.ply"), "--scene-axes", "RUB"]) == 0
    assert load_scene(tmp_path / "a.ply").count == 40
    session = open_session(scene_folder, CPU)
    assert session.folder is None and not session.views and "without the images" not in capfd.readouterr().err
    assert main(["render", str(scene_folder), "--frames", "2", "--width", "32", "--height", "24"]) == 0
    assert (tmp_path / "folder-orbit.mp4").is_file()
    refused("eval", scene_folder, names="a scene file does not name a capture")
    refused("export", scene_folder, "--out", tmp_path / "b.ply", "--labels", names="names no objects")
    assert [path.name for path in scene_folder.iterdir()] == ["means.ply"]


# -- cameras -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("first_use")
def test_cameras_of_a_run(run: Path, capture: Path, tmp_path: Path, capsys: Any) -> None:
    """The model and the photographs are the same capture again."""
    copy = tmp_path / "again"
    assert main(["export", str(run), "--out", str(copy / "sparse/0"), "--cameras"]) == 0
    before = scenes.open(capture, holdout_every=0)
    assert f"5 cameras and {len(before.points.xyz):,} points" in capsys.readouterr().out
    for view in before.views:
        (copy / "images" / view.name).parent.mkdir(parents=True, exist_ok=True)
    for name, _, _ in read_model(copy / "sparse/0").images:
        file = next(
            v.path for v in before.views if v.path is not None and v.path.match(f"*{Path(name).name}")
        )
        target = copy / "images" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    after = scenes.open(copy, holdout_every=0)
    assert after.format == "COLMAP model" and len(after.views) == 5
    for ours, theirs in zip(after.views, before.views, strict=True):
        torch.testing.assert_close(
            ours.camera.world_to_cam, theirs.camera.world_to_cam, atol=1e-6, rtol=0, msg=ours.name
        )
        assert torch.equal(ours.camera.intrinsics, theirs.camera.intrinsics)
    assert np.array_equal(after.points.xyz, before.points.xyz)
    assert np.array_equal(after.points.rgb, before.points.rgb)


@pytest.mark.usefixtures("first_use")
def test_cameras_that_are_refused(run: Path, marked: Path, tmp_path: Path, refused: Refused) -> None:
    out = str(tmp_path / "sparse")
    refused("export", marked, "--out", out, "--cameras", names="--cameras needs the folder of a run")
    refused("export", run, "--out", out, "--cameras", "--half", names="--cameras cannot be combined")
    refused("export", run, "--out", out + ".ply", "--cameras", names="--cameras writes a folder")
    (tmp_path / "file").write_text("")
    refused("export", run, "--out", tmp_path / "file", "--cameras", names="and --cameras writes a folder")
    assert main(["export", str(run), "--out", out, "--cameras"]) == 0
    refused("export", run, "--out", out, "--cameras", names="already exists")
    assert main(["export", str(run), "--out", out, "--cameras", "--force"]) == 0
