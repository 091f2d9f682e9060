"""The checks of a capture in the background of its training: what they say, and that training does not notice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from shown import TrainingSession

import luxel.scenes as scenes
from luxel.render.geometry.camera import Camera, Pixels, View
from luxel.render.primitives import Gaussians
from luxel.viewer.cli import main
from luxel.viewer.reports import capture_warnings
from luxel.viewer.reports.capture_warnings import FEWEST_VIEWS, MAX_VIEWS, CaptureWarnings, chosen_views
from luxel.viewer.web.panels.training import TrainingPanel

BLURRED = "0011.jpg"


@pytest.fixture(scope="module")
def place(blurred_place: Callable[..., Path]) -> Path:
    """A courtyard with one blurred photograph."""
    return blurred_place(views=24, width=120, height=80, points=2000)


def test_findings_are_said_once_and_stay_with_the_capture(place: Path) -> None:
    capture, said = scenes.open(place), []
    for _ in range(2):
        with CaptureWarnings(capture, said.append) as checks:
            assert checks.wait(60)
    assert len(said) == 1 and BLURRED in said[0] and said[0].startswith("sharpness: 1 of 24 images")
    assert capture.warnings == [said[0].removeprefix("sharpness: ")]


def test_a_check_that_fails_hurts_nothing(place: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("a check")

    monkeypatch.setattr(capture_warnings, "measure", broken)
    said: list[str] = []
    with caplog.at_level("INFO"), CaptureWarnings(scenes.open(place), said.append) as checks:
        assert checks.wait(60)
    assert not said and any("could not be checked" in record.message for record in caplog.records)


def test_they_end_with_the_training(place: Path) -> None:
    capture, read = scenes.open(place), []
    checks = CaptureWarnings(capture, lambda message: pytest.fail(message))

    def ending(view: View, whole: Any) -> Any:
        def read_one() -> Pixels:
            read.append(view.name)
            checks._over.set()
            return whole()

        read_one.cached = True  # type: ignore[attr-defined]
        return read_one

    for view in capture.views:
        view.read = ending(view, view.read)
    with checks:
        assert checks.wait(60)
    assert len(read) == 1, "no more than what was being read"


def view_of(name: str, pixels: int, kept: bool) -> View:
    camera = Camera(torch.eye(4), torch.ones(4), pixels // 1000, 1000)

    def read() -> Pixels:
        raise AssertionError("nothing is read")

    read.cached = object() if kept else None  # type: ignore[attr-defined]
    return View(name, camera, read)


@pytest.mark.parametrize(
    ("count", "pixels", "kept", "looked_at"),
    [
        (3000, 4_000_000, True, MAX_VIEWS),
        (3000, 4_000_000, False, 100),  # 400 megapixels
        (3000, 40_000_000, False, 0),  # ten images would say nothing
        (50, 1_000_000, False, 50),
        (FEWEST_VIEWS - 1, 1_000_000, True, 0),
    ],
)
def test_how_many_views_are_looked_at(count: int, pixels: int, kept: bool, looked_at: int) -> None:
    views = [view_of(str(number), pixels, kept) for number in range(count)]
    chosen = chosen_views(views)
    assert len(chosen) == looked_at
    assert not chosen or (chosen[0] is views[0] and chosen[-1] is views[-1])


def test_training_has_the_same_bits_with_and_without(
    place: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    scenes_written = []
    for option in ("--check-capture", "--no-check-capture"):
        run = tmp_path / option.strip("-")
        words = ["train", str(place), "--run", str(run), "--device", "cpu", "--steps", "40", "--no-lpips"]
        assert main([*words, "--max-gaussians", "500", option]) == 0
        scenes_written.append((run / "scene.ply").read_bytes())
        said = "".join(capfd.readouterr())
        notes = (run / "eval/report.json").read_text()
        if option.startswith("--no"):
            assert BLURRED not in said and "much less sharp" not in notes
    assert scenes_written[0] == scenes_written[1]


class _Gui:
    """As much of a page as the panel of a training uses."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **options: _Control(*args, **options)


class _Control:
    def __init__(self, *args: Any, **options: Any) -> None:
        self.content, self.visible, self.value = "", options.get("visible", True), 0.0
        self.label, self.disabled = "", False

    def on_click(self, _: Any) -> None:
        """Not clicked here."""

    on_update = on_click


class _Trainer:
    """A training that only has a status."""

    paused, scene, config = False, Gaussians.empty(), None

    def status(self) -> dict[str, Any]:
        return {"step": 1, "steps": 2, "count": 3, "progress": 0.5}


def test_the_page_shows_them() -> None:
    notices: list[str] = []
    session = TrainingSession(_Trainer(), notices=notices)
    panel = TrainingPanel.__new__(TrainingPanel)
    panel.session = session  # type: ignore[misc]
    panel.build(_Gui(), 0.0)
    assert not panel._notices.visible
    notices.append("3 of 9 images are *blurred*.")
    session._status_until = 0.0
    panel.refresh()
    assert panel._notices.visible and "images are \\*blurred\\*" in panel._notices.content
