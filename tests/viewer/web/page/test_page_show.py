"""Controls of Show, Camera and Compare in a real browser: each changes what the page shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from page_controls import Controls
from page_driver import at_rest, ball, canvas_width, cut, psnr, ring, screenshot, until
from shown import StaticSession, ViewerApp, draw

from luxel.render.geometry.camera import Pixels, View
from luxel.render.raster.rasterize import rasterize
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.panels.compare import ComparePanel


def photographed() -> list[View]:
    """Views of the ball whose photographs are darker than it."""
    views = []
    for view in ring():
        image = rasterize(ball(), view.camera).rgb.clamp(0, 1) * 0.7
        pixels = Pixels((image * 255).round().byte().numpy())
        views.append(replace(view, read=lambda pixels=pixels: pixels))
    return views


def expected(controls: Controls) -> np.ndarray:
    """What luxel draws for the camera and the settings of a page."""
    page, stream = controls.page, controls.opened.page.stream
    pose, settings = controls.opened.page.pose(), stream.settings
    height = page.viewport_size["height"]
    camera = pose.camera(canvas_width(page), height, settings.near, settings.far)
    return draw(rasterize, ball(), camera, settings)[0].float().numpy()


def shows_its_settings(controls: Controls, app: ViewerApp, before: np.ndarray | None) -> np.ndarray:
    """The image of a page, which must be what its settings ask for, and another one than before."""
    controls.page.mouse.move(100, 500)  # away from the control, whose help lies on the image
    at_rest(app, controls.client)
    until(
        lambda: psnr(cut(screenshot(controls.page)), cut(expected(controls))) > 24,
        f"not what is asked for: {controls.opened.page.stream.settings}",
    )
    image = cut(screenshot(controls.page))
    assert before is None or np.abs(image - before).mean() > 0.4, "the control changed nothing on the page"
    return image


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for the run, and one for edits."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    torch.set_num_threads(1)
    return tmp_path


@pytest.mark.slow
def test_every_control_of_show_changes_the_image(open_page: Callable[..., Any], own_cache: Path) -> None:
    session = StaticSession(ball(), ring(), "ball", folder=own_cache, background=(0.0, 0.0, 0.0))
    with ViewerApp(session, port=0) as app:
        page = open_page(app, width=1000, height=800)
        controls = Controls(page, app)
        stream = controls.opened.page.stream
        plain = shows_its_settings(controls, app, None)
        for output in (
            *("alpha", "depth", "normals", "count", "overdraw", "ellipsoids", "points", "seen by", "objects"),
        ):
            controls.set("Show/Output", output)
            until(lambda output=output: stream.settings.output == output, "the choice did not arrive")
            shows_its_settings(controls, app, plain)
            page.screenshot(path=str(own_cache / f"{output}.png"))
        controls.set("Show/Overlay", 100)
        until(lambda: stream.settings.overlay == 1.0, "the overlay did not arrive")
        controls.set("Show/Output", "colour")
        until(lambda: controls.handle("Show/Overlay").disabled, "colours have no overlay")

        for choice, colour in (("black", 0.0), ("white", 1.0), ("auto", 0.0), ("colour", 0.0)):
            controls.set("Show/Background", choice)
            until(lambda c=colour: stream.settings.background == (c, c, c), f"{choice} is no background")
        controls.set("Show/Background colour", (40, 80, 160))
        image = shows_its_settings(controls, app, plain)
        np.testing.assert_allclose(screenshot(page)[760, 20], (40, 80, 160), atol=12)
        controls.set("Show/Quality", 60)
        until(lambda: stream.settings.quality == 60, "the quality did not arrive")
        controls.set("Show/Antialiased", True)
        until(lambda: stream.settings.antialiased, "the switch did not arrive")
        image = shows_its_settings(controls, app, None)
        controls.unfold("More")
        controls.set("Show/More/Splat size", 0.3)
        image = shows_its_settings(controls, app, image)
        distance = float(np.linalg.norm(controls.opened.page.pose().position))
        controls.set("Show/More/Near", round(distance, 2))
        image = shows_its_settings(controls, app, image)
        controls.set("Show/More/Near", 0.01)
        image = shows_its_settings(controls, app, image)
        controls.set("Show/More/Far", round(distance, 2))
        shows_its_settings(controls, app, image)
        page.screenshot(path=str(own_cache / "far.png"))
        whole = stream.last_report.width
        controls.set("Show/Resolution", 50)
        until(lambda: stream.last_report.width == pytest.approx(whole / 2, abs=1), "not half the pixels")


@pytest.mark.slow
def test_every_control_of_camera_moves_the_page(open_page: Callable[..., Any], own_cache: Path) -> None:
    with ViewerApp(StaticSession(ball(), ring(), "ball"), port=0) as app:
        page = open_page(app, width=1000, height=800)
        controls = Controls(page, app)
        camera, start = controls.client.camera, controls.opened.page.pose()
        at_rest(app, controls.client)

        def at(position: Any) -> Callable[[], bool]:
            return lambda: bool(np.allclose(Pose.of_client(camera).position, position, atol=0.01))

        def at_view(index: int) -> Callable[[], bool]:
            return at(ring()[index].camera.position.numpy())

        controls.set("Camera/View", "photo_3<b>.png")
        until(at_view(3), "the list goes to no view")
        controls.press("Camera/◀ Previous")
        until(at_view(2), "the button goes to no view")
        controls.press("Camera/Next ▶")
        until(at_view(3), "the button goes to no view")
        controls.press("Camera/Reset view")
        until(at(start.position), "the button does not go back")
        for choice, axis in (
            *(("+x", (1, 0, 0)), ("-x", (-1, 0, 0)), ("+y", (0, 1, 0)), ("-y", (0, -1, 0))),
            *(("-z", (0, 0, -1)), ("+z", (0, 0, 1))),
        ):
            controls.set("Camera/Up", choice)
            until(lambda axis=axis: np.allclose(camera.up_direction, axis, atol=1e-4), f"{axis} is not up")
        at_rest(app, controls.client)
        controls.set("Camera/Up", "this view")
        up = -Pose.of_client(camera).rotation[:, 1]
        until(lambda: np.allclose(camera.up_direction, up, atol=1e-3), "the view is not upright")
        controls.set("Camera/Up", "scene")
        until(lambda: np.allclose(camera.up_direction, app.extent.up, atol=1e-4), "the scene is not upright")


@pytest.mark.slow
def test_every_control_of_compare_changes_the_image(open_page: Callable[..., Any], own_cache: Path) -> None:
    with ViewerApp(StaticSession(ball(), photographed(), "ball"), port=0) as app:
        page = open_page(app, width=1000, height=800)
        controls = Controls(page, app)
        panel = controls.panel(ComparePanel)
        comparer, stream = panel._comparer, controls.opened.page.stream
        controls.unfold("Compare")
        controls.set("Compare/Compare", True)
        until(lambda: stream.settings.painter is comparer, "the switch turned nothing on")

        def image_at(view: str) -> np.ndarray:
            until(lambda: view in panel._shown and "dB" in panel._shown, f"{view} is not compared")
            at_rest(app, controls.client)
            return cut(screenshot(page))

        before = image_at("photo_0")
        controls.press("Compare/Next ▶")
        assert np.abs(image_at("photo_1") - before).mean() > 1
        controls.press("Compare/◀ Previous")
        image_at("photo_0")
        seen = [image_at("photo_0")]
        for mode, legend in (
            *(("|difference|", "absolute difference"), ("luminance error", "too bright")),
            *(("squared error", "squared error"), ("photograph | render", "")),
        ):
            controls.set("Compare/Image", mode)
            until(lambda mode=mode: comparer.mode == mode, "the choice did not arrive")
            until(lambda legend=legend: legend in panel._shown, "another colour bar")
            seen.append(image_at("photo_0"))
            page.screenshot(path=str(own_cache / f"{len(seen)}.png"))
        assert np.abs(seen[-1] - seen[0]).mean() < 1, "the image alongside the render does not come back"
        for i, image in enumerate(seen[:-1]):
            assert all(np.abs(image - other).mean() > 0.5 for other in seen[:i]), "two modes are the same"
        controls.set("Compare/Split", 90)
        until(lambda: comparer.split == pytest.approx(0.9), "the line did not arrive")
        assert image_at("photo_0").mean() < seen[0].mean() - 1, "the images are darker"
        controls.set("Compare/Image", "|difference|")
        image_at("photo_0")
        controls.set("Compare/Error scale", 0.05)
        until(lambda: comparer.scale == pytest.approx(0.05), "the scale did not arrive")
        until(lambda: "0.05" in panel._shown, "the colour bar does not follow")
        assert image_at("photo_0").mean() > seen[1].mean() + 1, "the errors are not brighter"
