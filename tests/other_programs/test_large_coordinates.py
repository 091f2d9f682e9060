"""Captures in UTM, ECEF and other large coordinates: shifted inside, exact in, exact out."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import imageio.v3 as imageio
import numpy as np
import pytest
import torch
from ray_cast_capture import (
    FOCAL,
    HEIGHT,
    OPENGL,
    WIDTH,
    camera_at,
    ring,
    surface_points,
    transforms,
    write_colmap,
    write_images,
    write_ply_points,
)

from luxel import scenes
from luxel.render.geometry.camera import Points
from luxel.render.primitives import PRIMITIVES, Gaussians
from luxel.render.runs.strict_json import sealed
from luxel.render.train.start import scene_extent
from luxel.scenes.captures.formats.colmap import read_model
from luxel.scenes.captures.open_capture import Capture
from luxel.scenes.files.meshes.mesh import Mesh
from luxel.scenes.files.scene_files import load_facts, load_primitives, save_scene
from luxel.scenes.files.scene_format import SceneFacts
from luxel.scenes.large_coordinates import MAX_OFFSET, choose_shift
from luxel.scenes.loading.loaders import open_scene
from luxel.scenes.paths import load_path, path_json, save_path
from luxel.viewer.cli import main
from luxel.viewer.scene_loading.capture_options import read_origin

UTM, ECEF = np.array([500_000.0, 5_000_000.0, 200.0]), np.array([4_027_893.75, 307_045.5, 4_919_474.25])
POSES = ring(9)
XYZ, RGB = surface_points()
SHORT = ["--device", "cpu", "--no-lpips", "--report-every", "1", "--no-check-capture"]
SAID = "The coordinates are large"


def moved(poses: list[np.ndarray], shift: np.ndarray, scale: float = 1.0) -> list[np.ndarray]:
    """Cameras of the scene scaled, then moved."""
    out = [pose.copy() for pose in poses]
    for pose in out:
        pose[:3, 3] = scale * pose[:3, 3] + shift
    return out


def colmap_at(folder: Path, shift: np.ndarray, scale: float = 1.0, binary: bool = False) -> Path:
    names = write_images(folder / "images", POSES)
    points = scale * XYZ + shift, RGB
    write_colmap(folder / "sparse/0", names, moved(POSES, shift, scale), points=points, binary=binary)
    return folder


def binary_colmap_at(folder: Path, shift: np.ndarray, scale: float = 1.0) -> Path:
    return colmap_at(folder, shift, scale, binary=True)


def transforms_at(folder: Path, shift: np.ndarray, scale: float = 1.0) -> Path:
    names = [f"images/{name}" for name in write_images(folder / "images", POSES)]
    write_ply_points(folder / "points3D.ply", (scale * XYZ + shift, RGB))
    (folder / "transforms.json").write_text(json.dumps(transforms(names, moved(POSES, shift, scale))))
    return folder


def float_text_at(folder: Path, shift: np.ndarray, scale: float = 1.0) -> Path:
    """A transforms.json whose points are text of full precision, though declared as float."""
    transforms_at(folder, shift, scale)
    text = (folder / "points3D.ply").read_text()
    (folder / "points3D.ply").write_text(text.replace("property double", "property float"))
    return folder


def llff_at(folder: Path, shift: np.ndarray, scale: float = 1.0) -> Path:
    write_images(folder / "images", POSES)
    rows = []
    for pose in moved(POSES, shift, scale):
        right, down, forward = pose[:3, 0], pose[:3, 1], pose[:3, 2]
        matrix = np.stack([down, right, -forward, pose[:3, 3], [HEIGHT, WIDTH, FOCAL]], axis=1)
        rows.append([*matrix.ravel(), scale * 1.0, scale * 9.0])
    np.save(folder / "poses_bounds.npy", np.array(rows))
    return folder


def synchronised_at(folder: Path, shift: np.ndarray, scale: float = 1.0) -> Path:
    """Folders of two frames a camera, and a transforms.json that names the folders."""
    for row, pose in enumerate(POSES):
        write_images(folder / f"cam{row}", [pose, pose])
    names = [f"cam{row}" for row in range(len(POSES))]
    document = transforms(names, moved(POSES, shift, scale), fps=10)
    (folder / "transforms.json").write_text(json.dumps(document))
    write_ply_points(folder / "points3D.ply", (scale * XYZ + shift, RGB))
    return folder


WITH_POINTS = (colmap_at, binary_colmap_at, transforms_at, float_text_at, synchronised_at)


def poses_in(capture: Capture) -> np.ndarray:
    """Camera centres among the coordinates of the files, float64 [V, 3]."""
    return np.stack([view.camera.position.double().numpy() for view in capture.views]) + capture.shift


def pixels_of(capture: Capture, row: int) -> np.ndarray:
    """Where a view of a capture shows its points, computed in float32 as kernels do, [P, 2]."""
    camera = capture.views[row].camera
    pose = camera.world_to_cam.numpy()
    x, y, z = (capture.points.xyz @ pose[:3, :3].T + pose[:3, 3]).T
    fx, fy, cx, cy = camera.intrinsics.numpy()
    return np.stack([fx * x / z + cx, fy * y / z + cy], axis=1)


def true_pixels(row: int) -> np.ndarray:
    """Where camera number ``row`` of the ring sees the points, float64."""
    x, y, z = ((XYZ - POSES[row][:3, 3]) @ POSES[row][:3, :3]).T
    return np.stack([FOCAL * x / z + 0.5 * WIDTH, FOCAL * y / z + 0.5 * HEIGHT], axis=1)


@pytest.mark.parametrize("write", WITH_POINTS)
@pytest.mark.parametrize(("shift", "scale"), [(UTM, 1.0), (ECEF, 1.0), (1000 * UTM, 1000.0), (-UTM, 0.01)])
def test_large_coordinates_are_read_exactly(
    tmp_path: Path, write: Callable[..., Path], shift: np.ndarray, scale: float
) -> None:
    capture = scenes.open(write(tmp_path, shift, scale))
    assert np.abs(capture.shift - shift).max() <= 10 * scale * 3, "it is about the middle of the cameras"
    assert all(x == float(f"{x:.9g}") for x in capture.shift), "a round number"
    step = len(capture.views) // len(POSES)
    expected = np.stack([pose[:3, 3] for pose in moved(POSES, shift, scale)])
    smallest = scale * 1e-6 + 4 * np.spacing(np.abs(shift).max())
    assert np.abs(poses_in(capture)[::step] - expected).max() < smallest
    assert capture.points.xyz.dtype == np.float32
    assert np.abs(capture.points.xyz + capture.shift - (scale * XYZ + shift)).max() < smallest
    for row in range(len(POSES)):
        error = np.abs(pixels_of(capture, row * step) - true_pixels(row)).max()
        assert error < 1e-3 + 1e3 * np.spacing(np.abs(shift).max()) / scale, "pixels"
    assert [SAID in text for text in capture.warnings] == [True]
    assert " ".join(f"{x:.10g}" for x in capture.shift) in capture.warnings[0]
    trained = np.stack([view.camera.position.double().numpy() for view in capture.train])
    reach = 1.1 * np.linalg.norm(trained - trained.mean(0), axis=1).max()
    assert scene_extent(capture.train) == pytest.approx(reach) and 3 < reach / scale < 4


@pytest.mark.parametrize("shift", [UTM, ECEF, np.array([0.0, 0.0, -3e6])])
def test_poses_without_points_are_read_exactly(tmp_path: Path, shift: np.ndarray) -> None:
    capture = scenes.open(llff_at(tmp_path, shift), cache_dir=tmp_path / "cache")
    expected = np.stack([pose[:3, 3] for pose in moved(POSES, shift)])
    assert np.abs(poses_in(capture) - expected).max() < 1e-5
    assert np.abs(capture.points.xyz).max() < 100, "points are made among the shifted cameras"


@pytest.mark.parametrize("write", [*WITH_POINTS, llff_at])
def test_captures_near_the_origin_stay_as_they_are(tmp_path: Path, write: Callable[..., Path]) -> None:
    capture = scenes.open(write(tmp_path, np.zeros(3)), cache_dir=tmp_path / "cache")
    assert not capture.shift.any() and not any(SAID in text for text in capture.warnings)
    step = len(capture.views) // len(POSES)
    for view, pose in zip(capture.views[::step], POSES, strict=True):
        given = np.linalg.inv(pose).astype(np.float32)
        assert np.abs(view.camera.world_to_cam.numpy() - given).max() < 1e-6
    if write is not llff_at:
        assert np.array_equal(capture.points.xyz, XYZ.astype(np.float32))


def test_coordinates_are_shifted_from_fifty_extents_on(tmp_path: Path) -> None:
    positions = np.stack([pose[:3, 3] for pose in POSES])
    along = np.array([3 * MAX_OFFSET, 0.0, 0.0])
    assert not choose_shift(positions + 0.9 * along, 3.0).any()
    assert choose_shift(positions - 1.1 * along, 3.0).tolist() == [-160, 0, 0]
    assert choose_shift(positions + UTM, 3.0).tolist() == UTM.tolist()
    assert choose_shift(0.001 * positions + [1.2345678, 0, 0], 0.003).tolist() == [1.24, 0, 0]
    assert not choose_shift(positions, 0.0).any(), "cameras on a tripod have no extent"
    near = scenes.open(transforms_at(tmp_path / "near", np.array([100.0, 0, 0])))
    far = scenes.open(transforms_at(tmp_path / "far", np.array([300.0, 0, 0])))
    assert near.shift.tolist() == [0, 0, 0] and far.shift.tolist() == [300, 0, 0]


def test_a_given_shift_is_used(tmp_path: Path) -> None:
    capture = scenes.open(colmap_at(tmp_path, UTM), shift=UTM - 7)
    assert capture.shift.tolist() == (UTM - 7).tolist()
    assert np.abs(capture.points.xyz - (XYZ + 7)).max() < 1e-6
    unmoved = scenes.open(tmp_path, shift=(0, 0, 0))
    assert np.abs(unmoved.points.xyz - (XYZ + UTM)).max() < 0.5, "as float32 has them"
    assert not any(SAID in text for text in unmoved.warnings)


def test_points_that_give_depth_are_shifted(tmp_path: Path) -> None:
    capture = scenes.open(transforms_at(tmp_path, UTM))
    scan = write_ply_points(tmp_path / "scan.ply", (XYZ[::2] + UTM, RGB[::2]))
    scenes.supervise(capture, "points", points=scan)
    depth = capture.train[0].depth
    assert depth is not None
    known = depth()[depth() > 0]
    assert len(known) > 30 and known.min() > 1.5 and known.max() < 7


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs of the same images at the origin, in UTM and in ECEF coordinates."""
    out = {}
    for name, shift in (("origin", np.zeros(3)), ("utm", UTM), ("ecef", ECEF)):
        folder = tmp_path_factory.mktemp(name)
        colmap_at(folder / "capture", shift, binary=name == "ecef")
        args = ["train", str(folder / "capture"), "--run", str(folder / "run"), "--steps", "60", *SHORT]
        assert main(args) == 0
        out[name] = folder / "run"
    return out


def psnr(run: Path) -> float:
    return json.loads((run / "eval/report.json").read_text())["mean"]["psnr"]


def body_of(run: Path) -> dict[str, Any]:
    return json.loads((run / "config.json").read_text())


@pytest.mark.parametrize("name", ["utm", "ecef"])
def test_training_gives_the_same_result(runs: dict[str, Path], name: str) -> None:
    assert body_of(runs["origin"])["capture"]["shift"] == [0, 0, 0]
    assert body_of(runs[name])["extent"] == pytest.approx(body_of(runs["origin"])["extent"], rel=1e-6)
    assert abs(psnr(runs[name]) - psnr(runs["origin"])) < 0.05


@pytest.mark.parametrize(("name", "shift"), [("origin", np.zeros(3)), ("utm", UTM), ("ecef", ECEF)])
def test_exported_cameras_have_their_own_coordinates(
    runs: dict[str, Path], name: str, shift: np.ndarray, tmp_path: Path
) -> None:
    assert main(["export", str(runs[name]), "--out", str(tmp_path / "sparse"), "--cameras"]) == 0
    model = read_model(tmp_path / "sparse")
    size = max(1.0, float(np.abs(shift).max()))
    for (_, _, world_to_cam), pose in zip(model.images, moved(POSES, shift), strict=True):
        centre = -world_to_cam[:3, :3].T @ world_to_cam[:3, 3]
        assert np.abs(centre - pose[:3, 3]).max() < 1e-9 * size
        assert np.abs(world_to_cam[:3, :3].T - pose[:3, :3]).max() < 1e-9
    assert np.array_equal(model.points.xyz, XYZ + shift)


def test_exported_cameras_of_refined_poses_have_their_own_coordinates(tmp_path: Path) -> None:
    capture, run = colmap_at(tmp_path / "capture", UTM), tmp_path / "run"
    args = ["train", str(capture), "--run", str(run), "--steps", "12", "--refine-poses", *SHORT]
    assert main(args) == 0
    assert main(["export", str(run), "--out", str(tmp_path / "sparse"), "--cameras"]) == 0
    for (_, _, pose), given in zip(read_model(tmp_path / "sparse").images, moved(POSES, UTM), strict=True):
        off = -pose[:3, :3].T @ pose[:3, 3] - given[:3, 3]
        assert np.abs(off).max() < 0.05, "the steps of a few refinements, not half a metre of float32"


def test_exported_scenes_state_what_was_subtracted(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = load_primitives(runs["utm"])
    for name in ("a.ply", "a.safetensors", "a.glb"):
        capsys.readouterr()
        assert main(["export", str(runs["utm"]), "--out", str(tmp_path / name)]) == 0
        stated = (-500_000, -5_000_000, 200) if name == "a.glb" else UTM  # x of glTF points left, y up
        assert (
            f"The coordinates of {name} plus {' '.join(f'{x:.10g}' for x in stated)} are"
            in capsys.readouterr().out
        )
        assert load_facts(tmp_path / name).shift == tuple(UTM)
        read = load_primitives(tmp_path / name)
        assert torch.allclose(read.centres, scene.centres, atol=1e-6)
    assert b"comment luxel shift 500000.0 5000000.0 200.0" in (tmp_path / "a.ply").read_bytes()[:4000]
    for name in ("a.spz", "a.splat", "a.sog"):
        assert main(["export", str(runs["utm"]), "--out", str(tmp_path / name)]) == 0
        assert "does not hold" in (said := capsys.readouterr().out) and "the shift of its coordinates" in said
    assert main(["export", str(runs["origin"]), "--out", str(tmp_path / "o.ply")]) == 0
    assert "plus" not in capsys.readouterr().out
    assert b"shift" not in (tmp_path / "o.ply").read_bytes()[:4000]


def doubles_of(path: Path) -> tuple[np.ndarray, list[str]]:
    """Columns x, y and z of a binary PLY file by the types of its header, and its comments."""
    data = path.read_bytes()
    head, _, body = data.partition(b"end_header\n")
    lines = head.decode().splitlines()
    count = next(int(line.split()[2]) for line in lines if line.startswith("element vertex"))
    columns = [line.split() for line in lines if line.startswith("property") and "list" not in line]
    kinds = {"float": "<f4", "double": "<f8", "uchar": "u1"}
    table = np.frombuffer(body, np.dtype([(n, kinds[k]) for _, k, n in columns]), count)
    assert all(table.dtype[axis] == np.float64 for axis in "xyz")
    return np.stack([table[a] for a in "xyz"], 1), [x for x in lines if x.startswith("comment")]


def test_world_writes_the_coordinates_of_the_capture(runs: dict[str, Path], tmp_path: Path) -> None:
    scene = load_primitives(runs["ecef"])
    shift = np.array(body_of(runs["ecef"])["capture"]["shift"])
    assert main(["export", str(runs["ecef"]), "--out", str(tmp_path / "w.ply"), "--world"]) == 0
    xyz, comments = doubles_of(tmp_path / "w.ply")
    assert np.array_equal(xyz, scene.centres.double().numpy() + shift)
    assert len([c for c in comments if "luxel shift" in c]) == 1
    again = load_primitives(tmp_path / "w.ply")
    assert load_facts(tmp_path / "w.ply").shift == tuple(shift)
    assert torch.allclose(again.centres, scene.centres, atol=1e-6)
    assert torch.equal(again.sh_dc, scene.sh_dc) and torch.equal(again.log_scales, scene.log_scales)  # type: ignore[attr-defined]
    stripped = (tmp_path / "w.ply").read_bytes().replace(b"coordinates of the capture: luxel shift", b"by", 1)
    (tmp_path / "other.ply").write_bytes(stripped)  # as another program would write it
    other, facts = load_primitives(tmp_path / "other.ply"), load_facts(tmp_path / "other.ply")
    assert facts.shift is not None
    assert np.abs(other.centres.double().numpy() + facts.shift - xyz).max() < 1e-5


@pytest.mark.parametrize("suffix", [".spz", ".glb", ".safetensors", ".splat", ".html"])
def test_world_is_refused_by_formats_of_float32(
    runs: dict[str, Path], tmp_path: Path, suffix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(runs["utm"]), "--out", str(tmp_path / f"a{suffix}"), "--world"]) == 2
    assert "--world is for .ply files" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--out", "frames", "--frames", "3"], "--world cannot be combined with --frames"),
        (["--out", "a.glb", "--mesh"], "--world is for .ply and .obj files"),
        (["--out", "sparse", "--cameras"], "--cameras cannot be combined"),
    ],
)
def test_world_is_refused_with_other_options(
    runs: dict[str, Path], options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(runs["utm"]), *options, "--world"]) == 2
    assert said in capsys.readouterr().err


def test_world_near_the_origin_is_the_usual_file(runs: dict[str, Path], tmp_path: Path) -> None:
    for name, more in (("a.ply", []), ("b.ply", ["--world"])):
        assert main(["export", str(runs["origin"]), "--out", str(tmp_path / name), *more]) == 0
    assert (tmp_path / "a.ply").read_bytes() == (tmp_path / "b.ply").read_bytes()


@pytest.mark.parametrize("suffix", [".ply", ".obj", ".glb"])
def test_meshes_state_the_shift(tmp_path: Path, suffix: str) -> None:
    triangle = Mesh(
        np.eye(3, dtype=np.float32), np.full((3, 3), 9, np.uint8), np.array([[0, 1, 2]], np.int32)
    )
    triangle.facts = SceneFacts(shift=(5e5, 5e6, 200.0))
    path = tmp_path / f"a{suffix}"
    scenes.save_mesh(path, triangle)
    expected = (
        b'"shift":[-500000.0,-5000000.0,200.0]' if suffix == ".glb" else b"luxel shift 500000.0 5000000.0"
    )
    assert expected in path.read_bytes()
    triangle.facts = SceneFacts()
    scenes.save_mesh(path, triangle)
    assert b"shift" not in path.read_bytes()


@pytest.mark.parametrize("suffix", [".ply", ".obj"])
def test_a_mesh_of_the_world_is_exact(runs: dict[str, Path], tmp_path: Path, suffix: str) -> None:
    args = ["export", str(runs["utm"]), "--mesh", "--resolution", "16", "--device", "cpu", "--out"]
    assert main([*args, str(tmp_path / f"local{suffix}")]) == 0
    assert main([*args, str(tmp_path / f"world{suffix}"), "--world"]) == 0
    if suffix == ".ply":
        world = doubles_of(tmp_path / "world.ply")[0]
    else:
        lines = (tmp_path / "world.obj").read_text().splitlines()
        world = np.array([line.split()[1:4] for line in lines if line.startswith("v ")], float)
    local = scenes.read_mesh(tmp_path / f"local{suffix}").xyz.astype(float)
    assert len(local) and np.abs(local).max() < 50
    order = np.lexsort(np.round(world - UTM, 4).T)
    assert np.abs((world - UTM)[order] - local[np.lexsort(np.round(local, 4).T)]).max() < 1e-3


def test_camera_paths_are_in_coordinates_of_the_capture(tmp_path: Path, runs: dict[str, Path]) -> None:
    capture = scenes.open(runs["ecef"].parent / "capture")
    cameras = [view.camera for view in capture.views]
    (tmp_path / "p.json").write_bytes(path_json(cameras, shift=capture.shift))
    stored = json.loads((tmp_path / "p.json").read_text())["camera_path"]
    for entry, pose in zip(stored, moved(POSES, ECEF), strict=True):
        matrix = np.array(entry["camera_to_world"]).reshape(4, 4)
        assert np.abs(matrix[:3, 3] - pose[:3, 3]).max() < 1e-5
    again = load_path(tmp_path / "p.json", capture.shift)
    for camera, other in zip(cameras, again.cameras, strict=True):
        assert torch.allclose(camera.world_to_cam, other.world_to_cam, atol=2e-6)
    save_path(tmp_path / "q.json", cameras)
    assert torch.allclose(
        load_path(tmp_path / "q.json").cameras[3].world_to_cam, cameras[3].world_to_cam, atol=2e-6
    )


def test_render_follows_a_path_of_the_world(tmp_path: Path, runs: dict[str, Path]) -> None:
    for name, shift in (("origin", np.zeros(3)), ("utm", UTM)):
        frames = [
            {"camera_to_world": (pose @ OPENGL).ravel().tolist(), "fov": 45.0}
            for pose in moved([camera_at((2.5, 1.0, 1.5)), camera_at((-2, 2, 1.0))], shift)
        ]
        document = {"render_width": 48, "render_height": 36, "camera_path": frames}
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
        args = ["render", str(runs[name]), "--path", str(tmp_path / f"{name}.json"), "--device", "cpu"]
        assert main([*args, "--out", str(tmp_path / name)]) == 0
    for file in sorted((tmp_path / "origin").glob("*.png")):
        a, b = imageio.imread(file).astype(float), imageio.imread(tmp_path / "utm" / file.name).astype(float)
        assert a.std() > 10 and np.abs(a - b).mean() < 1.0


def test_exported_scenes_are_scored_and_filmed_with_the_capture(
    tmp_path: Path, runs: dict[str, Path]
) -> None:
    capture = str(runs["utm"].parent / "capture")
    for name, more in (("a.safetensors", []), ("b.ply", ["--world"])):
        scene = tmp_path / name
        assert main(["export", str(runs["utm"]), "--out", str(scene), *more]) == 0
        args = ["eval", str(scene), "--capture", capture, "--out", str(tmp_path / f"{name}-eval")]
        assert main([*args, "--device", "cpu", "--no-lpips"]) == 0
        score = json.loads((tmp_path / f"{name}-eval/report.json").read_text())["mean"]["psnr"]
        assert score == pytest.approx(psnr(runs["utm"]), abs=0.01)
    args = ["render", str(tmp_path / "b.ply"), "--capture", capture, "--at", "photographs", "--frames", "3"]
    assert main([*args, "--device", "cpu", "--out", str(tmp_path / "film")]) == 0
    assert min(imageio.imread(file).std() for file in (tmp_path / "film").glob("*.png")) > 10


def test_inspect_states_the_shift(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(colmap_at(tmp_path, UTM)), "--device", "cpu", "--json"]) == 0
    captured = capsys.readouterr()
    stated = json.loads(captured.out[captured.out.index("{") :])
    assert stated["shift"] == UTM.tolist() and stated["unused"] == []
    assert stated["facts"]["shift"] == "500000 5000000 200 is subtracted from the coordinates"


def test_runs_are_evaluated_resumed_and_begun_from_scenes(tmp_path: Path, runs: dict[str, Path]) -> None:
    run = tmp_path / "run"
    shutil.copytree(runs["utm"].parent, tmp_path / "all")
    run = tmp_path / "all/run"
    capture = str(tmp_path / "all/capture")
    assert main(["eval", str(run), "--capture", capture, "--device", "cpu", "--no-lpips"]) == 0
    assert psnr(run) == pytest.approx(psnr(runs["utm"]), abs=0.01)
    assert main(["train", capture, "--resume", str(run), "--steps", "64", *SHORT]) == 0
    assert body_of(run)["capture"]["shift"] == UTM.tolist()
    assert psnr(run) > psnr(runs["utm"]) - 1
    scene = tmp_path / "world.ply"
    assert main(["export", str(runs["utm"]), "--out", str(scene), "--world"]) == 0
    assert main(["export", str(runs["utm"]), "--out", str(tmp_path / "local.safetensors")]) == 0
    for number, start in enumerate((runs["utm"], scene, tmp_path / "local.safetensors")):
        warm = tmp_path / f"warm{number}"
        args = ["train", str(runs["ecef"].parent / "capture"), "--start-from", str(start), "--run", str(warm)]
        assert main([*args, "--steps", "1", *SHORT]) == 0
        expected = load_primitives(runs["utm"]).centres.double() + torch.tensor(UTM)
        centres = load_primitives(warm).centres.double() + torch.tensor(body_of(warm)["capture"]["shift"])
        assert (centres - expected).abs().max() < 1.0, (
            "where the scene was, in the coordinates of the capture"
        )


def test_a_run_that_states_no_shift_is_opened_as_it_was_made(tmp_path: Path, runs: dict[str, Path]) -> None:
    folder = tmp_path / "run"
    shutil.copytree(runs["utm"], folder)
    body = body_of(folder)
    body["capture"] = {k: v for k, v in body["capture"].items() if k not in ("shift", "far_cameras")}
    (folder / "config.json").write_text(json.dumps(sealed(body)))
    origin = read_origin(folder)
    assert origin.shift == (0, 0, 0) and origin.far_cameras == "keep"
    opened = origin.open()
    assert not opened.shift.any()
    assert np.abs(opened.points.xyz - (XYZ + UTM)).max() < 0.5


def test_scenes_of_doubles_from_other_programs_are_shifted(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    xyz = random.normal(size=(50, 3)) + ECEF
    names = ["x", "y", "z", "f_dc_0", "f_dc_1", "f_dc_2", "opacity", "scale_0", "scale_1", "scale_2"]
    names += ["rot_0", "rot_1", "rot_2", "rot_3"]
    lines = ["ply", "format binary_little_endian 1.0", "element vertex 50"]
    lines += [f"property {'double' if n in 'xyz' else 'float'} {n}" for n in names] + ["end_header", ""]
    rows = b"".join(struct.pack("<3d11f", *p, 0, 0, 0, 1, -3, -3, -3, 1, 0, 0, 0) for p in xyz)
    (tmp_path / "a.ply").write_bytes("\n".join(lines).encode() + rows)
    scene, facts = load_primitives(tmp_path / "a.ply"), load_facts(tmp_path / "a.ply")
    assert isinstance(scene, Gaussians) and facts.shift is not None
    assert np.abs(scene.means.double().numpy() + facts.shift - xyz).max() < 1e-6
    near = b"".join(struct.pack("<3d11f", *(p - ECEF), 0, 0, 0, 1, -3, -3, -3, 1, 0, 0, 0) for p in xyz)
    (tmp_path / "b.ply").write_bytes("\n".join(lines).encode() + near)
    assert load_facts(tmp_path / "b.ply").shift is None
    assert np.array_equal(
        load_primitives(tmp_path / "b.ply").centres.numpy(), (xyz - ECEF).astype(np.float32)
    )


def test_a_shift_goes_through_every_primitive(tmp_path: Path) -> None:
    facts = SceneFacts(shift=(5e5, 5e6, 200.0))
    for name, spec in PRIMITIVES.items():
        points = Points(XYZ[:40].astype(np.float32), RGB[:40])
        kind: Any = spec.engine.parameters
        scene = kind.from_points(points)
        save_scene(tmp_path / f"{name}.ply", scene, facts=facts, world=True)
        again = load_primitives(tmp_path / f"{name}.ply")
        assert type(again) is type(scene) and torch.allclose(again.centres, scene.centres, atol=1e-6), name
        assert load_facts(tmp_path / f"{name}.ply").shift == facts.shift


@pytest.mark.slow
def test_radiance_fields_state_the_shift(tmp_path: Path) -> None:
    """That of the run, also on another device, and the bounds of what is drawn are those of the shifted capture."""
    colmap_at(tmp_path / "capture", UTM)
    words = [
        "train",
        str(tmp_path / "capture"),
        "--field",
        "radiance",
        "--run",
        str(tmp_path / "run"),
        "--steps",
        "3",
    ]
    small = ["--batch", "256", "--log2-entries", "10", "--width", "16", "--device", "cpu", "--extent", "box"]
    assert main([*words, *small, "--max-size", "24"]) == 0
    expected = scenes.open(tmp_path / "capture").shift
    scene = open_scene(tmp_path / "run")
    for each in (scene, scene.to(torch.device("cpu"))):
        assert each.about.shift == pytest.approx(tuple(expected), abs=0) and expected.any()
    assert float(scene.centres().abs().max()) < 100
