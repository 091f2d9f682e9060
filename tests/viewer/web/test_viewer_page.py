"""The viewer in a real browser: headless Chromium drives the page that people see."""

from __future__ import annotations

import io
import math
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from luxel.render.camera import Camera, Pixels, View
from luxel.render.primitives import Convexes, Gaussians, Gaussians4d
from luxel.render.rasterize import rasterize
from luxel.render.runs.fair_lock import FairLock
from luxel.scenes import save_primitive_ply
from luxel.scenes.paths import load_path
from luxel.viewer.cli import main
from luxel.viewer.web.app import ViewerApp
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.panels.camera_path import CameraPathPanel
from luxel.viewer.web.panels.inspect import InspectPanel
from luxel.viewer.web.session import StaticSession, TrainingSession

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    *(
        "--no-sandbox",
        "--use-gl=angle",
        "--use-angle=swiftshader",
        "--enable-unsafe-swiftshader",
        "--disable-quic",
    ),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
WINDOW = {"width": 900, "height": 520}
CANVAS = (
    300,
    180,
    560,
    510,
)  # left, top, right, bottom: image only, free of the panel and of viser's notices


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="page test not run: playwright is not installed")
    if shutil.which(CHROMIUM) is None:
        pytest.skip(f"page test not run: there is no {CHROMIUM}")
    with api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    contexts: list[Any] = []

    def open_page(app: ViewerApp, **size: int) -> Any:
        contexts.append(browser.new_context(viewport={**WINDOW, **size}))
        page = contexts[-1].new_page()
        page.goto(app.url)
        page.get_by_text("Render", exact=True).wait_for(timeout=20_000)
        return page

    yield open_page
    for context in contexts:
        context.close()


def ball(count: int = 250) -> Gaussians:
    """A ball whose colour tells the direction, so that every camera sees a different image."""
    generator = torch.Generator().manual_seed(3)
    means = torch.nn.functional.normalize(torch.randn(count, 3, generator=generator), dim=-1)
    return Gaussians(
        means,
        torch.randn(count, 4, generator=generator),
        torch.full((count, 3), -2.2),
        torch.full((count,), 2.0),
        0.5 * means / 0.282,
        torch.zeros(count, 0, 3),
    )


def ring(count: int = 5) -> list[View]:
    """Views from all around the ball; names in a form that a careless page would take for HTML."""
    views = []
    for i in range(count):
        angle = 2 * math.pi * i / count
        eye = (3.5 * math.cos(angle), 3.5 * math.sin(angle), 1.0)
        camera = Camera.look_at(eye, (0, 0, 0), fov_y=0.9, width=80, height=80)
        pixels = Pixels(np.full((80, 80, 3), 40 * i, np.uint8))
        views.append(View(f"photo_{i}<b>.png", camera, lambda pixels=pixels: pixels))
    return views


class FakeTrainer:
    """Recolours the ball, a step every few milliseconds."""

    def __init__(self) -> None:
        self.lock, self.scene = FairLock(), ball()
        self.step, self.paused, self.done = 0, False, False
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self.done:
            if self.paused:
                time.sleep(0.01)
                continue
            with self.lock:
                self.step += 1
                time.sleep(0.004)

    def pause(self) -> None:
        self.paused = True

    def resume_training(self) -> None:
        self.paused = False

    def status(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "steps": 10**6,
            "steps_per_s": 50.0,
            "psnr": 21.5,
            "count": 250,
            "eta": 100.0,
        }


@pytest.fixture(scope="module")
def shown() -> Iterator[ViewerApp]:
    torch.set_num_threads(1)
    with ViewerApp(StaticSession(ball(), ring(), "ball"), port=0) as app:
        yield app


def screenshot(page: Any) -> np.ndarray:
    image = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    return np.asarray(image, np.float32)


def cut(image: np.ndarray) -> np.ndarray:
    left, top, right, bottom = CANVAS
    return image[top:bottom, left:right]


def newest_client(app: ViewerApp) -> Any:
    assert app._server is not None
    clients = app._server.get_clients()
    return clients[max(clients)]


def at_rest(app: ViewerApp, client: Any, seconds: float = 20.0) -> None:
    """Waits until the last camera of a client was drawn in full and has been on the page for half a second."""
    stream = app._pages[client.client_id].page.stream
    deadline, quiet_since = time.monotonic() + seconds, time.monotonic()
    while time.monotonic() < deadline:
        if stream._dirty or not stream._drawn_in_full:
            quiet_since = time.monotonic()
        if time.monotonic() - quiet_since > 0.5:
            return
        time.sleep(0.05)
    raise AssertionError("the page did not come to rest")


def expected_image(client: Any, shape: tuple[int, ...], width: int) -> np.ndarray:
    """What luxel renders for the camera of a client, at the size of the canvas on the screenshot."""
    pose = Pose.of_client(client.camera)
    camera = pose.camera(width, shape[0])
    with torch.no_grad():
        return rasterize(ball(), camera).rgb.clamp(0, 1).mul(255).numpy()


def psnr(a: np.ndarray, b: np.ndarray) -> float:
    return float(10 * np.log10(255**2 / max(np.mean((a - b) ** 2), 1e-9)))


def likeness(page: Any, client: Any) -> float:
    """PSNR of what a page shows to what its camera should show, both without what lies around the canvas."""
    image = screenshot(page)
    return psnr(cut(image), cut(expected_image(client, image.shape, canvas_width(page))))


def canvas_width(page: Any) -> int:
    return page.evaluate(
        "Math.round(Math.max(...[...document.querySelectorAll('canvas')]"
        ".map(c => c.getBoundingClientRect().width)))"
    )


def drag(page: Any, client: Any, by: tuple[int, int]) -> None:
    """Turns the camera of a page and waits until the server has its new pose."""
    start = Pose.of_client(client.camera).position.copy()
    page.mouse.move(400, 300)
    page.mouse.down()
    page.mouse.move(400 + by[0], 300 + by[1], steps=4)
    page.mouse.up()
    until(lambda: not np.allclose(Pose.of_client(client.camera).position, start), "the drag turned nothing")


def until(condition: Callable[[], bool], what: str, seconds: float = 20.0) -> None:
    """Waits for a condition, long enough for a busy machine."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


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

    until(lambda: changed().sum() > 100, "the sphere is not on the page")
    time.sleep(0.3)  # it may have been caught half drawn
    rows, columns = np.nonzero(changed())
    camera = Pose.of_client(client.camera).camera(canvas_width(page), before.shape[0])
    x, y, z = (camera.world_to_cam[:3, :3].numpy() @ centre) + camera.world_to_cam[:3, 3].numpy()
    fx, fy, cx, cy = camera.intrinsics.tolist()
    assert z > 0
    assert abs(columns.mean() + CANVAS[0] - (fx * x / z + cx)) < 4
    assert abs(rows.mean() + CANVAS[1] - (fy * y / z + cy)) < 4


def test_share_button_is_absent(shown: ViewerApp, open_page: Callable[..., Any]) -> None:
    page = open_page(shown)
    page.get_by_role("button", name="Reset view").wait_for()
    assert page.get_by_text("Share", exact=True).count() == 0
    assert page.get_by_role("button", name="Share").count() == 0
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


def test_view_is_reached_by_name(shown: ViewerApp, open_page: Callable[..., Any]) -> None:
    page = open_page(shown)
    client = newest_client(shown)
    page.get_by_role("button", name="Next").click()
    target = Pose.of_camera(ring()[1].camera)

    def there() -> bool:
        here = Pose.of_client(client.camera)
        return bool(np.allclose(here.position, target.position, atol=1e-3)) and abs(here.fov_y - 0.9) < 1e-3

    until(there, "the camera did not reach the view")
    turn = Pose.of_client(client.camera).rotation.T @ target.rotation
    assert np.trace(turn) > 2.999
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
    time.sleep(0.5)  # the frustums are clickable a moment after they are seen
    start = Pose.of_client(client.camera).position
    page.mouse.click(290, 260)  # the nearest camera is the one that the page began at
    view = ring()[0].camera.position.numpy()
    until(lambda: bool(np.allclose(Pose.of_client(client.camera).position, view, atol=0.02)), "no jump")
    assert np.linalg.norm(start - view) > 0.5


def test_click_on_the_image_is_inspected(shown: ViewerApp, open_page: Callable[..., Any]) -> None:
    page = open_page(shown)
    client = newest_client(shown)
    at_rest(shown, client)
    opened = shown._pages[client.client_id]
    panel = next(panel for panel in opened.panels if isinstance(panel, InspectPanel))
    clicks: list[Any] = []
    opened.page.listen(clicks.append, True)
    page.get_by_role("checkbox", name="Inspect").check()
    until(lambda: panel._numbers.visible, "the switch turned nothing on")
    time.sleep(0.3)  # the browser reports clicks a moment after it was asked to
    x, y = canvas_width(page) // 2 - 20, 220  # on the front of the ball
    page.mouse.click(x, y)
    page.get_by_text("Depth", exact=True).wait_for(timeout=8000)
    assert len(clicks) == 1
    click = clicks[0]
    camera = opened.page.pose().camera(canvas_width(page), WINDOW["height"])
    frame = rasterize(ball(), camera, depth=True)
    assert click.pixel == pytest.approx((x, y), abs=1.5)
    assert frame.median_depth is not None and frame.alpha[y, x] > 0.6, "the click must hit something"
    assert click.sample.depth == pytest.approx(float(frame.median_depth[y, x]), rel=0.05)
    np.testing.assert_allclose(click.sample.rgb, frame.rgb[y, x].numpy(), atol=0.1)
    seen = camera.world_to_cam[:3, :3].numpy() @ click.point + camera.world_to_cam[:3, 3].numpy()
    fx, fy, cx, cy = camera.intrinsics.tolist()
    assert (fx * seen[0] / seen[2] + cx, fy * seen[1] / seen[2] + cy) == pytest.approx((x, y), abs=1.5)
    assert np.linalg.norm(click.point) == pytest.approx(1, abs=0.3), "the ball has radius 1"
    drag(page, client, (80, 10))
    time.sleep(0.3)
    assert len(clicks) == 1, "a drag is no click"
    page.get_by_role("checkbox", name="Inspect").uncheck()
    page.get_by_text("Depth", exact=True).wait_for(state="hidden", timeout=8000)


def test_camera_path_is_recorded_downloaded_and_rendered(
    shown: ViewerApp, open_page: Callable[..., Any], tmp_path: Path
) -> None:
    page = open_page(shown)
    client = newest_client(shown)
    at_rest(shown, client)
    page.get_by_text("Camera path", exact=True).click()
    start = Pose.of_client(client.camera)
    page.get_by_role("button", name="Add keyframe").click()
    until(lambda: len(path_panel(shown, client)._keyframes) == 1, "no keyframe")
    drag(page, client, (120, 30))
    at_rest(shown, client)
    page.get_by_role("button", name="Add keyframe").click()
    until(lambda: len(path_panel(shown, client)._keyframes) == 2, "no second keyframe")
    end = Pose.of_client(client.camera)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    file = tmp_path / "path.json"
    download.value.save_as(file)
    path = load_path(file)
    assert len(path.cameras) == 120 and path.fps == 30 and path.times == []
    for camera, pose in ((path.cameras[0], start), (path.cameras[-1], end)):
        np.testing.assert_allclose(camera.position.numpy(), pose.position, atol=1e-4)
    save_primitive_ply(tmp_path / "ball.ply", ball())
    size = ("--width", "40", "--height", "52", "--frames", "2", "--device", "cpu")
    out = tmp_path / "frames"
    assert main(["render", str(tmp_path / "ball.ply"), "--path", str(file), "--out", str(out), *size]) == 0
    last = np.asarray(Image.open(out / "00001.png"), np.float32)
    camera = Pose(end.wxyz, end.position, end.fov_y, 40, 52).camera(40, 52)
    expected = rasterize(ball(), camera).rgb.clamp(0, 1).mul(255).numpy()
    assert last.std() > 20
    assert psnr(last, expected) > 35


def path_panel(app: ViewerApp, client: Any) -> CameraPathPanel:
    """The camera path of a page."""
    panels = app._pages[client.client_id].panels
    return next(panel for panel in panels if isinstance(panel, CameraPathPanel))


def test_error_in_a_render_is_shown_and_the_loop_goes_on(open_page: Callable[..., Any]) -> None:
    broken = threading.Event()

    def render(gaussians: Gaussians, camera: Camera, **options: Any) -> Any:
        if broken.is_set():
            raise RuntimeError("kernel <b>tripped</b> over x_1*y_2")
        return rasterize(gaussians, camera, **options)

    with FakeTrainerRunning() as trainer, ViewerApp(TrainingSession(trainer), port=0, render=render) as app:
        page = open_page(app)
        client = newest_client(app)
        until(lambda: app._pages[client.client_id].page.stream._drawn_version > 0, "no image")
        broken.set()
        page.get_by_text("kernel <b>tripped</b> over x_1*y_2").wait_for(timeout=8000)
        step = trainer.step
        time.sleep(0.3)
        assert trainer.step > step, "training went on"
        broken.clear()
        page.get_by_text("kernel").wait_for(state="hidden", timeout=8000)
        drawn = app._pages[client.client_id].page.stream._drawn_version
        until(
            lambda: app._pages[client.client_id].page.stream._drawn_version > drawn,
            "no image after the error",
        )


def test_training_is_watched_paused_and_continued(open_page: Callable[..., Any]) -> None:
    with FakeTrainerRunning() as trainer, ViewerApp(TrainingSession(trainer, name="run-7"), port=0) as app:
        page = open_page(app)
        page.get_by_text("run-7").first.wait_for()
        page.get_by_text("21.50 dB").wait_for()
        page.get_by_role("button", name="Pause training").click()
        until(lambda: trainer.paused, "the button did not pause")
        page.get_by_role("button", name="Continue training").wait_for()
        time.sleep(0.1)
        step = trainer.step
        page.get_by_text(f"{step:,} of 1,000,000").wait_for(timeout=5000)
        time.sleep(0.2)
        assert trainer.step == step
        page.get_by_role("button", name="Continue training").click()
        until(lambda: trainer.step > step + 3, "the button did not continue")
        assert app.session.share_of_time == pytest.approx(0.3)


def test_token_page_works_in_a_browser(open_page: Callable[..., Any]) -> None:
    session = StaticSession(ball(), name="guarded")
    with ViewerApp(session, port=0, token="a-long-enough-token") as app:
        page = open_page(app)
        until(lambda: app.pages == 1, "the token did not let the page in")
        assert "token" not in page.url, "the secret stays out of the address bar"
        page.reload()
        page.get_by_role("button", name="Reset view").wait_for(timeout=8000)


@pytest.mark.slow
def test_panel_leaves_room_in_a_narrow_window(shown: ViewerApp, open_page: Callable[..., Any]) -> None:
    page = open_page(shown, width=400, height=700)
    client = newest_client(shown)
    at_rest(shown, client)
    assert not page.get_by_text("Resolution", exact=True).is_visible(), "the panel starts short"
    page.get_by_text("ball", exact=True).click()  # its title folds it up
    middle = (slice(250, 500), slice(20, 380))

    def clear() -> bool:
        image = screenshot(page)
        expected = expected_image(client, image.shape, canvas_width(page))[middle]
        return expected.std() > 20 and psnr(image[middle], expected) > 28

    until(clear, "the panel lies on the scene")
    assert Pose.of_client(client.camera).width < 420


def strongest(page: Any) -> int:
    """Whether a page shows most of red, green or blue: 0, 1 or 2."""
    return int(np.argmax(cut(screenshot(page)).reshape(-1, 3).sum(0)))


def test_time_is_played_paused_and_sought(
    open_page: Callable[..., Any], carousel: Callable[..., Gaussians4d], draw_any: Callable[..., Any]
) -> None:
    views = ring()
    for i, view in enumerate(views):
        view.time = i / (len(views) - 1)
    with ViewerApp(StaticSession(carousel(), views, "carousel"), port=0, render=draw_any) as app:
        page = open_page(app)
        client = newest_client(app)
        stream = app._pages[client.client_id].page.stream
        slider = page.get_by_role("slider").first

        def shown() -> float:
            return float(slider.get_attribute("aria-valuenow"))

        at_rest(app, client)
        until(lambda: strongest(page) == 0, "the first balls are red")
        first = screenshot(page)
        page.get_by_role("button", name="Play", exact=True).click()
        page.get_by_role("button", name="Pause", exact=True).wait_for()
        until(lambda: psnr(cut(first), cut(screenshot(page))) < 20, "playing changed nothing")
        early = shown()
        until(lambda: shown() not in (0.0, early), "the slider does not follow")
        page.get_by_role("button", name="Pause", exact=True).click()
        page.get_by_role("button", name="Play", exact=True).wait_for()
        assert not stream.playing
        at_rest(app, client)
        until(lambda: abs(shown() - stream.playback.time) < 1e-3, "the slider is not where it stopped")
        before, stopped_at = screenshot(page), stream.playback.time
        time.sleep(0.6)
        assert stream.playback.time == stopped_at and psnr(cut(before), cut(screenshot(page))) > 30, (
            "it went on"
        )
        for key, colour, expected in (("End", 2, 1.0), ("Home", 0, 0.0)):
            slider.press(key)
            until(lambda expected=expected: stream.playback.time == expected, "the slider sought nothing")
            until(lambda colour=colour: strongest(page) == colour, "the page does not show what was sought")
        page.get_by_role("button", name="Play", exact=True).click()
        until(lambda: stream.playing, "the button does not play again")
        page.get_by_role("button", name="Next").click()
        until(lambda: not stream.playing and stream.playback.time == 0.25, "no jump to the photograph's time")
        page.get_by_role("button", name="Play", exact=True).wait_for()
        until(lambda: shown() == 0.25, "the slider is not at the photograph's time")


def draw_as_balls(scene: Convexes, camera: Camera, **options: Any) -> Any:
    """Stands in for the rasterizer of convexes, whose reference is slow at the size of a page."""
    quats = torch.tensor([1.0, 0, 0, 0]).repeat(scene.count, 1)
    scales = scene.world_scale.log()[:, None].repeat(1, 3)
    balls = Gaussians(scene.centres, quats, scales, scene.opacity_logits, scene.sh_dc, scene.sh_rest)
    return rasterize(balls, camera, **options)


@pytest.mark.slow
def test_page_of_a_static_scene_has_no_time(
    open_page: Callable[..., Any], crystals: Callable[..., Convexes]
) -> None:
    with ViewerApp(StaticSession(crystals(30), name="crystals"), port=0, render=draw_as_balls) as app:
        page = open_page(app)
        page.get_by_text("Convexes", exact=True).wait_for()
        until(lambda: cut(screenshot(page)).std() > 20, "the convexes are not shown")
        assert page.get_by_role("button", name="Play", exact=True).count() == 0
        assert page.get_by_text("Antialiased").count() == 0, "which means nothing for convexes"
        page.get_by_label("Output").click()
        page.get_by_role("option", name="depth").wait_for()
        assert page.get_by_role("option", name="normals").count() == 0


class FakeTrainerRunning(FakeTrainer):
    """A FakeTrainer that runs while the context lasts."""

    def __enter__(self) -> FakeTrainerRunning:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.done = True
        self.thread.join(5)
