"""Synthetic scenes written as D-NeRF data sets: round trips, ground truth and invalid times."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import luxel.scenes as scenes
from luxel.render.geometry.camera import Camera
from luxel.scenes.files.ply import read_vertices
from luxel.scenes.synthetic.captures.dnerf import (
    DEPTH_UNIT,
    CameraSample,
    default_camera_samples,
    hemisphere_camera,
    monocular_camera_samples,
    rig_camera_samples,
    save_dnerf,
)
from luxel.scenes.synthetic.solids.motions import Still
from luxel.scenes.synthetic.solids.solid_scene import Solid, SolidScene, Texture
from luxel.scenes.synthetic.solids.solids import sphere
from luxel.scenes.synthetic.toy import as_bytes
from luxel.scenes.unused import OTHER

SMALL = {"width": 48, "height": 36}


def digest(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(f.relative_to(folder)): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


UNUSED = [
    ("columns of points", OTHER),
    ("validation views", OTHER),
]  # times and solids of points, and the third split


@pytest.fixture(scope="module")
def camera_samples() -> dict[str, list[CameraSample]]:
    return default_camera_samples(6, 2, 3, **SMALL)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory, camera_samples: dict[str, list[CameraSample]]) -> Path:
    return save_dnerf(scenes.dynamic_scene(), tmp_path_factory.mktemp("dnerf"), camera_samples, points=500)


@pytest.fixture
def damaged(written: Path, tmp_path: Path):
    """Changes the training frames of a copy; returns its folder."""

    def change(frames: dict[int, object]) -> Path:
        for file in written.rglob("*"):
            if file.is_file():
                copy = tmp_path / file.relative_to(written)
                copy.parent.mkdir(exist_ok=True)
                copy.write_bytes(file.read_bytes())
        document = json.loads((tmp_path / "transforms_train.json").read_text())
        for index, time in frames.items():
            document["frames"][index]["time"] = time
        (tmp_path / "transforms_train.json").write_text(json.dumps(document))
        return tmp_path

    return change


def test_round_trip(written: Path, camera_samples: dict[str, list[CameraSample]]) -> None:
    capture = scenes.open(written)
    assert capture.format == "Blender transforms" and capture.cutout
    assert [(entry.kind, entry.harm) for entry in capture.unused] == UNUSED and len(capture.warnings) == 2
    assert (len(capture.train), len(capture.test)) == (6, 3) and "transforms_test.json" in capture.holdout
    assert [view.time for view in capture.train] == [0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]
    assert [view.time for view in capture.test] == pytest.approx([1 / 6, 0.5, 5 / 6])
    assert np.linalg.norm(capture.centre) < 1e-5 and capture.extent == pytest.approx(4.0, abs=1e-5)
    scene = scenes.dynamic_scene()
    for part, views in (("train", capture.train), ("test", capture.test)):
        for sample, view in zip(camera_samples[part], views, strict=True):
            assert view.time == sample.time
            assert torch.allclose(view.camera.world_to_cam, sample.camera.world_to_cam, atol=2e-6)
            assert torch.allclose(view.camera.intrinsics, sample.camera.intrinsics, rtol=1e-6)
            expected, pixels = scene.render(sample.camera, sample.time), view.read()
            assert np.array_equal(pixels.rgb, as_bytes(expected.rgb))
            assert pixels.alpha is not None and np.array_equal(pixels.alpha, as_bytes(expected.alpha))


def test_ground_truth_files(written: Path, camera_samples: dict[str, list[CameraSample]]) -> None:
    scene = scenes.dynamic_scene()
    for part in ("train", "val", "test"):
        document = json.loads((written / f"transforms_{part}.json").read_text())
        assert document["solids"] == [solid.name for solid in scene.solids]
        assert document["depth_unit"] == DEPTH_UNIT and 0.69 < document["camera_angle_x"] < 0.692
        for sample, frame in zip(camera_samples[part], document["frames"], strict=True):
            expected = scene.render(sample.camera, sample.time)
            depth, normals, ids = (
                np.asarray(Image.open(written / frame[f"{kind}_path"]))
                for kind in ("depth", "normals", "ids")
            )
            assert (
                depth.dtype == np.uint16
                and np.abs(depth * DEPTH_UNIT - expected.depth).max() <= DEPTH_UNIT / 2
            )
            assert ids.dtype == np.uint8 and np.array_equal(ids, expected.ids)
            seen = ids > 0
            assert np.abs(normals / 127.5 - 1 - expected.normals)[seen].max() <= 0.5 / 127.5 + 1e-6
            assert not normals[~seen].any()


def test_points_have_times_and_ids(written: Path) -> None:
    table = read_vertices(written / "points3D.ply")
    points = scenes.load_points(written / "points3D.ply")
    assert len(table) == len(points.xyz) == 500 and table.dtype["id"] == np.uint8
    times, counts = np.unique(table["time"], return_counts=True)
    assert times == pytest.approx([0, 0.2, 0.4, 0.8, 1.0]) and (counts == 100).all()
    scene = scenes.dynamic_scene()
    for number, solid in enumerate(scene.solids, 1):
        for time in times:
            chosen = (table["id"] == number) & (table["time"] == time)
            if (pose := solid.pose(float(time))) is None:
                assert not chosen.any()
                continue
            away = np.linalg.norm(points.xyz[chosen] - pose[1], axis=1)
            assert (away < solid.bounding_radius(pose[0]) + 1e-5).all()


def test_files_depend_on_the_seed_only(tmp_path: Path) -> None:
    few = default_camera_samples(3, 1, 1, **SMALL)
    first = digest(save_dnerf(scenes.dynamic_scene(4), tmp_path / "a", few, points=100))
    again = digest(save_dnerf(scenes.dynamic_scene(4), tmp_path / "b", few, points=100))
    other = digest(save_dnerf(scenes.dynamic_scene(5), tmp_path / "c", few, points=100))
    assert first == again and len(first) == 5 * 4 + 3 + 1
    assert all(first[name] != other[name] for name in first if name.endswith(("r_000.png", ".ply")))


def test_static_scene(tmp_path: Path) -> None:
    shares: list[float] = []
    save_dnerf(
        scenes.static_scene(),
        tmp_path,
        default_camera_samples(5, 0, 2, static=True, **SMALL),
        ground_truth=False,
        points=50,
        on_progress=shares.append,
    )
    capture = scenes.open(tmp_path)
    assert {view.time for view in capture.views} == {0.0} and len(capture.points.xyz) == 50
    assert not list(tmp_path.rglob("*_depth.png")) and not (tmp_path / "transforms_val.json").exists()
    assert shares[-1] == 1.0 and shares == sorted(shares)


def test_cameras_look_at_the_centre_from_the_upper_hemisphere() -> None:
    camera_samples = default_camera_samples()
    assert [len(camera_samples[part]) for part in ("train", "val", "test")] == [150, 20, 20]
    assert [sample.time for sample in camera_samples["train"]] == pytest.approx(np.arange(150) / 149)
    eyes = np.stack([sample.camera.position.numpy() for group in camera_samples.values() for sample in group])
    assert np.linalg.norm(eyes, axis=1) == pytest.approx(4.0, abs=1e-5)
    assert eyes[:, 2].min() > 0.3 and np.abs(eyes[:150, :2].mean(axis=0)).max() < 0.6
    assert len(np.unique(eyes.round(4), axis=0)) == 190
    camera = camera_samples["test"][0].camera
    assert (camera.width, camera.height) == (400, 400)
    assert float(camera.intrinsics[0]) == pytest.approx(200 / math.tan(0.5 * 0.6911112070083618), rel=1e-6)
    local = camera.world_to_cam @ torch.tensor([0.0, 0, 0, 1])
    assert local[:3].numpy() == pytest.approx([0, 0, 4], abs=1e-5)
    wide = hemisphere_camera(0.0, 0.3, width=200, height=100)
    assert wide.intrinsics.tolist() == pytest.approx([277.78, 277.78, 100, 50], rel=1e-3)


def test_rig_sees_every_time_from_every_camera() -> None:
    rig = rig_camera_samples(4, [0.0, 0.5, 1.0], **SMALL)
    assert [sample.time for sample in rig] == [0.0] * 4 + [0.5] * 4 + [1.0] * 4
    for index, sample in enumerate(rig):
        assert torch.equal(sample.camera.world_to_cam, rig[index % 4].camera.world_to_cam)


BAD_TIMES = {
    "nan": (math.nan, "time must be a finite number, got nan"),
    "infinity": (math.inf, "time must be a finite number, got inf"),
    "a word": ("noon", "time must be a finite number, got 'noon'"),
    "a list": ([0.5], r"time must be a finite number, got \[0.5\]"),
    "a boolean": (True, "time must be a finite number, got True"),
    "an object": ({"t": 1}, "time must be a finite number"),
    "beyond floats": (1e300, "time is too large: 1e[+]300"),
    "beyond doubles": (10**400, "time must be a finite number"),
}


@pytest.mark.parametrize("case", BAD_TIMES)
def test_invalid_times(damaged, case: str) -> None:
    value, message = BAD_TIMES[case]
    with pytest.raises(
        scenes.CaptureError, match=f"transforms_train.json: frame './train/r_002': {message}"
    ) as caught:
        scenes.open(damaged({2: value}))
    assert caught.value.remedy and "\n" not in str(caught.value)


def test_times_of_some_frames_only(damaged) -> None:
    capture = scenes.open(damaged({1: None, 4: None}))
    assert capture.warnings[:-2] == [
        "2 of 9 frames have no time and count as time 0 (the first is ./train/r_001)."
    ]
    assert [view.time for view in capture.train][:3] == [0.0, 0.0, 0.4]


def test_samples_that_the_format_cannot_store(
    tmp_path: Path, camera_samples: dict[str, list[CameraSample]]
) -> None:
    scene = scenes.dynamic_scene()
    camera = camera_samples["train"][0].camera
    shifted = replace(camera, intrinsics=camera.intrinsics + torch.tensor([0, 0, 3.0, 0]))
    with pytest.raises(ValueError, match="centred"):
        save_dnerf(scene, tmp_path, {"train": [CameraSample(shifted)]})
    with pytest.raises(ValueError, match="one field of view"):
        save_dnerf(
            scene,
            tmp_path,
            {"train": [CameraSample(camera), *monocular_camera_samples([0.0], fov_x=0.5, **SMALL)]},
        )
    with pytest.raises(ValueError, match="train, val, test, got extra"):
        save_dnerf(scene, tmp_path, {"extra": []})
    with pytest.raises(ValueError, match=r"in \[0, 1\]"):
        save_dnerf(scene, tmp_path, {"train": [CameraSample(camera, 2.0)]})
    far = SolidScene([Solid("far", sphere(3.0), Texture(0, 0.0), Still((0, 0, 0)))])
    away = Camera.look_at((0, -20, 0), (0, 0, 0), width=16, height=16)
    with pytest.raises(ValueError, match="depths must be below 16"):
        save_dnerf(far, tmp_path, {"train": [CameraSample(away)]})
