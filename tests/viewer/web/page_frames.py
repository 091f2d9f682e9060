"""Loads a page in Chromium and records what it paints, frame by frame, and when its image and its panel are there."""

from __future__ import annotations

import base64
import io
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from PIL import Image

BLANK = 10.0  # of 255: standard deviation of a part that has a line of text at most
FADE = 12.0  # of 255: by how much JPEG files and smaller images of the same view differ
SLOW = {"offline": False, "latency": 300, "downloadThroughput": 100_000, "uploadThroughput": 100_000}
"""A link of 0.8 Mbit/s with 300 ms latency, as Chromium's Network.emulateNetworkConditions has it."""

# Counts the controls of viser's own start that are visible in a frame.
WATCH = """
window.watched = { foreign: 0 };
const visible = (node) => node?.checkVisibility({ visibilityProperty: true, opacityProperty: true }) ?? false;
const OWN = ["Save Canvas", "Orbit Origin Tool", "Dev Settings", "WorldAxes", "Inactive", "Connecting..."];
const watch = () => {
  for (const node of document.querySelectorAll("#root button, #root label, #root div, #root span"))
    if (node.childElementCount === 0 && OWN.includes(node.textContent) && visible(node)) window.watched.foreign += 1;
  requestAnimationFrame(watch);
};
requestAnimationFrame(watch);
"""


@dataclass
class Load:
    """A page that was loaded.

    Attributes:
        frames: seconds since the navigation, and the window as it was painted then, uint8 [H, W, 3].
        image, panel: seconds after which the first view and the first control of the panel were there; NaN: never.
        foreign: how often a control that viser begins with was visible in a frame.
        kilobytes, requests: what came over HTTP.
    """

    frames: list[tuple[float, np.ndarray]] = field(default_factory=list)
    image: float = float("nan")
    panel: float = float("nan")
    foreign: int = 0
    kilobytes: float = 0.0
    requests: int = 0


def record_load(
    browser: Any,
    url: str,
    network: dict[str, Any] | None = None,
    seconds: float = 60.0,
    rest: float = 2.0,
    **options: Any,
) -> Load:
    """Opens an address in a new window of a Chromium of playwright and records until ``rest`` s after its panel.

    Args:
        browser: playwright's.
        url: to open.
        network: as Chromium's Network.emulateNetworkConditions has it; None: unthrottled.
        seconds: after which the recording ends in any case.
        rest: seconds to go on once the panel is there.
        options: of the window, see playwright's ``new_context``.
    """
    context = browser.new_context(**options)
    page = context.new_page()
    page.add_init_script(WATCH)
    cdp, load = context.new_cdp_session(page), Load()
    painted_frames: list[tuple[float, str]] = []

    def painted(event: dict[str, Any]) -> None:
        painted_frames.append((event["metadata"]["timestamp"], event["data"]))
        cdp.send("Page.screencastFrameAck", {"sessionId": event["sessionId"]})

    def finished(event: dict[str, Any]) -> None:
        load.kilobytes += event["encodedDataLength"] / 1e3
        load.requests += 1

    cdp.on("Page.screencastFrame", painted)
    cdp.on("Network.loadingFinished", finished)
    cdp.send("Network.enable")
    if network is not None:
        cdp.send("Network.emulateNetworkConditions", network)
    cdp.send("Page.startScreencast", {"format": "jpeg", "quality": 90, "everyNthFrame": 1})
    start = time.time()
    page.goto(url, wait_until="commit")
    end = start + seconds
    while time.time() < end:
        page.wait_for_timeout(100)
        if np.isnan(load.panel) and not np.isnan(at := _mark(page, "luxel-panel")):
            load.panel = at
            end = min(end, time.time() + rest)
    load.foreign = page.evaluate("window.watched.foreign")
    load.image = _mark(page, "luxel-first-image")
    context.close()
    load.frames = [(at - start, _pixels(data)) for at, data in painted_frames]
    return load


def _mark(page: Any, name: str) -> float:
    """Seconds from the navigation to a mark of the page; NaN: there is none."""
    at = page.evaluate(f"performance.getEntriesByName('{name}')[0]?.startTime ?? null")
    return float("nan") if at is None else at / 1e3


def _pixels(data: str) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB"))


def unlike_the_end(load: Load, box: tuple[int, int, int, int]) -> list[tuple[float, float]]:
    """When and by how much frames differ in a part of the window from how it ends, of those that differ by more than
    FADE and are not of one colour, as before the first image.

    Args:
        load: with the frames.
        box: left, top, right, bottom, pixels.

    Returns:
        Seconds and mean absolute difference, 0 to 255; also of frames of one colour after one with an image.
    """
    left, top, right, bottom = box
    parts = [(at, frame[top:bottom, left:right].astype(float)) for at, frame in load.frames]
    end, begun, odd = parts[-1][1], False, []
    for at, part in parts:
        blank = part.std() < BLANK
        difference = float(np.abs(part - end).mean())
        if difference > FADE and (begun or not blank):
            odd.append((at, difference))
        begun = begun or not blank
    return odd
