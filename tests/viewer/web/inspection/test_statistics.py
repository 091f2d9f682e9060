"""Histograms of primitives, and their panel."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from page_driver import at_rest, ball, newest_client, until
from shown import StaticSession, ViewerApp

from luxel.render.geometry.camera import Camera
from luxel.render.primitives import Convexes, Gaussians, Gaussians4d
from luxel.render.raster.rasterize import rasterize
from luxel.viewer.web.inspection.statistics import as_svg, histogram, histograms, tile_lengths
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.offline import open_offline_page
from luxel.viewer.web.panels import statistics as panels_statistics
from luxel.viewer.web.panels.statistics import StatisticsPanel

CAMERA = Camera.look_at((3.5, 0.5, 1.0), (0, 0, 0), fov_y=0.9, width=64, height=48)


def statistics_of(opened: Any) -> StatisticsPanel:
    """The panel of a page."""
    return next(panel for panel in opened.panels if isinstance(panel, StatisticsPanel))


def test_every_value_is_counted_once() -> None:
    values = torch.tensor([0.001, 0.01, 0.01, 0.1, 1000.0, 0.0, -1.0, math.nan, math.inf])
    result = histogram(values, "size", logarithmic=True)
    assert result.total == result.counts.sum() == 5 and result.broken == 4
    assert result.median == pytest.approx(0.01)
    assert result.edges[0] >= 0.001 * 0.99 and np.all(np.diff(result.edges) > 0)
    linear = histogram(torch.tensor([0.0, 0.5, 1.0]), "opacity", limits=(0.0, 1.0))
    assert linear.counts[0] == linear.counts[20] == linear.counts[-1] == 1


def test_primitives_have_the_quantities_that_apply(
    crystals: Callable[..., Convexes], carousel: Callable[..., Gaussians4d]
) -> None:
    titles = {scene.primitive: len(histograms(scene)) for scene in (ball(), crystals(10), carousel())}
    assert titles == {"gaussians": 3, "convexes": 2, "gaussians4d": 4}
    assert all(result.total == 250 for result in histograms(ball()))
    for result in histograms(Gaussians.empty(0)):
        assert result.total == 0 and "no values" in as_svg(result)


def test_tiles_have_the_primitives_that_touch_them(
    crystals: Callable[..., Convexes], carousel: Callable[..., Gaussians4d]
) -> None:
    for scene in (ball(), crystals(20), carousel()):
        lengths = tile_lengths(scene, CAMERA, 0.3)
        frame = rasterize(scene, CAMERA, time=0.3)
        assert lengths.shape == (12,) and int(lengths.sum()) == int(frame.instances) > 20
    assert int(tile_lengths(Gaussians.empty(0), CAMERA).sum()) == 0


def test_histograms_follow_the_scene_and_cost_nothing_while_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(panels_statistics, "REFRESH", 0.0)
    session = StaticSession(ball())
    with ViewerApp(session, port=0) as app:
        opened = open_offline_page(app, Pose.of_camera(CAMERA))
        panel = statistics_of(opened)
        panel.report(opened.page.stream._state)
        assert panel._drawings.content == ""
        panel._on.value = True
        until(lambda: panel._drawings.content.count("<svg") == 4, "no histograms")
        before = panel._drawings.content
        session.show(ball(100))
        until(lambda: panel._drawings.content != before, "they do not follow the scene")


@pytest.mark.slow
def test_histograms_in_a_browser(open_page: Callable[..., Any], tmp_path: Any) -> None:
    with ViewerApp(StaticSession(ball(), name="ball"), port=0) as app:
        page = open_page(app, width=1000, height=1150)
        client = newest_client(app)
        at_rest(app, client)
        page.get_by_text("Statistics", exact=True).click()
        page.get_by_label("Histograms").check()
        page.get_by_role("img", name="Opacity").wait_for(timeout=60_000)
        page.get_by_role("img", name="Primitives of a tile").scroll_into_view_if_needed()
        page.screenshot(path=str(tmp_path / "statistics.png"))
        box = page.get_by_role("img", name="Opacity").bounding_box()
        assert box["width"] > 200 and box["height"] > 30
