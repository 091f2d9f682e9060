"""The image stream in a real browser, and viser's messages where it does not run."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from page_driver import at_rest, drag, likeness, newest_client, until
from shown import ViewerApp

from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.page import Page

SCRIPT = re.compile(r"/luxel/(?!viser-)[^/]*\.js")  # of luxel, and not the parts of viser's page


def _newest_page(app: ViewerApp) -> Page:
    return app._pages[newest_client(app).client_id].page


@pytest.mark.slow
def test_stream_shows_what_the_camera_sees_and_knows_it_exactly(
    shown: ViewerApp, open_page: Callable[..., Any]
) -> None:
    browser_page = open_page(shown, width=1280, height=720)
    client, page = newest_client(shown), _newest_page(shown)
    until(lambda: page.sink.stream.connected, "the page has no stream")
    for up in ((0.0, 0.0, 1.0), (0.3, -0.8, 0.4)):  # viser turns its world for this
        client.scene.set_up_direction(up)
        drag(browser_page, client, (70, 30))
        browser_page.mouse.move(5, 715)
        at_rest(shown, client)

        def agree() -> bool:
            ours, theirs = page.stream._pose, Pose.of_client(client.camera)
            assert ours is not None
            turn = np.abs(ours.rotation - theirs.rotation).max()
            shift = np.abs(ours.position - theirs.position).max()
            return max(turn, shift, abs(ours.fov_y - theirs.fov_y)) < 1e-4

        until(agree, "the stream's camera is not viser's")
        until(lambda: likeness(browser_page, client) > 30, "the page does not show what its camera sees")
    assert page.stream._sequence > 0, "cameras came through viser's messages"
    assert browser_page.evaluate("window.__viserMutable.backgroundMaterial.uniforms.enabled.value") is False
    figures = page.sink.stream.figures.summary()
    assert figures is not None and figures.latency_ms is not None
    browser_page.get_by_text("Latency", exact=True).wait_for(state="attached", timeout=60_000)


@pytest.mark.slow
def test_viser_shows_the_images_where_the_script_is_blocked(shown: ViewerApp, browser: Any) -> None:
    context = browser.new_context(viewport={"width": 900, "height": 520})
    try:
        blocked = context.new_page()
        blocked.route(SCRIPT, lambda route: route.abort())
        blocked.goto(shown.url)
        blocked.get_by_text("Render", exact=True).wait_for(state="attached", timeout=60_000)
        client, page = newest_client(shown), _newest_page(shown)
        drag(blocked, client, (90, 20))
        blocked.mouse.move(5, 515)
        at_rest(shown, client)
        assert not page.sink.stream.connected
        until(lambda: likeness(blocked, client) > 30, "the page does not show what its camera sees")
    finally:
        context.close()


@pytest.mark.slow
def test_stream_comes_back_after_its_socket_was_closed(
    shown: ViewerApp, open_page: Callable[..., Any]
) -> None:
    browser_page = open_page(shown)
    client, page = newest_client(shown), _newest_page(shown)
    until(lambda: page.sink.stream.connected, "the page has no stream")
    before = page.sink.stream._post
    browser_page.evaluate("window.luxel.drop()")
    until(lambda: page.sink.stream._post not in (before, None), "the page did not connect again")
    drag(browser_page, client, (90, 20))
    browser_page.mouse.move(5, 515)
    at_rest(shown, client)
    until(lambda: likeness(browser_page, client) > 30, "the page does not show what its camera sees")
