"""Frustums of views: their colours by PSNR, when they are hidden, measured scores, and levelling by one click."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from page_driver import at_rest, ball, click_until, newest_client, ring, until
from shown import StaticSession, ViewerApp, measure_scores

from luxel.render.geometry.camera import Pixels, View
from luxel.render.metrics.evaluate import evaluate
from luxel.render.raster.rasterize import rasterize
from luxel.viewer.web.app import OpenPage
from luxel.viewer.web.inspection.frustums import PLAIN, SCORES, UNSCORED, chosen_views, score_colour
from luxel.viewer.web.inspection.view_scores import read_scores, score_rows
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.offline import open_offline_page
from luxel.viewer.web.panels.camera import CameraPanel
from luxel.viewer.web.shading.shading import DisplaySettings, Sample


def photographed(darker: float = 0.8) -> list[View]:
    """Views of the ball whose photographs are darker the later they are."""
    views = []
    for i, view in enumerate(ring()):
        image = rasterize(ball(), view.camera).rgb.clamp(0, 1) * darker**i
        pixels = Pixels((image * 255).round().byte().numpy())
        views.append(replace(view, read=lambda pixels=pixels: pixels))
    return views


def camera_panel(opened: OpenPage) -> CameraPanel:
    """The camera panel of a page."""
    return next(panel for panel in opened.panels if isinstance(panel, CameraPanel))


def write_report(folder: Path, scores: dict[str, float | None]) -> None:
    """The report of an evaluation, with these scores."""
    (folder / "eval").mkdir()
    views = [{"name": name, "psnr": psnr} for name, psnr in scores.items()]
    (folder / "eval" / "report.json").write_text(json.dumps({"views": views}))


def test_scores_are_read_from_the_report_of_a_run(tmp_path: Path) -> None:
    assert read_scores(None) == read_scores(tmp_path) == {}
    write_report(tmp_path, {"a": 20.5, "b": None})
    assert read_scores(tmp_path) == {"a": 20.5}
    for broken in ("", "[]", '{"views": [1]}', '{"views": 3}'):
        (tmp_path / "eval" / "report.json").write_text(broken)
        assert read_scores(tmp_path) == {}


def test_colours_go_from_the_least_to_the_largest_score() -> None:
    scores = {"low": 20.0, "high": 30.0, "middle": 25.0, "unread": math.nan}
    low, middle, high = (tuple(int(c) for c in row) for row in SCORES)
    assert score_colour(scores, "low") == low and score_colour(scores, "high") == high
    assert score_colour(scores, "middle") == middle
    assert score_colour(scores, "unread") == score_colour(scores, "none") == UNSCORED
    assert score_colour({}, "none") == PLAIN
    assert score_colour({"exact": math.inf}, "exact") == high


def test_views_with_scores_are_chosen_first() -> None:
    views = [replace(ring()[0], name=str(i)) for i in range(200)]
    scores = {str(i): 20.0 for i in range(0, 200, 8)}
    chosen = chosen_views(views, scores)
    assert len(chosen) == 64 and [index for index, _ in chosen] == sorted(index for index, _ in chosen)
    assert set(scores) <= {view.name for _, view in chosen}
    assert all(views[index] is view for index, view in chosen)


def test_measured_scores_are_those_of_the_evaluation() -> None:
    def missing() -> Pixels:
        raise OSError("gone")

    views = photographed()
    views[2] = replace(views[2], read=missing)
    measured: dict[str, float] = {}
    session = StaticSession(ball(), views)
    measure_scores(session, rasterize, DisplaySettings(), measured.__setitem__, lambda: len(measured) >= 4)
    assert list(measured) == [view.name for view in views[:4]], "it ends when it is cancelled"
    assert math.isnan(measured[views[2].name])
    expected = evaluate(ball(), views[1:2], lpips=False).mean.psnr
    assert measured[views[1].name] == pytest.approx(expected, abs=1e-6)


def test_held_out_views_and_all_views_have_means_of_their_own() -> None:
    views = ring()
    session = StaticSession(ball(), views, trained_on=3)
    held_out = {views[3].name: 20.0, views[4].name: 22.0}
    assert score_rows(held_out, session) == [("PSNR, held out", "21.00 dB of 2 views")]
    scores = {**held_out, views[0].name: 30.0, views[1].name: math.nan}
    expected = [("PSNR, held out", "21.00 dB of 2 views"), ("PSNR, all", "24.00 dB of 3 views")]
    assert score_rows(scores, session) == expected
    everywhere = StaticSession(ball(), views)
    assert score_rows({views[0].name: 30.0}, everywhere) == [("Mean PSNR", "30.00 dB of 1 view")]
    assert score_rows({views[0].name: math.nan}, everywhere) == []


def test_the_frustum_that_the_camera_stands_in_is_hidden(tmp_path: Path) -> None:
    views = ring()
    write_report(tmp_path, {views[0].name: 20.0, views[1].name: 30.0})
    with ViewerApp(StaticSession(ball(), views, folder=tmp_path), port=0) as app:
        opened = open_offline_page(app, Pose.of_camera(views[0].camera))
        panel = camera_panel(opened)
        panel._show.value = True
        handles = panel._frustums._handles
        assert [handles[view.name].visible for view in views] == [False, True, True, True, True]
        assert tuple(handles[views[1].name].color) == (70, 200, 235)
        assert tuple(handles[views[2].name].color) == UNSCORED
        assert "25.00 dB of 2 views" in panel._bar.content and "20.0 dB" in panel._bar.content
        opened.page.place(Pose.of_camera(views[3].camera))
        panel.report(opened.page.stream._state)
        assert [handles[view.name].visible for view in views] == [True, True, True, False, True]
        panel._show.value = False
        assert not any(handle.visible for handle in handles.values())


def test_a_clicked_floor_levels_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ViewerApp(StaticSession(ball(), ring(), folder=tmp_path), port=0) as app:
        opened = open_offline_page(app, Pose.of_camera(ring()[0].camera))
        panel, page = camera_panel(opened), opened.page
        for normal in (None, (0.6, 0.0, 0.8)):
            panel._wait_for_floor(True)
            seen = Sample((0, 0, 0), 1.0, 2.0, normal)
            monkeypatch.setattr(page.stream, "sample", lambda *_, seen=seen: seen)
            page.click(0.5, 0.5)
        assert page.client.notifications[0][0] == "There is no surface"
        np.testing.assert_allclose(page.client.camera.up_direction, (0.6, 0, 0.8))
        np.testing.assert_allclose(page.extent.up, (0.6, 0, 0.8))
        assert not page._clicks, "one click ends it"
        assert tuple(page.scene_up) != tuple(page.extent.up), "that of the scene is retained"


@pytest.mark.slow
def test_frustums_in_a_browser(open_page: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    session = StaticSession(ball(), photographed(), "ball", folder=tmp_path / "run")
    with ViewerApp(session, port=0) as app:
        page = open_page(app, width=1100, height=800)
        client = newest_client(app)
        at_rest(app, client)
        page.get_by_label("Show cameras").check()
        page.get_by_role("button", name="Measure PSNR").click()
        panel = camera_panel(app._pages[client.client_id])
        until(lambda: len(panel._scores) == 5 and not panel._measuring, "the views are not measured")
        for _ in range(8):
            page.mouse.move(300, 300)
            page.mouse.wheel(0, 240)
            time.sleep(0.05)
        page.get_by_text("of 5 views").wait_for(timeout=60_000)
        at_rest(app, client)
        page.screenshot(path=str(tmp_path / "frustums.png"))
        page.get_by_role("button", name="Next").first.click()
        view = ring()[1].camera.position.numpy()
        until(lambda: bool(np.allclose(client.camera.position, view, atol=0.02)), "no jump")
        name = ring()[1].name
        until(lambda: not panel._frustums._handles[name].visible, "its thumbnail hides the scene")
        at_rest(app, client)
        page.screenshot(path=str(tmp_path / "at_view.png"))
        page.get_by_role("button", name="This is down").click()
        page.get_by_role("button", name="Click the floor").wait_for(timeout=60_000)
        level = lambda: panel._down.label == "This is down"  # noqa: E731
        click_until(page, (390, 560), level, "no click arrived")  # low on the ball
        page.get_by_role("button", name="This is down").wait_for(timeout=60_000)
        until(lambda: float(np.dot(client.camera.up_direction, app.extent.up)) < 0.9, "up is as before")
        at_rest(app, client)
        page.screenshot(path=str(tmp_path / "level.png"))
