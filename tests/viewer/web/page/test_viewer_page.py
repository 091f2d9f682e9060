"""The viewer in a real browser: headless Chromium drives the page that people see."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from page_driver import (
    CANVAS,
    at_rest,
    ball,
    canvas_width,
    click_until,
    cut,
    drag,
    expected_image,
    likeness,
    newest_client,
    psnr,
    ring,
    screenshot,
    until,
)
from PIL import Image
from shown import StaticSession, ViewerApp

from luxel.viewer.web.navigate import Pose


def test_page_shows_the_rendered_frame_and_a_drag_turns_it(
    shown: ViewerApp, open_page: Callable[..., Any], tmp_path: Path
) -> None:
    page = open_page(shown)
    client = newest_client(shown)
    images = []
    for move in (None, (90, 20)):
        if move is not None:
            drag(page, client, move)
            page.mouse.move(5, 515)
        at_rest(shown, client)
        # JPEG, and viser lowers the canvas's pixels where the browser draws slowly
        until(lambda: likeness(page, client) > 30, "the page does not show what its camera sees")
        image = screenshot(page)
        expected = expected_image(client, image.shape, canvas_width(page))
        Image.fromarray(image.astype(np.uint8)).save(tmp_path / "page.png")
        Image.fromarray(expected.astype(np.uint8)).save(tmp_path / "render.png")
        assert cut(expected).std() > 20, "the comparison would hold for an empty image"
        assert psnr(cut(image), cut(expected)) > 30, f"see {tmp_path}"
        images.append(image)
    assert psnr(cut(images[0]), cut(images[1])) < 20, "the drag changed nothing"


@pytest.mark.slow
def test_page_and_renderer_agree_where_a_point_is(shown: ViewerApp, open_page: Callable[..., Any]) -> None:
    """A sphere that the browser draws lies where luxel's camera projects its centre."""
    page = open_page(shown)
    client = newest_client(shown)
    drag(page, client, (60, -40))
    page.mouse.move(5, 515)
    at_rest(shown, client)
    until(lambda: likeness(page, client) > 30, "the page does not show what its camera sees")
    before = screenshot(page)
    centre = np.array([0.2, 0.5, -0.6])
    client.scene.add_icosphere("/probe", radius=0.12, color=(0, 255, 0), position=centre)

    def changed() -> np.ndarray:
        return np.abs(cut(screenshot(page)) - cut(before)).max(axis=-1) > 40

    def drawn() -> bool:
        """Twice the same, as it may be caught half drawn."""
        first = changed()
        return bool(first.sum() > 100 and (changed() == first).all())

    until(drawn, "the sphere is not on the page")
    rows, columns = np.nonzero(changed())
    camera = Pose.of_client(client.camera).camera(canvas_width(page), before.shape[0])
    x, y, z = (camera.world_to_cam[:3, :3].numpy() @ centre) + camera.world_to_cam[:3, 3].numpy()
    fx, fy, cx, cy = camera.intrinsics.tolist()
    assert z > 0
    assert abs(columns.mean() + CANVAS[0] - (fx * x / z + cx)) < 4
    assert abs(rows.mean() + CANVAS[1] - (fy * y / z + cy)) < 4


@pytest.mark.slow
def test_share_button_is_absent(shown: ViewerApp, open_page: Callable[..., Any]) -> None:
    page = open_page(shown)
    page.get_by_role("button", name="Reset view").wait_for()
    assert page.locator("#root").get_by_text("Share", exact=True).count() == 0
    assert page.locator("#root").get_by_role("button", name="Share").count() == 0
    assert "share.viser" not in page.content()


@pytest.mark.slow
def test_two_pages_look_from_different_places_and_one_may_vanish(
    shown: ViewerApp, open_page: Callable[..., Any]
) -> None:
    until(lambda: shown.pages == 0, "a page of the test before is still there")
    one = open_page(shown)
    first = newest_client(shown)
    two = open_page(shown)
    second = newest_client(shown)
    assert first.client_id != second.client_id
    drag(two, second, (150, 0))
    at_rest(shown, first)
    at_rest(shown, second)
    until(lambda: likeness(one, first) > 30, "the first page does not show what its camera sees")
    until(lambda: likeness(two, second) > 30, "the second page does not show what its camera sees")
    a, b = screenshot(one), screenshot(two)
    assert psnr(cut(a), cut(b)) < 20
    two.context.close()
    until(lambda: shown.pages == 1, "the loop of a closed page went on")
    drag(one, first, (-120, 10))
    until(lambda: psnr(cut(a), cut(screenshot(one))) < 20, "the page that is left is dead")


@pytest.mark.slow
def test_view_is_reached_by_name(shown: ViewerApp, open_page: Callable[..., Any]) -> None:
    page = open_page(shown)
    client = newest_client(shown)
    page.get_by_role("button", name="Next").click()
    target = Pose.of_camera(ring()[1].camera)

    def there() -> bool:  # position and rotation may come with different messages
        here = Pose.of_client(client.camera)
        turned = np.trace(here.rotation.T @ target.rotation) > 2.999
        return (
            bool(turned and np.allclose(here.position, target.position, atol=1e-3))
            and abs(here.fov_y - 0.9) < 1e-3
        )

    until(there, "the camera did not reach the view")
    assert page.evaluate("document.querySelectorAll('b').length") == 0, "a file name became HTML"


@pytest.mark.slow
def test_cameras_are_shown_and_a_click_goes_there(shown: ViewerApp, open_page: Callable[..., Any]) -> None:
    page = open_page(shown)
    client = newest_client(shown)
    at_rest(shown, client)
    until(lambda: likeness(page, client) > 30, "the page does not show what its camera sees")
    before = screenshot(page)
    for _ in range(8):
        page.mouse.move(300, 300)
        page.mouse.wheel(0, 240)
        time.sleep(0.05)
    page.get_by_label("Show cameras").check()

    def orange() -> int:
        image = screenshot(page)[:, :550]
        return int((np.abs(image - np.array([250, 150, 40], np.float32)).max(axis=-1) < 40).sum())

    until(lambda: orange() > 200, "no frustums")
    at_rest(shown, client)
    until(lambda: psnr(cut(before), cut(screenshot(page))) < 30, "the wheel moved nothing")
    start = Pose.of_client(client.camera).position
    view = ring()[0].camera.position.numpy()
    there = lambda: bool(np.allclose(Pose.of_client(client.camera).position, view, atol=0.02))  # noqa: E731
    click_until(page, (290, 260), there, "no jump")  # the nearest camera is the one that the page began at
    assert np.linalg.norm(start - view) > 0.5


def test_token_page_works_in_a_browser(open_page: Callable[..., Any]) -> None:
    session = StaticSession(ball(), name="guarded")
    with ViewerApp(session, port=0, token="a-long-enough-token") as app:
        page = open_page(app)
        until(lambda: app.pages == 1, "the token did not let the page in")
        assert "token" not in page.url, "the secret stays out of the address bar"
        page.reload()
        page.get_by_role("button", name="Reset view").wait_for(timeout=60_000)


@pytest.mark.slow
def test_panel_leaves_room_in_a_narrow_window(shown: ViewerApp, open_page: Callable[..., Any]) -> None:
    page = open_page(shown, width=400, height=700)
    client = newest_client(shown)
    at_rest(shown, client)
    assert not page.get_by_text("Resolution", exact=True).is_visible(), "the panel starts folded"
    middle = (slice(250, 500), slice(20, 380))

    def clear() -> bool:
        image = screenshot(page)
        expected = expected_image(client, image.shape, canvas_width(page))[middle]
        return expected.std() > 20 and psnr(image[middle], expected) > 28

    until(clear, "the panel lies on the scene")
    assert Pose.of_client(client.camera).width < 420
