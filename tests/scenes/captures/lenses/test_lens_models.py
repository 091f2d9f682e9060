"""COLMAP's lens models: against pycolmap, and their models read from files and undistorted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pycolmap
import pytest
from PIL import Image

from luxel.render.geometry.camera import Points
from luxel.scenes.captures.capture_format import ReadOptions
from luxel.scenes.captures.contents import SourceImage
from luxel.scenes.captures.formats.colmap import read_model
from luxel.scenes.captures.formats.colmap_writing import save_colmap
from luxel.scenes.captures.lenses.lens import (
    COLMAP_MODELS,
    OTHER_MODELS,
    Lens,
    distort_points,
    pinhole_of,
    undistort_points,
)
from luxel.scenes.captures.lenses.lens_models import EQUIRECTANGULAR, OPENCV_K4
from luxel.scenes.captures.lenses.undistortion import undistortion_maps
from luxel.scenes.captures.open_capture import read_contents
from luxel.scenes.errors import CaptureError

SIZE = (160, 120)
SHAPE = {1: [110.0, 81.0, 58.5], 2: [110.0, 112.0, 81.0, 58.5]}
# Parameters after the principal point.
MODELS: dict[str, tuple[int, list[float]]] = {
    "SIMPLE_PINHOLE": (1, []),
    "PINHOLE": (2, []),
    "SIMPLE_RADIAL": (1, [0.05]),
    "RADIAL": (1, [0.05, -0.03]),
    "OPENCV": (2, [0.05, -0.03, 0.002, -0.001]),
    "FULL_OPENCV": (2, [0.05, -0.03, 0.002, -0.001, 0.01, 0.02, 0.01, 0.001]),
    "OPENCV_FISHEYE": (2, [0.03, -0.01, 0.002, 0.001]),
    "FOV": (2, [0.7]),
    "SIMPLE_RADIAL_FISHEYE": (1, [0.03]),
    "RADIAL_FISHEYE": (1, [0.03, -0.01]),
    "THIN_PRISM_FISHEYE": (2, [0.03, -0.01, 0.002, -0.001, 0.003, 0.001, 0.002, -0.003]),
    "RAD_TAN_THIN_PRISM_FISHEYE": (
        2,
        [0.03, -0.01, 0.004, 0.002, 0.001, -0.001, 0.002, -0.001, 0.003, 0.001, -0.002, 0.001],
    ),
    "SIMPLE_DIVISION": (1, [-0.08]),
    "DIVISION": (2, [-0.08]),
    "SIMPLE_FISHEYE": (1, []),
    "FISHEYE": (2, []),
    "EUCM": (2, [0.6, 1.1]),
}


def camera_of(name: str) -> pycolmap.Camera:
    focals, rest = MODELS[name]
    return pycolmap.Camera(
        model=name, width=SIZE[0], height=SIZE[1], params=SHAPE[focals] + rest, camera_id=1
    )


def model_of(folder: Path, cameras: list[pycolmap.Camera], text: bool) -> None:
    """Writes a model of pycolmap: two images of each camera, and of a frame of a rig of all of them."""
    model = pycolmap.Reconstruction()
    for number, camera in enumerate(cameras, start=1):
        camera.camera_id = number
        model.add_camera_with_trivial_rig(camera)
        for row in range(2):
            image = pycolmap.Image(f"{number}-{row}.png", np.zeros((0, 2)), number, 2 * number + row)
            pose = pycolmap.Rigid3d(np.c_[np.eye(3), [0.1 * number, 0.5 * row, 3.0]])
            model.add_image_with_trivial_frame(image, pose)
    (model.write_text if text else model.write_binary)(str(folder))


def test_every_model_of_colmap_is_read() -> None:
    known = {name for name in pycolmap.CameraModelId.__members__ if name != "INVALID"}
    assert known == set(MODELS) | {EQUIRECTANGULAR}
    assert set(MODELS) == set(COLMAP_MODELS) | set(OTHER_MODELS)


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_directions_are_imaged_where_colmap_images_them(tmp_path: Path, name: str, text: bool) -> None:
    camera = camera_of(name)
    model_of(tmp_path, [camera], text)
    lens = read_model(tmp_path).lenses[1]
    directions = np.random.default_rng(0).uniform(-0.6, 0.6, (200, 2))
    directions[0] = 0.0
    expected = camera.img_from_cam(np.c_[directions, np.ones(200)])
    pixels = distort_points(lens, directions)
    assert np.abs(pixels + 0.5 - expected).max() < 1e-6
    assert np.abs(undistort_points(lens, pixels) - directions).max() < 1e-6
    back = camera.cam_from_img(expected)[:, :2]
    assert np.abs(undistort_points(lens, expected - 0.5) - back).max() < 1e-5


def test_a_straight_lens_is_the_limit_of_fov() -> None:
    directions = np.random.default_rng(0).uniform(-0.6, 0.6, (50, 2))
    lenses = [Lens(*SIZE, 110, 112, 81, 58.5, (omega,), model="FOV") for omega in (0.99e-4, 1.01e-4)]
    first, second = (distort_points(lens, directions) for lens in lenses)
    assert np.abs(first - second).max() < 1e-5


@pytest.mark.parametrize("name", OTHER_MODELS)
def test_undistorted_views_and_written_models(tmp_path: Path, name: str) -> None:
    model_of(tmp_path, [camera_of(name)], text=False)
    lens = read_model(tmp_path).lenses[1]
    straight = pinhole_of(lens)
    assert not straight.distorted and straight.fx > 50
    images = [SourceImage("1.png", tmp_path / "1.png", lens, np.eye(4))]
    save_colmap(tmp_path / "out", images, Points(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.uint8)))
    assert read_model(tmp_path / "out").lenses[1] == lens
    again = pycolmap.Reconstruction(str(tmp_path / "out"))
    assert again.cameras[1].model.name == name.replace("SIMPLE_DIVISION", "DIVISION")


def test_cameras_of_different_sizes_and_rigs(tmp_path: Path) -> None:
    cameras = [camera_of("OPENCV"), camera_of("FOV")]
    cameras[1].width, cameras[1].height = 200, 110
    folder = tmp_path / "sparse" / "0"
    folder.mkdir(parents=True)
    model_of(folder, cameras, text=False)
    assert (folder / "rigs.bin").is_file() and (folder / "frames.bin").is_file()
    (tmp_path / "images").mkdir()
    for number, camera in enumerate(cameras, start=1):
        for row in range(2):
            size = (camera.width, camera.height)
            Image.new("RGB", size).save(tmp_path / "images" / f"{number}-{row}.png")
    contents = read_contents(tmp_path, ReadOptions())
    by_name = {source.name: source for source in contents.images}
    assert {(s.lens.width, s.lens.height) for s in contents.images} == {SIZE, (200, 110)}
    assert np.allclose(by_name["2-1.png"].world_to_cam[:3, 3], [0.2, 0.5, 3.0])


def test_poses_of_a_rig_are_those_of_its_images(tmp_path: Path) -> None:
    """A frame has one pose; images.bin holds that of each camera."""
    options = pycolmap.SyntheticDatasetOptions()
    options.num_rigs, options.num_cameras_per_rig, options.num_frames_per_rig = 1, 2, 4
    options.num_points3D = 20
    model = pycolmap.synthesize_dataset(options)
    model.write_binary(str(tmp_path))
    read = read_model(tmp_path)
    assert len(read.images) == 8 and len(read.points.xyz) == 20
    expected = {image.name: image.cam_from_world().matrix() for image in model.images.values()}
    for name, _, world_to_cam in read.images:
        assert np.allclose(world_to_cam[:3], expected[name], atol=1e-9)


def test_values_that_image_nothing_are_refused() -> None:
    lens = Lens(*SIZE, 110, 112, 81, 58.5, (40.0,), model="DIVISION")
    with pytest.raises(CaptureError, match="cannot be inverted"):
        pinhole_of(lens, "camera 1")
    with pytest.raises(ValueError, match="must not be equirectangular"):
        pinhole_of(Lens.equirectangular(200, 100, "camera 1"))


@pytest.mark.parametrize("name", ["OPENCV_FISHEYE", "RAD_TAN_THIN_PRISM_FISHEYE", "EUCM"])
def test_images_of_180_degrees_are_cropped(name: str) -> None:
    values = {"OPENCV_FISHEYE": (0.0,) * 4, "EUCM": (0.62, 1.0)}.get(name, (0.0,) * 12)
    focal = 400 / np.pi if name != "EUCM" else 110.0
    model = "" if name == "OPENCV_FISHEYE" else name
    lens = Lens(400, 400, focal, focal, 200.0, 200.0, values, name == "OPENCV_FISHEYE", model)
    straight = pinhole_of(lens)
    half = np.degrees(np.arctan(0.5 * 400 / straight.fx))
    assert 55 < half < 61 and straight.cx == pytest.approx(200, abs=1)
    across, down, known = undistortion_maps(lens)
    assert known is None or known.mean() > 0.95
    corner = np.array([across[0, 0], down[0, 0]]) + 0.5
    ray = np.array([(0.5 - straight.cx) / straight.fx, (0.5 - straight.cy) / straight.fy])
    assert np.abs(distort_points(lens, ray[None])[0] + 0.5 - corner).max() < 1e-3


def test_a_lens_that_colmap_has_not_is_not_written(tmp_path: Path) -> None:
    lens = Lens(*SIZE, 110, 112, 81, 58.5, (0.1, 0.0, 0.0, 0.2, 0.0, 0.0), model=OPENCV_K4)
    images = [SourceImage("1.png", tmp_path / "1.png", lens, np.eye(4))]
    points = Points(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.uint8))
    with pytest.raises(CaptureError, match="COLMAP has no camera model with the coefficient k4"):
        save_colmap(tmp_path / "out", images, points)
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").glob("*.bin"))
