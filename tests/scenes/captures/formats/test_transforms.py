"""transforms.json: variants of the format, and invalid files."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import luxel.scenes as scenes
from luxel.scenes.captures.capture_format import ReadOptions
from luxel.scenes.captures.lenses.lens import pinhole_of
from luxel.scenes.captures.open_capture import read_contents
from luxel.scenes.synthetic.toy import ring_cameras


def test_toy_round_trip(toy: Path) -> None:
    capture = scenes.open(toy)
    assert capture.holdout == "every 8th view by name, beginning with the first"
    assert [view.name for view in capture.test] == ["0000.png", "0008.png"]
    assert len(capture.train) == 14 and capture.format == "transforms.json" and capture.warnings == []
    for view, camera in zip(capture.views, ring_cameras(), strict=True):
        assert torch.allclose(view.camera.world_to_cam, camera.world_to_cam, atol=1e-5)
        assert torch.allclose(view.camera.intrinsics, camera.intrinsics, atol=1e-3)
        pixels = view.read()
        assert np.array_equal(pixels.rgb, np.asarray(Image.open(toy / "images" / view.name)))
        assert pixels.alpha is None and pixels.weight is None
    assert len(capture.points.xyz) == 600 and capture.points.rgb.dtype == np.uint8
    assert capture.up is not None and capture.up[2] > 0.99
    assert np.linalg.norm(capture.centre) < 0.05 and 3.9 < capture.extent < 4.1


def test_up_of_the_file_is_that_of_the_capture(toy: Path, edit_json) -> None:
    by_cameras = scenes.open(toy).up
    assert by_cameras is not None
    edit_json(toy / "transforms.json", lambda document: document.update(up=[2, 0, 0]))
    capture = scenes.open(toy)
    assert capture.up is not None and capture.up.tolist() == [1, 0, 0]
    assert capture.warnings == []
    for none in ("y", [0, 0, 0], [1, 2], [1, 2, None], [float("inf"), 0, 0]):
        edit_json(toy / "transforms.json", lambda document, none=none: document.update(up=none))
        capture = scenes.open(toy)
        assert capture.up is not None and np.array_equal(capture.up, by_cameras)
        assert any('its "up" is no direction' in warning for warning in capture.warnings)


def test_views_are_sorted_naturally(toy: Path, edit_json) -> None:
    def rename(document: dict) -> None:
        for number, frame in enumerate(document["frames"]):
            (toy / frame["file_path"]).rename(toy / "images" / f"v{number}.png")
            frame["file_path"] = f"images/v{number}.png"
        document["frames"].reverse()

    edit_json(toy / "transforms.json", rename)
    assert [view.name for view in scenes.open(toy).views] == [f"v{number}.png" for number in range(16)]


def test_names_without_suffix_and_one_camera_angle(toy: Path, edit_json) -> None:
    def change(document: dict) -> None:
        document["camera_angle_x"] = 0.8
        for frame in document["frames"]:
            for key in ("w", "h", "fl_x", "fl_y", "cx", "cy"):
                del frame[key]
            frame["file_path"] = "./" + frame["file_path"].removesuffix(".png")

    edit_json(toy / "transforms.json", change)
    camera = scenes.open(toy).train[0].camera
    focal = 32 / math.tan(0.4)
    assert torch.allclose(camera.intrinsics, torch.tensor([focal, focal, 32, 24]), atol=1e-3)


def test_blender_split_with_alpha(cutout_toy: Path) -> None:
    document = json.loads((cutout_toy / "transforms.json").read_text())
    frames = document["frames"]
    for part, chosen in (("train", frames[:12]), ("val", frames[12:13]), ("test", frames[13:])):
        own = [{k: f[k] for k in ("file_path", "transform_matrix")} for f in chosen]
        text = json.dumps({"camera_angle_x": 0.8, "frames": own})
        (cutout_toy / f"transforms_{part}.json").write_text(text)
    (cutout_toy / "transforms.json").unlink()
    capture = scenes.open(cutout_toy)
    assert (len(capture.train), len(capture.test)) == (12, 3)
    assert capture.format == "Blender transforms" and "transforms_test.json" in capture.holdout
    assert capture.cutout and capture.background == (1.0, 1.0, 1.0)
    assert capture.up is not None and capture.up.tolist() == [0, 0, 1]
    alpha = capture.test[0].read().alpha
    assert alpha is not None and set(np.unique(alpha)) == {0, 255}


@pytest.mark.parametrize("given", ["train_and_test", "val_only"])
def test_split_by_file_names(toy: Path, edit_json, given: str) -> None:
    def change(document: dict) -> None:
        names = [frame["file_path"] for frame in document["frames"]]
        if given == "train_and_test":
            document.update(train_filenames=names[:9], test_filenames=names[9:12])
        else:
            document.update(val_filenames=names[3:5])

    edit_json(toy / "transforms.json", change)
    capture = scenes.open(toy)
    if given == "train_and_test":
        assert [v.name for v in capture.test] == ["0009.png", "0010.png", "0011.png"]
        assert len(capture.train) == 9 and "test_filenames" in capture.holdout
    else:
        assert [v.name for v in capture.test] == ["0003.png", "0004.png"] and len(capture.train) == 14


def test_lens_and_time_of_each_frame(toy: Path, edit_json) -> None:
    def change(document: dict) -> None:
        for number, frame in enumerate(document["frames"]):
            frame["time"] = number / 15
            frame["fl_x"] = 60 + number
        Image.new("RGB", (80, 60), (9, 9, 9)).save(toy / "images/0003.png")
        document["frames"][3].update(w=80, h=60, cx=40, cy=30)

    edit_json(toy / "transforms.json", change)
    views = scenes.open(toy, masks="none").views
    assert [float(v.camera.intrinsics[0]) for v in views] == [60.0 + n for n in range(16)]
    assert views[15].time == 1.0 and (views[3].camera.width, views[3].camera.height) == (80, 60)
    assert views[3].read().rgb.shape == (60, 80, 3)


def test_resized_copies_of_the_photographs_scale_the_lens(toy: Path) -> None:
    for file in (toy / "images").iterdir():
        Image.open(file).resize((32, 24)).save(file)
    camera = scenes.open(toy).train[0].camera
    assert (camera.width, camera.height) == (32, 24)
    assert torch.allclose(camera.intrinsics, ring_cameras()[0].intrinsics / 2, atol=1e-3)


@pytest.mark.parametrize(
    ("every", "count", "held"), [(8, 3, 0), (8, 4, 1), (8, 9, 2), (0, 16, 0), (3, 16, 6), (1000, 16, 1)]
)
def test_hold_out_rule(toy: Path, edit_json, every: int, count: int, held: int) -> None:
    edit_json(toy / "transforms.json", lambda document: document.update(frames=document["frames"][:count]))
    capture = scenes.open(toy, holdout_every=every)
    assert (len(capture.train), len(capture.test)) == (count - held, held)
    assert capture.holdout


def _frame(index: int, **values: object):
    return lambda document: document["frames"][index].update(values)


def _matrix(index: int, change):
    def apply(document: dict) -> None:
        matrix = np.array(document["frames"][index]["transform_matrix"])
        document["frames"][index]["transform_matrix"] = change(matrix).tolist()

    return apply


def _drop(*keys: str):
    def apply(document: dict) -> None:
        for frame in document["frames"]:
            for key in keys:
                del frame[key]

    return apply


def _scale_row(matrix: np.ndarray) -> np.ndarray:
    matrix[0, :3] *= 3
    return matrix


BAD = {
    "nan matrix": (_matrix(5, lambda m: m * np.nan), "0005.png.*NaN"),
    "singular matrix": (_matrix(5, lambda m: m * np.array([[1], [1], [0], [1]])), "0005.png.*singular"),
    "mirrored matrix": (_matrix(5, lambda m: m * np.array([1, 1, -1, 1])), "0005.png.*mirrors"),
    "sheared matrix": (_matrix(5, _scale_row), "0005.png.*stretched"),
    "matrix of another shape": (_matrix(5, lambda m: m[:2]), "0005.png.*4x4"),
    "words for a matrix": (_frame(5, transform_matrix="identity"), "0005.png.*numbers"),
    "no matrix": (_frame(5, transform_matrix=None), "0005.png.*no transform_matrix"),
    "no intrinsics": (_drop("fl_x", "fl_y"), "0000.png.*no intrinsics.*Add fl_x"),
    "words for a focal length": (_frame(2, fl_x="wide"), "0002.png.*fl_x"),
    "negative focal length": (_frame(2, fl_x=-5.0), "0002.png.*positive"),
    "angle beyond pi": (lambda d: (_drop("fl_x", "fl_y")(d), d.update(camera_angle_x=4.0)), "camera_angle"),
    "absolute path": (_frame(1, file_path="/etc/passwd"), "'/etc/passwd' is outside"),
    "windows path": (_frame(1, file_path="C:\\photos\\a.png"), "is outside"),
    "path that leaves": (_frame(1, file_path="images/../../other/a.png"), "other/a.png' is outside"),
    "mask that leaves": (_frame(1, mask_path="../mask.png"), "mask.png' is outside"),
    "points that leave": (lambda d: d.update(ply_file_path="/tmp/points.ply"), "points.ply' is outside"),
    "no path": (_frame(1, file_path=None), "invalid path None"),
    "missing image": (_frame(1, file_path="images/none.png"), "none.png is missing"),
    "listed twice": (_frame(1, file_path="images/0000.png"), "0000.png.*twice"),
    "size of another image": (_frame(3, w=640, h=640), "0003.png.*64x48.*640x640"),
    "unknown camera": (
        lambda d: d.update(camera_model="SPHERE"),
        "SPHERE is not supported",
    ),
    "no frames": (lambda d: d.update(frames=[]), "must be a list of objects"),
    "two views": (lambda d: d.update(frames=d["frames"][:2]), "2 posed views are too few, at least 3"),
    "folding lens": (lambda d: d.update(camera_model="OPENCV", k1=-9.0), "cannot be inverted"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_transforms(toy: Path, edit_json, case: str) -> None:
    change, message = BAD[case]
    edit_json(toy / "transforms.json", change)
    with pytest.raises(scenes.CaptureError, match=f"(?s){message}") as caught:
        scenes.open(toy)
    assert caught.value.remedy and "\n" not in str(caught.value)


def test_differing_sizes_with_one_lens(toy: Path, edit_json) -> None:
    def change(document: dict) -> None:
        shared = {key: document["frames"][0][key] for key in ("fl_x", "fl_y")}
        _drop("w", "h", "fl_x", "fl_y", "cx", "cy")(document)
        document.update(shared)

    edit_json(toy / "transforms.json", change)
    assert len(scenes.open(toy).views) == 16
    Image.new("RGB", (32, 24)).save(toy / "images/0007.png")
    with pytest.raises(scenes.CaptureError, match=r"0007\.png is 32x24.*0000\.png 64x48.*own fl_x"):
        scenes.open(toy)


def test_truncated_json(toy: Path) -> None:
    file = toy / "transforms.json"
    file.write_bytes(file.read_bytes()[:700])
    with pytest.raises(scenes.CaptureError, match=r"transforms\.json: cannot be read as JSON"):
        scenes.open(toy)


def test_no_known_format(tmp_path: Path) -> None:
    with pytest.raises(scenes.CaptureError, match="no such file"):
        scenes.open(tmp_path / "absent")
    with pytest.raises(
        scenes.CaptureError,
        match=r"transforms\.json: there is no .*COLMAP model: .*photographs: ",
    ):
        scenes.open(tmp_path)
    (tmp_path / "film.mp4").write_bytes(b"0123")
    with pytest.raises(scenes.CaptureError, match=r"film\.mp4: cannot be read as a video"):
        scenes.open(tmp_path / "film.mp4")


def test_fox(shared: Path) -> None:
    contents = read_contents(shared / "captures/fox", ReadOptions())
    lens = contents.images[0].lens
    assert len(contents.images) == 50 and contents.points is None
    assert (lens.fx, lens.distortion) == (687.76, (0.0578421, -0.0805099, -0.000980296, 0.00015575))
    assert 0.95 < pinhole_of(lens).fx / lens.fx < 1.05


def test_chair(shared: Path) -> None:
    contents = read_contents(shared / "captures/chair", ReadOptions())
    assert contents.test_names is not None and len(contents.test_names) == 25 and len(contents.images) == 125
    assert {image.name for image in contents.images} >= {"train/r_0.png", "test/r_0.png"}
    assert abs(contents.images[0].lens.fx - 400 / math.tan(0.5 * 0.6911112070083618)) < 1e-6


def test_hand_has_times(shared: Path) -> None:
    contents = read_contents(shared / "captures/hand", ReadOptions())
    times = [image.time for image in contents.images]
    assert len(times) == 86 and times[0] == 0 and times[-1] == 1 and times == sorted(times)


def test_skull(shared: Path) -> None:
    capture = scenes.open(shared / "captures/skull-tiny", max_size=200)
    assert (len(capture.train), len(capture.test), len(capture.points.xyz)) == (57, 9, 15593)
    assert not capture.cutout and capture.train[0].camera.width == 200


def test_path_of_the_json_file(toy: Path) -> None:
    shutil.move(toy / "transforms.json", toy / "poses.json")
    assert len(scenes.open(toy / "poses.json").views) == 16
