"""COLMAP models: text and binary, every camera model, and damaged files."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import luxel.scenes as scenes
from luxel.scenes.captures.formats.colmap import MODEL_NUMBERS, points_of_text, read_model
from luxel.scenes.synthetic.toy import ring_cameras

PARAMETERS = {
    "SIMPLE_PINHOLE": (60.0, 32.0, 24.0),
    "PINHOLE": (60.0, 61.0, 32.0, 24.0),
    "SIMPLE_RADIAL": (60.0, 32.0, 24.0, 0.01),
    "RADIAL": (60.0, 32.0, 24.0, 0.01, -0.02),
    "OPENCV": (60.0, 61.0, 32.0, 24.0, 0.01, -0.02, 0.001, 0.002),
    "FULL_OPENCV": (60.0, 61.0, 32.0, 24.0, 0.01, -0.02, 0.001, 0.002, 0.003, 0.01, 0.0, 0.0),
    "OPENCV_FISHEYE": (60.0, 61.0, 32.0, 24.0, 0.01, -0.02, 0.001, 0.002),
    "SIMPLE_RADIAL_FISHEYE": (60.0, 32.0, 24.0, 0.01),
    "RADIAL_FISHEYE": (60.0, 32.0, 24.0, 0.01, -0.02),
    "FOV": (60.0, 61.0, 32.0, 24.0, 0.5),
}


def write_capture(folder: Path, model: str = "PINHOLE", *, text: bool = False, count: int = 5) -> Path:
    """A COLMAP capture with two points, written by hand."""
    sparse = folder / "sparse/0"
    sparse.mkdir(parents=True)
    (folder / "images").mkdir()
    names = [f"a {i}.png" for i in range(count)]
    for index, name in enumerate(names):
        Image.new("RGB", (64, 48), (index, 0, 0)).save(folder / "images" / name)
    poses = [(1.0, 0.0, 0.1 * i, 0.0, 0.5 * i, 0.0, 3.0) for i in range(count)]
    points = [((1.0, 2.0, 3.0), (10, 20, 30)), ((-1.0, 0.5, 2.0), (200, 100, 50))]
    values = PARAMETERS[model]
    number = next(i for i, (name, _) in enumerate(MODEL_NUMBERS) if name == model)
    if text:
        numbers = " ".join(map(str, values))
        (sparse / "cameras.txt").write_text(f"# comment\n3 {model} 64 48 {numbers}\n")
        rows = [
            f"{i + 1} {' '.join(map(str, p))} 3 {n}\n\n"
            for i, (p, n) in enumerate(zip(poses, names, strict=True))
        ]
        (sparse / "images.txt").write_text("# comment\n" + "".join(rows))
        rows = [
            f"{i} {x} {y} {z} {r} {g} {b} 0.5 1 0 2 0\n" for i, ((x, y, z), (r, g, b)) in enumerate(points)
        ]
        (sparse / "points3D.txt").write_text("".join(rows))
        return folder
    camera = struct.pack("<QiiQQ", 1, 3, number, 64, 48) + struct.pack(f"<{len(values)}d", *values)
    (sparse / "cameras.bin").write_bytes(camera)
    data = struct.pack("<Q", count)
    for i, (pose, name) in enumerate(zip(poses, names, strict=True)):
        data += (
            struct.pack("<i7di", i + 1, *pose, 3) + name.encode() + b"\0" + struct.pack("<Qddq", 1, 5, 6, -1)
        )
    (sparse / "images.bin").write_bytes(data)
    data = struct.pack("<Q", len(points))
    for i, (xyz, rgb) in enumerate(points):
        data += struct.pack("<Q3d3BdQ4i", i, *xyz, *rgb, 0.5, 2, 1, 0, 2, 0)
    (sparse / "points3D.bin").write_bytes(data)
    return folder


@pytest.mark.parametrize("text", [False, True])
def test_hand_written_model(tmp_path: Path, text: bool) -> None:
    capture = scenes.open(write_capture(tmp_path, text=text))
    assert capture.format == "COLMAP model" and [v.name for v in capture.views] == [
        f"a {i}.png" for i in range(5)
    ]
    assert capture.points.xyz.tolist() == [[1, 2, 3], [-1, 0.5, 2]]
    assert capture.points.rgb.tolist() == [[10, 20, 30], [200, 100, 50]]
    camera = capture.views[2].camera
    assert camera.intrinsics.tolist() == [60, 61, 32, 24]
    turn = 2 * np.arctan(0.2)  # the quaternion (1, 0, 0.2, 0) turns about y by this
    assert np.allclose(camera.world_to_cam[0, :3], [np.cos(turn), 0, np.sin(turn)], atol=1e-6)
    assert camera.world_to_cam[:3, 3].tolist() == [1, 0, 3]
    assert capture.views[2].read().rgb[0, 0].tolist() == [2, 0, 0]


def test_text_and_binary_agree(shared: Path) -> None:
    models = shared / "fixtures/colmap_models"
    text = read_model(models / "colmap_example_model_txt")
    binary = read_model(models / "colmap_example_model_bin")
    assert text.lenses.keys() == binary.lenses.keys() and len(binary.images) == 11
    for key, lens in text.lenses.items():
        assert np.allclose(
            [lens.fx, lens.cx, *lens.distortion], [binary.lenses[key].fx, 1416, *lens.distortion], rtol=1e-5
        )
    poses = {name: pose for name, _, pose in binary.images}
    for name, _, pose in text.images:
        assert np.allclose(pose, poses[name], atol=2e-5), name
    assert len(text.points.xyz) == len(binary.points.xyz) == 7862
    order = [np.lexsort(np.round(m.points.xyz, 3).T) for m in (text, binary)]
    assert np.allclose(text.points.xyz[order[0]].sum(0), binary.points.xyz[order[1]].sum(0), rtol=1e-4)
    assert np.array_equal(np.sort(text.points.rgb.sum(1)), np.sort(binary.points.rgb.sum(1)))


def test_plush(shared: Path) -> None:
    capture = scenes.open(shared / "captures/plush", max_size=128)
    assert (len(capture.train), len(capture.test), len(capture.points.xyz)) == (84, 13, 25784)
    assert (capture.train[0].camera.width, capture.train[0].camera.height) == (128, 96)


@pytest.mark.parametrize("model", PARAMETERS)
def test_camera_models(tmp_path: Path, model: str) -> None:
    capture = scenes.open(write_capture(tmp_path, model))
    view = capture.train[0]
    assert view.read().rgb.shape == (48, 64, 3)
    plain = model in ("SIMPLE_PINHOLE", "PINHOLE")
    assert (view.camera.intrinsics[0] == 60) == plain and 40 < view.camera.intrinsics[0] < 80


def test_unknown_camera_models(tmp_path: Path) -> None:
    folder = write_capture(tmp_path)
    (folder / "sparse/0/cameras.bin").unlink()
    (folder / "sparse/0/images.bin").unlink()
    (folder / "sparse/0/cameras.txt").write_text("3 SPHERE 64 48 60 32 24\n")
    (folder / "sparse/0/images.txt").write_text("1 1 0 0 0 0 0 3 3 a.png\n\n")
    with pytest.raises(
        scenes.CaptureError, match=r"cameras\.txt: camera 3: .*SPHERE is not supported.*undistort"
    ):
        scenes.open(folder)


@pytest.mark.parametrize("file", ["cameras", "images", "points3D"])
def test_truncated_at_any_byte(tmp_path: Path, file: str) -> None:
    path = write_capture(tmp_path) / f"sparse/0/{file}.bin"
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(scenes.CaptureError, match=rf"{file}\.bin.*(cut short|empty)"):
            scenes.open(tmp_path)


@pytest.mark.parametrize("file", ["cameras", "images", "points3D"])
@pytest.mark.parametrize("count", [2**63 - 1, 2**40, 6_000_000])
def test_excessive_counts_are_refused(tmp_path: Path, file: str, count: int) -> None:
    path = write_capture(tmp_path) / f"sparse/0/{file}.bin"
    path.write_bytes(struct.pack("<Q", count) + path.read_bytes()[8:])
    with pytest.raises(scenes.CaptureError, match=rf"{file}\.bin: cut short.*header counts {count} "):
        scenes.open(tmp_path)


@pytest.mark.parametrize(
    ("file", "line", "message"),
    [
        ("cameras", "3 PINHOLE 64 48 60 61 32", "PINHOLE has 4 parameters, not 3"),
        ("cameras", "3 PINHOLE many 48 60 61 32 24", "line 1 is not a valid camera"),
        ("cameras", "3 PINHOLE 64 48 nan 61 32 24", "finite"),
        ("cameras", "4 PINHOLE 64 48 60 61 32 24", "has camera 3, which is not in cameras"),
        ("images", "1 1 0 0 0 0 0 0 3", "line 1 is not a valid image"),
        ("images", "1 0 0 0 0 0 0 0 3 a 0.png\n\n", "is not a valid quaternion"),
        ("images", "1 1 0 0 0 0 inf 0 3 a 0.png\n\n", "not finite"),
        ("images", "1 1 0 0 0 0 0 0 3 ../a.png\n\n", r"'\.\./a\.png' is outside"),
        ("images", "1 1 0 0 0 0 0 0 3 /a.png\n\n", "'/a.png' is outside"),
        ("images", "1 1 0 0 0 0 0 0 3 b.png\n\n", r"b\.png is missing"),
        ("points3D", "1 2 3", "line 1 is not a valid point"),
    ],
)
def test_invalid_text_files(tmp_path: Path, file: str, line: str, message: str) -> None:
    folder = write_capture(tmp_path, text=True)
    (folder / f"sparse/0/{file}.txt").write_text(line)
    with pytest.raises(scenes.CaptureError, match=message):
        scenes.open(folder)


def test_image_of_another_size(tmp_path: Path) -> None:
    folder = write_capture(tmp_path)
    Image.new("RGB", (48, 48)).save(folder / "images/a 3.png")
    with pytest.raises(scenes.CaptureError, match=r"a 3\.png'.*48x48.*64x48"):
        scenes.open(folder)
    Image.new("RGB", (32, 24)).save(folder / "images/a 3.png")
    with pytest.raises(scenes.CaptureError, match=r"a 3\.png' is 32x24.*others of its camera are 64x48"):
        scenes.open(folder)


def test_model_without_its_images_file(tmp_path: Path) -> None:
    folder = write_capture(tmp_path)
    (folder / "sparse/0/images.bin").unlink()
    with pytest.raises(scenes.CaptureError, match=r"sparse/0: .*incomplete: it has cameras\.bin"):
        scenes.open(folder)


def test_largest_of_several_models(tmp_path: Path) -> None:
    small, large = write_capture(tmp_path / "small", count=3), write_capture(tmp_path / "large", count=6)
    shutil.copytree(large / "sparse/0", small / "sparse/1")
    for file in (large / "images").iterdir():
        shutil.copy(file, small / "images")
    assert len(scenes.open(small).views) == 6
    assert len(scenes.open(small / "sparse/0").views) == 3


def test_folder_of_another_tool(tmp_path: Path) -> None:
    folder = write_capture(tmp_path)
    (folder / "colmap").mkdir()
    shutil.move(folder / "sparse", folder / "colmap/sparse")
    assert len(scenes.open(folder).views) == 5


def test_poses_survive_pycolmap(tmp_path: Path) -> None:
    """Models written by pycolmap are read with its poses."""
    pycolmap = pytest.importorskip("pycolmap", reason="pycolmap is not installed: its files were not read")
    model = pycolmap.Reconstruction()
    camera = pycolmap.Camera(
        model="OPENCV", width=64, height=48, params=[60, 61, 32, 24, 0.1, 0.2, 0.01, 0.02]
    )
    camera.camera_id = 7
    model.add_camera_with_trivial_rig(camera)
    expected = ring_cameras(4)
    for i, view in enumerate(expected):
        image = pycolmap.Image(f"{i}.png", np.zeros((0, 2)), 7, i + 1)
        model.add_image_with_trivial_frame(image, pycolmap.Rigid3d(view.world_to_cam.double().numpy()[:3]))
    for folder in ("text", "binary"):
        (tmp_path / folder).mkdir()
    model.write_text(str(tmp_path / "text"))
    model.write_binary(str(tmp_path / "binary"))
    for folder in ("text", "binary"):
        read = read_model(tmp_path / folder)
        assert read.lenses[7].distortion == (0.1, 0.2, 0.01, 0.02) and read.lenses[7].cx == 32
        for name, _, pose in read.images:
            world_to_cam = expected[int(name.removesuffix(".png"))].world_to_cam
            assert torch.allclose(torch.tensor(pose).float(), world_to_cam, atol=1e-5), folder


def test_points_as_text_with_and_without_errors(tmp_path: Path) -> None:
    rows = [
        "# 3D points",
        "1 0.5 -1e2 nan 1 2 3 0.25 4 5",
        "2 1 2 3 -4 255 300 0.5",
        "",
        "7 0.1 0.2 0.3 9 8 7 1.5 1 2 3 4",
    ]
    file = tmp_path / "points3D.txt"
    file.write_text("\n".join(rows))
    for text in (rows[:], [*rows[:2], "2 1 2 3 -4 255 300", *rows[3:]]):
        file.write_text("\n".join(text))
        points, errors = points_of_text(file)
        assert points.xyz.tolist() == [[1, 2, 3], [0.1, 0.2, 0.3]]
        assert points.rgb.tolist() == [[0, 255, 255], [9, 8, 7]]
        assert errors.tolist() == [0.25, 0.5 if text == rows else -1.0, 1.5]
    for wrong in ("3 1 2 3 1 2 0.5 1", "3 1 2 3 1 2", "3 1 2 x 1 2 3 1"):
        file.write_text("\n".join([*rows, wrong]))
        with pytest.raises(scenes.CaptureError, match="line 6 is not a valid point"):
            points_of_text(file)
