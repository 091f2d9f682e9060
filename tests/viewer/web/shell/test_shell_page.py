"""What lies around the image, in a real browser: kept and shared views, connection, help, keys, phones."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from page_driver import (
    WINDOW,
    FakeTrainerRunning,
    at_rest,
    ball,
    cut,
    drag,
    likeness,
    newest_client,
    ring,
    screenshot,
    until,
)
from shown import StaticSession, TrainingSession, ViewerApp

from luxel.render.fields.config import FieldConfig
from luxel.render.fields.image import ImageField
from luxel.render.raster.rasterize import rasterize
from luxel.viewer.web.images.first_image import PREPARED
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.page import Page

BAR = ".luxel-bar:not(.luxel-error)"


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens an address in a new window, and waits until the page shows an image."""
    contexts: list[Any] = []

    def visit(address: str, **options: Any) -> Any:
        options = {"viewport": {"width": 900, "height": 520}, "color_scheme": "dark", **options}
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        page.goto(address)
        return shown_by(page)

    yield visit
    for context in contexts:
        context.close()


def shown_by(page: Any) -> Any:
    """Waits until a page has an image and its buttons."""
    page.locator(".luxel-loading").wait_for(state="hidden", timeout=60_000)
    page.locator(".luxel-buttons").wait_for(timeout=60_000)
    return page


def newest_page(app: ViewerApp) -> Page:
    return app._pages[newest_client(app).client_id].page


def is_there(app: ViewerApp, pose: Pose) -> bool:
    here = Pose.of_client(newest_client(app).camera)
    return all(
        np.allclose(a, b, atol=1e-4)
        for a, b in ((here.position, pose.position), (here.rotation, pose.rotation), (here.fov_y, pose.fov_y))
    )


def distance_of(client: Any) -> float:
    """From the camera to the origin, where the ball is."""
    return float(np.linalg.norm(Pose.of_client(client.camera).position))


def turned(app: ViewerApp, page: Any, output: str = "3") -> Pose:
    """Turns the camera, chooses the output depth by its key, and waits until the browser has kept both."""
    client = newest_client(app)
    drag(page, client, (110, 50))
    page.keyboard.press(output)
    until(lambda: newest_page(app).stream.settings.output == "depth", "the key chose no output")
    at_rest(app, client)
    pose = Pose.of_client(client.camera)
    until(lambda: "depth" in page.evaluate("JSON.stringify({...sessionStorage})"), "nothing was kept")
    time.sleep(0.6)  # the camera is kept every 0.4 s
    return pose


def test_help_lists_the_controls_and_keys_work_outside_of_fields(
    shown: ViewerApp, visit: Callable[..., Any]
) -> None:
    page = visit(shown.url)
    assert page.title() == "ball – luxel"
    page.keyboard.press("?")
    card = page.get_by_role("dialog", name="Controls")
    card.wait_for()
    for text in ("Right drag", "Two fingers", "W A S D", "colour, alpha, depth"):
        assert card.get_by_text(text).count() == 1, text
    page.keyboard.press("Escape")
    card.wait_for(state="hidden")
    page.locator("input:visible").first.click()
    page.keyboard.press("?")
    assert card.is_hidden(), "a key in a field is no shortcut"


@pytest.mark.slow
def test_view_and_output_survive_reload_and_travel_by_link(
    shown: ViewerApp, visit: Callable[..., Any]
) -> None:
    page = visit(shown.url, permissions=["clipboard-read", "clipboard-write"])
    pose = turned(shown, page)
    page.keyboard.press("u")
    page.get_by_text("The link to this view is copied.").wait_for()
    link = page.evaluate("navigator.clipboard.readText()")
    assert link.startswith(shown.url + "#position=") and "token" not in link
    page.reload()
    shown_by(page)
    until(lambda: is_there(shown, pose), "the camera was lost")
    until(lambda: newest_page(shown).stream.settings.output == "depth", "the output was lost")
    chosen = "[...document.querySelectorAll('input')].some((input) => input.value === 'depth')"
    until(lambda: page.evaluate(chosen), "the control does not show its value")
    other = visit(link, viewport={"width": 700, "height": 520})
    until(lambda: is_there(shown, pose), "the link does not show its view")
    until(lambda: newest_page(shown).stream.settings.output == "depth", "the link does not set the output")
    assert "#" not in other.url
    broken = visit(shown.url + "#position=1,2&fov=0.9")
    broken.get_by_text("The link to a view was ignored: position needs three numbers.").wait_for()
    until(lambda: newest_page(shown).stream.settings.output == "colour", "a kept choice went to another tab")


@pytest.mark.slow
def test_lost_connection_is_shown_over_the_last_image_and_everything_comes_back(
    visit: Callable[..., Any],
) -> None:
    session = StaticSession(ball(), ring(), "ball")
    with ViewerApp(session, port=0) as app:
        page = visit(app.url)
        pose, port = turned(app, page), int(app.url.split(":")[2].strip("/"))
        image = cut(screenshot(page))
        app.stop()
        page.locator(BAR).get_by_text("Connection lost, retrying").wait_for(timeout=60_000)
        assert page.locator("#luxel-image").is_visible() and cut(screenshot(page)).std() > 0.3 * image.std()
        page.locator(BAR).get_by_text("start it again").wait_for(timeout=60_000)
    with ViewerApp(session, port=port) as app:
        until(lambda: app.pages == 1, "the page did not connect again")
        page.locator(BAR).wait_for(state="hidden", timeout=60_000)
        until(lambda: is_there(app, pose), "the camera was lost")
        until(lambda: newest_page(app).stream.settings.output == "depth", "the output was lost")


@pytest.mark.slow
def test_loading_and_a_failing_render_are_said_over_the_image(
    browser: Any, visit: Callable[..., Any]
) -> None:
    gate = {"slow": True, "fails": False}

    def render(scene: Any, camera: Any, **options: Any) -> Any:
        if gate["fails"]:
            raise RuntimeError("made up")
        until(lambda: not gate["slow"], "the test did not go on", 180)
        return rasterize(scene, camera, **options)

    with ViewerApp(StaticSession(ball(), ring(), "ball"), port=0, render=render) as app:
        context = browser.new_context()
        page = context.new_page()
        page.goto(app.url)
        page.get_by_text("Loading the scene").wait_for()
        gate["slow"] = False
        shown_by(page)
        gate["fails"] = True
        newest_page(app).stream.redraw()
        page.locator(".luxel-error").get_by_text(
            "Rendering failed, trying again: RuntimeError: made up"
        ).wait_for()
        gate["fails"] = False
        page.locator(".luxel-error").wait_for(state="hidden")
        context.close()


@pytest.mark.slow
def test_first_view_is_shown_while_the_page_still_loads(browser: Any, tmp_path: Path) -> None:
    gate = {"slow": True}

    def render(scene: Any, camera: Any, **options: Any) -> Any:
        until(lambda: not gate["slow"] or (camera.width, camera.height) == PREPARED, "no test goes on", 180)
        return rasterize(scene, camera, **options)

    with ViewerApp(StaticSession(ball(), ring(), "ball"), port=0, render=render) as app:
        context = browser.new_context(viewport=WINDOW)
        page = context.new_page()
        page.goto(app.url)
        page.locator("#luxel-first").wait_for()
        until(lambda: app.pages == 1, "the page is not connected")
        client = newest_client(app)
        above_notice = 180  # rows: on a slow machine "Loading the scene ..." lies on the image
        until(
            lambda: likeness(page, client, above_notice) > 25, "the first image is not the view of the page"
        )
        page.screenshot(path=tmp_path / "loading.png")
        assert newest_page(app).stream.last_report.width == 0, "the page has its own image already"
        gate["slow"] = False
        shown_by(page)
        assert page.locator("#luxel-first").count() == 0
        until(lambda: likeness(page, client) > 30, "the page does not show what its camera sees")
        context.close()


@pytest.mark.slow
def test_phone_shows_the_image_and_touch_turns_and_zooms(shown: ViewerApp, visit: Callable[..., Any]) -> None:
    phone = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 3, "has_touch": True}
    page = visit(shown.url, is_mobile=True, **phone)
    client = newest_client(shown)
    sheet = page.locator(".luxel-sheet")
    until(lambda: sheet.count() == 1 and sheet.bounding_box()["height"] < 70, "the panel covers the image")
    at_rest(shown, client)
    pose = newest_page(shown).stream._pose
    assert pose is not None and (pose.width, pose.height) == (780, 1688), "pixels of the stream"
    cdp = page.context.new_cdp_session(page)

    def touch(kind: str, *places: tuple[float, float]) -> None:
        points = [{"x": x, "y": y, "id": i} for i, (x, y) in enumerate(places)]
        cdp.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    def move(*paths: tuple[float, float]) -> None:
        touch("touchStart", *((x, 420.0) for x, _ in paths))
        for i in range(1, 9):
            touch("touchMove", *((x + i * by, 420.0) for x, by in paths))
            time.sleep(0.04)
        touch("touchEnd")

    start = Pose.of_client(client.camera).position.copy()
    move((180.0, 10.0))
    until(lambda: not np.allclose(Pose.of_client(client.camera).position, start, atol=0.3), "one finger")
    distance = distance_of(client)
    assert distance == pytest.approx(float(np.linalg.norm(start)), rel=0.01), "one finger only turns"
    move((150.0, -8.0), (250.0, 8.0))
    until(lambda: distance_of(client) < 0.95 * distance, "two fingers")
    sheet.click(position={"x": 150, "y": 20})
    until(lambda: 300 < sheet.bounding_box()["height"] <= 430, "the panel does not open to half of the image")
    assert sheet.bounding_box()["width"] == 390


@pytest.mark.slow
def test_image_fields_are_moved_and_scaled_but_not_turned(visit: Callable[..., Any]) -> None:
    field = ImageField(FieldConfig())
    field.size.copy_(torch.tensor([300, 200]))
    field._store_aspect()
    field.colours = lambda at: torch.stack([(20 * at[:, 0]).sin(), (20 * at[:, 1]).cos(), at[:, 0]], -1)  # type: ignore[method-assign]
    up, front = np.array(field.up), np.array(field.front)
    with ViewerApp(StaticSession(field, name="image", up=up, front=front), port=0) as app:
        page = visit(app.url)
        client = newest_client(app)
        at_rest(app, client)
        start = Pose.of_client(client.camera)
        drag(page, client, (80, -40))
        moved = Pose.of_client(client.camera)
        shift = moved.position - start.position
        assert shift[0] < -0.02 and shift[1] < -0.01 and abs(shift[2]) < 1e-6, "the image follows the hand"
        for _ in range(5):
            page.mouse.wheel(0, -200)
            time.sleep(0.05)
        until(lambda: Pose.of_client(client.camera).position[2] < 0.8 * moved.position[2], "the wheel")
        page.keyboard.press("ArrowRight", delay=300)
        np.testing.assert_allclose(Pose.of_client(client.camera).rotation[:, 2], (0, 0, -1), atol=1e-6)


@pytest.mark.slow
def test_keys_move_by_the_size_of_the_scene_reset_focus_and_pause(visit: Callable[..., Any]) -> None:
    small = ball()
    small.means.mul_(0.01)
    small.log_scales.sub_(np.log(100))
    with ViewerApp(StaticSession(small, name="small"), port=0) as app:
        page = visit(app.url)
        client = newest_client(app)
        at_rest(app, client)
        start = Pose.of_client(client.camera)
        page.keyboard.press("w", delay=500)
        until(lambda: not is_there(app, start), "the key does not move")
        time.sleep(0.5)
        moved = float(np.linalg.norm(Pose.of_client(client.camera).position - start.position))
        assert 0 < moved < 0.5 * app.extent.radius, "one second of a key leaves the scene"
        page.keyboard.press("Home")
        until(lambda: is_there(app, start), "no reset")
        page.mouse.dblclick(300, 260)
        near = 0.85 * float(np.linalg.norm(start.position))
        until(lambda: distance_of(client) < near, "no flight to the point")
    with FakeTrainerRunning() as trainer, ViewerApp(TrainingSession(trainer, ring()), port=0) as app:
        page = visit(app.url)
        for paused in (True, False):
            page.keyboard.press(" ")
            until(lambda paused=paused: trainer.paused is paused, "the space bar does not pause the training")


@pytest.mark.slow
def test_scheme_follows_the_browser_and_leftovers_of_viser_are_gone(
    shown: ViewerApp, visit: Callable[..., Any]
) -> None:
    page = visit(shown.url, color_scheme="light")
    scheme = "document.documentElement.dataset.mantineColorScheme"
    assert page.evaluate(scheme) == "light"
    page.get_by_label("Light or dark").click()
    assert page.evaluate(scheme) == "dark"
    page.reload()
    shown_by(page)
    until(lambda: page.evaluate(scheme) == "dark", "the choice was lost")
    assert page.locator(".tabler-icon-adjustments:visible").count() == 0, "viser's settings"
    assert (
        page.get_by_text("Scene tree").count() == 0 or not page.get_by_text("Scene tree").first.is_visible()
    )
    assert not page.get_by_text("Software WebGL").is_visible(), "it is luxel that draws the image"
    page.keyboard.press("h")
    wide = "document.querySelector('#luxel-image').getBoundingClientRect().width > 800"
    until(lambda: page.evaluate(wide), "the panel was not hidden")
    page.keyboard.press("h")
    until(lambda: not page.evaluate(wide), "the panel did not come back")
    client = newest_client(shown)
    at_rest(shown, client)
    until(lambda: likeness(page, client) > 30, "the page does not show what its camera sees")


@pytest.mark.slow
def test_a_browser_without_webgl_is_told_what_is_missing(shown: ViewerApp, browser: Any) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.add_init_script(
        "const get = HTMLCanvasElement.prototype.getContext;"
        "HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {"
        "  return kind.startsWith('webgl') ? null : get.call(this, kind, ...rest); };"
    )
    page.goto(shown.url)
    page.locator(".luxel-loading", has_text="no WebGL 2").wait_for(timeout=60_000)
    assert not page.locator(".luxel-spinner").count()
    context.close()
