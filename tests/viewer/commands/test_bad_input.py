"""Bad runs, scenes and options through the command line: status not 0, one message that names the file, a remedy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from bad_input import Refused, edit

from luxel.render.runs.strict_json import sealed
from luxel.viewer.cli import main

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
    for copy in [run / "scene.json", *(run / "checkpoints").glob("*.json")]:
        copy.unlink()
    refused("train", "--resume", run, names="config.json")
    refused("eval", run, names="config.json")


def test_a_torn_checkpoint_is_passed_over_for_the_one_before(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newest = max((run / "checkpoints").glob("*.safetensors"))
    newest.write_bytes(newest.read_bytes()[:-100])
    assert main(["train", "--resume", str(run), "--steps", "8", "--device", "cpu"]) == 0
    assert newest.name in "".join(capsys.readouterr().out.split())


def test_an_older_checkpoint_is_announced_each_time_it_stands_for_the_scene(
    run: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (run / "scene.ply").unlink()
    newest = run / "checkpoints" / "step-00000006.json"
    newest.write_text(newest.read_text().replace('"step": 6', '"step": 999'))
    export = ["export", str(run), "--out", str(tmp_path / "out.ply"), "--force"]
    for command in (export, ["eval", str(run), "--no-lpips", "--device", "cpu"], export):
        capfd.readouterr()
        assert main(command) == 0
        said = [line for line in capfd.readouterr().err.splitlines() if "steps lost: 3" in line]
        assert len(said) == 1 and "step-00000006.json" in said[0] and "step-00000003.json" in said[0]


def test_a_scene_that_is_not_the_runs_is_still_opened_by_its_own_name(
    run: Path, refused: Refused, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    raw = bytearray((run / "scene.ply").read_bytes())
    raw[-7] ^= 8
    (run / "scene.ply").write_bytes(raw)
    for path in (run / "checkpoints").glob("*.json"):
        path.write_text("{}")
    for command in (["view"], ["export", "--out", tmp_path / "out.ply"]):
        complaint = refused(command[0], run, *command[1:], names="scene.ply")
        assert f"luxel view {run / 'scene.ply'}" in complaint
    assert main(["export", str(run / "scene.ply"), "--out", str(tmp_path / "out.ply")]) == 0
    assert "scene.ply: damaged or replaced" in capfd.readouterr().err


def test_no_whole_checkpoint(run: Path, refused: Refused) -> None:
    for path in (run / "checkpoints").glob("*.safetensors"):
        path.write_bytes(b"torn")
    refused("train", "--resume", run, names="checkpoints")


def test_the_capture_of_a_run_has_gone(run: Path, sound: Path, refused: Refused, tmp_path: Path) -> None:
    path = run / "config.json"
    body = json.loads(path.read_text().replace(str(sound), str(sound.with_name("gone"))))
    path.write_text(json.dumps(sealed(body)))
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
        "sys.dont_write_bytecode = True\n"  # its files would be cut short too
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
    (tmp_path / "scene.xyz").write_text("0 0 0\n")
    for command in ("view", "render"):
        refused(command, tmp_path / "scene.obj", names="scene.obj")
        refused(command, tmp_path / "scene.xyz", names="no scene format that luxel reads")


def test_a_damaged_camera_path(run: Path, tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "path.json").write_text('{"camera_path": []}')
    refused("render", run, "--path", tmp_path / "path.json", "--out", tmp_path / "out", names="path.json")


# -- options ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (["--steps", "0"], "--steps 0"),
        (["--rates.means", "nan"], "--rates.means nan"),
        (["--seed", str(2**64)], "--seed 18446744073709551616"),
        (["--holdout-every", "-1"], "--holdout-every -1"),
        (["--batch", "1000000000"], "integer from 1 to 1024"),
        (["--init.sh-degree", "7"], "--init.sh-degree 7"),
        (["--max-size", "0"], "--max-size 0"),
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
    monkeypatch.setattr("luxel.render.native.cuda_problem", lambda: "no GPU was found.")
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
    def exhausted(*_: object, **__: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes.")

    monkeypatch.setattr("luxel.scenes.loading.loaders.open_scene", exhausted)
    refused("render", run, names="memory")


def test_an_output_that_cannot_be_written(run: Path, tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "file").write_text("")
    short = ["--frames", "2", "--width", "32", "--height", "24"]
    refused("render", run / "scene.ply", "--out", tmp_path / "file" / "film.mp4", *short, names="film.mp4")
    refused("render", run / "scene.ply", "--out", tmp_path / "film.avi", *short, names="film.avi")
    refused("eval", run, "--out", tmp_path / "file" / "report", "--no-lpips", names="report")
