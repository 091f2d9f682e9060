"""transforms.json as nerfstudio, instant-ngp, ScanNet++ and people write it."""

from __future__ import annotations

import json
import shutil
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from ray_cast_capture import (
    FOCAL,
    HEIGHT,
    OPENGL,
    WIDTH,
    pinhole_rays,
    ring,
    transforms,
    transforms_capture,
    write_images,
    write_ply_points,
)

from luxel import scenes
from luxel.scenes.captures.capture_format import ReadOptions
from luxel.scenes.captures.lenses.lens import distort_points
from luxel.scenes.captures.open_capture import read_contents
from luxel.scenes.unused import LOST, OTHER, WRONG

Plane = tuple[np.ndarray, np.ndarray]
Document = dict[str, Any]


def edited(folder: Path, change: Callable[[Document], None], name: str = "transforms.json") -> Path:
    """The capture after a change of its JSON."""
    document = json.loads((folder / name).read_text())
    change(document)
    (folder / name).write_text(json.dumps(document))
    return folder


def of_frames(**keys: Any) -> Callable[[Document], None]:
    """Adds keys to every frame."""

    def change(document: Document) -> None:
        for frame in document["frames"]:
            frame.update(keys)

    return change


def assert_ring(capture: scenes.Capture, rows: list[int] | None = None, count: int = 8) -> None:
    """The views are those of the ring of cameras, or of some of its cameras."""
    rows = list(range(count)) if rows is None else rows
    assert len(capture.views) == len(rows)
    for view, row in zip(capture.views, rows, strict=True):
        expected = np.linalg.inv(ring(count)[row])
        np.testing.assert_allclose(view.camera.world_to_cam.double().numpy(), expected, atol=2e-6)


def warned(folder: Path) -> list[str]:
    return scenes.open(folder).warnings


def save_mask(file: Path, row: int) -> None:
    """A mask without the first row + 1 columns."""
    mask = np.full((HEIGHT, WIDTH), 255, np.uint8)
    mask[:, : row + 1] = 0
    Image.fromarray(mask).save(file)


def masks_of(capture: scenes.Capture) -> list[int]:
    """The row by which `save_mask` made the mask of each view; -1: there is no mask."""
    weights = [view.read().weight for view in capture.views]
    return [-1 if w is None else int((w[0] == 0).sum()) - 1 for w in weights]


# Lenses


def planar(k1=0.0, k2=0.0, k3=0.0, k4=0.0, p1=0.0, p2=0.0) -> Callable[[np.ndarray, np.ndarray], Plane]:
    """nerfstudio's distortion: a polynomial of r^2 with four coefficients, and two tangential ones."""

    def image(x: np.ndarray, y: np.ndarray) -> Plane:
        r = x**2 + y**2
        d = 1 + k1 * r + k2 * r**2 + k3 * r**3 + k4 * r**4
        return x * d + 2 * p1 * x * y + p2 * (r + 2 * x**2), y * d + 2 * p2 * x * y + p1 * (r + 2 * y**2)

    return image


def rational(k1: float, k4: float) -> Callable[[np.ndarray, np.ndarray], Plane]:
    """OpenCV's: k4 is of the denominator."""

    def image(x: np.ndarray, y: np.ndarray) -> Plane:
        r = x**2 + y**2
        return x * (1 + k1 * r) / (1 + k4 * r), y * (1 + k1 * r) / (1 + k4 * r)

    return image


def fisheye(**coefficients: float) -> Callable[[np.ndarray, np.ndarray], Plane]:
    """The same polynomial of the angle to the axis."""

    def image(x: np.ndarray, y: np.ndarray) -> Plane:
        r = np.hypot(x, y)
        share = np.divide(np.arctan(r), r, out=np.ones_like(r), where=r > 1e-9)
        return planar(**coefficients)(x * share, y * share)

    return image


def fisheye624(k0: float, p0: float, p1: float, s0: float) -> Callable[[np.ndarray, np.ndarray], Plane]:
    """Project Aria's: radial, then tangential and thin prism terms of what that gives."""

    def image(x: np.ndarray, y: np.ndarray) -> Plane:
        r = np.hypot(x, y)
        theta = np.arctan(r)
        share = np.divide(theta, r, out=np.ones_like(r), where=r > 1e-9) * (1 + k0 * theta**2)
        u, v = x * share, y * share
        q = u**2 + v**2
        return u + p0 * (2 * u**2 + q) + 2 * p1 * u * v + s0 * q, v + p1 * (2 * v**2 + q) + 2 * p0 * u * v

    return image


LENSES: dict[str, tuple[Callable[[np.ndarray, np.ndarray], Plane], Document, Document]] = {
    "k1 k2": (planar(k1=-0.2, k2=0.03), {"camera_model": "OPENCV", "k1": -0.2, "k2": 0.03}, {}),
    "list": (
        planar(-0.2, 0.03, 0.01, 0.02, 0.01, -0.02),
        {"camera_model": "OPENCV", "distortion_params": [-0.2, 0.03, 0.01, 0.02, 0.01, -0.02]},
        {},
    ),
    "list of frames": (planar(k1=-0.2, p1=0.02), {}, {"distortion_params": [-0.2, 0, 0, 0, 0.02, 0]}),
    "list beside the same names": (
        planar(k1=-0.2),
        {"k1": -0.2, "k2": 0.0, "distortion_params": [-0.2, 0, 0, 0, 0, 0]},
        {},
    ),
    "list of zeros": (planar(), {"distortion_params": [0, 0, 0, 0]}, {}),
    "empty list": (planar(k1=-0.2), {"distortion_params": [], "k1": -0.2}, {}),
    "coefficients of frames before the list": (
        planar(k1=-0.1),
        {"distortion_params": [-0.2, 0, 0, 0, 0, 0]},
        {"k1": -0.1},
    ),
    "k4": (planar(-0.2, 0.03, 0.0, 0.3), {"camera_model": "OPENCV", "k1": -0.2, "k2": 0.03, "k4": 0.3}, {}),
    "k4 without a model": (planar(k4=0.4, p1=0.01), {"camera_model": None, "k4": 0.4, "p1": 0.01}, {}),
    "PINHOLE with k1": (planar(k1=-0.2, k2=0.03), {"camera_model": "PINHOLE", "k1": -0.2, "k2": 0.03}, {}),
    "SIMPLE_PINHOLE with p1": (planar(p1=0.03), {"camera_model": "SIMPLE_PINHOLE"}, {"p1": 0.03}),
    "RADIAL with k3": (planar(k1=-0.2, k3=0.05), {"camera_model": "RADIAL", "k1": -0.2, "k3": 0.05}, {}),
    "FULL_OPENCV with k4": (
        rational(-0.1, 0.15),
        {"camera_model": "FULL_OPENCV", "k1": -0.1, "k4": 0.15},
        {},
    ),
    "is_fisheye": (fisheye(k1=0.05), {"is_fisheye": True, "k1": 0.05}, {}),
    "is_fisheye of frames": (fisheye(k1=0.05, k2=-0.02), {"k2": -0.02}, {"is_fisheye": True, "k1": 0.05}),
    "fisheye list": (
        fisheye(k1=0.05, k2=-0.02),
        {"camera_model": "OPENCV_FISHEYE", "distortion_params": [0.05, -0.02, 0, 0, 0, 0]},
        {},
    ),
    "fisheye with p1 p2": (
        fisheye(k1=0.05, p1=0.02, p2=-0.01),
        {"camera_model": "OPENCV_FISHEYE", "k1": 0.05, "p1": 0.02, "p2": -0.01},
        {},
    ),
    "FISHEYE624": (
        fisheye624(0.05, 0.02, -0.01, 0.01),
        {"camera_model": "FISHEYE624", "distortion_params": [0.05, *[0] * 5, 0.02, -0.01, 0.01, 0, 0, 0]},
        {},
    ),
}


def smooth(rays: np.ndarray) -> np.ndarray:
    """A colour for each direction in the world, float [H, W, 3] up to 255, without edges."""
    d = rays / np.linalg.norm(rays, axis=-1, keepdims=True)
    return 255 * np.stack([0.5 + 0.4 * np.sin(8 * d[..., i] + i) for i in range(3)], -1)


def rays_of(lens: Callable[[np.ndarray, np.ndarray], Plane]) -> np.ndarray:
    """Directions of the pixels of a distorted image by fixed-point iteration, [H, W, 3]."""
    target = pinhole_rays()[..., :2]
    x, y = target[..., 0].copy(), target[..., 1].copy()
    for _ in range(500):
        u, v = lens(x, y)
        x, y = x - 0.7 * (u - target[..., 0]), y - 0.7 * (v - target[..., 1])
    u, v = lens(x, y)
    assert np.abs(u - target[..., 0]).max() < 1e-9 and np.abs(v - target[..., 1]).max() < 1e-9
    return np.stack([x, y, np.ones_like(x)], -1)


@pytest.mark.parametrize("case", LENSES)
def test_distortion_is_applied(case: str, tmp_path: Path) -> None:
    lens, of_document, of_frame = LENSES[case]
    edited(transforms_capture(tmp_path), of_frames(**of_frame))
    edited(tmp_path, lambda document: document.update(of_document))
    if of_document.get("camera_model", "") is None:
        edited(tmp_path, lambda document: document.pop("camera_model"))
    rays = rays_of(lens)
    for row, pose in enumerate(ring()):
        image = smooth(rays @ pose[:3, :3].T)
        Image.fromarray((image + 0.5).astype(np.uint8)).save(tmp_path / f"images/{row:04d}.png")
    # Numbers: where directions are imaged.
    own = read_contents(tmp_path, ReadOptions()).images[0].lens
    points = np.random.default_rng(0).uniform(-0.4, 0.4, (50, 2))
    expected = np.stack(lens(*points.T), 1) * FOCAL + [0.5 * WIDTH - 0.5, 0.5 * HEIGHT - 0.5]
    np.testing.assert_allclose(distort_points(own, points), expected, atol=1e-9)
    # Pixels: the undistorted images are those of a pinhole camera.
    capture = scenes.open(tmp_path)
    assert capture.warnings == []
    for view, pose in zip(capture.views, ring(), strict=True):
        fx, fy, cx, cy = (float(value) for value in view.camera.intrinsics)
        x, y = (np.arange(WIDTH) + 0.5 - cx) / fx, (np.arange(HEIGHT) + 0.5 - cy) / fy
        straight = np.stack([*np.meshgrid(x, y), np.ones((HEIGHT, WIDTH))], -1)
        error = np.abs(view.read().rgb - smooth(straight @ pose[:3, :3].T))
        assert error.mean() < 0.5


REFUSED = {
    "panorama of instant-ngp": ({"latlong": True}, {}, "latlong.*EQUIRECTANGULAR"),
    "panorama of a frame": ({}, {"latlong": True}, "0000.png.*latlong"),
    "the other panorama": ({"equirectangular": 1}, {}, "equirectangular marks.*EQUIRECTANGULAR"),
    "f-theta": (
        {"ftheta_p0": 0.0, "ftheta_p1": 0.01},
        {},
        "ftheta_p0 describes an f-theta lens.*OPENCV_FISHEYE",
    ),
    "f-theta of a frame": ({}, {"ftheta_p1": 0.01}, "0000.png.*ftheta_p1"),
    "list of four": ({"distortion_params": [0.1, 0, 0, 0]}, {}, "list of 6 numbers.*k1 k2 k3 k4 p1 p2"),
    "list of words": ({"distortion_params": ["a"] * 6}, {}, "distortion_params must be a finite number"),
    "no list": ({"distortion_params": 0.1}, {}, "list of 6 numbers, got 0.1"),
    "list of 6 of Project Aria": (
        {"camera_model": "FISHEYE624", "distortion_params": [0.1] * 6},
        {},
        "list of 12 numbers",
    ),
    "Project Aria without a list": ({"camera_model": "FISHEYE624"}, {}, "FISHEYE624 needs distortion_params"),
    "contradiction": ({"k1": 0.1, "distortion_params": [0.2, 0, 0, 0, 0, 0]}, {}, "k1 is 0.1.*has 0.2"),
    "contradiction in frames": (
        {},
        {"p2": 0.1, "distortion_params": [0.2, 0, 0, 0, 0, 0]},
        "p2 is 0.1.*has 0",
    ),
    "k5 of OPENCV": (
        {"camera_model": "OPENCV", "k5": 0.1},
        {},
        "k5 is no coefficient of.*OPENCV.*FULL_OPENCV",
    ),
    "k6 of a fisheye": ({"camera_model": "OPENCV_FISHEYE", "k6": 0.1}, {}, "k6 is no coefficient"),
    "thin prism of PINHOLE": ({"sx1": 0.1}, {}, "sx1 is no coefficient.*THIN_PRISM_FISHEYE"),
    "unknown model": ({"camera_model": "OMNIDIRECTIONALSTEREO_L"}, {}, "is not supported"),
    # Intrinsics that are no pixels.
    "shares": (
        {"fl_x": 0.9, "fl_y": 1.2, "cx": 0.5, "cy": 0.5},
        {},
        "0000.png.*no pixels of an image of 48x36",
    ),
    "shares of frames": ({}, {"fl_x": 0.9, "cx": 0.5, "cy": 0.5}, "0.9, 44 .*no pixels"),
    "principal point in the corner": ({"cx": 0.5, "cy": 0.5}, {}, "0.5, 0.5 are no pixels"),
    "principal point from the middle": ({"cx": 0.0, "cy": 0.0}, {}, "a principal point of 0, 0"),
    "focal length alone": ({"fl_x": 0.9, "fl_y": 0.9}, {}, "a focal length of 0.9, 0.9"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_lens_that_cannot_be_meant_or_read_is_refused(case: str, tmp_path: Path) -> None:
    of_document, of_frame, message = REFUSED[case]
    edited(transforms_capture(tmp_path, **of_document), of_frames(**of_frame))
    with pytest.raises(scenes.CaptureError, match=f"(?s){message}") as caught:
        scenes.open(tmp_path)
    assert caught.value.remedy


def test_false_flags_and_shared_angles_say_nothing(tmp_path: Path) -> None:
    transforms_capture(tmp_path, latlong=False, equirectangular=None, is_fisheye=False, camera_angle_x=0.99)
    capture = scenes.open(tmp_path)
    assert capture.warnings == [] and not capture.views[0].camera.lens
    assert_ring(capture)


def test_intrinsics_along_with_panoramas_say_nothing(tmp_path: Path) -> None:
    transforms_capture(tmp_path, camera_model="EQUIRECTANGULAR", k1=0.0, p1=0.0, distortion_params=[0] * 6)
    for file in (tmp_path / "images").iterdir():
        Image.new("RGB", (64, 32), (90, 120, 150)).save(file)
    contents = read_contents(tmp_path, ReadOptions())
    assert contents.unused == [] and len(contents.images) > 8


# Names


@pytest.mark.parametrize("where", ["document", "frames"])
@pytest.mark.parametrize("how", ["as it is", "relative folder", "through a link"])
def test_absolute_paths_in_the_capture_are_opened(
    where: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = transforms_capture(tmp_path / "capture")
    for row in range(8 if where == "frames" else 0):
        (folder / "masks").mkdir(exist_ok=True)
        save_mask(folder / f"masks/m{row}.png", row)
    stated = folder
    if how == "through a link":
        stated = tmp_path / "link"
        stated.symlink_to(folder)

    def change(document: Document) -> None:
        if where == "document":
            document["ply_file_path"] = f"{folder}/points3D.ply"
            document["test_filenames"] = [f"{folder}/images/0003.png"]
            return
        for row, frame in enumerate(document["frames"]):
            frame.update(
                file_path=f"{folder}/{frame['file_path']}", mask_path=f"{folder}/x/../masks/m{row}.png"
            )

    edited(folder, change)
    if how == "relative folder":
        monkeypatch.chdir(folder)
        stated = Path()
    capture = scenes.open(stated)
    assert capture.warnings == []
    assert_ring(capture)
    if where == "document":
        assert [view.name for view in capture.test] == ["0003.png"]
    else:
        assert masks_of(capture) == list(range(8))


@pytest.mark.parametrize(
    "start",
    [
        "/home/someone/data/scene1/",
        "C:\\Users\\someone\\scene1\\",
        "\\\\server\\scans\\scene1\\",
        "D:/scans/",
    ],
)
def test_absolute_paths_of_another_machine_are_those_of_the_same_end(start: str, tmp_path: Path) -> None:
    windows = "\\" in start

    def change(document: Document) -> None:
        for frame in document["frames"]:
            path = frame["file_path"]
            frame["file_path"] = start + (path.replace("/", "\\") if windows else path)
        document["test_filenames"] = [start + "images/0003.png"]

    capture = scenes.open(edited(transforms_capture(tmp_path), change))
    assert_ring(capture)
    assert [view.name for view in capture.test] == ["0003.png"]
    (warning,) = capture.warnings
    assert "8 absolute paths of another folder" in warning and f"{start}images" in warning.replace(
        "images\\", "images/"
    ).replace("/0000.png", "")


def test_absolute_paths_without_their_suffix(tmp_path: Path) -> None:
    def change(document: Document) -> None:
        for frame in document["frames"]:
            frame["file_path"] = f"/blender/out/{frame['file_path'].removesuffix('.png')}"

    assert_ring(scenes.open(edited(transforms_capture(tmp_path), change)))


@pytest.mark.parametrize(
    "path",
    [
        "{other}/secret.png",
        "/etc/hostname",
        "C:\\Windows\\secret.png",
        "../other/secret.png",
        "..\\other\\secret.png",
    ],
)
@pytest.mark.parametrize(
    "key", ["file_path", "mask_path", "depth_file_path", "ply_file_path", "test_filenames"]
)
def test_nothing_outside_of_the_capture_is_opened(path: str, key: str, tmp_path: Path) -> None:
    folder, other = transforms_capture(tmp_path / "capture"), tmp_path / "other"
    other.mkdir()
    shutil.copy(folder / "images/0000.png", other / "secret.png")
    given = path.format(other=other)

    def change(document: Document) -> None:
        if key.endswith("filenames"):
            document[key] = [given]
        elif key.startswith("ply"):
            document[key] = given
        else:
            document["frames"][2][key] = given

    edited(folder, change)
    with pytest.raises(scenes.CaptureError, match="is outside the capture folder"):
        scenes.open(folder)


def test_a_missing_image_is_named(tmp_path: Path) -> None:
    (transforms_capture(tmp_path) / "images/0003.png").unlink()
    with pytest.raises(scenes.CaptureError, match=r"0003\.png is missing"):
        scenes.open(tmp_path)


NAMES = {
    "as macOS stores it": lambda name: unicodedata.normalize("NFD", name),
    "as others store it": lambda name: unicodedata.normalize("NFC", name),
    "in upper case": str.upper,
    "in lower case": str.lower,
}


@pytest.mark.parametrize("stated", NAMES)
@pytest.mark.parametrize("stored", NAMES)
def test_names_in_other_forms_are_found(stored: str, stated: str, tmp_path: Path) -> None:
    """Images, their folder, masks, points and the split."""
    poses, store, state = ring(), NAMES[stored], NAMES[stated]
    write_images(tmp_path / store("Größe"), poses, lambda row: store(f"café Å{row}.png"))
    for row in range(8):
        save_mask(tmp_path / store(f"Maské{row}.png"), row)
    write_ply_points(tmp_path / store("Pünkte.ply"))
    names = [state(f"Größe/café Å{row}.png") for row in range(8)]
    document = transforms(names, poses, ply_file_path=state("Pünkte.ply"), test_filenames=names[2:3])
    for row, frame in enumerate(document["frames"]):
        frame["mask_path"] = state(f"Maské{row}.png")
    (tmp_path / "transforms.json").write_text(json.dumps(document))
    capture = scenes.open(tmp_path)
    assert_ring(capture)
    assert [view.name for view in capture.test] == [store("café Å2.png")] and len(capture.points.xyz) == 600
    assert masks_of(capture) == list(range(8))


def test_names_without_suffix_in_another_form(tmp_path: Path) -> None:
    poses = ring()
    names = write_images(tmp_path, poses, lambda row: unicodedata.normalize("NFD", f"é{row}.PNG"))
    stated = [unicodedata.normalize("NFC", name).removesuffix(".PNG") for name in names]
    (tmp_path / "transforms.json").write_text(json.dumps(transforms(stated, poses)))
    assert_ring(scenes.open(write_ply_points(tmp_path / "points3D.ply").parent))


def test_of_two_names_that_differ_by_case_neither_is_guessed(tmp_path: Path) -> None:
    transforms_capture(tmp_path)
    (tmp_path / "images/0001.png").rename(tmp_path / "images/a.png")
    shutil.copy(tmp_path / "images/a.png", tmp_path / "images/A.png")
    edited(tmp_path, lambda d: d["frames"][1].update(file_path="images/a.png"))
    assert len(scenes.open(tmp_path).views) == 8
    edited(tmp_path, lambda d: d["frames"][2].update(file_path="images/A.png"))
    assert len(scenes.open(tmp_path).views) == 8
    edited(tmp_path, lambda d: d["frames"][2].update(file_path="images/a.PNG"))
    with pytest.raises(scenes.CaptureError, match=r"a\.PNG is missing"):
        scenes.open(tmp_path)


@pytest.mark.parametrize(
    "again",
    ["images/0001.PNG", "images\\0001.png", "./images/0001.png", "images/0001", "{folder}/images/0001.png"],
)
def test_an_image_that_is_listed_twice_is_named(again: str, tmp_path: Path) -> None:
    edited(
        transforms_capture(tmp_path), lambda d: d["frames"][2].update(file_path=again.format(folder=tmp_path))
    )
    with pytest.raises(scenes.CaptureError, match=r"listed twice.*0001\.png"):
        scenes.open(tmp_path)


def test_backslashes_are_slashes(tmp_path: Path) -> None:
    poses = ring()
    names = write_images(tmp_path, poses, "images/cam{0}/{0}.png".format)
    for row in range(8):
        (tmp_path / f"masks/cam{row}").mkdir(parents=True)
        save_mask(tmp_path / f"masks/cam{row}/{row}.png", row)
    write_ply_points(tmp_path / "points3D.ply")
    windows = [name.replace("/", "\\") for name in names]
    document = transforms(windows, poses, test_filenames=windows[3:4], ply_file_path=".\\points3D.ply")
    document["frames"][5]["mask_path"] = "masks\\cam6\\6.png"
    (tmp_path / "transforms.json").write_text(json.dumps(document))
    capture = scenes.open(tmp_path)
    assert_ring(capture)
    assert [view.name for view in capture.views] == [f"cam{row}/{row}.png" for row in range(8)]
    assert [view.name for view in capture.test] == ["cam3/3.png"]
    assert masks_of(capture) == [0, 1, 2, 3, 4, 6, 6, 7]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be", "utf-32"])
def test_json_of_windows_editors(encoding: str, tmp_path: Path) -> None:
    file = transforms_capture(tmp_path) / "transforms.json"
    file.write_bytes(file.read_text().encode(encoding))
    assert_ring(scenes.open(tmp_path))


# Splits


def scannet(folder: Path, test: list[int], bad: dict[int, Any], **keys: Any) -> Path:
    """A capture whose frames of some numbers are test_frames, or marked."""
    transforms_capture(folder, count=12, **keys)

    def change(document: Document) -> None:
        frames = document["frames"]
        for row, frame in enumerate(frames):
            frame["is_bad"] = bad.get(row, False)
        document["frames"] = [frames[row] for row in range(12) if row not in test]
        if test:
            document["test_frames"] = [frames[row] for row in test]

    return edited(folder, change)


@pytest.mark.parametrize("mark", [True, 1, "true"])
def test_the_split_of_scannetpp(mark: object, tmp_path: Path) -> None:
    capture = scenes.open(scannet(tmp_path, [9, 4, 11], {2: mark, 7: mark, 11: mark}, has_mask=True))
    assert_ring(capture, [0, 1, 3, 4, 5, 6, 8, 9, 10], 12)
    assert [view.name for view in capture.test] == ["0004.png", "0009.png"]
    assert capture.holdout == "the data set's own test split (test_frames)"
    (entry,) = capture.unused
    assert (entry.kind, entry.count, entry.harm) == ("frames marked is_bad", 3, OTHER)
    assert (
        "3 of 12 frames are marked is_bad and left out" in entry.problem
        and entry.example == "images/0002.png"
    )
    assert capture.warnings == [entry.sentence()]


def test_bad_frames_alone_and_named_in_a_split(tmp_path: Path) -> None:
    names = [f"images/{row:04d}.png" for row in (1, 3)]
    capture = scenes.open(scannet(tmp_path, [], {3: True}, test_filenames=names))
    assert [view.name for view in capture.test] == ["0001.png"] and len(capture.views) == 11
    assert [entry.kind for entry in capture.unused] == ["frames marked is_bad"]


def test_no_bad_frames_and_an_empty_split_say_nothing(tmp_path: Path) -> None:
    capture = scenes.open(edited(scannet(tmp_path, [], {}), lambda d: d.update(test_frames=[])))
    assert len(capture.views) == 12 and len(capture.test) == 2 and capture.warnings == []


def test_test_frames_must_be_frames(tmp_path: Path) -> None:
    transforms_capture(tmp_path, test_frames=["images/0001.png"])
    with pytest.raises(scenes.CaptureError, match='"test_frames" must be a list of objects'):
        scenes.open(tmp_path)


def test_names_of_a_split_that_no_frame_has_are_named(tmp_path: Path) -> None:
    transforms_capture(
        tmp_path, test_filenames=["images/0002.png", "0003.png"], train_filenames=["images/9.png"]
    )
    (entry,) = scenes.open(tmp_path).unused
    assert (entry.kind, entry.count, entry.harm) == ("names in the split", 2, WRONG)
    assert entry.example == "images/9.png" and "of no frame" in entry.problem


def test_a_validation_split_that_is_not_used_is_named(tmp_path: Path) -> None:
    transforms_capture(tmp_path, count=12)
    document = json.loads((tmp_path / "transforms.json").read_text())
    parts = {"train": slice(0, 6), "val": slice(6, 9), "test": slice(9, 12)}
    for part, rows in parts.items():
        own = document | {"frames": document["frames"][rows]}
        (tmp_path / f"transforms_{part}.json").write_text(json.dumps(own))
    (tmp_path / "transforms.json").unlink()
    capture = scenes.open(tmp_path)
    assert (len(capture.train), len(capture.test)) == (6, 3)
    (entry,) = [entry for entry in capture.unused if "validation" in entry.kind]
    assert (entry.count, entry.harm, entry.example) == (3, OTHER, "images/0006.png")
    (tmp_path / "transforms_val.json").write_text("{")
    assert not [entry for entry in scenes.open(tmp_path).unused if "validation" in entry.kind]


# Keys


@pytest.mark.parametrize(
    ("keys", "harm", "example", "about"),
    [
        ({"rolling_shutter": [0.1, 0, 0]}, WRONG, "rolling_shutter", "the lens"),
        ({"note": "x", "mask_color": [255, 0, 0]}, WRONG, "mask_color", "masks"),
        ({"fisheye_crop_radius": 20}, WRONG, "fisheye_crop_radius", "masks"),
        ({"skew": 0.2}, WRONG, "skew", "the lens"),
        ({"x_fov": 40}, WRONG, "x_fov", "the lens"),
        ({"intrinsic_matrix": [[1, 0], [0, 1]]}, WRONG, "intrinsic_matrix", "the lens"),
        ({"from_mitsuba": True}, WRONG, "from_mitsuba", "the axes"),
        ({"fps": 30}, WRONG, "fps", "time"),
        ({"note": "x", "device": "phone"}, OTHER, "note", ""),
    ],
)
@pytest.mark.parametrize("level", ["document", "frames"])
def test_keys_that_are_not_read_are_named(
    keys: Document, harm: int, example: str, about: str, level: str, tmp_path: Path
) -> None:
    transforms_capture(tmp_path, **(keys if level == "document" else {}))
    edited(tmp_path, of_frames(**(keys if level == "frames" else {})))
    capture = scenes.open(tmp_path)
    (entry,) = capture.unused
    assert (entry.harm, entry.example, entry.count) == (harm, example, len(keys))
    assert entry.kind == ("keys of frames" if level == "frames" else "keys of transforms.json")
    assert about in entry.problem and all(key in entry.problem for key in keys)
    assert bool(entry.remedy) == bool(about)
    assert ("in 8 of them" in entry.problem) == (level == "frames")
    assert capture.warnings == [entry.sentence()]


def test_the_most_harmful_key_is_the_example(tmp_path: Path) -> None:
    keys = {"comment": "x", "timestamp": 3, "dynamic_mask": "a.png", "focus": 1, "lens_name": "50 mm"}
    edited(transforms_capture(tmp_path, made_by="x"), lambda d: d["frames"][4].update(keys))
    frames, document = scenes.open(tmp_path).unused
    assert (frames.example, frames.count, frames.harm) == ("dynamic_mask", 5, WRONG)
    assert "in 1 of them" in frames.problem
    assert (document.example, document.harm) == ("made_by", OTHER)


def test_keys_of_other_programs_without_consequence_say_nothing(tmp_path: Path) -> None:
    transforms_capture(
        tmp_path,
        aabb_scale=16,
        scale=0.33,
        offset=[0.5, 0.5, 0.5],
        applied_transform=[[1, 0, 0, 0], [0, 0, 1, 0], [0, -1, 0, 0]],
        applied_scale=0.4,
        orientation_override="none",
        n_extra_learnable_dims=16,
        up=[0, 0, 1],
        rolling_shutter=[0.0, 0.0, 0.0],
        skew=0,
        mask_color=None,
        white_transparent=False,
    )
    edited(tmp_path, of_frames(sharpness=30.2, colmap_im_id=4, rotation=0.01))
    capture = scenes.open(tmp_path)
    assert capture.unused == [] and capture.warnings == []
    assert_ring(capture)


@pytest.mark.parametrize("scaled", [False, True])
def test_depth_maps_without_a_unit_are_named(scaled: bool, tmp_path: Path) -> None:
    transforms_capture(tmp_path)
    edited(tmp_path, lambda document: document.update({"integer_depth_scale": 0.001} if scaled else {}))
    depth = np.full((HEIGHT, WIDTH), 3000, np.uint16)
    Image.fromarray(depth).save(tmp_path / "depth.png")
    edited(tmp_path, of_frames(depth_path="depth.png"))
    contents = read_contents(tmp_path, ReadOptions())
    if scaled:
        assert contents.unused == [] and contents.images[0].depth == tmp_path / "depth.png"
    else:
        (entry,) = contents.unused
        assert (entry.kind, entry.count, entry.harm) == ("depth maps", 8, LOST)
        assert "integer_depth_scale" in entry.remedy and contents.images[0].depth is None


def test_axes_are_those_of_opengl(tmp_path: Path) -> None:
    """The poses of the file are camera to world, y up and z backward, which the tests here rely on."""
    document = json.loads((transforms_capture(tmp_path) / "transforms.json").read_text())
    for frame, pose in zip(document["frames"], ring(), strict=True):
        matrix = np.array(frame["transform_matrix"])
        np.testing.assert_allclose(matrix @ OPENGL, pose, atol=1e-12)
        assert matrix[2, 1] > 0.8 and matrix[:3, 2] @ matrix[:3, 3] > 0
