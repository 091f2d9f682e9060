"""Poses, surroundings and colours of a page."""

from __future__ import annotations

import itertools
import math
import threading
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime
from typing import Any, cast

import numpy as np
import pytest
import torch
import viser
from page_driver import ball
from shown import StaticSession, find_extent, outputs_of
from viser.transforms import SO3

from luxel.render.geometry.camera import Camera, Pixels, View
from luxel.render.primitives import Convexes, Gaussians, Gaussians4d
from luxel.render.raster.rasterize import rasterize
from luxel.viewer.web.inspection.frustums import evenly
from luxel.viewer.web.navigate import (
    WIDENED_FOV,
    Pose,
    first_pose,
    jump,
    orbit_point,
    place,
    start_pose,
    turn_up,
)
from luxel.viewer.web.page import Page
from luxel.viewer.web.panels.text import as_text, clock, day_and_time, table
from luxel.viewer.web.panels.training import status_rows
from luxel.viewer.web.shading.legend import EMBER, false_colour, spread
from luxel.viewer.web.shading.shading import OUTPUTS


def ring(
    count: int = 8, up: tuple[float, float, float] = (0, 0, 1), centre: tuple = (1.0, 2.0, 3.0)
) -> list[View]:
    views = []
    for i in range(count):
        angle = 2 * math.pi * i / count
        eye = (centre[0] + 4 * math.cos(angle), centre[1] + 4 * math.sin(angle), centre[2] + 1)
        camera = Camera.look_at(eye, centre, up, fov_y=0.8, width=80, height=60)
        views.append(View(f"{i}.png", camera, lambda: Pixels(np.zeros((60, 80, 3), np.uint8))))
    return views


class FakeClient:
    """A client of viser without a page: what is sent to it, and its camera where the page sends it all the time."""

    def __init__(self, stale: bool = False) -> None:
        self._websock_connection, self._stale = self, stale
        self.camera = viser.CameraHandle(cast(viser.ClientHandle, self))
        self.camera._state = self._camera()
        self.sent: dict[str, Any] = {}

    def _camera(self) -> Any:
        moved = {
            **{"wxyz": np.array([1.0, 0, 0, 0]), "position": np.zeros(3), "fov": 1.2},
            **{"look_at": np.array([0, 0, 1.0]), "up_direction": np.array([0, -1.0, 0])},
            **{"image_width": 640, "image_height": 480, "update_timestamp": 1.0},
        }
        return replace(self.camera._state, **moved)

    def queue_message(self, message: Any) -> None:
        """What the page is sent; a page that is late answers each message with where it was before."""
        self.sent[type(message).__name__] = message
        if self._stale:
            self.camera._state = self._camera()

    def atomic(self) -> Any:
        return nullcontext()


def test_pose_is_the_inverse_of_its_camera() -> None:
    camera = Camera.look_at((1, -2, 0.5), (0.2, 0, 0), fov_y=0.7, width=80, height=60)
    pose = Pose.of_camera(camera)
    again = pose.camera(80, 60)
    torch.testing.assert_close(again.world_to_cam, camera.world_to_cam, atol=1e-5, rtol=0)
    torch.testing.assert_close(again.intrinsics, camera.intrinsics, atol=1e-3, rtol=0)
    half = pose.camera(40, 30)
    torch.testing.assert_close(half.intrinsics, camera.intrinsics / 2, atol=1e-3, rtol=0)


@pytest.mark.parametrize(("aspect", "widens"), [(2.0, False), (80 / 60, False), (0.8, True)])
def test_narrow_window_still_shows_the_whole_image(aspect: float, widens: bool) -> None:
    camera = Camera.look_at((3, 0, 0), (0, 0, 0), fov_y=0.7, width=80, height=60)
    pose = Pose.of_camera(camera, aspect)
    assert (pose.fov_y > 0.7001) is widens
    assert math.tan(pose.fov_y / 2) * aspect >= math.tan(0.35) * 80 / 60 - 1e-6


@pytest.mark.parametrize(("fov", "expected"), [(0.7, WIDENED_FOV), (1.5, 1.5)])
def test_no_window_widens_the_field_of_view_beyond_what_can_be_rendered(fov: float, expected: float) -> None:
    camera = Camera.look_at((3, 0, 0), (0, 0, 0), fov_y=fov, width=80, height=60)
    assert Pose.of_camera(camera, 0.4).fov_y == pytest.approx(expected)


@pytest.mark.parametrize("with_views", [True, False])
def test_pages_of_narrow_windows_begin_farther_back_so_that_the_subject_fits(with_views: bool) -> None:
    views = ring() if with_views else []
    extent = find_extent(views, ball())
    first, wide, narrow = (start_pose(views, extent, aspect) for aspect in (1.6, 1.2, 390 / 844))
    np.testing.assert_allclose(first.position, wide.position)
    np.testing.assert_allclose(narrow.wxyz, first.wxyz)
    assert narrow.fov_y == pytest.approx(WIDENED_FOV) and first.fov_y < 1
    near, far = (np.linalg.norm(pose.position - orbit_point(first, extent)) for pose in (first, narrow))
    assert far > 1.01 * near
    assert far * math.tan(narrow.fov_y / 2) * 390 / 844 == pytest.approx(near * math.tan(first.fov_y / 2))


@pytest.mark.parametrize("tilt", [0, 30, 90, 180, -100])
def test_a_page_begins_upright_where_the_first_image_lies_on_its_side(tilt: float) -> None:
    views = ring()
    extent = find_extent(views, Gaussians.empty(), np.array([0, 0, 1.0]))
    roll = torch.eye(4)
    turn = math.radians(tilt)
    roll[:2, :2] = torch.tensor([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]])
    level = first_pose(views, extent)
    camera = replace(views[0].camera, world_to_cam=roll @ views[0].camera.world_to_cam)
    pose = first_pose([replace(views[0], camera=camera)], extent)
    np.testing.assert_allclose(pose.position, level.position, atol=1e-5)
    if abs(tilt) == 30:
        np.testing.assert_allclose(pose.rotation, Pose.of_camera(camera).rotation)
    else:
        np.testing.assert_allclose(pose.rotation, level.rotation, atol=1e-5)
    lies = 45 < abs(tilt) < 135
    assert (pose.width, pose.height) == ((60, 80) if lies else (80, 60))
    focal = pose.height / math.tan(pose.fov_y / 2)
    assert focal == pytest.approx(level.height / math.tan(level.fov_y / 2), rel=1e-5), (
        "pixels keep their size"
    )


def test_extent_finds_centre_size_and_up() -> None:
    extent = find_extent(ring(), Gaussians.empty())
    np.testing.assert_allclose(extent.centre, [1, 2, 3], atol=0.02)
    assert extent.radius == pytest.approx(math.hypot(4, 1), rel=0.02)
    assert extent.up @ [0, 0, 1] > 0.99
    np.testing.assert_allclose(find_extent(ring(), Gaussians.empty(), np.array([0, 2.0, 0])).up, [0, 1, 0])


@pytest.mark.parametrize("points", [0, 1, 500])
def test_extent_without_views(points: int) -> None:
    means = torch.randn(points, 3, generator=torch.Generator().manual_seed(1)) + 5
    if points > 1:
        means[0] = torch.nan
    gaussians = Gaussians(
        means,
        torch.ones(points, 4),
        torch.zeros(points, 3),
        torch.zeros(points),
        torch.zeros(points, 3),
        torch.zeros(points, 0, 3),
    )
    extent = find_extent([], gaussians)
    assert np.isfinite(extent.centre).all() and extent.radius > 0
    pose = first_pose([], extent)
    forward = pose.rotation[:, 2]
    assert forward @ (extent.centre - pose.position) > 0, "the page starts looking at the scene"


def test_extent_of_other_primitives() -> None:
    for scene in (Convexes.empty(), Gaussians4d.empty()):
        extent = find_extent([], scene)
        assert np.isfinite(extent.centre).all() and extent.radius > 0
    convexes = Convexes.empty().map(lambda t: torch.ones(3, *t.shape[1:]))
    np.testing.assert_allclose(find_extent([], convexes).centre, [1, 1, 1])


def test_outputs_are_those_of_the_primitive() -> None:
    # Those of distance fields, volumes and meshes are left out.
    of_gaussians = tuple(output for output in OUTPUTS if output not in ("shadows", "shaded"))
    assert outputs_of(Gaussians) == outputs_of(Gaussians4d) == of_gaussians
    assert set(of_gaussians) - set(outputs_of(Convexes)) == {"normals"}


def test_parallel_cameras_have_a_middle() -> None:
    views = ring(1) * 3
    extent = find_extent(views, Gaussians.empty())
    assert np.isfinite(extent.centre).all() and extent.radius > 0


@pytest.mark.parametrize("stale", [False, True], ids=["quick page", "late page"])
def test_jump_ends_exactly_at_the_view(stale: bool) -> None:
    views = ring()
    extent = find_extent(views, Gaussians.empty())
    client = FakeClient(stale)
    target = Pose.of_camera(views[3].camera)
    seen: list[np.ndarray] = []
    jump(client, target, extent, seconds=0.2, cancelled=lambda: seen.append(client.camera.position) or False)
    np.testing.assert_allclose(client.camera.position, target.position)
    np.testing.assert_allclose(client.camera.wxyz, target.wxyz)
    assert client.camera.fov == pytest.approx(0.8, abs=1e-5)
    assert len(seen) > 3, "it flies rather than blinks"
    np.testing.assert_allclose(client.camera.look_at, extent.centre, atol=0.05)
    np.testing.assert_allclose(rotation_on_the_page(client), target.rotation, atol=1e-6)
    np.testing.assert_allclose(client.sent["SetCameraPositionMessage"].position, target.position)
    assert client.sent["SetCameraFovMessage"].fov == pytest.approx(0.8, abs=1e-5)


def rotation_on_the_page(client: FakeClient) -> np.ndarray:
    """How a page turns its camera after the messages that it was sent, [3, 3]."""
    eye = np.array(client.sent["SetCameraPositionMessage"].position)
    look_at = np.array(client.sent["SetCameraLookAtMessage"].look_at)
    up = client.sent["SetCameraUpDirectionMessage"].position
    camera = Camera.look_at(eye.tolist(), look_at.tolist(), up)
    return Pose.of_camera(camera).rotation


@pytest.mark.parametrize("turn", [0.0, 0.3, math.pi / 2, 2.5, math.pi])
def test_rolled_cameras_keep_their_roll(turn: float) -> None:
    pose = Pose.of_camera(Camera.look_at((3, 1, 2), (0, 0, 0), (0, 0, 1)))
    rolled = Pose((SO3(pose.wxyz) @ SO3.from_z_radians(turn)).wxyz, pose.position, pose.fov_y)
    client = FakeClient()
    place(client, rolled, find_extent(ring(), Gaussians.empty()))
    np.testing.assert_allclose(rotation_on_the_page(client), rolled.rotation, atol=1e-6)


def test_jump_can_be_cancelled() -> None:
    client = FakeClient()
    extent = find_extent(ring(), Gaussians.empty())
    jump(client, Pose.of_camera(ring()[2].camera), extent, cancelled=lambda: True)
    np.testing.assert_array_equal(client.camera.position, np.zeros(3))


def test_an_up_direction_is_sent_also_where_a_late_page_still_has_it() -> None:
    client = FakeClient(stale=True)
    for up in ((1.0, 0.0, 0.0), (0.0, -1.0, 0.0)):  # the second is what the late page reports in between
        turn_up(client, np.array(up))
        assert client.sent["SetCameraUpDirectionMessage"].position == up


def test_an_up_direction_chosen_during_a_flight_stays() -> None:
    client, extent = FakeClient(), find_extent(ring(), Gaussians.empty())
    page = Page(client, StaticSession(Gaussians.empty(0), ring()), extent, rasterize)
    sent = threading.Event()
    client.queue_message = lambda message: (FakeClient.queue_message(client, message), sent.set())
    flight = threading.Thread(target=page.reset)
    flight.start()
    assert sent.wait(10)
    page.turn_up(np.array([1.0, 0.0, 0.0]))
    flight.join(10)
    assert client.sent["SetCameraUpDirectionMessage"].position == (1, 0, 0)
    assert not np.allclose(client.camera.position, ring()[0].camera.position), "the flight has ended"
    page.reset()
    assert np.allclose(client.sent["SetCameraUpDirectionMessage"].position, extent.up)
    assert np.allclose(client.camera.position, ring()[0].camera.position)


def test_orbit_point_is_in_front_of_the_camera() -> None:
    extent = find_extent(ring(), Gaussians.empty())
    away = Pose.of_camera(Camera.look_at((9, 2, 3), (20, 2, 3)))
    assert away.rotation[:, 2] @ (orbit_point(away, extent) - away.position) > 0


def test_false_colours_end_where_the_table_ends() -> None:
    colours = false_colour(torch.tensor([-1.0, 0.0, 1.0, 7.0, torch.nan])) * 255
    for row, expected in zip(colours, (EMBER[0], EMBER[0], EMBER[-1], EMBER[-1], EMBER[0]), strict=True):
        np.testing.assert_allclose(row.numpy(), expected, atol=1e-3)
    lightness = false_colour(torch.linspace(0, 1, 32)) @ torch.tensor([0.3, 0.6, 0.1])
    assert (lightness.diff() > 0).all(), "brighter is more, without a legend"


def test_spread_ignores_outliers_and_nan() -> None:
    values = torch.cat([torch.linspace(1, 2, 1000), torch.tensor([1e9, torch.inf, torch.nan])])
    low, high = spread(values)
    assert 0.99 < low < 1.1 and 1.9 < high < 2.01
    assert spread(torch.zeros(0)) == (0.0, 1.0)


def test_numbers_are_written_for_people() -> None:
    assert [clock(s) for s in (0, 61.9, 3661, math.nan, math.inf, -1)] == [
        "0:00",
        "1:01",
        "1:01:01",
        "–",
        "–",
        "–",
    ]
    rows = dict(
        status_rows({"step": 1200, "steps": 7000, "psnr": 25.123, "count": 54321, "eta": 5, "done": True})
    )
    assert rows["Step"] == "1,200 of 7,000" and rows["Gaussians"] == "54,321"
    assert rows["PSNR, training"] == "25.12 dB" and "Left" not in rows
    assert status_rows({"psnr": None, "steps_per_s": None}) == []
    assert status_rows({"count": 5}, "convexes") == [("Convexes", "5")]
    assert status_rows({"count": 5, "noun": "4D Gaussians"}, "convexes") == [("4D Gaussians", "5")]


def test_names_and_messages_cannot_write_html() -> None:
    assert "<img" not in table([("a", "<img src=x onerror=alert(1)>")])
    assert "<" not in as_text("<b>&").replace("\\<", "")
    assert len(as_text("x" * 5000)) < 500


def test_many_views_are_thinned_evenly() -> None:
    views = ring(200)
    chosen = evenly(views, 64)
    assert len(chosen) == 64 and chosen[0][0] == 0 and chosen[-1][0] == 199
    assert max(b - a for (a, _), (b, _) in itertools.pairwise(chosen)) <= 4


def test_moments_are_named_by_their_day() -> None:
    now = datetime(2026, 11, 28, 0, 5).timestamp()
    said = [
        day_and_time(datetime(*when).timestamp(), now)
        for when in ((2026, 11, 28, 0, 1), (2026, 11, 27, 17, 42), (2026, 11, 3, 9, 5), (2024, 2, 29, 23, 59))
    ]
    assert said == ["today, 0:01", "yesterday, 17:42", "3 November, 9:05", "29 February 2024, 23:59"]
