"""The view that a page is at: followed by lists, buttons, frustums and Compare alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from page_driver import ball, ring, until
from shown import StaticSession, ViewerApp

from luxel.render.geometry.camera import Camera
from luxel.viewer.web.app import OpenPage
from luxel.viewer.web.chosen_view import ChosenView
from luxel.viewer.web.images.stream import StreamReport
from luxel.viewer.web.inspection.comparison import Comparer
from luxel.viewer.web.inspection.frustums import THICK
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.offline import open_offline_page
from luxel.viewer.web.panels.camera import CameraPanel
from luxel.viewer.web.panels.compare import PATIENCE, ComparePanel

VIEWS = ring()


def beside(index: int) -> Pose:
    """A camera a little above that of a view."""
    x, y, z = VIEWS[index].camera.position.tolist()
    return Pose.of_camera(Camera.look_at((x, y, z + 0.3), (0, 0, 0), fov_y=0.9))


@pytest.fixture
def opened(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenPage]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with ViewerApp(StaticSession(ball(), VIEWS, "ball"), port=0) as app:
        yield open_offline_page(app, Pose.of_camera(VIEWS[0].camera))


def panel_of(opened: OpenPage, kind: Any) -> Any:
    return next(panel for panel in opened.panels if isinstance(panel, kind))


def test_views_are_chosen_by_hand_and_by_the_camera() -> None:
    chosen, changes = ChosenView(VIEWS), list[str]()
    chosen.on_change(lambda: changes.append(getattr(chosen.view, "name", "")))
    chosen.choose(VIEWS[3])
    chosen.choose(VIEWS[3])
    chosen.choose(replace(VIEWS[1], name="of another capture"))
    chosen.choose(replace(VIEWS[1]))  # likewise, of the same name
    assert changes == [VIEWS[3].name]
    assert chosen.neighbour(2) is VIEWS[0] and chosen.neighbour(-4) is VIEWS[4]
    chosen.follow(beside(1), 3.5)
    assert chosen.view is VIEWS[1] and 0.05 < chosen.turned(beside(1)) < 0.12
    assert chosen.turned(Pose.of_camera(VIEWS[1].camera)) == pytest.approx(0, abs=1e-3)


def test_of_views_with_one_camera_the_chosen_one_stays() -> None:
    views = [replace(VIEWS[0], name=str(number), time=float(number)) for number in range(3)]
    chosen = ChosenView(views)
    chosen.choose(views[2])
    chosen.follow(Pose.of_camera(views[0].camera), 3.5)
    assert chosen.view is views[2]
    comparer = Comparer(StaticSession(ball(), views), 3.5, lambda: None, chosen)
    assert comparer.view_at(views[0].camera) is views[2]
    chosen.choose(views[1])
    assert comparer.view_at(views[0].camera) is views[1]
    assert comparer.view_at(VIEWS[3].camera) is None


def test_a_capture_without_views_has_none() -> None:
    chosen = ChosenView([])
    chosen.follow(beside(0), 3.5)
    assert chosen.view is None and chosen.turned(beside(0)) == 0
    with pytest.raises(ValueError, match="no neighbours"):
        chosen.neighbour(1)


def test_a_clicked_frustum_is_the_view_of_all_panels(opened: OpenPage) -> None:
    page, camera, compare = opened.page, panel_of(opened, CameraPanel), panel_of(opened, ComparePanel)
    camera._show.value = True
    frustums = camera._frustums
    frustums._fly(VIEWS[2], frustums._handles[VIEWS[2].name])
    assert camera._view.value == VIEWS[2].name and frustums._handles[VIEWS[2].name].thickness == THICK
    assert [h.thickness for h in frustums._handles.values()].count(THICK) == 1
    page.go_by(1)
    assert camera._view.value == VIEWS[3].name
    compare._step(-1)
    assert compare._on.value and camera._view.value == VIEWS[2].name
    compare._step(-1)
    assert camera._view.value == VIEWS[1].name
    until(lambda: compare._comparer.name == VIEWS[1].name, "another view is compared")
    camera._view.value = VIEWS[4].name  # as if it were chosen in the list
    until(lambda: compare._comparer.name == VIEWS[4].name, "the list goes to no view")


def test_the_view_follows_a_camera_at_rest_and_the_line_of_compare_has_it(opened: OpenPage) -> None:
    page, camera, compare = opened.page, panel_of(opened, CameraPanel), panel_of(opened, ComparePanel)
    compare._on.value = True
    page.place(beside(3))
    until(lambda: camera._view.value == VIEWS[3].name, "the list does not follow")
    until(lambda: not compare._comparer.name, "the camera is still at a view")
    for _ in range(PATIENCE):
        compare.report(StreamReport())
    assert f"at no photograph: {VIEWS[3].name} is turned by" in page.toolbar.state()["message"]
    page.toolbar.run("To the photograph")
    until(lambda: compare._comparer.name == VIEWS[3].name, "another view is compared")
    page.place(beside(1))
    page.go_by(1)  # at once
    assert camera._view.value == VIEWS[2].name
