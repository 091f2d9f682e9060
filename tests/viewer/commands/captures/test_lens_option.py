"""`luxel train --lens keep`: the choice is part of the run, and what follows uses it."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from luxel.render.geometry.camera import Camera
from luxel.render.geometry.lens import fisheye_rays, radial_lens
from luxel.render.geometry.lens_views import WIDEST, vertical_field, without_distortion
from luxel.render.primitives import Parameters
from luxel.render.raster.rasterize import rasterize
from luxel.render.scene import Draw
from luxel.scenes.loading.run_results import retains_lenses
from luxel.scenes.synthetic.captures.fisheye_capture import write_fisheye_capture
from luxel.viewer.cli import main
from luxel.viewer.commands.render import Render
from luxel.viewer.scene_loading.capture_options import Origin, load_origin
from luxel.viewer.web.navigate import Pose

QUICK = ["--device", "cpu", "--no-lpips", "--no-check-capture"]


@pytest.fixture(scope="module")
def fisheye(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small capture of a fisheye."""
    return write_fisheye_capture(tmp_path_factory.mktemp("lens") / "room", views=8, side=40, points=400)


@pytest.fixture(scope="module")
def run(fisheye: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on its photographs as they are."""
    folder = tmp_path_factory.mktemp("lens-run") / "run"
    assert main(["train", str(fisheye), "--run", str(folder), "--lens", "keep", "--steps", "4", *QUICK]) == 0
    return folder


def test_the_choice_is_kept_in_the_run(run: Path) -> None:
    origin = load_origin(run)
    assert origin.lens == "keep"
    opened = origin.open()
    assert all(view.camera.lens is not None for view in opened.views)
    older = json.loads((run / "config.json").read_text())["capture"]
    del older["lens"]
    assert Origin(older["path"]).lens == "undistort"


def test_evaluation_and_resuming_use_it(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", str(run), "--device", "cpu", "--no-lpips", "--json", "--out", str(tmp_path)]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["views"][0]["width"] == scores["views"][0]["height"] == 40
    assert main(["train", "--resume", str(run), "--steps", "6", *QUICK]) == 0
    assert load_origin(run).lens == "keep"


def test_films_are_those_of_pinhole_cameras(run: Path, tmp_path: Path) -> None:
    cameras = Render(run)._capture.views
    assert all(view.camera.lens is None for view in cameras)
    frames = ["--frames", "2", "--width", "32", "--height", "24", "--device", "cpu"]
    assert main(["render", str(run), "--out", str(tmp_path / "frames"), *frames]) == 0
    assert len(list((tmp_path / "frames").glob("*.png"))) == 2


def test_convexes_refuse_it(fisheye: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", str(fisheye), "--primitive", "convexes", "--lens", "keep", "--steps", "4", *QUICK]
    assert main([*words, "--run", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert "Convexes cannot use cameras with a fisheye" in error and "--lens undistort" in error
    assert not (tmp_path / "run").exists()


def test_counts_of_views_that_see_a_point_know_the_lens(run: Path) -> None:
    from luxel.viewer.web.shading.visibility import DepthMap, count_views

    view = load_origin(run).open().train[0]
    far = torch.full((view.camera.height + 1, view.camera.width + 1), 100.0)
    matrix = view.camera.world_to_cam
    ahead, beside, behind = (torch.tensor(p) for p in ([0.0, 0, 1], [1.0, 0, 0.05], [0.0, 0.1, -1]))
    points = torch.stack([(p - matrix[:3, 3]) @ matrix[:3, :3] for p in (ahead, beside, behind)])
    assert count_views(points, [DepthMap(view.camera, far)]).tolist() == [1, 1, 0]


def test_views_of_pinhole_cameras_are_by_sigma_points(run: Path) -> None:
    from luxel.viewer.web.opening import open_session

    session = open_session(run, torch.device("cpu"))
    with session.borrow() as shown_scene:
        scene = shown_scene.parts[Parameters]
    camera = Camera.look_at((0.2, 0.1, 1.0), (1, 1, 1), fov_y=2.2, width=48, height=40)
    shown = shown_scene.draw(camera, Draw()).images["colour"]
    assert torch.equal(shown, rasterize(scene, replace(camera, lens=radial_lens())).rgb)
    assert not torch.allclose(shown, rasterize(scene, camera).rgb, atol=1e-3)
    lensed = session.views[0].camera
    assert torch.equal(shown_scene.draw(lensed, Draw()).images["colour"], rasterize(scene, lensed).rgb)
    stacked = without_distortion(Camera.stack([camera, camera]))
    assert stacked.lens is not None and stacked.lens.shape == (2, 8)
    assert retains_lenses(run) and not retains_lenses(run / "scene.ply")


def test_frustums_of_lenses_are_plausible(run: Path) -> None:
    view = load_origin(run).open().train[0]
    assert vertical_field(view.camera) == pytest.approx(WIDEST)
    narrow = replace(view.camera, intrinsics=view.camera.intrinsics * torch.tensor([4.0, 4.0, 1.0, 1.0]))
    x, y, z = fisheye_rays(narrow)[0, narrow.width // 2]
    assert vertical_field(narrow) == pytest.approx(2 * math.atan2(math.hypot(x, y), z), rel=0.06)
    straight = replace(narrow, lens=None)
    radial = replace(narrow, lens=radial_lens())
    assert vertical_field(radial) == pytest.approx(vertical_field(straight), rel=1e-4)
    assert Pose.of_camera(narrow).fov_y == pytest.approx(vertical_field(narrow))
