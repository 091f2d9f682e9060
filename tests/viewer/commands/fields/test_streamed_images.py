"""Fields of images that stay on disk, through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from luxel.render.errors import LuxelError
from luxel.scenes.files.images.image_files import write_image
from luxel.scenes.synthetic.landscape import landscape
from luxel.viewer.cli import main
from luxel.viewer.scene_loading.field_data import FieldOrigin

QUICK = ["--device", "cpu", "--batch", "256", "--log2-entries", "10", "--width", "16", "--steps", "20"]


def train(data: Path | str, run: Path, *more: str) -> int:
    return main(["train", str(data), "--field", "image", "--run", str(run), *QUICK, *more])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a TIFF file of 90 x 60 pixels."""
    folder = tmp_path_factory.mktemp("streamed")
    write_image(folder / "a.tif", 90, 60, [landscape(90, 60)])
    assert train(folder / "a.tif", folder / "run", "--stream") == 0
    return folder / "run"


def test_scores_are_those_of_the_same_image_in_memory(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert FieldOrigin.of_run(run).stream
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    capsys.readouterr()
    assert main(["eval", str(run), "--device", "cpu", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["psnr"] == pytest.approx(last["test"]["psnr"])
    assert train(run.parent / "a.tif", tmp_path / "whole") == 0
    whole = json.loads((tmp_path / "whole" / "metrics.jsonl").read_text().splitlines()[-1])
    assert whole["test"]["psnr"] == pytest.approx(last["test"]["psnr"], abs=1.0)


def test_png_files_and_the_landscape_are_copied_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Image.fromarray(landscape(90, 60)).save(tmp_path / "a.png")
    for data, more in (tmp_path / "a.png", ()), ("landscape", ("--max-size", "40")):
        folder = tmp_path / f"run{len(more)}"
        assert train(data, folder, "--stream", *more) == 0
        assert "image-rows.npy" in capsys.readouterr().out
        assert np.load(folder / "image-rows.npy").shape == ((40, 40, 3) if more else (60, 90, 3))
        assert main(["train", "--resume", str(folder), "--steps", "25", "--device", "cpu"]) == 0
        out = capsys.readouterr().out
        assert "image-rows.npy" not in out and "25 steps" in out
    words = ["train", str(tmp_path / "a.png"), "--resume", str(tmp_path / "run0"), "--steps", "27"]
    assert main([*words, "--device", "cpu"]) == 0
    assert FieldOrigin.of_run(tmp_path / "run0").stream, "data that were moved are streamed as before"


def test_a_window_is_drawn(run: Path, tmp_path: Path) -> None:
    whole, part, large = (tmp_path / name for name in ("whole.png", "part.tif", "large.png"))
    words = ["render", str(run), "--device", "cpu"]
    assert main([*words, "--out", str(whole)]) == 0
    window = ["--window", "30", "20", "40", "30"]
    assert main([*words, "--out", str(part), *window]) == 0
    assert main([*words, "--out", str(large), *window, "--width", "80"]) == 0
    pixels = np.array(Image.open(whole)).astype(int)
    assert pixels.shape == (60, 90, 3) and np.array(Image.open(large)).shape == (60, 80, 3)
    assert np.abs(np.array(Image.open(part)).astype(int) - pixels[20:50, 30:70]).max() <= 1


@pytest.mark.parametrize("window", [(60, 0, 40, 20), (0, 50, 10, 11), (0, 0, 0, 4)])
def test_windows_beyond_the_image(run: Path, window: tuple[int, ...]) -> None:
    with pytest.raises(LuxelError, match="90x60 pixels"):
        from luxel.viewer.cli import parse

        parse("render", [str(run), "--device", "cpu", "--window", *map(str, window)]).execute()


def test_what_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.tif"
    write_image(path, 90, 60, [landscape(90, 60)])
    np.save(tmp_path / "a.npy", landscape(90, 60))
    for data, more, wrong in (
        (path, ["--stream", "--max-size", "30"], "keeps its size"),
        (path, ["--stream", "--max-megapixels", "0.001"], "more than --max-megapixels"),
        (tmp_path / "a.npy", ["--max-size", "30"], "keep their size"),
        (tmp_path / "a.npy", ["--max-megapixels", "0.001"], "the limit is"),
    ):
        assert train(data, tmp_path / "run", *more) != 0
        assert wrong in capsys.readouterr().err
    assert train(tmp_path / "a.npy", tmp_path / "run", "--max-megapixels", "400") == 0
    words = ["train", "cloud", "--field", "volume", "--stream", "--run", str(tmp_path / "v"), *QUICK]
    assert main(words) != 0 and "--stream" in capsys.readouterr().err
    scene = ["train", "cloud", "--field", "volume", "--run", str(tmp_path / "v"), *QUICK]
    assert main([*scene, "--steps", "2"]) == 0
    assert main(["render", str(tmp_path / "v"), "--device", "cpu", "--window", "0", "0", "1", "1"]) != 0
    assert "no field of an image" in capsys.readouterr().err
