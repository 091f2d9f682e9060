"""How many training views see a surface: exact counts of a made-up scene, refreshed in the background."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from page_driver import at_rest, ball, newest_client, ring, until
from shown import Coverage, StaticSession, ViewerApp, draw, outputs_of
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera, Pixels, View
from luxel.render.primitives import Convexes, Gaussians, Gaussians4d
from luxel.render.raster.rasterize import rasterize
from luxel.viewer.web.inspection.coverage import chosen
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.offline import open_offline_page
from luxel.viewer.web.panels.show import ShowPanel
from luxel.viewer.web.shading.legend import legend_of
from luxel.viewer.web.shading.shading import DisplaySettings
from luxel.viewer.web.shading.visibility import (
    COUNTS,
    DepthMap,
    VisibilityCount,
    VisibilityFrame,
    count_views,
    count_visible,
    shade_visibility,
    unproject,
)

HALF = 0.5  # half the side of the screen at z = 1 that hides a part of the wall z = 0


@dataclass
class Drawn:
    """A frame of the wall and the screen."""

    rgb: Tensor
    alpha: Tensor
    depth: Tensor


def wall(scene: Any, camera: Camera, **_: Any) -> Drawn:
    """An endless wall at z = 0 behind a square screen at z = 1, both opaque; exact depths. Cameras have z > 1."""
    ones = torch.ones(camera.height, camera.width)
    rays = unproject(ones, camera, 1) - camera.position
    eye = camera.position
    depth = torch.zeros_like(ones)
    for height in (0.0, 1.0):
        t = (height - eye[2]) / rays[..., 2]
        place = eye + t[..., None] * rays
        hit = (t > 0) & ((height == 0) | (place[..., :2].abs() <= HALF).all(-1))
        depth = torch.where(hit, t, depth)
    return Drawn(ones[..., None].expand(-1, -1, 3) * 0.5, (depth > 0).float(), depth)


def from_above(x: float, y: float = 0.0, z: float = 4.0) -> Camera:
    """Looks straight down at the wall; sees |x' - x| and |y' - y| up to 2 at z = 0."""
    matrix = torch.tensor([[1.0, 0, 0, -x], [0, -1, 0, y], [0, 0, -1, z], [0, 0, 0, 1]])
    return Camera(matrix, torch.tensor([200.0, 200.0, 100.0, 100.0]) * 1.0, 200, 200)


CAMERAS = [
    from_above(0.0),
    from_above(3.0),
    from_above(-3.0),
    from_above(1.2),
    replace(
        from_above(0.0), world_to_cam=Camera.look_at((0, 0, 4), (0, 0, 9), (0, 1, 0)).world_to_cam
    ),  # away from it
]


def views_of(cameras: list[Camera]) -> list[View]:
    return [
        View(f"v{i}", camera, lambda: Pixels(np.zeros((200, 200, 3), np.uint8)))
        for i, camera in enumerate(cameras)
    ]


def test_counts_are_exact() -> None:
    maps = [DepthMap.of(camera, wall(None, camera).depth) for camera in CAMERAS]
    points = torch.tensor(
        [
            [0.0, 0.0, 1.0],  # on the screen: views 0 and 3, whose side ends at 1.2 - 1.5 = -0.3
            [0.0, 0.0, 0.0],  # on the wall behind it: hidden from 0 for |x| < 0.67, from 3 for x < 0.27
            [0.9, 0.0, 0.0],  # 0 and 3; the others end at -1 and 1
            [1.5, 0.0, 0.0],  # 0, 3 and that at 3
            [-1.5, 0.0, 0.0],  # 0 and that at -3
            [0.0, 1.9, 0.0],  # 0 and 3: others are too far
            [9.0, 0.0, 0.0],  # nobody
            [0.0, 0.0, 6.0],  # behind all that look down, before the one that looks up
        ]
    )
    assert count_views(points, maps).tolist() == [2, 0, 2, 3, 2, 2, 0, 1]
    assert count_views(points, []).tolist() == [0] * 8


def expected(points: Tensor) -> Tensor:
    """The views of each point of wall or screen, by the segment to the camera."""
    counts = torch.zeros(points.shape[:-1])
    for camera in CAMERAS[:4]:
        eye = camera.position
        local = points @ camera.world_to_cam[:3, :3].T + camera.world_to_cam[:3, 3]
        inside = ((local[..., :2] / local[..., 2:]).abs() < 0.5).all(-1)
        crossing = points + (1 - points[..., 2:]) / (eye[2] - points[..., 2:]) * (eye - points)
        hidden = (points[..., 2] < 0.5) & (crossing[..., :2].abs() <= HALF).all(-1)
        counts += inside & ~hidden
    return counts


def test_an_image_of_counts_is_right_in_every_pixel_away_from_borders() -> None:
    session = StaticSession(Gaussians.empty(0), views_of(CAMERAS))
    coverage = Coverage(session, wall)
    coverage.listen(done := threading.Event().set)
    camera = replace(from_above(0.4, 0.1), width=180)
    frame = wall(None, camera)
    assert int(count_visible(frame, camera, coverage).views) == 0, "nothing waits for the maps"
    until(lambda: coverage.count(torch.zeros(1, 3)).views == 5, "no maps")
    until(lambda: coverage._thread is None, "the pass does not end")
    seen = count_visible(frame, camera, coverage)
    right = expected(unproject(frame.depth, camera, 1))
    wrong = seen.seen != right
    assert seen.views == seen.expected == 5 and float(wrong.float().mean()) < 0.03
    border = torch.nn.functional.max_pool2d(right[None, None], 7, 1, 3) != -torch.nn.functional.max_pool2d(
        -right[None, None], 7, 1, 3
    )
    assert not bool((wrong & ~border[0, 0]).any())
    image, caption = draw(wall, Gaussians.empty(0), camera, DisplaySettings(output="seen by", seen=coverage))
    assert caption == "0 to 3 of 5 training views" and image.shape == (200, 180, 3)
    bar = legend_of(caption)
    assert bar is not None and (bar.low, bar.high) == ("no view", "3 or more views")
    unseen = image[right == 0].float().mean(0)
    np.testing.assert_allclose(unseen, COUNTS[0], atol=6)
    coverage.unlisten(done)


def test_large_images_are_counted_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    maps = [DepthMap.of(camera, wall(None, camera).depth) for camera in CAMERAS]
    asked: list[int] = []

    class Counter:
        views = len(maps)

        def count(self, points: Tensor) -> Any:
            asked.append(len(points))
            return VisibilityCount(count_views(points, maps), len(maps), len(maps))

    camera = from_above(0.4)
    frame = wall(None, camera)
    every = count_visible(frame, camera, Counter()).seen
    monkeypatch.setattr("luxel.viewer.web.shading.visibility.PAIRS_CPU", 20_000)
    some = count_visible(frame, camera, Counter()).seen
    assert asked[0] == 200 * 200 and asked[1] * len(maps) <= 22_000
    assert some.shape == every.shape and float((some != every).float().mean()) < 0.08


def test_maps_follow_the_scene_and_end_with_the_last_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("luxel.viewer.web.inspection.coverage.REFRESH", 0.05)
    drawn: list[int] = []

    def render(scene: Any, camera: Camera, **_: Any) -> Drawn:
        assert max(camera.width, camera.height) <= 256
        drawn.append(1)
        return wall(scene, camera)

    session = StaticSession(Gaussians.empty(0), views_of([replace(c, width=400) for c in CAMERAS]))
    coverage = Coverage(session, render)
    points, changes = torch.zeros(1, 3), []
    coverage.count(points)
    assert coverage._thread is None, "maps are for pages"

    def changed() -> None:
        changes.append(1)

    coverage.listen(changed)
    coverage.count(points)
    until(lambda: coverage._thread is None and len(drawn) == 5, "no first pass")
    coverage.count(points)
    assert coverage._thread is None and changes, "nothing has changed"
    session.show(Gaussians.empty(0))
    coverage.count(points)
    until(lambda: coverage._thread is None and len(drawn) == 10, "no second pass")
    coverage.unlisten(changed)
    session.show(Gaussians.empty(0))
    coverage.count(points)
    assert coverage._thread is None and len(drawn) == 10


def test_only_static_scenes_with_depth_and_training_cameras_have_it() -> None:
    assert outputs_of(Gaussians, True)[-1] == outputs_of(Convexes, True)[-1] == "seen by"
    assert "seen by" not in outputs_of(Gaussians4d, True) + outputs_of(Gaussians)
    settings = DisplaySettings(output="seen by")
    with pytest.raises(LuxelError, match="no output 'seen by'"):
        draw(rasterize, ball(), CAMERAS[0], settings)
    session = StaticSession(ball(), ring(5), trained_on=3)
    assert [view.name for view in session.training_views] == [view.name for view in ring(5)[:3]]
    with pytest.raises(LuxelError, match="--capture"):
        counter = Coverage(StaticSession(ball()), rasterize)
        draw(rasterize, ball(), CAMERAS[0], replace(settings, seen=counter))
    assert len(chosen(views_of(CAMERAS) * 100)) == 256


def test_nothing_is_counted_where_there_is_no_surface() -> None:
    nan = torch.full((2, 2), torch.nan)
    frame = VisibilityFrame(torch.zeros(2, 2, 3), nan, nan, nan, 1, 2)
    rgb, caption = shade_visibility(frame, torch.tensor([0.2, 0.4, 0.6]))
    torch.testing.assert_close(rgb[0, 0], torch.tensor([0.2, 0.4, 0.6]))
    assert caption == "depth maps of 1 of 2 training views so far"


def test_a_page_draws_it_and_draws_again_with_new_maps() -> None:
    with ViewerApp(StaticSession(ball(), ring()), port=0) as app:
        opened = open_offline_page(app, Pose.of_camera(ring()[0].camera), width=80, height=60)
        assert any(isinstance(panel, ShowPanel) for panel in opened.panels)
        opened.page.stream.change(output="seen by")
        until(lambda: "of 5 training views" in opened.page.stream.last_report.caption, "not drawn")
        until(lambda: opened.page.stream.last_report.caption.startswith("0 to "), "the maps do not come")


@pytest.mark.slow
def test_coverage_in_a_browser(open_page: Callable[..., Any], tmp_path: Any) -> None:
    with ViewerApp(StaticSession(ball(3000), ring(), "ball"), port=0) as app:
        page = open_page(app, height=900)
        client = newest_client(app)
        at_rest(app, client)
        page.get_by_label("Output").click()
        page.get_by_role("option", name="seen by").click()
        page.get_by_text("or more views").first.wait_for(timeout=60_000)
        at_rest(app, client)
        page.screenshot(path=str(tmp_path / "seen.png"))
