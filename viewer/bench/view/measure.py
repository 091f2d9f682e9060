"""Measures the latency of the viewer's images in a headless browser."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import torch

from luxel.render.primitives import Gaussians
from luxel.render.raster.primitive_scene import primitive_scene
from luxel.render.scene import Scene
from luxel.viewer.bench.machine import machine_facts
from luxel.viewer.bench.raster.measure import FORMAT
from luxel.viewer.bench.view.browser import Browser, open_browser
from luxel.viewer.bench.view.frames import BITS, COLUMNS, ROWS, TURN, PreparedFrames
from luxel.viewer.bench.view.installed import CHROMIUM
from luxel.viewer.bench.view.load import measure_clients
from luxel.viewer.bench.view.slow_link import slow_link
from luxel.viewer.web.app import ViewerApp
from luxel.viewer.web.session import StaticSession
from luxel.viewer.web.transport.figures import WINDOW, percentile

PATHS = ("stream", "viser")
PATHS_OF_SLOW_LINKS = ("stream", "jpeg", "viser")
# Takes the place of our script, which then does not start; keeps viser's renderer for drive.js.
NO_STREAM = """Object.defineProperty(window, "luxel", { value: { connect() {}, renderers: [], key: null } });
window.luxelBench = {};
window.__THREE_DEVTOOLS__ = new EventTarget();
window.__THREE_DEVTOOLS__.addEventListener("observe", ({ detail }) => {
  if (typeof detail?.render === "function") window.luxelBench.renderer ??= detail;
});"""


@dataclass(frozen=True)
class Settings:
    """How and how long to measure.

    Args:
        warmup, seconds: before and during the measurement.
        width, height: of the window, pixels.
        browser: name or path of the Chromium to run.
        megabits: speed of the link to the page or to each client, Mbit/s; None: unlimited.
    """

    warmup: float = 3.0
    seconds: float = WINDOW
    width: int = 1280
    height: int = 720
    browser: str = CHROMIUM
    megabits: float | None = None


@dataclass(frozen=True)
class ClientSettings:
    """Which clients measure, alongside `Settings`.

    Args:
        clients: numbers of clients at a time, a row for each.
        rate: cameras a second of each client.
        scene: what is rendered; None: prepared frames.
        scene_name: for the report.
    """

    clients: tuple[int, ...] = (1,)
    rate: float = 60.0
    scene: Scene | None = None
    scene_name: str = "prepared frames"


def run_without_browser(
    settings: Settings, clients: ClientSettings, keep: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Measures the stream with clients that acknowledge images like a page and do not decode them.

    Returns:
        As `run`, with ``clients``, ``slowest_fps`` (images a second of the slowest client) and ``encoder`` in each row.
    """
    scene = clients.scene or _scene(PreparedFrames(settings.width, settings.height))
    results = _results(settings, scene.device) | {
        "scene": clients.scene_name,
        "rate": clients.rate,
    }
    for count in clients.clients:
        row: dict[str, Any] = {"path": "python", "clients": count, "failures": {}}
        try:
            up = np.array([0.0, 0.0, 1.0]) if clients.scene is None else None
            row |= measure_clients(
                StaticSession(scene, name="bench", up=up),
                clients=count,
                size=(settings.width, settings.height),
                rate=clients.rate,
                warmup=settings.warmup,
                seconds=settings.seconds,
                megabits=settings.megabits,
            )
        except Exception as error:
            row["failures"]["clients"] = f"{type(error).__name__}: {error}"
        results["rows"].append(row)
        keep(results)
    return results


def _results(settings: Settings, device: torch.device) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "kind": "view",
        "machine": machine_facts(device),
        "window": f"{settings.width}x{settings.height}",
        "seconds": settings.seconds,
        "megabits": settings.megabits,
        "rows": [],
    }


def run(settings: Settings, keep: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Measures the stream and, alongside it, viser's messages; over a slow link also the stream without video.

    Args:
        settings: duration and window.
        keep: called with the results after each.

    Returns:
        ``rows`` with ``latency_ms`` and ``latency_p95_ms`` from the frame of the page to the drawn image, ``fps`` (of
        the images), ``page_fps`` (of the animation frames) and the costs of each image.

    Raises:
        LuxelError: there is no such browser, or it does not start.
    """
    results = _results(settings, torch.device("cpu"))
    with open_browser(settings.browser, settings.width, settings.height) as browser:
        results["browser"] = browser.version
        for path in PATHS if settings.megabits is None else PATHS_OF_SLOW_LINKS:
            row: dict[str, Any] = {"path": path, "failures": {}}
            try:
                row |= _measure(browser, path, settings)
            except Exception as error:
                row["failures"]["page"] = f"{type(error).__name__}: {error}"
            results["rows"].append(row)
            keep(results)
    return results


def _measure(browser: Browser, path: str, settings: Settings) -> dict[str, Any]:
    up = np.array([0.0, 0.0, 1.0])
    prepared = PreparedFrames(settings.width, settings.height, moving=settings.megabits is not None)
    session = StaticSession(_scene(prepared), name="bench", up=up)
    before = NO_STREAM if path == "viser" else ""
    options = {"turn": TURN, "bits": BITS, "columns": COLUMNS, "rows": ROWS, "measure": path == "viser"}
    options |= {"warmup": settings.warmup, "seconds": settings.seconds}
    drive = Path(__file__).with_name("drive.js").read_text().rstrip().rstrip(";")
    with (
        ViewerApp(session, port=0) as app,
        slow_link(urlsplit(app.url).port or 80) as link,
        browser.tab(app.url if settings.megabits is None else f"http://127.0.0.1:{link.port}", before) as tab,
    ):
        tab.wait_for("window.__viserMutable?.cameraControl")
        served = _only_page(app, streaming=path != "viser")
        if path == "jpeg":
            served.sink.stream.forbid_video()  # the page may offer it again
        tab.wait_for("document.body.innerText.includes('Camera path')")  # its group may be folded
        link.limit(settings.megabits)
        driven = tab.evaluate(f"({drive})({json.dumps(options)})", 60 + settings.seconds)
        figures = served.sink.stream.figures.summary(settings.seconds)
        report = served.stream.last_report
    row = {
        "image": f"{report.width}x{report.height}",
        "page_fps": driven["frames"] / settings.seconds,
    }
    if path == "viser":
        return row | _of_latencies(driven["latencies"], settings.seconds) | {"render_ms": report.render_ms}
    if figures is None:
        raise RuntimeError("the page drew no image of the stream")
    return row | {
        "images": figures.images,
        "fps": figures.images / settings.seconds,
        "latency_ms": figures.latency_ms,
        "latency_p95_ms": figures.latency_p95_ms,
        "render_ms": figures.render_ms,
        "encode_ms": figures.encode_ms,
        "decode_ms": figures.decode_ms,
        "encoder": figures.encoding,
        "kilobytes": figures.kilobytes,
    }


def _of_latencies(latencies: list[float], seconds: float) -> dict[str, Any]:
    if not latencies:
        raise RuntimeError("the page drew no image whose camera it knows")
    return {
        "images": len(latencies),
        "fps": len(latencies) / seconds,
        "latency_ms": statistics.median(latencies),
        "latency_p95_ms": percentile(sorted(latencies), 0.95),
    }


def _scene(frames: PreparedFrames) -> Scene:
    """Two primitives about the origin, whose centre the camera turns about; prepared frames are shown for them."""
    means = torch.tensor([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]])
    gaussians = Gaussians(
        means,
        torch.ones(2, 4),
        torch.zeros(2, 3),
        torch.zeros(2),
        torch.zeros(2, 3),
        torch.zeros(2, 0, 3),
    )
    return primitive_scene(gaussians, render=frames)


def _only_page(app: ViewerApp, streaming: bool, seconds: float = 20.0) -> Any:
    """The open page, once its websocket is there if it is to have one."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for page in app.open_pages():
            if page.sink.stream.connected == streaming:
                return page
        time.sleep(0.05)
    raise RuntimeError("the page has no stream" if streaming else "the page did not connect")
