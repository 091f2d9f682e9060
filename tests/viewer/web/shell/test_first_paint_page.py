"""What a page paints while it loads, frame by frame."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest
from page_driver import newest_client, until
from page_frames import SLOW, record_load, unlike_the_end
from shown import ViewerApp

from luxel.viewer.web.navigate import WIDENED_FOV, Pose

DESKTOP = {"viewport": {"width": 900, "height": 520}}
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
# The frames of a slow link, at a speed that a test has time for.
FAR = SLOW | {"downloadThroughput": 1_500_000}
IMAGE = {"desktop": (20, 60, 560, 440), "phone": (20, 60, 370, 740)}  # free of buttons, notices and the panel


@pytest.mark.slow
@pytest.mark.parametrize("network", [None, FAR], ids=["near", "far"])
@pytest.mark.parametrize("window", ["desktop", "phone"])
def test_a_page_paints_one_view_and_nothing_of_viser(
    shown: ViewerApp, browser: Any, window: str, network: dict[str, Any] | None
) -> None:
    options = DESKTOP if window == "desktop" else PHONE
    load = record_load(browser, shown.url, network, color_scheme="dark", rest=1.0, **options)
    assert load.image < load.panel < 60, "no image, or no panel"
    assert load.foreign == 0, "a control that viser begins with"
    assert not unlike_the_end(load, IMAGE[window]), "another view, or none after the first"
    assert load.kilobytes < 900, "the page has grown"
    if window == "phone":
        height, width = load.frames[-1][1].shape[:2]
        sheet = (20, int(height * 0.6), width - 20, height - 80)
        assert not unlike_the_end(load, sheet), "the sheet covers the image for a moment"


@pytest.mark.slow
def test_a_phone_begins_farther_back_instead_of_wider(shown: ViewerApp, browser: Any) -> None:
    context = browser.new_context(**PHONE)
    page = context.new_page()
    page.goto(shown.url)
    page.locator(".luxel-buttons").wait_for(timeout=60_000)
    time.sleep(0.5)
    client = newest_client(shown)
    expected = shown._pages[client.client_id].page.beginning()
    assert expected.fov_y <= WIDENED_FOV + 1e-6
    reach = math.tan(0.5 * expected.fov_y) * 390 / 844
    assert reach * math.hypot(*expected.position) > 0.98 * math.tan(0.45) * 3.64, "the subject does not fit"

    def is_there() -> bool:
        here = Pose.of_client(client.camera)
        return bool(
            abs(here.position - expected.position).max() < 1e-3 and abs(here.fov_y - expected.fov_y) < 1e-3
        )

    until(is_there, "the browser begins elsewhere than the server resets to")
    context.close()
