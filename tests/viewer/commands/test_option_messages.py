"""Messages about options: each is reached, and the command that its remedy names works."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from bad_input import Refused
from PIL import Image

from luxel.render.primitives import Gaussians, Gaussians4d
from luxel.scenes import save_primitive_ply
from luxel.scenes.files.scene_files import save_scene
from luxel.viewer.cli import main
from luxel.viewer.commands.option_aliases import HERE, names_here
from luxel.viewer.options import Serve

SMALL = ["--frames", "2", "--width", "32", "--height", "24", "--device", "cpu"]
STEPS = ["--steps", "1", "--device", "cpu", "--no-lpips"]


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    """A scene file of one Gaussian."""
    one = Gaussians(
        means=torch.zeros(1, 3),
        quats=torch.tensor([[1.0, 0, 0, 0]]),
        log_scales=torch.full((1, 3), -2.0),
        opacity_logits=torch.zeros(1),
        sh_dc=torch.zeros(1, 3),
        sh_rest=torch.zeros(1, 0, 3),
    )
    save_primitive_ply(tmp_path / "scene.ply", one)
    return tmp_path / "scene.ply"


@pytest.fixture
def image_run(tmp_path: Path) -> Path:
    """The run of the field of an image of 24 x 16 pixels."""
    Image.new("RGB", (24, 16), "red").save(tmp_path / "photo.png")
    words = ["train", str(tmp_path / "photo.png"), "--field", "image", "--run", str(tmp_path / "field-run")]
    assert main([*words, "--steps", "2", "--log2-entries", "8", "--device", "cpu"]) == 0
    return tmp_path / "field-run"


# -- export -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "out", "names"),
    [
        (["--mesh", "--frames", "2"], "a.obj", "--mesh cannot be combined"),
        (["--time", "0.5", "--frames", "2"], "frames", "--frames and --time exclude"),
        (["--times", "0", "1"], "a.ply", "--times needs --frames"),
        (["--frames", "0"], "frames", "--frames"),
        (["--time", "nan"], "a.ply", "--time"),
        (["--min-opacity", "0.5"], "a.ply", "--min-opacity needs --mesh"),
        (["--resolution", "64"], "a.ply", "--resolution and --level need --mesh"),
        (["--mesh", "--min-opacity", "1"], "a.obj", "--min-opacity"),
        (["--half"], "a.ply", ".safetensors"),
        (["--frames", "2"], "a.ply", "a.ply names a file"),
        (["--mesh"], "a.splat", "a.splat: a mesh is written as"),
        ([], "a.obj", "a.obj: .obj holds a mesh, which needs --mesh"),
        ([], "a.xyz", "a.xyz: .xyz is not a format"),
        ([], "a", "a name without suffix"),
        (["--mesh", "--level", "3"], "a.obj", "--level is not for"),
        (["--mesh"], "a.obj", "needs the cameras"),
        (["--time", "0.5"], "a.ply", "--frames and --time are for dynamic scenes"),
    ],
)
def test_options_of_export(
    scene: Path, tmp_path: Path, refused: Refused, options: list[str], out: str, names: str
) -> None:
    refused("export", scene, *options, "--out", tmp_path / "new" / out, names=names)
    assert not (tmp_path / "new").exists()


def test_places_of_export(
    scene: Path, tmp_path: Path, refused: Refused, carousel: Callable[..., Gaussians4d]
) -> None:
    """Each remedy is followed: another --out, --force, a suffix that is listed."""
    place, file = tmp_path / "copy.splat", tmp_path / "file"
    file.write_text("")
    moving = tmp_path / "moving.safetensors"
    save_scene(moving, carousel())
    refused("export", moving, "--out", file, "--frames", "2", names=f"{file}: this is a file")
    assert main(["export", str(moving), "--out", str(tmp_path / "frames"), "--frames", "2"]) == 0
    assert "--time" in refused("export", moving, "--out", tmp_path / "a.splat", names="a.splat: .splat holds")
    assert main(["export", str(moving), "--out", str(tmp_path / "a.splat"), "--time", "0.5"]) == 0
    (tmp_path / "folder.splat").mkdir()
    refused("export", scene, "--out", tmp_path / "folder.splat", names="this is a folder")
    assert main(["export", str(scene), "--out", str(place)]) == 0
    assert "--force" in refused("export", scene, "--out", place, names="copy.splat: already exists")
    assert main(["export", str(scene), "--out", str(place), "--force"]) == 0
    assert main(["export", str(scene), "--out", str(tmp_path / "half.safetensors"), "--half"]) == 0


# -- render -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (["--frames", "0"], "--frames"),
        (["--fps", "0"], "--fps"),
        (["--width", "0"], "--width"),
        (["--height", "20000"], "--height"),
        (["--elevation", "90"], "--elevation"),
        (["--transparent"], ".mp4 has no alpha"),
        (["--at", "photographs"], "--at photographs needs the views"),
        (["--freeze", "0.5"], "--times and --freeze are for dynamic scenes"),
        (["--path", "gone.json"], "gone.json"),
    ],
)
def test_options_of_render(scene: Path, refused: Refused, options: list[str], names: str) -> None:
    refused("render", scene, *options, "--device", "cpu", names=names)


def test_remedies_of_render(run: Path, tmp_path: Path) -> None:
    """Photographs of a run, and PNG files with alpha into a folder."""
    folder = tmp_path / "frames"
    options = ["--at", "photographs", "--transparent", "--out", str(folder), *SMALL]
    assert main(["render", str(run), *options]) == 0
    assert sorted(path.name for path in folder.glob("*.png")) == ["00000.png", "00001.png"]


def test_a_scene_without_alpha(
    scene: Path, tmp_path: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Gaussians, "outputs", ("colour",))
    words = ["render", scene, "--out", tmp_path / "frames", *SMALL]
    refused(*words, "--transparent", names="--transparent: this scene of Gaussians has no alpha")
    assert main([str(word) for word in words]) == 0


# -- train and eval ---------------------------------------------------------------------------------------------


def test_what_to_train_on(sound: Path, run: Path, image_run: Path, tmp_path: Path, refused: Refused) -> None:
    """The commands that the remedies name train."""
    said = refused("train", names="There is no capture to train on")
    assert "luxel train CAPTURE" in said and "luxel train --resume RUN" in said
    assert main(["train", str(sound), "--run", str(tmp_path / "first"), *STEPS]) == 0
    assert main(["train", "--resume", str(run), "--steps", "7", "--device", "cpu"]) == 0
    for folder in (run, image_run):
        refused("train", "--run", tmp_path / "a", "--resume", folder, names="--run and --resume")


def test_a_run_of_something_else(run: Path, image_run: Path, refused: Refused) -> None:
    """With --field left out both are resumed; without --backend the field is evaluated."""
    refused("train", "--field", "image", "--resume", run, names=f"{run}: this is a run of primitives")
    refused("train", "--field", "sdf", "--resume", image_run, names=f"{image_run}: this is a run of a field")
    for folder in (run, image_run):
        assert main(["train", "--resume", str(folder), "--steps", "7", "--device", "cpu"]) == 0
    bench = ["--out", run / "bench", "--device", "cpu"]
    refused(
        "bench", "raster", "--scene", image_run, *bench, names=f"{image_run}: this is a run of a neural field"
    )
    refused("eval", image_run, "--backend", "gsplat", "--device", "cpu", names="--backend gsplat")
    assert main(["eval", str(image_run), "--device", "cpu"]) == 0


def _without(entry: str, run: Path) -> None:
    """Turns a run into one of an early version, without checksums, whose config.json lacks an entry."""
    for path in (run / "config.json", *(run / "checkpoints").glob("*.json")):
        body = json.loads(path.read_text())
        for name in ("format", "identity", "file", "run", "sha256", *([entry] if path.parent == run else [])):
            body.pop(name, None)
        path.write_text(json.dumps(body))
    for name in ("scene.json", "field.json"):
        (run / name).unlink(missing_ok=True)


def test_a_field_run_that_does_not_name_its_data(image_run: Path, refused: Refused) -> None:
    data = json.loads((image_run / "config.json").read_text())["data"]["path"]
    _without("data", image_run)
    assert "luxel train DATA --resume RUN" in refused("train", "--resume", image_run, names="config.json")
    assert main(["train", data, "--resume", str(image_run), "--steps", "3", "--device", "cpu"]) == 0


def test_a_run_that_does_not_name_its_capture(run: Path, sound: Path, refused: Refused) -> None:
    _without("capture", run)
    assert "luxel eval RUN --capture" in refused("eval", run, "--device", "cpu", names="config.json")
    refused("train", "--resume", run, names="config.json")
    cpu = ["--device", "cpu"]
    assert main(["eval", str(run), "--capture", str(sound), "--no-lpips", *cpu]) == 0
    assert main(["train", str(sound), "--resume", str(run), "--steps", "7", *cpu]) == 0


def test_no_views_are_held_out(run: Path, sound: Path, refused: Refused) -> None:
    arguments = ["eval", str(run), "--capture", str(sound), "--no-lpips", "--device", "cpu"]
    refused(*arguments, "--holdout-every", "0", names="no views are held out")
    assert main([*arguments, "--holdout-every", "4"]) == 0
    assert main([*arguments, "--holdout-every", "0", "--split", "train"]) == 0


def test_a_run_without_a_scene(run: Path, tmp_path: Path, refused: Refused) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    shutil.copy(run / "config.json", bare)
    for command in ("eval", "render"):
        refused(command, bare, "--device", "cpu", names=str(bare))


# -- bench ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["raster", "--counts", "10"], "--counts"),
        (["raster", "--primitive", "convexes", "--data", "folder"], "--data and --against are for Gaussians"),
        (["train"], "There is no capture"),
        (["fields", "--seconds", "0"], "--seconds"),
        (["fields", "--iterations", "0"], "--iterations"),
        (["fields", "--batch", "0"], "--batch"),
        (["fields", "--log2-entries", "2"], "--log2-entries"),
        (["view", "--seconds", "99"], "--seconds"),
        (["view", "--warmup", "-1"], "--warmup"),
        (["view", "--clients", "3"], "--clients are measured without"),
        (["view", "--client", "python", "--clients", "0"], "--clients"),
        (["view", "--client", "python", "--megabits", "0"], "--megabits"),
        (["view", "--client", "python", "--rate", "0"], "--rate"),
    ],
)
def test_options_of_bench(tmp_path: Path, refused: Refused, arguments: list[str], names: str) -> None:
    refused("bench", *arguments, "--out", tmp_path / "bench", names=names)


# -- the viewer -------------------------------------------------------------------------------------------------


def test_options_of_the_viewer(scene: Path, tmp_path: Path, refused: Refused) -> None:
    token, empty, key = tmp_path / "token", tmp_path / "empty", tmp_path / "key.pem"
    token.write_text("letters-and-digits\n")
    empty.write_text("\n")
    key.write_text("no key")
    for options, names in (
        (["--share-of-time", "0"], "--share-of-time"),
        (["--max-pages", "0"], "--max-pages 0"),
        (["--token", "short"], "--token: too short"),
        (["--token", "letters-and-digits", "--token-file", token], "--token and --token-file"),
        (["--token-file", tmp_path / "gone"], f"--token-file {tmp_path / 'gone'}"),
        (["--token-file", empty], f"--token-file {empty}"),
        (["--tls-cert", key], "--tls-cert and --tls-key"),
        (["--tls-cert", key, "--tls-key", key], f"--tls-cert {key}"),
        (["--host", "192.0.2.1", "--token-file", token, "--port", "0"], "cannot listen on 192.0.2.1"),
        (["--host", "no host", "--token-file", token, "--port", "0"], "cannot listen on 'no host'"),
    ):
        refused("view", scene, *options, "--device", "cpu", names=names)


def test_options_of_another_version(scene: Path) -> None:
    with pytest.raises(ValueError, match=r"no such option.*colour.*version of luxel"):
        Serve.of_plain({"colour": "red"})


@pytest.mark.parametrize("command", HERE)
def test_names_of_other_programs_have_one_here(command, capsys):
    assert main([command, "--help"]) == 0
    own = set(re.findall(r"(?m)^\W*?(--[a-z0-9-]+)(?:[ ,]|$)", capsys.readouterr().out))
    for other, meant in HERE[command].items():
        assert other not in own, f"luxel {command} has {other} itself"
        assert not meant.startswith("--") or meant in own, f"luxel {command} has no {meant}"


def test_names_of_other_programs_are_explained_after_a_wrong_option(capsys):
    assert main(["train", "capture", "--max_steps=5", "-m", "runs/first", "--stepz", "3"]) == 2
    said = capsys.readouterr().err
    assert said.endswith("--max_steps is called --steps here.\n-m is called --run here.\n")
    assert list(names_here("view", ["--ckpt", "scene.ply"])) == [
        "--ckpt: the run or scene file has no option, it follows the command: luxel view RUN."
    ]
    assert not list(names_here("doctor", ["--iterations"])) and not list(
        names_here("train", ["--steps", "5"])
    )
