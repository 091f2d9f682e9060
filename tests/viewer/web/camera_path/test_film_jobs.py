"""Films that go on when their page is closed, and are offered by the next one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from page_driver import ball, ring, until
from shown import StaticSession, ViewerApp

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera
from luxel.render.raster.rasterize import rasterize
from luxel.viewer.web.camera_path.film_jobs import FilmJobs
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.offline import open_offline_page
from luxel.viewer.web.panels.camera_path import CameraPathPanel

EYES = ((3.0, 0.0, 0.5), (0.0, 3.0, 0.5))


class Filming:
    """A viewer whose films wait after their second frame until `go` is set."""

    def __init__(self, folder: Path | None, cache: Path, fails: bool = False) -> None:
        self.go, self.frames, self.fails = threading.Event(), 0, fails
        self.session = StaticSession(ball(), ring(), folder=folder)
        self.app = ViewerApp(self.session, port=0, panels=(CameraPathPanel,), render=self._render)
        self.app.start()

    def _render(self, scene: Any, camera: Camera, **options: Any) -> Any:
        if (camera.width, camera.height) == (40, 30):  # the films', not the pages'
            self.frames += 1
            if self.frames > 2:
                assert self.go.wait(60)
                if self.fails:
                    raise LuxelError("the kernel tripped.")
        return rasterize(scene, camera, **options)

    def page(self) -> tuple[Any, CameraPathPanel]:
        opened = open_offline_page(self.app, Pose.of_camera(Camera.look_at(EYES[0], (0, 0, 0))), 64, 48)
        panel = opened.panels[0]
        assert isinstance(panel, CameraPathPanel)
        return opened, panel

    def begin(self) -> tuple[Any, CameraPathPanel]:
        """A page whose film is being rendered."""
        opened, panel = self.page()
        for eye in EYES:
            camera = Camera.look_at(eye, (0, 0, 0), width=40, height=30)
            opened.page.place(Pose.of_camera(camera))
            panel.add()
        cameras = panel.path().cameras
        assert cameras
        panel._seconds.value = 0.2
        panel._video._path = lambda fps: _sized(panel.path(fps))
        panel._video.toggle()
        until(lambda: self.frames > 2, "no film")
        return opened, panel

    def bar(self, opened: Any) -> dict[str, Any] | None:
        return next((bar for bar in opened.page.bars.state()["bars"] if bar["name"] == "film"), None)


def _sized(path: Any) -> Any:
    from dataclasses import replace

    from luxel.scenes.paths import resized

    return replace(path, cameras=resized(path.cameras, 40, 30))


@pytest.fixture
def filming(tmp_path: Path) -> Iterator[Callable[..., Filming]]:
    pytest.importorskip("av", reason="video test not run: no PyAV")
    made: list[Filming] = []

    def make(folder: Path | None = tmp_path, **options: Any) -> Filming:
        made.append(Filming(folder, tmp_path, **options))
        return made[-1]

    yield make
    for each in made:
        each.go.set()
        each.app.stop()


def test_a_film_goes_on_without_its_page_and_the_next_one_offers_it(
    filming: Callable[..., Filming], tmp_path: Path
) -> None:
    film = filming()
    opened, _ = film.begin()
    film.app._close(opened.page.client)
    later, panel = film.page()
    assert panel._video._button.label == "Cancel video" and film.bar(later) is None
    film.go.set()
    until(lambda: film.bar(later) is not None, "the film is not offered")
    assert panel._video._button.label == "Render video" and (tmp_path / "path.mp4").is_file()
    assert "path.mp4" in film.bar(later)["text"] and film.bar(later)["buttons"] == ["Download"]
    also, _ = film.page()
    assert film.bar(also) is not None, "every page offers it"
    later.page.bars.press("film", 0, "Download")
    ((name, content),) = later.page.client.downloads
    assert name == "path.mp4" and content == (tmp_path / "path.mp4").read_bytes()
    assert film.bar(later) is None and film.bar(also) is None, "once"
    assert str(tmp_path / "path.mp4") in panel._message.content.replace("\\", "")


def test_the_page_that_began_a_film_gets_it_and_no_other_offers_it(filming: Callable[..., Filming]) -> None:
    film = filming()
    opened, _ = film.begin()
    other, _ = film.page()
    film.go.set()
    until(lambda: len(opened.page.client.downloads) == 1, "the film did not arrive")
    assert film.bar(other) is None and not other.page.client.downloads


def test_a_film_of_a_scene_without_a_run_stays_until_it_was_taken(filming: Callable[..., Filming]) -> None:
    film = filming(None)
    opened, _ = film.begin()
    film.app._close(opened.page.client)
    film.go.set()
    jobs = FilmJobs.of(film.session)
    until(lambda: jobs.result is not None, "no film")
    later, _ = film.page()
    later.page.bars.press("film", "close")
    assert film.bar(later) is None
    last, panel = film.page()
    file = jobs.result.file  # pyright: ignore[reportOptionalMemberAccess]
    assert film.bar(last) is not None and file.is_file(), "closing the bar deletes no film"
    last.page.bars.press("film", 0, "Download")
    assert len(last.page.client.downloads[0][1]) > 500 and not file.exists()
    assert (
        panel._message.content == "6 frames: path.mp4".replace(".", "\\.") or "path" in panel._message.content
    )


def test_a_stored_film_is_offered_no_more_once_its_bar_was_closed(
    filming: Callable[..., Filming], tmp_path: Path
) -> None:
    film = filming()
    opened, _ = film.begin()
    film.app._close(opened.page.client)
    film.go.set()
    later, _ = film.page()
    until(lambda: film.bar(later) is not None, "the film is not offered")
    later.page.bars.press("film", "close")
    assert film.bar(film.page()[0]) is None and (tmp_path / "path.mp4").is_file()


def test_a_film_that_was_deleted_meanwhile_is_said_to_be(
    filming: Callable[..., Filming], tmp_path: Path
) -> None:
    film = filming()
    opened, _ = film.begin()
    film.app._close(opened.page.client)
    film.go.set()
    later, panel = film.page()
    until(lambda: film.bar(later) is not None, "the film is not offered")
    (tmp_path / "path.mp4").unlink()
    later.page.bars.press("film", 0, "Download")
    assert "was deleted meanwhile" in panel._message.content and not later.page.client.downloads


def test_a_film_that_fails_without_its_page_is_named(filming: Callable[..., Filming]) -> None:
    film = filming(fails=True)
    opened, _ = film.begin()
    film.app._close(opened.page.client)
    later, _ = film.page()
    film.go.set()
    until(lambda: film.bar(later) is not None, "the failure is not named")
    bar = film.bar(later)
    assert bar is not None and "has failed: the kernel tripped." in bar["text"] and bar["buttons"] == []
    later.page.bars.press("film", "close")
    assert film.bar(film.page()[0]) is None


def test_any_page_cancels_a_film_and_so_does_the_end(filming: Callable[..., Filming], tmp_path: Path) -> None:
    film = filming()
    opened, _ = film.begin()
    film.app._close(opened.page.client)
    later, panel = film.page()
    panel._video.toggle()
    film.go.set()
    jobs = FilmJobs.of(film.session)
    until(lambda: jobs.job is None, "the film goes on")
    assert jobs.result is None and film.bar(later) is None and not list(tmp_path.glob("*.mp4"))
    film.frames = 0
    film.go.clear()
    film.begin()
    job = jobs.job
    film.go.set()
    film.app.stop()
    until(lambda: job is not None and job.state == "cancelled", "the film outlasts its viewer")
    assert not list(tmp_path.glob("*.mp4"))
