"""JSON files of other programs: what they are is said, and what to do with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ray_cast_capture import ring, transforms_capture

from luxel import scenes

POSE = np.eye(4).tolist()
CAMERA = {"projection_type": "brown", "width": 96, "height": 72, "focal_x": 0.8, "k1": 0.0}
# The document, what it is, and what to do.
FILES: dict[str, tuple[Any, str, str]] = {
    "OpenSfM": (
        [{"cameras": {"v2": CAMERA}, "points": {}, "reference_lla": {"latitude": 0.0}}],
        "OpenSfM or OpenDroneMap",
        "opensfm export_colmap",
    ),
    "OpenDroneMap with more keys": (
        [{"cameras": {}, "points": {}, "biases": {}, "rig_cameras": {}}] * 2,
        "OpenSfM or OpenDroneMap",
        "ns-process-data odm",
    ),
    "lenses of OpenDroneMap": ({"v2 dji": CAMERA, "v3": CAMERA}, "no poses", "ns-process-data odm"),
    "openMVG": (
        {"sfm_data_version": "0.3", "root_path": "images", "views": [], "intrinsics": [], "extrinsics": []},
        "openMVG",
        "openMVG_main_openMVG2Colmap",
    ),
    "Meshroom": (
        {"version": ["1", "2", "0"], "views": [], "intrinsics": [], "poses": []},
        "Meshroom",
        "aliceVision_exportColmap",
    ),
    "HyperNeRF": (
        {"count": 2, "num_exemplars": 2, "ids": ["0", "1"], "train_ids": ["0"], "val_ids": ["1"]},
        "Nerfies or HyperNeRF capture",
        "in the folder camera",
    ),
    "camera of Nerfies": (
        {"orientation": POSE, "position": [0, 0, 0], "focal_length": 900, "principal_point": [1, 1]},
        "a camera of a Nerfies",
        "transforms.json",
    ),
    "SDFStudio": (
        {"camera_model": "OPENCV", "frames": [{"rgb_path": "a.png", "camtoworld": POSE, "intrinsics": POSE}]},
        "SDFStudio",
        "camtoworld with its second and third column negated",
    ),
    "Record3D": (
        {"w": 96, "h": 72, "K": [1] * 9, "fps": 30, "poses": [[0] * 7]},
        "Record3D",
        "ns-process-data record3d",
    ),
    "Polycam": ({"alignmentTransform": [0] * 16}, "Polycam", "give luxel the folder of that export"),
    "camera of Polycam": (
        {"fx": 1, "fy": 1, "cx": 1, "cy": 1, "t_00": 1, "t_01": 0, "t_11": 1},
        "a raw export of Polycam",
        "Give luxel the folder of the export",
    ),
    "cameras of a trained scene": (
        [{"id": 0, "img_name": "a", "width": 9, "position": [0, 0, 0], "rotation": POSE, "fx": 1}],
        "trained scene",
        "the capture that the scene was trained on",
    ),
    "Panoptic Studio": ({"cameras": [{"name": "a", "K": POSE, "R": POSE, "t": [0]}]}, "Panoptic", "K, R, t"),
    "camera path": (
        {"camera_path": [], "render_width": 9, "fps": 24},
        "a camera path",
        "luxel render --path",
    ),
    "nerfstudio's training": ({"transform": POSE, "scale": 0.5}, "nerfstudio", "transforms.json"),
    "unknown object": ({"version": 2, "items": []}, "its keys are version, items", "folder of the capture"),
    "empty object": ({}, "its keys are none", "folder of the capture"),
    "unknown list": ([1, 2, 3], "a list instead", "folder of the capture"),
    "empty list": ([], "a list instead", "folder of the capture"),
    "text": ("frames", "a value instead", "folder of the capture"),
    "number": (3, "a value instead", "folder of the capture"),
    "nothing": (None, "a value instead", "folder of the capture"),
}


@pytest.mark.parametrize("case", FILES)
@pytest.mark.parametrize("name", ["capture.json", "transforms.json", "transforms_train.json", "folder"])
def test_what_a_file_is_and_what_to_do_is_said(case: str, name: str, tmp_path: Path) -> None:
    document, what, remedy = FILES[case]
    file = tmp_path / ("transforms.json" if name == "folder" else name)
    file.write_text(json.dumps(document))
    with pytest.raises(scenes.CaptureError) as caught:
        scenes.open(tmp_path if name == "folder" else file)
    assert what in str(caught.value) and remedy in str(caught.value.remedy)
    assert str(file) in str(caught.value) and "no transforms.json" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1 and "xport the file again" not in str(caught.value)


def test_long_keys_are_cut(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text(json.dumps({f"{row}" * 500: 0 for row in range(1, 9)}))
    with pytest.raises(scenes.CaptureError) as caught:
        scenes.open(file)
    assert len(str(caught.value)) < len(str(file)) + 700


def test_frames_that_are_none_are_named(tmp_path: Path) -> None:
    for frames in ([], {}, "a", [1], None):
        file = tmp_path / "a.json"
        file.write_text(json.dumps({"frames": frames}))
        with pytest.raises(scenes.CaptureError, match='"frames" must be a list of objects'):
            scenes.open(file)


@pytest.mark.parametrize("keys", [{"transform": POSE, "scale": 1.0}, {"views": 8, "version": 1}, {"K": POSE}])
def test_a_transforms_json_with_some_of_their_keys_is_one(keys: dict[str, Any], tmp_path: Path) -> None:
    capture = scenes.open(transforms_capture(tmp_path, **keys))
    assert len(capture.views) == 8 == len(ring())
