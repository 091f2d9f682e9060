"""Neural fields through the command line and the viewer: trained, gone on with, shown, measured, drawn, refused."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from shown import ClientStream, TrainingSession, ViewerApp, draw, find_extent, outputs_of

from luxel.render.errors import LuxelError
from luxel.render.fields.application import Application
from luxel.render.fields.config import defaults
from luxel.render.fields.drawing.field_scene import field_scene
from luxel.render.fields.training.trainer import FieldTrainer
from luxel.render.fields.volume import VolumeField
from luxel.scenes import read_mesh, save_mesh
from luxel.scenes.loading.loaders import open_scene
from luxel.scenes.loading.run_results import load_run_field
from luxel.scenes.synthetic.knot_mesh import ridged_knot
from luxel.viewer.cli import main
from luxel.viewer.commands.train import Train
from luxel.viewer.commands.train_field import BATCH_ON_CPU, TrainField
from luxel.viewer.web.navigate import first_pose
from luxel.viewer.web.opening import open_session
from luxel.viewer.web.panels.training import status_rows
from luxel.viewer.web.shading.shading import DisplaySettings
from luxel.viewer.web.transport.encoders import as_array
from luxel.viewer.web.transport.sinks import FrameInfo

QUICK = ["--device", "cpu", "--batch", "256", "--log2-entries", "10", "--width", "16", "--report-every", "10"]


@pytest.fixture(scope="module")
def image_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image of 24 x 16 pixels, left half red."""
    pixels = np.zeros((16, 24, 3), np.uint8)
    pixels[:, :12, 0] = 255
    path = tmp_path_factory.mktemp("fields") / "photo.png"
    Image.fromarray(pixels).save(path)
    return path


@pytest.fixture(scope="module")
def image_run(image_file: Path) -> Path:
    """A run of its field."""
    folder = image_file.parent / "run"
    assert (
        main(["train", str(image_file), "--field", "image", "--run", str(folder), "--steps", "80", *QUICK])
        == 0
    )
    return folder


def test_a_run_is_trained_measured_and_drawn(
    image_run: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert {"config.json", "metrics.jsonl", "checkpoints", "field.safetensors"} <= {
        path.name for path in image_run.iterdir()
    }
    last = json.loads((image_run / "metrics.jsonl").read_text().splitlines()[-1])
    assert main(["eval", str(image_run), "--device", "cpu", "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["psnr"] == pytest.approx(last["test"]["psnr"]) and scores["psnr"] > 15
    for options, size in (([], (24, 16)), (["--width", "48"], (48, 32)), (["--height", "8"], (12, 8))):
        out = tmp_path / "out.png"
        assert (
            main(["render", str(image_run), "--device", "cpu", "--out", str(out), "--force", *options]) == 0
        )
        assert Image.open(out).size == size
    assert main(["render", str(image_run), "--device", "cpu", "--out", str(out)]) == 2
    assert "out.png: already exists" in capsys.readouterr().err and Image.open(out).size == (12, 8)
    pixels = np.array(Image.open(out)).astype(int)
    assert pixels[4, 2, 0] > pixels[4, 9, 0] + 100


def test_a_run_goes_on(image_run: Path, image_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert (
        main(["train", str(image_file), "--field=image", "--run", str(folder), "--steps", "20", *QUICK]) == 0
    )
    assert main(["train", "--resume", str(folder), "--steps", "80", "--device", "cpu"]) == 0
    lines = [
        [json.loads(x) for x in (f / "metrics.jsonl").read_text().splitlines()] for f in (image_run, folder)
    ]
    assert lines[0][-1]["test"] == lines[1][-1]["test"], "as if it had not stopped"
    steps = [line["step"] for line in lines[1] if "loss" in line]
    assert steps == [10, 20, 30, 40, 50, 60, 70, 80]


def test_volumes_are_trained_and_filmed(tmp_path: Path) -> None:
    grid = np.zeros((8, 8, 8), np.float32)
    grid[2:6, 2:6, 2:6] = 1
    np.save(tmp_path / "cube.npy", grid)
    run = tmp_path / "run"
    words = ["train", str(tmp_path / "cube.npy"), "--field", "volume", "--run", str(run), "--steps", "30"]
    assert main([*words, *QUICK, "--encoding", "dense"]) == 0
    sizes = ["--width", "16", "--height", "12", "--frames", "2"]
    assert main(["render", str(run), "--out", str(tmp_path / "film"), "--device", "cpu", *sizes]) == 0
    images = [np.array(Image.open(path)) for path in sorted((tmp_path / "film").glob("*.png"))]
    assert len(images) == 2 and images[0].shape == (12, 16, 3) and images[0].max() > 20


@pytest.mark.slow
def test_the_made_up_ones_need_no_file(tmp_path: Path) -> None:
    words = ["--run", str(tmp_path / "a"), "--steps", "2", "--max-size", "32"]
    assert main(["train", "landscape", "--field", "image", *words, *QUICK]) == 0
    words = ["--run", str(tmp_path / "b"), "--steps", "2"]
    assert main(["train", "cloud", "--field", "volume", *words, *QUICK]) == 0
    assert load_run_field(tmp_path / "b").kind == "volume"
    words = ["--run", str(tmp_path / "c"), "--steps", "1"]
    assert main(["train", "knot", "--field", "sdf", *words, *QUICK]) == 0
    assert load_run_field(tmp_path / "c").kind == "sdf"


def test_fields_are_drawn_in_sunlight(
    image_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = np.zeros((8, 8, 8), np.float32)
    grid[2:6, 2:6, 2:6] = 1
    np.save(tmp_path / "cube.npy", grid)
    run = tmp_path / "run"
    words = ["train", str(tmp_path / "cube.npy"), "--field", "volume", "--run", str(run), "--steps", "30"]
    assert main([*words, *QUICK, "--encoding", "dense"]) == 0
    sizes = ["--width", "16", "--height", "12", "--frames", "1", "--device", "cpu"]
    images = []
    for name, sun in ("a", ["--sun", "0", "0", "1"]), ("b", ["--sun", "0", "0", "-1"]), ("c", []):
        assert main(["render", str(run), "--out", str(tmp_path / name), *sizes, *sun]) == 0
        images.append(np.array(Image.open(tmp_path / name / "00000.png")).astype(int))
    assert images[2].mean() > images[0].mean() > images[1].mean() > 0
    assert main(["render", str(run), "--out", str(tmp_path / "d"), *sizes, "--sun", "0", "0", "0"]) != 0
    assert "--sun" in capsys.readouterr().err
    field = load_run_field(run)
    assert outputs_of(field) == ("colour", "shadows")
    camera = field.views(12)[0]  # pyright: ignore[reportAttributeAccessIssue]
    plain, sunlit = (draw(None, field, camera, DisplaySettings(output=o))[0] for o in outputs_of(field))
    assert not torch.equal(plain, sunlit)


def test_surfaces_are_exported(image_run: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    grid = np.zeros((12, 8, 8), np.float32)
    grid[3:9, 2:6, 2:6] = 1
    np.save(tmp_path / "cube.npy", grid)
    save_mesh(tmp_path / "knot.ply", ridged_knot(60, 8, ridges=0))
    for name, kind, steps in (("cube.npy", "volume", "1200"), ("knot.ply", "sdf", "80")):
        words = [
            "train",
            str(tmp_path / name),
            "--field",
            kind,
            "--run",
            str(tmp_path / kind),
            "--steps",
            steps,
        ]
        assert main([*words, *QUICK, "--finest", "64"]) == 0
    out = tmp_path / "a.ply"
    words = ["--mesh", "--out", out, "--device", "cpu", "--resolution"]
    assert main(["export", str(tmp_path / "sdf"), *map(str, words), "24"]) == 0
    knot = read_mesh(out)
    assert len(knot.faces) > 500 and np.abs(knot.xyz).max() < 2 and np.ptp(knot.xyz, axis=0).max() > 2
    if find_spec("fast_simplification"):
        fewer = ["--triangles", "800", "--force"]
        assert main(["export", str(tmp_path / "sdf"), *map(str, words), "24", *fewer]) == 0
        assert 400 < len(read_mesh(out).faces) <= 800
    assert main(["export", str(tmp_path / "volume"), *map(str, words), "24", "--force", "--level", "12"]) == 0
    box = read_mesh(out).xyz
    inner = np.quantile(box, [0.05, 0.95], axis=0)
    np.testing.assert_allclose(inner[1] - inner[0], [1 / 3, 1 / 3, 1 / 2], atol=0.1)
    for run, wrong, options in (
        (image_run, "has no surface", ["--mesh", "--force"]),
        (tmp_path / "sdf", "has no density", ["--mesh", "--force", "--level", "3"]),
        (tmp_path / "volume", "above 0", ["--mesh", "--force", "--level", "-1"]),
        (tmp_path / "sdf", "from 8 to 1024", ["--mesh", "--force", "--resolution", "4"]),
        (tmp_path / "sdf", "need --mesh", ["--resolution", "24"]),
        (
            tmp_path / "sdf",
            "--fill-holes is not for a neural field",
            ["--mesh", "--force", "--fill-holes", "1"],
        ),
        (tmp_path / "sdf", "already exists", ["--mesh"]),
    ):
        assert wrong in refused(capfd, "export", run, "--out", out, "--device", "cpu", *options)


def test_options_of_the_kind_and_of_a_run_that_goes_on(image_run: Path) -> None:
    assert issubclass(Train.variant(["photos/"]), Train)
    assert Train.variant(["x", "--field=sdf"]) is TrainField
    assert Train.variant(["--resume", str(image_run)]) is TrainField
    config = TrainField.defaults(["x", "--field", "sdf", "--device", "cpu"]).config
    assert (config.field, config.rate, config.batch) == ("sdf", defaults("sdf").rate, BATCH_ON_CPU)
    assert TrainField.defaults(["--resume", str(image_run)]).config.batch == 256


def test_a_page_begins_around_a_field_whatever_its_number_of_parameters() -> None:
    large = VolumeField(replace(defaults("volume"), log2_entries=15))
    assert large.count > 400_000
    np.testing.assert_allclose(find_extent((), large).centre, [0.5, 0.5, 0.5])


def test_a_finished_field_is_shown(image_run: Path) -> None:
    scene = open_scene(image_run)
    field = scene.parts[Application]
    assert open_scene(image_run / "field.safetensors").count == field.count
    assert outputs_of(field) == ("colour",)
    session = open_session(image_run, torch.device("cpu"))
    assert session.status() == {"count": field.count} and session.times is None
    extent = find_extent(session.views, field, session.up, session.front)
    np.testing.assert_allclose(extent.centre, [0.5, 16 / 24 / 2, 0], atol=1e-6)
    camera = first_pose((), extent).camera(60, 40)
    image, caption = draw(None, field, camera, DisplaySettings(background=(0.0, 0.0, 1.0), splat_scale=2.0))
    assert image.shape == (40, 60, 3) and caption == ""
    assert image[0, 0].tolist() == [0, 0, 255], "the background around the plane"
    assert image[20, 22, 0] > image[20, 38, 0] + 100, "the page begins before its front, upright"
    with pytest.raises(LuxelError, match="no output 'depth'"):
        draw(None, field, camera, DisplaySettings(output="depth"))
    with ViewerApp(session, port=0) as app:
        assert app.url.startswith("http://127.0.0.1")


class Sink:
    """Keeps the images of a page."""

    takes_tensors = False

    def __init__(self) -> None:
        self.images: list[np.ndarray] = []

    def wait(self) -> None:
        """Always ready."""

    def send(self, image: np.ndarray | torch.Tensor, quality: int, info: FrameInfo) -> None:
        """Takes an image."""
        self.images.append(as_array(image))


def orientation_of(field: Application) -> dict[str, np.ndarray]:
    about = field_scene(field).about
    return {"up": np.array(about.up), "front": np.array(about.front)}


def test_a_field_is_shown_while_it_trains(tmp_path: Path, image_file: Path) -> None:
    config = TrainField.defaults(["--field", "image", *QUICK]).config
    config.batch, config.log2_entries, config.width, config.steps = 256, 10, 16, 100_000
    pixels = np.array(Image.open(image_file))
    trainer = FieldTrainer.new(config, pixels, tmp_path, "cpu", say=lambda _: None)
    session = TrainingSession(trainer, name="photo", **orientation_of(trainer.application))
    assert session.primitives is None and session.about.flat and not session.antialiased
    sink, seen = Sink(), []
    stream = ClientStream(session, None, sink, lambda report: None)
    extent = find_extent((), trainer.scene, session.up, session.front)
    pose = first_pose((), extent)
    stream.start()

    def watch(it: FieldTrainer) -> None:
        stream.move(pose)
        if len(sink.images) >= 3 or it.train_seconds > 60:
            it.request_stop()

    result = trainer.run(watch, progress=False)
    stream.stop(5.0)
    seen = sink.images
    assert len(seen) >= 3 and result.reason == "stopped"
    assert not np.array_equal(seen[0], seen[-1])
    rows = dict(status_rows(trainer.status()))
    assert "psnr" in rows and rows["Parameters"] == f"{trainer.application.count:,}" and "Loss" in rows


def refused(capfd: pytest.CaptureFixture[str], *words: object) -> str:
    """What a command that must fail says."""
    capfd.readouterr()
    assert main([str(word) for word in words]) != 0
    out, err = capfd.readouterr()
    assert "Traceback" not in out + err
    complaints = [line for line in err.splitlines() if line.startswith("luxel: ")]
    assert len(complaints) == 1 and not err.endswith(complaints[0] + "\n"), err
    return err


@pytest.mark.parametrize(
    "field, name, content, wrong",
    [
        ("image", "a.png", b"no image", "cannot be read as an image"),
        ("image", "a.png", b"", "empty"),
        ("image", "a.png", None, "no such file"),
        ("image", "a.ply", b"ply", "Did you mean --field sdf"),
        ("volume", "a.png", b"x", "Did you mean --field image"),
        ("sdf", "a.npy", b"x", "Did you mean --field image or volume"),
        ("volume", "a.npy", np.full((2, 2, 2), np.nan), "not finite"),
        ("volume", "a.npy", np.zeros((2, 2, 2)), "no density is above 0"),
        ("volume", "a.npy", np.zeros((2, 2)), "must be"),
        ("volume", "fog", None, "no such file"),
    ],
)
def test_bad_data(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], field: str, name: str, content: Any, wrong: str
) -> None:
    path = tmp_path / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        np.save(path, content)
    said = refused(capfd, "train", path, "--field", field, "--run", tmp_path / "run", "--steps", 2, *QUICK)
    assert wrong in said and name in said
    assert not (tmp_path / "run").exists(), "the refused training left its folder behind"


def test_bad_use_of_runs(
    image_run: Path, image_file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    said = refused(capfd, "train", image_file, "--field", "image", "--run", image_run, *QUICK)
    assert "there is already a run" in said
    said = refused(capfd, "train", "--resume", image_run, "--field", "sdf", "--device", "cpu")
    assert "is a run of a field of 'image'" in said
    assert "is of a different field" in refused(
        capfd, "train", "--resume", image_run, "--width", 32, "--device", "cpu"
    )
    assert "neural field" in refused(capfd, "export", image_run, "--out", tmp_path / "a.ply")
    assert "no format of images" in refused(
        capfd, "render", image_run, "--out", tmp_path / "a.mp4", "--device", "cpu"
    )
    assert "nothing to train on" in refused(capfd, "train", "--field", "image", *QUICK)
    assert "width must be" in refused(
        capfd, "train", image_file, "--field", "image", "--device", "cpu", "--width", 17
    )
    (tmp_path / "config.json").write_text((image_run / "config.json").read_text())
    assert "neither a field.safetensors nor a checkpoint" in refused(
        capfd, "eval", tmp_path, "--device", "cpu"
    )


def test_a_view_of_the_middle_of_a_run(image_run: Path, tmp_path: Path) -> None:
    for name in ("config.json", "checkpoints"):
        (tmp_path / name).symlink_to(image_run / name)
    whole, half = load_run_field(image_run), load_run_field(tmp_path)
    pairs = zip(whole.state_dict().values(), half.state_dict().values(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("option", [("--points", "sweep"), ("--max-gaussians=100",), ("--lens", "keep")])
def test_options_of_primitives_are_refused_by_name(
    option: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", str(tmp_path), "--field", "radiance", *option]) == 2
    name = option[0].split("=")[0]
    assert f"{name}: fields have no such option; it belongs to" in capsys.readouterr().err
