"""COLMAP models that luxel writes, read again by luxel and by COLMAP."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from luxel.render.geometry.camera import Points
from luxel.scenes import CaptureError
from luxel.scenes.captures.contents import SourceImage
from luxel.scenes.captures.formats.colmap import read_model
from luxel.scenes.captures.formats.colmap_writing import save_colmap
from luxel.scenes.captures.lenses.lens import Lens

LENSES = [
    Lens(64, 48, 60.25, 61.5, 32.0, 24.125),
    Lens(64, 48, 60.0, 61.0, 32.0, 24.0, (0.01, -0.02)),
    Lens(64, 48, 60.0, 61.0, 32.0, 24.0, (0.01, -0.02, 0.001, 0.002)),
    Lens(800, 600, 500.0, 500.0, 400.5, 300.0, (0.1, 0.2, 0.0, 0.0, 0.3, 0.01, 0.02, 0.03)),
    Lens(800, 600, 500.0, 500.0, 400.5, 300.0, (0.1, 0.0, 0.0, 0.0, 0.3)),
    Lens(640, 480, 300.0, 301.0, 320.0, 240.0, (0.01, 0.0, 0.002, 0.0), True),
]
MODELS = ["PINHOLE", "OPENCV", "OPENCV", "FULL_OPENCV", "FULL_OPENCV", "OPENCV_FISHEYE"]


def images(count: int = 12) -> list[SourceImage]:
    """Every lens, poses of all kinds, names that sort otherwise as text."""
    random = np.random.default_rng(4)
    out = []
    for index in range(count):
        rotation, _ = np.linalg.qr(random.normal(size=(3, 3)))
        pose = np.eye(4)
        pose[:3, :3] = rotation * np.sign(np.linalg.det(rotation))
        pose[:3, 3] = random.normal(size=3) * 10.0 ** random.integers(-3, 4)
        name = f"folder/bild ä{index}.png"
        out.append(SourceImage(name, Path("images") / name, LENSES[index % len(LENSES)], pose))
    return out


def points(count: int = 5) -> Points:
    random = np.random.default_rng(5)
    return Points(
        random.normal(size=(count, 3)).astype(np.float32), random.integers(0, 256, (count, 3), np.uint8)
    )


def test_a_model_is_read_back(tmp_path: Path) -> None:
    source = images()
    written = save_colmap(tmp_path / "sparse/0", source[::-1], points())
    assert [path.name for path in written] == ["cameras.bin", "images.bin", "points3D.bin"]
    model = read_model(tmp_path / "sparse/0")
    assert [name for name, _, _ in model.images] == [image.name for image in source]
    assert len(model.lenses) == len(LENSES)
    for image, (_, camera, pose) in zip(source, model.images, strict=True):
        assert model.lenses[camera] == image.lens
        np.testing.assert_allclose(pose[:3, :3], image.world_to_cam[:3, :3], atol=1e-15, rtol=0)
        np.testing.assert_array_equal(pose[:3, 3], image.world_to_cam[:3, 3])
    np.testing.assert_array_equal(model.points.xyz, points().xyz)
    np.testing.assert_array_equal(model.points.rgb, points().rgb)


def test_colmap_reads_a_model(tmp_path: Path) -> None:
    import pycolmap

    source = images()
    save_colmap(tmp_path, source, points())
    model = pycolmap.Reconstruction(str(tmp_path))
    by_name = {image.name: image for image in model.images.values()}
    assert set(by_name) == {image.name for image in source} and len(model.points3D) == 5
    for image, expected in zip(source, [MODELS[i % len(MODELS)] for i in range(len(source))], strict=True):
        known = by_name[image.name]
        camera = model.cameras[known.camera_id]
        assert camera.model.name == expected
        assert (camera.width, camera.height) == (image.lens.width, image.lens.height)
        assert list(camera.params[:4]) == [image.lens.fx, image.lens.fy, image.lens.cx, image.lens.cy]
        pose = known.cam_from_world()
        np.testing.assert_allclose(pose.matrix(), image.world_to_cam[:3], atol=1e-12, rtol=0)
    xyz = np.array([model.points3D[number].xyz for number in sorted(model.points3D)])
    np.testing.assert_array_equal(xyz.astype(np.float32), points().xyz)


def test_a_model_without_points(tmp_path: Path) -> None:
    save_colmap(tmp_path, images(1), points(0))
    assert len(read_model(tmp_path).points.xyz) == 0


def test_a_model_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CaptureError, match=r"cameras\.bin: the file cannot be written"):
        save_colmap(tmp_path / "file/sparse", images(1), points(1))
