"""What the tests of the page show and how they drive it: scenes, screenshots, drags and waits."""

from __future__ import annotations

import io
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np
import torch
from PIL import Image
from shown import ViewerApp

from luxel.render.geometry.camera import Camera, Pixels, View
from luxel.render.primitives import Gaussians
from luxel.render.raster.rasterize import rasterize
from luxel.render.runs.fair_lock import FairLock
from luxel.viewer.web.navigate import Pose

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
    312,
    200,
    560,
    510,
)  # left, top, right, bottom: image only, free of the panel and of viser's notices

DRAG_AGAIN = 8.0  # seconds after which a drag that turned nothing is made again


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


def at_rest(app: ViewerApp, client: Any, seconds: float = 60.0) -> None:
    """Waits until the last camera of a client was drawn in full and has been on the page for half a second."""
    stream = app._pages[client.client_id].page.stream
    deadline, quiet_since = time.monotonic() + seconds, time.monotonic()
    while time.monotonic() < deadline:
        if stream._dirty or not stream._rendered_in_full:
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


def likeness(page: Any, client: Any, rows: int | None = None) -> float:
    """PSNR of what a page shows to what its camera should show, both without what lies around the canvas; of the
    first so many rows of that part alone where a notice covers the others."""
    image = screenshot(page)
    expected = expected_image(client, image.shape, canvas_width(page))
    return psnr(cut(image)[:rows], cut(expected)[:rows])


def canvas_width(page: Any) -> int:
    return page.evaluate(
        "Math.round(Math.max(...[...document.querySelectorAll('canvas')]"
        ".map(c => c.getBoundingClientRect().width)))"
    )


def drag(page: Any, client: Any, by: tuple[int, int]) -> None:
    """Turns the camera of a page and waits until the server has its new pose; as people do, it drags again where a
    page that was busy (its controls are made anew when the up direction changes) did not follow."""
    start = Pose.of_client(client.camera).position.copy()
    last = -math.inf

    def turned() -> bool:
        nonlocal last
        if not np.allclose(Pose.of_client(client.camera).position, start):
            return True
        if time.monotonic() - last > DRAG_AGAIN:
            page.mouse.move(400, 300)
            page.mouse.down()
            page.mouse.move(400 + by[0], 300 + by[1], steps=4)
            page.mouse.up()
            last = time.monotonic()
        return False

    until(turned, "the drags turned nothing")


def click_until(page: Any, place: tuple[float, float], condition: Callable[[], bool], what: str) -> None:
    """Clicks the image until a condition holds: a browser reports clicks a moment after it was asked to."""
    for _ in range(6):
        page.mouse.click(*place)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            if condition():
                return
            page.wait_for_timeout(50)
    raise AssertionError(what)


def until(condition: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    """Waits for a condition, long enough for a busy machine."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


class FakeTrainerRunning(FakeTrainer):
    """A FakeTrainer that runs while the context lasts."""

    def __enter__(self) -> FakeTrainerRunning:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.done = True
        self.thread.join(5)


class PausableTrainer(FakeTrainerRunning):
    """A FakeTrainer that does between two steps what it is asked to."""

    def between_steps(self, action: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        with self.lock:
            future.set_result(action())
        return future
