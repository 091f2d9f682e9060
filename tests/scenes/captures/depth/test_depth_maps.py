"""Depth maps: files, units and sizes; points from them; and depth that does not fit the poses."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import textured_room as room
from PIL import Image

import luxel.scenes as scenes
from luxel.render.geometry.camera import Camera, Points
from luxel.scenes.captures.checks import inspect
from luxel.scenes.captures.depth.depth_maps import DepthReader, read_depth
from luxel.scenes.captures.lenses.lens import Lens, distort_points, pinhole_of
from luxel.scenes.errors import CaptureError
from luxel.viewer.commands.inspect import facts_of

SIZE, FOCAL, COUNT = (96, 72), 70.0, 6


def rays(camera: np.ndarray, size: tuple[int, int] = SIZE, focal: float = FOCAL) -> np.ndarray:
    """Directions of pixels whose z in the camera is 1, world coordinates."""
    columns, rows = np.meshgrid(np.arange(size[0]) + 0.5, np.arange(size[1]) + 0.5)
    local = np.stack(
        [(columns - 0.5 * size[0]) / focal, (rows - 0.5 * size[1]) / focal, np.ones_like(rows)], -1
    )
    return local @ camera[:3, :3].T


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A room seen by six photographs with depth maps of half their size, in millimetres."""
    frames = []
    for index in range(COUNT):
        angle = 0.5 * index
        camera = Camera.look_at(
            (1.5 * np.cos(angle), 0.2 * index - 0.5, 1.5 * np.sin(angle)),
            (-3.0 * np.cos(angle), 0.0, -2.0 * np.sin(angle)),
            (0.0, -1.0, 0.0),
            width=SIZE[0],
            height=SIZE[1],
        )
        pose = camera.cam_to_world.double().numpy()
        Image.fromarray(room.colours(pose[:3, 3], rays(pose))).save(tmp_path / f"{index}.png")
        depth = room.reach(pose[:3, 3], rays(pose, (48, 36), FOCAL / 2)).min(-1)
        Image.fromarray(np.round(1000 * depth).astype(np.uint16)).save(tmp_path / f"depth{index}.png")
        frames.append(
            {
                "file_path": f"{index}.png",
                "depth_file_path": f"depth{index}.png",
                "transform_matrix": (pose @ np.diag([1.0, -1, -1, 1])).tolist(),
            }
        )
    document = {"fl_x": FOCAL, "w": SIZE[0], "h": SIZE[1], "frames": frames}
    (tmp_path / "transforms.json").write_text(json.dumps(document))
    return tmp_path


def edit(folder: Path, change: Callable[[dict], object]) -> None:
    document = json.loads((folder / "transforms.json").read_text())
    change(document)
    (folder / "transforms.json").write_text(json.dumps(document))


def test_points_lie_on_the_walls(capture: Path) -> None:
    opened = scenes.open(capture)
    assert len(opened.depths) == COUNT and len(opened.points.xyz) > 3000
    outside = np.abs(np.abs(opened.points.xyz) / room.HALF - 1).min(1)
    assert np.median(outside) < 0.01 and not any("depth" in warning for warning in opened.warnings)
    view = opened.train[0]
    pose = view.camera.cam_to_world.double().numpy()
    expected = room.reach(pose[:3, 3], rays(pose)).min(-1)
    depth = opened.depths[view.name]()
    assert depth.shape == (SIZE[1], SIZE[0]) and np.median(np.abs(depth / expected - 1)) < 0.02
    inspection = inspect(opened)
    assert facts_of(inspection)["depth maps"] == "of 6 of 6 images"
    assert not [finding for finding in inspection.findings if finding.check == "depth"]


def test_points_of_a_lidar_come_first(capture: Path) -> None:
    scenes.save_points(capture / "lidar.ply", Points(np.eye(3, dtype=np.float32), np.zeros((3, 3), np.uint8)))
    edit(capture, lambda document: document.update(ply_file_path="lidar.ply"))
    assert len(scenes.open(capture).points.xyz) == 3


def test_another_unit_is_noticed(capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from luxel.scenes.captures.initial_points import choice

    points = scenes.open(capture).points
    monkeypatch.setattr(choice, "initial_points", lambda *_, **__: choice.InitialPoints(points, ""))
    edit(capture, lambda document: document.update(depth_unit_scale_factor=0.003))
    opened = scenes.open(capture)
    assert any("The depth maps are not used: two views agree on" in w for w in opened.warnings)
    problem = next(f.problem for f in inspect(opened).findings if f.check == "depth")
    assert problem == "The depth maps have 3 times the distances of the points."


def test_one_map_of_another_place_is_noticed(capture: Path) -> None:
    scenes.save_points(capture / "points3D.ply", scenes.open(capture).points)
    path = capture / "depth3.png"
    Image.fromarray((np.asarray(Image.open(path)) * 0.6).astype(np.uint16)).save(path)
    findings = [f for f in inspect(scenes.open(capture)).findings if f.check == "depth"]
    assert [f.views for f in findings] == [("3.png",)] and findings[0].values[0] == pytest.approx(
        -0.4, abs=0.03
    )


def test_values_of_files(tmp_path: Path) -> None:
    values = np.array([[0, 1500], [2000, 65535]])
    Image.fromarray(values.astype(np.uint16)).save(tmp_path / "a.png")
    Image.fromarray(values.astype(np.float32) / 1000).save(tmp_path / "a.tif")
    np.save(tmp_path / "a.npy", np.asfortranarray(values.astype(np.float64) / 1000)[..., None])
    np.save(tmp_path / "b.npy", np.array([[np.nan, -1.0], [np.inf, 2.0]], np.float16))
    for name in ("a.png", "a.tif", "a.npy"):
        assert np.allclose(read_depth(tmp_path / name), values / 1000), name
    assert np.allclose(read_depth(tmp_path / "a.png", 0.5), values * 0.5)
    assert read_depth(tmp_path / "b.npy").tolist() == [[0, 0], [0, 2]]


def test_values_of_inverse_depth(tmp_path: Path) -> None:
    values = np.array([[0, 1], [128, 255]])
    Image.fromarray(values.astype(np.uint8)).save(tmp_path / "a.png")
    Image.fromarray((values * 257).astype(np.uint16)).save(tmp_path / "b.png")
    np.save(tmp_path / "c.npy", values / 255)
    expected = [[0, 255], [255 / 128, 1]]
    for name in ("a.png", "b.png", "c.npy"):
        assert np.allclose(read_depth(tmp_path / name, inverse=True), expected), name
    assert np.allclose(read_depth(tmp_path / "c.npy", 0.5, inverse=True), 2 * np.array(expected))
    with pytest.raises(CaptureError, match="mode L"):
        read_depth(tmp_path / "a.png")


def test_files_that_are_no_depth_maps(tmp_path: Path) -> None:
    Image.new("RGB", (4, 4)).save(tmp_path / "rgb.png")
    (tmp_path / "a.exr").write_bytes(b"v/1\x01" + bytes(60))
    np.save(tmp_path / "four.npy", np.zeros((2, 2, 2, 2)))
    np.save(tmp_path / "whole.npy", np.zeros((9, 9)))
    (tmp_path / "cut.npy").write_bytes((tmp_path / "whole.npy").read_bytes()[:-8])
    problems = {
        "rgb.png": "mode RGB",
        "four.npy": r"must hold numbers \[H, W\]",
        "cut.npy": "cut short",
        "a.exr": "OpenEXR",
    }
    for name, problem in problems.items():
        with pytest.raises(CaptureError, match=problem):
            read_depth(tmp_path / name)


def test_distances_from_the_camera_are_turned_into_depth(tmp_path: Path) -> None:
    lens = Lens(96, 72, 70.0, 65.0, 40.0, 36.0)
    columns, rows = np.meshgrid(np.arange(48) + 0.5, np.arange(36) + 0.5)
    rays = np.hypot(np.hypot((columns - 20) / 35, (rows - 18) / 32.5), 1)
    np.save(tmp_path / "a.npy", (3 * rays).astype(np.float32))
    reader = DepthReader(tmp_path / "a.npy", None, lens, 48, 36, "ray")
    assert np.allclose(reader(), 3, rtol=1e-6)
    assert np.allclose(replace(reader, width=24, height=18)(), 3, rtol=0.03), (
        "the nearest pixel, not its mean"
    )
    assert np.allclose(replace(reader, values="z")(), 3 * rays, rtol=1e-6)


def test_maps_in_a_folder_beside_the_images(capture: Path) -> None:
    """For captures that name none: by the names of the images, with other files among them."""
    (capture / "depths" / "inner").mkdir(parents=True)
    for index in range(COUNT):
        Image.open(capture / f"depth{index}.png").save(capture / "depths" / f"{index}.png")
    np.save(capture / "depths" / "1.npy", np.ones((36, 48)))  # a PNG of the name comes first
    (capture / "depths" / "notes.txt").write_text("")
    (capture / "depths" / "3.png").unlink()
    edit(capture, lambda document: [frame.pop("depth_file_path") for frame in document["frames"]])
    depths = scenes.open(capture).depths
    assert sorted(depths) == ["0.png", "1.png", "2.png", "4.png", "5.png"]
    assert 0.5 < np.median(depths["1.png"]()) < 5 and depths["1.png"]().max() > 1
    ray = scenes.open(capture, depth_values="ray").depths["1.png"]()
    assert (ray <= depths["1.png"]()).all() and ray[0, 0] < 0.85 * depths["1.png"]()[0, 0]
    with pytest.raises(CaptureError, match="depth_values='log' is invalid"):
        scenes.open(capture, depth_values="log")


@pytest.mark.parametrize("unit", ["integer_depth_scale", "depth_unit"])
def test_entries_of_instant_ngp(capture: Path, unit: str) -> None:
    def change(document: dict) -> None:
        document[unit] = 0.002
        for frame in document["frames"]:
            frame["depth_path"] = frame.pop("depth_file_path")

    before = scenes.open(capture).depths["2.png"]()
    edit(capture, change)
    assert np.allclose(scenes.open(capture).depths["2.png"](), 2 * before)
    edit(capture, lambda document: document.pop(unit))
    assert not scenes.open(capture).depths, "without a unit the entry may mean anything"


def test_depth_of_a_distorted_photograph_is_undistorted(tmp_path: Path) -> None:
    lens = Lens(96, 72, 70.0, 70.0, 48.0, 36.0, (-0.2, 0.05))
    columns = np.broadcast_to(np.arange(1, 97), (72, 96))
    Image.fromarray(columns.astype(np.uint16)).save(tmp_path / "a.png")
    straight = pinhole_of(lens)
    read = DepthReader(tmp_path / "a.png", 1.0, lens, 96, 72)()
    middle = read[36]
    assert middle[48] == pytest.approx(49, abs=1.5)
    x = (np.array([10, 80]) + 0.5 - straight.cx) / straight.fx
    expected = (
        distort_points(lens, np.stack([x, np.full(2, (36.5 - straight.cy) / straight.fy)], -1))[:, 0] + 1
    )
    assert np.abs(middle[[10, 80]] - expected).max() <= 1
    with pytest.raises(CaptureError, match="the depth map is 96x72 pixels, its image 72x96"):
        DepthReader(tmp_path / "a.png", 1.0, Lens(72, 96, 70, 70, 36, 48), 72, 96)()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda d: d["frames"][1].update(depth_file_path="none.png"), "the depth map .*none.png is missing"),
        (lambda d: d.update(depth_unit_scale_factor=-1), "depth_unit_scale_factor must be positive"),
        (
            lambda d: d["frames"][1].update(depth_file_path=None, depth_path="no.png", depth_unit=0.001),
            "the depth map .*no.png is missing",
        ),
        (
            lambda d: d["frames"][1].update(
                depth_file_path=None, depth_path="depth1.png", integer_depth_scale="x"
            ),
            "integer_depth_scale must be a finite number",
        ),
    ],
)
def test_entries_that_name_no_depth(capture: Path, change: Callable[[dict], object], problem: str) -> None:
    edit(capture, change)
    with pytest.raises(CaptureError, match=problem):
        scenes.open(capture)
