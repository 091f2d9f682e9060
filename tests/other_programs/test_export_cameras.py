"""Cameras that luxel exports open in COLMAP and nerfstudio: the names of images are relative to images/."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from ray_cast_capture import colmap_capture, ring, transforms_capture

from luxel.scenes import open as open_capture
from luxel.scenes.captures.contents import SourceImage
from luxel.scenes.captures.formats.colmap import image_names
from luxel.scenes.captures.formats.colmap_writing import names_beside_images
from luxel.scenes.captures.lenses.lens import Lens
from luxel.viewer.cli import main

LENS = Lens(48, 36, 44.0, 44.0, 24.0, 18.0)


def names(*given: tuple[str, str], relative: bool = False) -> list[str]:
    """The names in a model of images with names in their capture and file names."""
    images = [SourceImage(name, Path("/capture") / file, LENS, np.eye(4)) for name, file in given]
    renamed = names_beside_images(images, relative=relative)
    return [renamed[name] for name, _ in given]


def same(*given: str, relative: bool = False) -> list[str]:
    return names(*((name, name) for name in given), relative=relative)


def test_names_are_those_below_images() -> None:
    assert same("images/0.png", "images/1.png") == ["0.png", "1.png"]
    assert same("images/left/0.png", "images/right/0.png") == ["left/0.png", "right/0.png"]
    assert same("images/left/0.png", "images/left/1.png") == ["left/0.png", "left/1.png"]
    assert same("scan/images/0.png", "scan/images/1.png") == ["0.png", "1.png"]
    assert same("rgb/0.png", "rgb/1.png") == ["0.png", "1.png"]
    assert same("train/0.png", "test/0.png") == ["train/0.png", "test/0.png"]
    assert same("0.png", "1.png") == ["0.png", "1.png"]
    assert same("images/images/0.png", "images/images/1.png") == ["images/0.png", "images/1.png"]


def test_names_of_colmap_stay() -> None:
    assert same("left/0.png", "left/1.png", relative=True) == ["left/0.png", "left/1.png"]
    assert same("0.png", "1.png", relative=True) == ["0.png", "1.png"]


def test_names_have_the_suffix_of_the_file() -> None:
    blender = names(("train/r_0", "train/r_0.png"), ("test/r.1", "test/r.1.png"))
    assert blender == ["train/r_0.png", "test/r.1.png"]


@pytest.fixture(scope="module", params=["transforms", "colmap", "folders"])
def trained(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, Path]]:
    """A capture and a run on it."""
    folder = tmp_path_factory.mktemp("cameras")
    if request.param == "colmap":
        capture = colmap_capture(folder / "capture")
    else:
        capture = transforms_capture(folder / "capture")
    if request.param == "folders":
        document = json.loads((capture / "transforms.json").read_text())
        for row, frame in enumerate(document["frames"]):
            new = f"images/{('left', 'right')[row % 2]}/{row}.png"
            (capture / new).parent.mkdir(exist_ok=True)
            (capture / frame["file_path"]).rename(capture / new)
            frame["file_path"] = new
        (capture / "transforms.json").write_text(json.dumps(document))
    arguments = ["train", str(capture), "--run", str(folder / "run"), "--steps", "2", "--device", "cpu"]
    assert main(arguments) == 0
    yield capture, folder / "run"


def test_an_export_beside_images_is_the_same_capture(trained: tuple[Path, Path], tmp_path: Path) -> None:
    """Every image of the model is a file below images/, and the poses come back."""
    capture, run = trained
    shutil.copytree(capture / "images", tmp_path / "images")
    assert main(["export", str(run), "--out", str(tmp_path / "sparse/0"), "--cameras"]) == 0
    written = image_names(tmp_path / "sparse/0")
    assert len(written) == 8 and all((tmp_path / "images" / name).is_file() for name in written)
    again, before = open_capture(tmp_path), open_capture(capture)
    assert again.format == "COLMAP model"
    for new, old in zip(again.views, before.views, strict=True):
        np.testing.assert_allclose(new.camera.world_to_cam, old.camera.world_to_cam, atol=1e-6)
        assert new.read().rgb.shape == old.read().rgb.shape and (new.read().rgb == old.read().rgb).all()
    poses = {
        name: view.camera.cam_to_world.double().numpy()
        for name, view in zip(sorted(written), again.views, strict=True)
    }
    if (tmp_path / "images/0000.png").exists():
        np.testing.assert_allclose(np.stack(list(poses.values())), np.stack(ring(8)), atol=1e-5)
    np.testing.assert_allclose(again.points.xyz, before.points.xyz, atol=1e-6)
