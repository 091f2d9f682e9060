"""Captures with poses_bounds.npy: cameras, resized copies, and files that are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import luxel.scenes as scenes
from luxel.render.geometry.camera import Camera
from luxel.scenes.captures.capture_format import ReadOptions
from luxel.scenes.captures.formats.llff import FILE
from luxel.scenes.captures.open_capture import read_contents
from luxel.scenes.synthetic.toy import ring_cameras

SIZE = (64, 48)


def row(camera: Camera) -> np.ndarray:
    """A camera as LLFF has it: axes down, right, backward, then position, and (height, width, focal length)."""
    pose = camera.cam_to_world.double().numpy()
    right, down, forward = pose[:3, :3].T
    lens = np.array([SIZE[1], SIZE[0], float(camera.intrinsics[0])])
    return np.r_[np.c_[down, right, -forward, pose[:3, 3], lens].ravel(), 1.0, 9.0]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    cameras = ring_cameras(5)
    np.save(tmp_path / FILE, np.stack([row(camera) for camera in cameras]))
    (tmp_path / "images").mkdir()
    for index in range(5):
        Image.new("RGB", SIZE, (10 * index, 0, 0)).save(tmp_path / "images" / f"image{index:03d}.png")
    return tmp_path


@pytest.mark.parametrize("name", ["", FILE])
def test_cameras_are_those_of_the_file(folder: Path, name: str) -> None:
    contents = read_contents(folder / name, ReadOptions())
    assert contents.format == "LLFF" and len(contents.images) == 5
    for source, camera in zip(contents.images, ring_cameras(5), strict=True):
        np.testing.assert_allclose(source.world_to_cam, camera.world_to_cam.double().numpy(), atol=1e-6)
        assert (source.lens.width, source.lens.height) == SIZE and source.lens.cx == 32.0
        assert source.lens.fx == pytest.approx(float(camera.intrinsics[0]), rel=1e-6)


def test_resized_copies_of_the_images_keep_their_field_of_view(folder: Path) -> None:
    before = read_contents(folder, ReadOptions()).images[0].lens
    for file in (folder / "images").iterdir():
        Image.new("RGB", (32, 24)).save(file)
    after = read_contents(folder, ReadOptions()).images[0].lens
    assert after.width == 32 and after.fx == pytest.approx(before.fx / 2)


def refused(folder: Path, match: str) -> None:
    with pytest.raises(scenes.CaptureError, match=match):
        read_contents(folder, ReadOptions())


def test_what_is_wrong_is_said(folder: Path) -> None:
    table = np.load(folder / FILE)
    (folder / "images" / "more.png").write_bytes((folder / "images" / "image000.png").read_bytes())
    refused(folder, "there are 5 poses, but 6 images")
    (folder / "images" / "more.png").unlink()
    np.save(folder / FILE, table[:, :16])
    refused(folder, r"must hold floats \[N, 17\]")
    table[2, 14] = 0.0
    np.save(folder / FILE, table)
    refused(folder, r"image002\.png: 64x48 pixels with a focal length of 0 are no camera")
    data = (folder / FILE).read_bytes()
    (folder / FILE).write_bytes(data[:-100])
    refused(folder, "cut short")
    (folder / FILE).write_bytes(b"poses")
    refused(folder, "cannot be read as a numpy file of poses")
    np.save(folder / FILE, table)
    for file in (folder / "images").iterdir():
        file.unlink()
    (folder / "images").rmdir()
    refused(folder, "there is no such folder")
