"""The page in Firefox: it shows the image of its camera through the stream, and follows a drag."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from firefox import FirefoxPage, missing
from page_driver import at_rest, cut, expected_image, newest_client, psnr, until
from shown import ViewerApp

from luxel.viewer.web.navigate import Pose

pytestmark = pytest.mark.slow
WIDEST = "Math.round(Math.max(...[...document.querySelectorAll('canvas')].map(c => c.getBoundingClientRect().width)))"


@pytest.fixture
def firefox(tmp_path: Path) -> Iterator[FirefoxPage]:
    if what := missing():
        pytest.skip(f"page test not run: not installed: {what}")
    page = FirefoxPage(tmp_path / "profile")
    yield page
    page.close()


def test_firefox_shows_the_image_and_follows_a_drag(
    shown: ViewerApp, firefox: FirefoxPage, tmp_path: Path
) -> None:
    firefox.open(shown.url)
    until(lambda: any(opened.page.sink.stream.connected for opened in shown._pages.values()), "no stream")
    client = newest_client(shown)
    at_rest(shown, client, 40)

    def likeness() -> float:
        image = firefox.screenshot(tmp_path / "firefox.png")
        return psnr(cut(image), cut(expected_image(client, image.shape, firefox.evaluate(WIDEST))))

    assert likeness() > 30
    before = Pose.of_client(client.camera).position.copy()
    firefox.drag((400, 300), (120, 30))
    until(lambda: not np.allclose(Pose.of_client(client.camera).position, before), "the drag turned nothing")
    measured = "document.body.textContent.includes('Latency')"
    until(lambda: firefox.evaluate(measured) is True, "the page does not acknowledge its images")
    at_rest(shown, client)
    assert likeness() > 30
