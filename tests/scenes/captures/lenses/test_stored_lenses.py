"""Photographs that keep their lens: what cameras get, which pixels count, and a scene trained on them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from luxel.render.geometry.camera import View
from luxel.render.geometry.lens import (
    FISHEYE,
    LIMIT,
    MODEL,
    RADIAL,
    limit_of_image,
    project_points,
    radial_lens,
)
from luxel.render.metrics.evaluate import evaluate
from luxel.render.primitives.training import Init
from luxel.render.train import TrainConfig, Trainer
from luxel.render.train.config import Checkpoints
from luxel.render.train.densify.fixed import FixedCount
from luxel.scenes import open as open_capture
from luxel.scenes.captures.lenses.lens import Lens, distort_points
from luxel.scenes.captures.lenses.stored_lenses import (
    counted_pixels,
    distorted_camera,
    image_circle,
    lens_row,
)
from luxel.scenes.errors import CaptureError
from luxel.scenes.synthetic.captures.fisheye_capture import fisheye_camera, write_fisheye_capture

SIDE = 96
LENSES = {
    "fisheye": Lens(90, 70, 40.0, 42.0, 44.0, 36.0, (0.03, -0.02, 0.004, -0.0005), fisheye=True),
    "radial": Lens(90, 70, 60.0, 62.0, 44.0, 36.0, (-0.1, 0.02, 0.003, -0.002, 0.001)),
    "pinhole": Lens(90, 70, 60.0, 62.0, 44.0, 36.0),
}


@pytest.fixture(scope="module")
def fisheye_room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture of a fisheye of 180 degrees."""
    return write_fisheye_capture(tmp_path_factory.mktemp("fisheye"), views=12, side=SIDE, points=3000)


@pytest.mark.parametrize("name", LENSES)
def test_a_kept_camera_images_points_as_the_lens_does(name: str) -> None:
    lens = LENSES[name]
    camera = distorted_camera(lens, np.eye(4), "here")
    directions = np.random.default_rng(0).uniform(-0.6, 0.6, (50, 2))
    points = torch.tensor(np.c_[directions, np.ones(50)])
    pixels, _, seen = project_points(camera, points)
    assert seen.all() and (camera.lens is None) == (name == "pinhole")
    np.testing.assert_allclose(pixels.numpy() - 0.5, distort_points(lens, directions), rtol=0, atol=1e-4)


def test_lenses_that_cannot_be_kept_are_refused() -> None:
    lens = LENSES["radial"]
    with pytest.raises(CaptureError, match="camera: images of the camera model EUCM") as refused:
        lens_row(replace(lens, distortion=(0.5, 1.0), model="EUCM"), "camera")
    assert "--lens keep" in str(refused.value)
    with pytest.raises(CaptureError, match="k4 to k6 of FULL_OPENCV"):
        lens_row(replace(lens, distortion=(0.1, 0, 0, 0, 0, 0.01)), "camera")


def test_limits_follow_the_image() -> None:
    row = lens_row(LENSES["fisheye"], "here")
    assert row[MODEL] == FISHEYE and 1.2 < row[LIMIT] < 1.9
    assert lens_row(LENSES["fisheye"], "here", circle=0.8)[LIMIT] == pytest.approx(1.15 * 0.79, rel=0.02)
    assert lens_row(LENSES["radial"], "here")[MODEL] == RADIAL
    assert limit_of_image(radial_lens(), 0.9) == pytest.approx(1.15 * 0.9, rel=1e-3)
    folding = radial_lens((-0.3,))
    assert limit_of_image(folding, 5.0) == pytest.approx(float(folding[LIMIT]))


def test_the_image_circle_is_recognised_and_what_is_outside_does_not_count() -> None:
    lens = Lens(120, 100, 40.0, 40.0, 60.0, 50.0, (0.0,) * 4, fisheye=True)
    y, x = np.mgrid[:100, :120] + 0.5
    distance = np.hypot(x - 60, y - 50) / 40
    lit = np.random.default_rng(1).integers(60, 255, (100, 120, 3)).astype(np.uint8)
    circular = np.where((distance < 1.1)[..., None], lit, np.uint8(3))
    circle = image_circle(lens, [circular, circular // 2])
    assert circle == pytest.approx(1.1, abs=0.03)
    counted = counted_pixels(lens, circle)
    assert counted is not None and not counted[distance > 1.13].any() and counted[distance < 1.06].all()
    assert image_circle(lens, [lit]) is None and image_circle(lens, []) is None
    assert image_circle(lens, [np.zeros_like(lit)]) is None
    assert counted_pixels(lens, None) is None
    folding = replace(lens, distortion=(-0.2, 0.0, 0.0, 0.0))
    beyond = counted_pixels(folding, None)
    assert beyond is not None and 0.3 < beyond.mean() < 0.95


def test_a_capture_is_opened_with_its_lens(fisheye_room: Path, tmp_path: Path) -> None:
    kept = open_capture(fisheye_room, lens="keep", cache_dir=tmp_path)
    view = kept.train[0]
    stored = np.asarray(Image.open(fisheye_room / "images" / Path(view.name).name))
    pixels = view.read()
    assert view.camera.lens is not None and view.camera.lens[MODEL] == FISHEYE
    assert view.camera.lens[LIMIT] == pytest.approx(1.15 * np.pi / 2, rel=0.03)
    assert np.array_equal(pixels.rgb, stored) and pixels.weight is not None
    assert (pixels.weight > 0).mean() == pytest.approx(np.pi / 4, abs=0.03)
    assert not (pixels.weight[stored.max(-1) == 0] > 0).any()
    small = open_capture(fisheye_room, lens="keep", max_size=SIDE // 2, cache_dir=tmp_path).train[0]
    assert small.camera.width == SIDE // 2 and small.read().rgb.shape == (SIDE // 2, SIDE // 2, 3)
    torch.testing.assert_close(small.camera.intrinsics, 0.5 * view.camera.intrinsics)
    assert open_capture(fisheye_room, cache_dir=tmp_path).train[0].camera.lens is None


def test_points_are_triangulated_from_undistorted_photographs(fisheye_room: Path, tmp_path: Path) -> None:
    document = json.loads((fisheye_room / "transforms.json").read_text())
    del document["ply_file_path"]
    images = tmp_path / "images"
    images.symlink_to(fisheye_room / "images")
    (tmp_path / "transforms.json").write_text(json.dumps(document))
    plain = open_capture(tmp_path, cache_dir=tmp_path / "a").points.xyz
    kept = open_capture(tmp_path, lens="keep", cache_dir=tmp_path / "b").points.xyz
    assert abs(len(kept) - len(plain)) < 0.05 * len(plain)  # matching on several threads varies a little
    np.testing.assert_allclose(np.median(kept, 0), np.median(plain, 0), atol=0.15)


def test_wrong_and_idle_choices_are_named(fisheye_room: Path, tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="lens='bend' is invalid"):
        open_capture(fisheye_room, lens="bend")
    document = json.loads((fisheye_room / "transforms.json").read_text())
    document["camera_model"] = "PINHOLE"
    for k in ("k1", "k2", "k3", "k4"):
        del document[k]
    (tmp_path / "images").symlink_to(fisheye_room / "images")
    (tmp_path / "points3D.ply").symlink_to(fisheye_room / "points3D.ply")
    (tmp_path / "transforms.json").write_text(json.dumps(document))
    assert any("lens='keep' has no effect" in w for w in open_capture(tmp_path, lens="keep").warnings)


def test_training_as_it_is_shows_at_least_what_undistortion_shows(fisheye_room: Path, tmp_path: Path) -> None:
    """Both scenes on the same held-out photographs: the fisheye ones, and the undistorted ones.

    A scene is drawn on undistorted photographs as it was trained: by sigma points, or by EWA.
    """
    quick = TrainConfig(
        steps=160,
        strategy=FixedCount(),
        init=Init(sh_degree=1),
        checkpoints=Checkpoints(every=0, minutes=0),
        lpips=False,
        save_renders=0,
    )
    captures = {
        lens: open_capture(fisheye_room, lens=lens, holdout_every=6, cache_dir=tmp_path)
        for lens in ("keep", "undistort")
    }

    def through_sigma_points(view: View) -> View:
        fx, fy, cx, cy = view.camera.intrinsics.tolist()
        corner = np.hypot(max(cx, SIDE - cx) / fx, max(cy, SIDE - cy) / fy)
        row = radial_lens(limit=limit_of_image(radial_lens(), float(corner)))
        return replace(view, camera=replace(view.camera, lens=row))

    scores = {}
    for lens, capture in captures.items():
        say = {"say": lambda _: None, "device": "cpu"}
        trainer = Trainer(quick, capture.train, capture.test, capture.points, tmp_path / lens, **say)
        trainer.run(progress=False)
        straight = captures["undistort"].test
        straight = [through_sigma_points(view) for view in straight] if lens == "keep" else straight
        for name, views in (("fisheye", captures["keep"].test), ("undistorted", straight)):
            scores[lens, name] = evaluate(trainer.scene, views, lpips=False).mean.psnr
    assert scores["keep", "fisheye"] > scores["undistort", "fisheye"] + 1
    assert scores["keep", "undistorted"] > scores["undistort", "undistorted"]


def test_wrong_sizes_of_the_generated_capture_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="views must be at least 3"):
        write_fisheye_capture(tmp_path, views=2)
    camera = fisheye_camera(distorted_camera(LENSES["pinhole"], np.eye(4), "here"), 64)
    edge = torch.tensor([[1.0, 0.0, 1e-9]], dtype=torch.float64)
    assert project_points(camera, edge)[0][0, 0] == pytest.approx(64, abs=1e-3)
