"""Bad input through the command line: status not 0, one message that names the file, a remedy, no traceback."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from luxel.viewer.cli import main

Refused = Callable[..., str]


@pytest.fixture(scope="module")
def sound(toy_capture: Path) -> Path:
    """A capture that trains; tests break copies of it."""
    return toy_capture


@pytest.fixture(scope="module")
def sound_run(sound: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with two checkpoints."""
    folder = tmp_path_factory.mktemp("bad") / "run"
    options = ["--steps", "6", "--checkpoints.every", "3", "--device", "cpu", "--no-lpips"]
    assert main(["train", str(sound), "--run", str(folder), *options]) == 0
    return folder


@pytest.fixture
def capture(sound: Path, tmp_path: Path) -> Path:
    """A copy of the sound capture to break."""
    return Path(shutil.copytree(sound, tmp_path / "capture"))


@pytest.fixture
def run(sound_run: Path, tmp_path: Path) -> Path:
    """A copy of the sound run to break."""
    return Path(shutil.copytree(sound_run, tmp_path / "run"))


@pytest.fixture
def refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Refused:
    """Runs a command that must fail, and returns its complaint.

    The message must be one, name what is wrong (``names``) and be followed by a remedy; nothing is left in the run
    folder of a training that could not begin.
    """

    def check(*arguments: object, names: str) -> str:
        words = [str(argument) for argument in arguments]
        folder = tmp_path / "new-run"
        if words[0] == "train" and "--run" not in words and "--resume" not in words:
            words += ["--run", str(folder), "--device", "cpu", "--steps", "2", "--no-lpips"]
        capfd.readouterr()
        status = main(words)
        out, err = capfd.readouterr()
        assert status != 0, f"accepted: {out}"
        assert "Traceback" not in err + out, err
        complaints = [line for line in err.splitlines() if line.startswith("luxel: ")]
        assert len(complaints) == 1, f"expected one message:\n{err}"
        remedy = err[err.index(complaints[0]) + len(complaints[0]) :].strip()
        assert remedy, f"no remedy: {err}"
        assert names in complaints[0] + remedy, f"{names!r} is not named: {err}"
        assert not folder.exists(), "the refused training left its folder behind"
        return complaints[0] + "\n" + remedy

    return check


def edit(capture: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Changes transforms.json."""
    path = capture / "transforms.json"
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def first_image(capture: Path) -> Path:
    document = json.loads((capture / "transforms.json").read_text())
    path = capture / document["frames"][1]["file_path"]
    return path if path.suffix else path.with_suffix(".png")


# -- photographs ------------------------------------------------------------------------------------------------


def test_a_capture_that_is_not_there(tmp_path: Path, refused: Refused) -> None:
    refused("train", tmp_path / "absent", names="absent")


def test_a_folder_with_nothing_in_it(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "empty").mkdir()
    refused("train", tmp_path / "empty", names="empty")


def test_a_file_that_is_no_capture(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "film.mp4").write_bytes(b"\0" * 100)
    refused("train", tmp_path / "film.mp4", names="film.mp4")


def test_a_missing_photograph(capture: Path, refused: Refused) -> None:
    path = first_image(capture)
    path.unlink()
    refused("train", capture, names=path.stem)


@pytest.mark.parametrize("damage", ["zero bytes", "truncated", "not an image"])
def test_a_damaged_photograph(capture: Path, refused: Refused, damage: str) -> None:
    path = first_image(capture)
    whole = path.read_bytes()
    path.write_bytes(
        {"zero bytes": b"", "truncated": whole[: len(whole) // 2], "not an image": b"hello\n" * 99}[damage]
    )
    refused("train", capture, names=path.name)


def test_photographs_of_differing_sizes(capture: Path, refused: Refused) -> None:
    path = first_image(capture)
    Image.open(path).resize((33, 20)).save(path)
    refused("train", capture, names=path.name)


def test_fewer_than_three_views(capture: Path, refused: Refused) -> None:
    edit(capture, lambda document: document.update(frames=document["frames"][:2]))
    refused("train", capture, names="capture")


# -- transforms.json --------------------------------------------------------------------------------------------


def test_transforms_that_are_no_json(capture: Path, refused: Refused) -> None:
    path = capture / "transforms.json"
    path.write_text(path.read_text()[:-40])
    refused("train", capture, names="transforms.json")


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["frames"][2]["transform_matrix"][0].__setitem__(3, float("nan")),
        lambda d: d["frames"][2].update(transform_matrix=[[0.0] * 4] * 4),
        lambda d: d["frames"][2].pop("transform_matrix"),
        lambda d: d["frames"][2].update(transform_matrix="identity"),
        lambda d: d["frames"][2].update(transform_matrix=[[1, 0, 0], [0, 1, 0]]),
        lambda d: (
            [d.pop(key, None) for key in ("fl_x", "fl_y", "camera_angle_x", "camera_angle_y")]
            + [f.pop(key, None) for f in d["frames"] for key in ("fl_x", "fl_y", "camera_angle_x")]
        ),
        lambda d: [part.update(fl_x=float("inf"), fl_y=float("inf")) for part in (d, *d["frames"])],
        lambda d: [part.update(fl_x=-5.0, fl_y=-5.0) for part in (d, *d["frames"])],
        lambda d: d.update(frames=[]),
        lambda d: d.pop("frames"),
    ],
    ids=[
        "nan",
        "singular",
        "absent",
        "a word",
        "2x3",
        "no lens",
        "infinite lens",
        "negative lens",
        "empty",
        "no frames",
    ],
)
def test_transforms_that_make_no_sense(
    capture: Path, refused: Refused, change: Callable[[dict[str, Any]], object]
) -> None:
    edit(capture, change)
    refused("train", capture, names="transforms.json")


@pytest.mark.parametrize("path", ["/etc/passwd", "../outside.png", "images/../../outside.png"])
def test_paths_that_leave_the_capture(capture: Path, refused: Refused, path: str) -> None:
    shutil.copy(first_image(capture), capture.parent / "outside.png")
    edit(capture, lambda document: document["frames"][0].update(file_path=path))
    refused("train", capture, names=Path(path).name)


# -- COLMAP -----------------------------------------------------------------------------------------------------


@pytest.fixture
def colmap(capture: Path) -> Path:
    """The same photographs with a binary COLMAP model: one camera, unposed but well formed."""
    names = sorted(path.name for path in (capture / "images").iterdir())
    (capture / "transforms.json").unlink()
    (capture / "points3D.ply").unlink()
    model = capture / "sparse" / "0"
    model.mkdir(parents=True)
    (model / "cameras.bin").write_bytes(struct.pack("<QiiQQ4d", 1, 1, 1, 64, 48, 60.0, 60.0, 32.0, 24.0))
    images = struct.pack("<Q", len(names))
    for number, name in enumerate(names):
        images += (
            struct.pack("<i4d3di", number + 1, 1, 0, 0, 0, 0.1 * number, 0, 4, 1) + name.encode() + b"\0"
        )
        images += struct.pack("<Q", 0)
    (model / "images.bin").write_bytes(images)
    points = struct.pack("<Q", 20)
    for number in range(20):
        points += struct.pack("<Q3d3BdQ", number, number * 0.1 - 1, 0.2, 0.1, 200, 100, 50, 0.5, 0)
    (model / "points3D.bin").write_bytes(points)
    return capture


def test_the_colmap_model_that_is_broken_below_is_sound(colmap: Path, tmp_path: Path) -> None:
    options = ["--run", str(tmp_path / "fine"), "--steps", "1", "--device", "cpu", "--no-lpips"]
    assert main(["train", str(colmap), *options]) == 0


@pytest.mark.parametrize("name", ["cameras.bin", "images.bin", "points3D.bin"])
@pytest.mark.parametrize("damage", ["cut short", "zero bytes", "absurd count"])
def test_damaged_colmap_files(colmap: Path, refused: Refused, name: str, damage: str) -> None:
    path = colmap / "sparse" / "0" / name
    whole = path.read_bytes()
    damaged = {
        "cut short": whole[:-9],
        "zero bytes": b"",
        "absurd count": struct.pack("<Q", 1 << 60) + whole[8:],
    }
    path.write_bytes(damaged[damage])
    refused("train", colmap, names=name)


# -- structure from motion --------------------------------------------------------------------------------------


def test_photographs_without_anything_in_common(tmp_path: Path, refused: Refused) -> None:
    folder = tmp_path / "noise"
    folder.mkdir()
    for number in range(4):
        pixels = np.full((60, 80, 3), 40 * number, np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    message = refused("train", folder, names="noise")
    assert "photograph" in message.lower() or "overlap" in message.lower()


# -- run folders ------------------------------------------------------------------------------------------------


def test_a_run_folder_that_cannot_be_made(sound: Path, tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "file").write_text("")
    refused("train", sound, "--run", tmp_path / "file" / "run", names="file/run")


@pytest.mark.skipif(
    os.geteuid() == 0 and not Path("/proc/sys").is_dir(), reason="root may write everywhere here"
)
def test_a_run_folder_without_permission(sound: Path, tmp_path: Path, refused: Refused) -> None:
    if os.geteuid() == 0:
        closed = Path("/proc/sys/luxel-run")  # not even root can make a folder there
    else:
        (tmp_path / "closed").mkdir(mode=0o555)
        closed = tmp_path / "closed" / "run"
    refused("train", sound, "--run", closed, names=str(closed))


def test_a_run_that_is_not_there(tmp_path: Path, refused: Refused) -> None:
    for command in (["train", "--resume"], ["eval"], ["view"], ["render"]):
        refused(*command, tmp_path / "no-run", names="no-run")


def test_a_folder_that_is_no_run(sound: Path, refused: Refused) -> None:
    for command in (["train", "--resume"], ["eval"], ["view"], ["render"]):
        refused(*command, sound, names=str(sound))


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"config": {"steps": "many"}}', '{"config": {"colour": 3}}']
)
def test_a_damaged_configuration(run: Path, refused: Refused, text: str) -> None:
    (run / "config.json").write_text(text)
    refused("train", "--resume", run, names="config.json")
    refused("eval", run, names="config.json")


def test_a_torn_checkpoint_is_passed_over_for_the_one_before(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newest = max((run / "checkpoints").glob("*.safetensors"))
    newest.write_bytes(newest.read_bytes()[:-100])
    assert main(["train", "--resume", str(run), "--steps", "8", "--device", "cpu"]) == 0
    assert newest.name in "".join(capsys.readouterr().out.split())


def test_no_whole_checkpoint(run: Path, refused: Refused) -> None:
    for path in (run / "checkpoints").glob("*.safetensors"):
        path.write_bytes(b"torn")
    refused("train", "--resume", run, names="checkpoints")


def test_the_capture_of_a_run_has_gone(run: Path, sound: Path, refused: Refused, tmp_path: Path) -> None:
    path = run / "config.json"
    path.write_text(path.read_text().replace(str(sound), str(sound.with_name("gone"))))
    refused("train", "--resume", run, names="gone")
    refused("eval", run, names="gone")


def test_another_capture_than_the_run_had(run: Path, capture: Path, refused: Refused) -> None:
    edit(capture, lambda document: document.update(frames=document["frames"][:9]))
    refused("train", capture, "--resume", run, names=str(run))


def test_a_full_disk_leaves_the_old_checkpoint(run: Path) -> None:
    """Files of this process may not grow beyond 20 KB: to a program that is what a full disk is like."""
    old = {path.name: path.read_bytes() for path in (run / "checkpoints").iterdir()}
    scene = (run / "scene.ply").read_bytes()
    code = (
        "import resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))\n"
        "from luxel.viewer.cli import main\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            code,
            "train",
            "--resume",
            str(run),
            "--steps",
            "9",
            "--checkpoints.every",
            "0",
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode != 0 and "Traceback" not in said, said
    assert "disk space" in said and "step-00000009.json" in said, said
    now = {path.name: path.read_bytes() for path in (run / "checkpoints").iterdir()}
    assert now == old, "the checkpoints that were there must stay as they were"
    assert (run / "scene.ply").read_bytes() == scene
    assert main(["train", "--resume", str(run), "--steps", "9"]) == 0, "with space again the run goes on"


# -- scene files ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["zero bytes", "truncated", "not a ply"])
@pytest.mark.parametrize("command", ["view", "render"])
def test_a_damaged_scene(run: Path, refused: Refused, command: str, damage: str) -> None:
    path = run / "scene.ply"
    whole = path.read_bytes()
    path.write_bytes({"zero bytes": b"", "truncated": whole[:-50], "not a ply": b"hello\n" * 99}[damage])
    refused(command, path, names="scene.ply")


def test_a_splat_that_ends_in_the_middle(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "scene.splat").write_bytes(b"\0" * 33)
    refused("view", tmp_path / "scene.splat", names="scene.splat")


def test_a_scene_of_unknown_kind(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "scene.obj").write_text("v 0 0 0\n")
    for command in ("view", "render"):
        refused(command, tmp_path / "scene.obj", names="scene.obj")


def test_a_damaged_camera_path(run: Path, tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "path.json").write_text('{"camera_path": []}')
    refused("render", run, "--path", tmp_path / "path.json", "--out", tmp_path / "out", names="path.json")


# -- options ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (["--steps", "0"], "steps"),
        (["--init.sh-degree", "7"], "sh_degree"),
        (["--max-size", "0"], "max_size"),
        (["--target-psnr", "30", "--holdout-every", "0"], "target_psnr"),
    ],
)
def test_options_that_make_no_sense(
    sound: Path, tmp_path: Path, refused: Refused, options: list[str], names: str
) -> None:
    refused("train", sound, "--run", tmp_path / "new-run", "--device", "cpu", *options, names=names)


def test_cuda_where_there_is_none(
    sound: Path, tmp_path: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("luxel.viewer.commands.options.cuda_problem", lambda: "no GPU was found.")
    refused("train", sound, "--run", tmp_path / "new-run", "--device", "cuda", names="no GPU")


def test_a_viewer_open_to_the_network_needs_a_token(run: Path, refused: Refused) -> None:
    refused("view", run / "scene.ply", "--host", "0.0.0.0", "--port", "0", names="token")


def test_a_refused_viewer_leaves_no_run_in_the_way(sound: Path, tmp_path: Path, refused: Refused) -> None:
    folder = tmp_path / "new-run"
    options = ["--run", folder, "--steps", "1", "--device", "cpu", "--no-lpips"]
    refused("train", sound, *options, "--view", "--host", "0.0.0.0", names="token")
    assert main(["train", str(sound), *map(str, options)]) == 0


def test_the_demo_replaces_nothing_but_a_demo(run: Path, refused: Refused) -> None:
    before = sorted(path.name for path in (run / "checkpoints").iterdir())
    refused("demo", "--run", run, "--device", "cpu", names=str(run))
    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == before


def test_memory_that_runs_out(run: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes.")

    monkeypatch.setattr("luxel.viewer.commands.render.load_drawable", exhausted)
    refused("render", run, names="memory")


def test_an_output_that_cannot_be_written(run: Path, tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "file").write_text("")
    short = ["--frames", "2", "--width", "32", "--height", "24"]
    refused("render", run / "scene.ply", "--out", tmp_path / "file" / "film.mp4", *short, names="film.mp4")
    refused("render", run / "scene.ply", "--out", tmp_path / "film.gif", *short, names="film.gif")
    refused("eval", run, "--out", tmp_path / "file" / "report", "--no-lpips", names="report")
