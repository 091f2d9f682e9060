"""Which initial points a capture with poses and without points gets, and what is said about them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import luxel.scenes as scenes
from luxel.render.geometry.camera import Camera, Pixels, Points
from luxel.scenes.captures.checks import inspect, inspection
from luxel.scenes.captures.initial_points import carving, choice, random_points, triangulation_cache
from luxel.scenes.captures.initial_points.origins import (
    OF_CAPTURE,
    POINT_USES,
    RANDOM,
    SWEPT,
    TRIANGULATED,
)
from luxel.viewer.cli import main
from luxel.viewer.commands.inspect import Inspect, facts_of
from luxel.viewer.commands.train import Train
from luxel.viewer.scene_loading.capture_options import Origin


@pytest.fixture
def posed(toy: Path, edit_json: Callable[..., None]) -> Path:
    """A capture with poses only."""
    (toy / "points3D.ply").unlink()
    edit_json(toy / "transforms.json", lambda document: document.pop("ply_file_path"))
    return toy


@pytest.fixture(autouse=True)
def no_triangulation(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("points were triangulated")

    monkeypatch.setattr(triangulation_cache, "triangulate", refuse)


def some(count: int) -> Points:
    return Points(np.full((count, 3), 0.1, np.float32), np.zeros((count, 3), np.uint8))


def test_a_plane_sweep_is_the_default(posed: Path) -> None:
    capture = scenes.open(posed)
    assert capture.points_from == SWEPT and not capture.warnings and len(capture.points.xyz) > 500
    assert np.array_equal(capture.surface_points, capture.points.xyz)
    radius = np.linalg.norm(capture.points.xyz, axis=1)
    assert np.quantile(radius, 0.9) < 2.0, "the object is a knot around the origin"
    facts = facts_of(inspect(capture))
    assert facts["points"].startswith(f"{len(radius):,} from a plane sweep; 16 of 16 images see some")
    assert not (posed / ".luxel").exists()


def test_points_of_the_capture_come_first(toy: Path) -> None:
    known = scenes.open(toy)
    assert known.points_from == OF_CAPTURE and not known.warnings
    assert facts_of(inspect(known))["points"].startswith("600; ")
    chosen = scenes.open(toy, points="random")
    assert np.array_equal(chosen.points.xyz, known.points.xyz)
    assert chosen.warnings == ["The capture has points, so points='random' has no effect."]


def test_triangulated_points_are_used_where_they_are_asked_for(
    posed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(triangulation_cache, "triangulate", lambda *_: some(600))
    monkeypatch.setattr(triangulation_cache, "within_masks", lambda points, _: points)
    capture = scenes.open(posed, points="triangulate")
    assert capture.points_from == TRIANGULATED and len(capture.points.xyz) == 600
    assert scenes.open(posed).points_from == SWEPT, "the result does not depend on what the cache holds"


def test_images_are_not_compared_at_random_points(posed: Path) -> None:
    capture = scenes.open(posed, points="random")
    assert capture.points_from == RANDOM and not capture.warnings and len(capture.points.xyz) > 10_000
    inspection = inspect(capture)
    assert np.isfinite(inspection.measures.details).any(1).all(), "at points of a sweep"
    assert facts_of(inspection)["points"] == f"{len(capture.points.xyz):,} from random positions"
    with pytest.raises(scenes.CaptureError, match="no training view sees a point"):
        scenes.supervise(capture, "points")


def test_random_points_are_in_several_views(posed: Path) -> None:
    capture = scenes.open(posed, points="random")
    looked = [(view.camera, view.read()) for view in capture.views]
    assert (
        carving.visible_points(capture.points.xyz.astype(float), looked, carve=False, least=2).mean() > 0.999
    )


def test_random_points_where_cameras_look_nowhere_in_common() -> None:
    """Their distances are multiples of those between the cameras, whatever the unit."""

    class Reader:
        def __call__(self) -> Pixels:
            return Pixels(np.full((24, 32, 3), 90, np.uint8))

    for unit in (0.01, 100.0):
        eyes = [(unit * x, 0.0, 0.0) for x in range(5)]
        posed = [
            (Camera.look_at(eye, (eye[0], 10 * unit, 0.0), width=32, height=24), Reader()) for eye in eyes
        ]
        depth = random_points.scatter(posed).xyz[:, 1] / unit  # pyright: ignore[reportArgumentType]
        assert depth.min() > 0.5 and 2 < np.median(depth) < 6


def test_few_points_are_completed(posed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "sweep", lambda *_: some(40))
    capture = scenes.open(posed)
    assert capture.points_from == RANDOM and (capture.points.xyz[:40] == np.float32(0.1)).all()
    assert "40 points are from a plane sweep; training starts from" in capture.warnings[0]


def test_a_sweep_without_memory(posed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Points:
        raise torch.OutOfMemoryError("out of memory")

    monkeypatch.setattr(choice, "sweep", fail)
    capture = scenes.open(posed)
    assert capture.points_from == RANDOM and "ran out in the plane sweep" in capture.warnings[0]


def test_other_failures_of_a_sweep_are_errors(posed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Points:
        raise ValueError("a mistake")

    monkeypatch.setattr(choice, "sweep", fail)
    with pytest.raises(ValueError, match="a mistake"):
        scenes.open(posed)


def test_invalid_choices_are_named(posed: Path) -> None:
    with pytest.raises(scenes.CaptureError, match="points='colmap' is invalid") as caught:
        scenes.open(posed, points="colmap")
    assert caught.value.remedy == f"Choose one of {', '.join(POINT_USES)}."


def test_commands_pass_the_choice_on(posed: Path) -> None:
    assert Origin.of(Train(points="random"), str(posed), 8).open().points_from == RANDOM
    assert Origin.of(Inspect(posed, points="random"), str(posed), 8).points == "random"
    assert Origin(str(posed)).points == "auto"


def test_cutouts_begin_with_random_points_in_their_hull(
    cutout_toy: Path, edit_json: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    (cutout_toy / "points3D.ply").unlink()
    edit_json(cutout_toy / "transforms.json", lambda document: document.pop("ply_file_path"))
    monkeypatch.setattr(choice, "sweep", lambda *_: pytest.fail("nothing is swept"))
    capture = scenes.open(cutout_toy)
    assert capture.cutout and capture.points_from == RANDOM and not capture.warnings
    looked = [(view.camera, view.read()) for view in capture.train]
    assert carving.visible_points(capture.points.xyz.astype(float), looked, carve=True, least=1).mean() > 0.99


def test_the_sweep_is_done_where_it_is_asked_for_and_once(
    posed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices: list[torch.device] = []

    def sweep(_: object, device: torch.device) -> Points:
        devices.append(device)
        return some(40)

    for module in (choice, inspection):
        monkeypatch.setattr(module, "sweep", sweep)
        monkeypatch.setattr(module, "best_device", lambda: pytest.fail("another device"))
    cpu = torch.device("cpu")
    capture = Origin(str(posed)).open(device=cpu)
    assert capture.points_from == RANDOM and len(capture.swept if capture.swept is not None else ()) == 40
    inspect(capture, device=cpu)
    assert devices == [cpu], "inspection compares images at the points of the sweep that was done"
    inspect(Origin(str(posed), points="random").open(device=cpu), device=cpu)
    assert devices == [cpu, cpu]


@pytest.mark.parametrize(
    "words", [["train"], ["inspect"], ["train", "--field", "radiance"]], ids=lambda words: words[-1]
)
def test_commands_open_captures_on_their_device(
    posed: Path, words: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    opened: list[object] = []

    def note(self: Origin, on_progress: object = None, device: object = None) -> None:
        opened.append(device)
        raise scenes.CaptureError("noted", "")

    monkeypatch.setattr(Origin, "open", note)
    monkeypatch.chdir(tmp_path)
    assert main([words[0], str(posed), "--device", "cpu", *words[1:]]) == 2
    assert opened == [torch.device("cpu")]
