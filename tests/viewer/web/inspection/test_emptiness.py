"""Why an image shows nothing, in words, on the image and on the page."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from page_driver import at_rest, ball, newest_client, until
from shown import StaticSession, ViewerApp, draw, outputs_of

from luxel.render.geometry.camera import Camera
from luxel.render.primitives import Convexes, Gaussians, Gaussians4d
from luxel.render.raster.rasterize import rasterize
from luxel.viewer.web.images.stream import StreamReport
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.offline import open_offline_page
from luxel.viewer.web.panels.frame import FramePanel
from luxel.viewer.web.panels.notice import NoticePanel
from luxel.viewer.web.shading.emptiness import write_on
from luxel.viewer.web.shading.legend import notice_of
from luxel.viewer.web.shading.shading import OUTPUTS, DisplaySettings

SEEING = Camera.look_at((3.5, 0.5, 1.0), (0, 0, 0), fov_y=0.9, width=64, height=48)
AWAY = Camera.look_at((3.5, 0.5, 1.0), (9, 0.5, 1.0), fov_y=0.9, width=64, height=48)
ASIDE = Camera.look_at((3.5, 0.5, 1.0), (3.0, 4.0, 1.0), fov_y=0.5, width=64, height=48)


def notice(scene: Any, camera: Camera = SEEING, **settings: Any) -> str:
    """The notice that comes with an image."""
    return notice_of(draw(rasterize, scene, camera, DisplaySettings(**settings))[1])


def changed(scene: Gaussians, count: int, value: float) -> Gaussians:
    """The scene with the centres of its first primitives set to a value."""
    means = scene.means.clone()
    means[:count] = value
    return replace(scene, means=means)


def test_each_reason_has_its_notice(crystals: Callable[..., Convexes]) -> None:
    assert notice(ball()) == ""
    assert notice(Gaussians.empty(0)) == "The scene has no Gaussians."
    assert notice(changed(ball(), 250, math.nan)).startswith(
        "All 250 Gaussians have values that are not finite"
    )
    some = notice(changed(ball(), 20, math.nan), AWAY)
    assert "230 Gaussians are behind the camera" in some and "20 of 250 Gaussians have values" in some
    assert notice(crystals(20), replace(AWAY, near=SEEING.near)).startswith("All 20 convexes are behind")
    far = notice(ball(), replace(SEEING, far=1.0))
    assert far.startswith("Near 0.01 and Far 1 cut all Gaussians") and "Show, More" in far
    assert "cut all" in notice(ball(), replace(SEEING, near=100.0))
    assert "lie within the image" in notice(ball(), ASIDE)
    faint = replace(ball(), opacity_logits=torch.full((250,), -9.0))
    assert "opacity below 1/255" in notice(faint)


def test_a_time_at_which_nothing_is_visible(carousel: Callable[..., Gaussians4d]) -> None:
    assert "at time 1e+06" in notice(carousel(), time=1e6)


def test_every_output_of_an_empty_scene_is_drawn() -> None:
    for output in outputs_of(Gaussians):
        image, caption = draw(rasterize, Gaussians.empty(0), SEEING, DisplaySettings(output=output))
        assert image.shape == (48, 64, 3) and "no Gaussians" in notice_of(caption), output
    assert set(outputs_of(Gaussians)) == set(OUTPUTS) - {"shadows", "shaded"}, (
        "those are of distance fields and volumes, and of meshes"
    )


def test_the_text_fits_into_any_image() -> None:
    text = notice(ball(), replace(SEEING, far=1.0))
    for width, height in ((1280, 720), (300, 500), (40, 30), (1, 1)):
        written = write_on(np.zeros((height, width, 3), np.uint8), text)
        assert written.shape == (height, width, 3) and written.dtype == np.uint8
    wide = write_on(np.zeros((720, 1280, 3), np.uint8), text)
    assert wide[:100].max() == 0 and wide[300:420].max() > 200


def test_a_reduced_resolution_is_explained() -> None:
    with ViewerApp(StaticSession(ball()), port=0) as app:
        opened = open_offline_page(app, Pose.of_camera(SEEING), width=600, height=400)
        frame = next(panel for panel in opened.panels if isinstance(panel, FramePanel))
        moving = StreamReport(fps=20.0, render_ms=50.0, width=300, height=200)
        assert frame._reduced(moving) == " (50 % while moving)"
        for rest in (replace(moving, fps=0.0), replace(moving, width=600, height=400)):
            assert frame._reduced(rest) == ""
        opened.page.stream.change(resolution=0.5)
        assert frame._reduced(moving) == "", "half the pixels is what was asked for"


@pytest.mark.slow
def test_an_empty_page_says_why_and_leads_back(open_page: Callable[..., Any], tmp_path: Any) -> None:
    with ViewerApp(StaticSession(ball(), name="ball"), port=0) as app:
        page = open_page(app, width=1000)
        client = newest_client(app)
        at_rest(app, client)
        assert page.get_by_text("Nothing to be seen").count() == 0
        opened = app._pages[client.client_id]
        here = opened.page.pose()
        opened.page.place(replace(here, position=here.position + 30 * here.rotation[:, 2]))
        page.get_by_text("are behind the camera").wait_for(timeout=60_000)
        at_rest(app, client)
        page.screenshot(path=str(tmp_path / "empty.png"))
        page.get_by_role("button", name="Back to the scene").click()
        page.get_by_text("Nothing to be seen").wait_for(state="hidden", timeout=60_000)
        panel = next(panel for panel in opened.panels if isinstance(panel, NoticePanel))
        until(lambda: not panel._back.visible, "the button stays")
