"""What pages show behind a scene: dark around cut-out objects on dark pages alone."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from page_driver import ball, ring, until
from PIL import Image
from shown import StaticSession, ViewerApp, scene_of

from luxel.render.geometry.camera import Camera
from luxel.scenes.loading.run_results import trained_background
from luxel.viewer.reports.scoring import is_free
from luxel.viewer.web.app import OpenPage
from luxel.viewer.web.images.first_image import FirstImage
from luxel.viewer.web.inspection.view_scores import measure_scores
from luxel.viewer.web.navigate import Pose, find_extent
from luxel.viewer.web.offline import open_offline_page
from luxel.viewer.web.panels.show import ShowPanel
from luxel.viewer.web.shading.backdrop import DARK, backdrop
from luxel.viewer.web.shading.film_frame import film_frame
from luxel.viewer.web.shading.shading import DisplaySettings, draw
from luxel.viewer.web.shell.start_view import start_of

WHITE = (1.0, 1.0, 1.0)
CAMERA = Camera.look_at((3.5, 0, 0), (0, 0, 0), fov_y=0.9, width=64, height=48)


def session_of(background: tuple[float, float, float] = WHITE, free: bool = True) -> StaticSession:
    return StaticSession(ball(), ring(), "ball", background=background, free_background=free)


def corner(image: Any) -> tuple[int, ...]:
    """Where there is nothing but background."""
    return tuple(int(value) for value in np.asarray(image)[0, 0])


def test_only_a_bright_background_that_is_free_becomes_dark() -> None:
    assert backdrop(session_of(), True) == DARK
    assert backdrop(session_of(), False) is None
    assert backdrop(session_of(free=False), True) is None
    assert backdrop(session_of((0.0, 0.0, 0.0)), True) is None
    assert start_of(session_of(), find_extent(ring(), ball()))["dark"] == "rgb(27, 27, 31)"
    assert start_of(session_of(free=False), find_extent(ring(), ball()))["dark"] == "rgb(255, 255, 255)"


def test_pages_show_it_and_films_do_not() -> None:
    settings = DisplaySettings(background=WHITE, backdrop=DARK)
    assert corner(draw(scene_of(ball()), CAMERA, settings)[0]) == (27, 27, 31)
    plain = DisplaySettings(background=WHITE)
    with_backdrop, without = (film_frame(scene_of(ball()), CAMERA, s) for s in (settings, plain))
    assert corner(with_backdrop) == (255, 255, 255) and np.array_equal(with_backdrop, without)


def test_scores_are_those_of_the_scenes_background() -> None:
    scores: list[dict[str, float]] = [{}, {}]
    for measured, dark in zip(scores, (None, DARK), strict=True):
        settings = DisplaySettings(background=WHITE, backdrop=dark)
        measure_scores(
            session_of(), settings, measured.__setitem__, lambda measured=measured: len(measured) > 1
        )
    assert scores[0] == scores[1]


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenPage]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with ViewerApp(session_of(), port=0) as app:
        yield open_offline_page(app, Pose.of_camera(CAMERA))


def test_the_list_chooses_the_background_and_auto_follows_the_page(opened: OpenPage) -> None:
    page = opened.page
    show = next(panel for panel in opened.panels if isinstance(panel, ShowPanel))

    def colours() -> tuple[Any, Any]:
        return page.stream.settings.background, page.stream.settings.backdrop

    assert colours() == (WHITE, None)
    page.follow_scheme(True)
    assert colours() == (WHITE, DARK)
    until(
        lambda: bool(page.client.images) and corner(page.client.images[-1]) == (27, 27, 31),
        "the page does not show it",
    )
    show._background.value = "black"
    assert colours() == ((0.0, 0.0, 0.0), None)
    page.follow_scheme(False)
    show._background.value = "white"
    assert colours() == (WHITE, None)
    show._colour.value = (255, 0, 0)  # restored, not chosen
    assert colours() == (WHITE, None)
    show._choose_colour(by_hand=True)
    assert show._background.value == "colour" and colours() == ((1.0, 0.0, 0.0), None)
    show._colour.value = (0, 255, 0)
    assert colours() == ((0.0, 1.0, 0.0), None)
    page.follow_scheme(True)
    assert colours() == ((0.0, 1.0, 0.0), None)
    show._background.value = "auto"
    assert colours() == (WHITE, DARK)


def test_the_first_image_has_the_colours_of_the_page() -> None:
    first = FirstImage(session_of(), find_extent(ring(), ball()))

    def corner_of(query: str) -> tuple[int, ...]:
        files: list[bytes] = []
        until(
            lambda: bool(files) or bool(files.extend(filter(None, [first.answer(query)]))),
            "there is no image",
        )
        return corner(Image.open(io.BytesIO(files[0])).convert("RGB"))

    assert max(corner_of("width=90&height=60&dark=1")) < 40
    assert min(corner_of("width=90&height=60")) > 245
    first.close()
    other = FirstImage(session_of(free=False), find_extent(ring(), ball()))
    other.answer("width=90&height=60&dark=1")
    assert other._pending <= {(90, 60, False)}
    other.close()


def test_the_background_of_a_training_is_read_from_its_run(tmp_path: Path) -> None:
    assert trained_background(tmp_path) == "auto"
    for name, expected in (
        ("black", "black"),
        ("random", "random"),
        ("auto", "auto"),
        (3, "auto"),
        ("red", "auto"),
    ):
        (tmp_path / "config.json").write_text(json.dumps({"config": {"background": name}}))
        assert trained_background(tmp_path) == expected
    cutout: Any = SimpleNamespace(cutout=True)
    whole: Any = SimpleNamespace(cutout=False)
    assert is_free("auto", cutout) and is_free("random", cutout)
    assert not is_free("white", cutout) and not is_free("auto", whole)
