"""Still images of a page: what it shows, without what its tools add, also while a scene is edited or trained."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from page_driver import FakeTrainerRunning, ball, until
from PIL import Image
from shown import StaticSession, TrainingSession, draw

from luxel.render.geometry.camera import Camera
from luxel.render.raster.rasterize import rasterize
from luxel.viewer.edit import operations
from luxel.viewer.films.output_file import OutputFile
from luxel.viewer.films.still import StillCancelledError
from luxel.viewer.web.editing.editor import SceneEditor
from luxel.viewer.web.images.still_image import write_page_still
from luxel.viewer.web.shading.shading import DisplaySettings

CAMERA = Camera.look_at((3.0, -1.0, 0.5), (0, 0, 0), fov_y=0.8, width=120, height=90)


def saved(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        return np.array(image)


def test_a_still_is_the_image_of_the_page(tmp_path: Path) -> None:
    settings = DisplaySettings(background=(1.0, 1.0, 1.0))
    write_page_still(StaticSession(ball()), CAMERA, settings, OutputFile(tmp_path / "a.png"))
    page, _ = draw(rasterize, ball(), CAMERA, settings)
    assert np.array_equal(saved(tmp_path / "a.png"), page.numpy())


def test_a_transparent_still_has_the_colours_of_the_scene(tmp_path: Path) -> None:
    session = StaticSession(ball())
    write_page_still(session, CAMERA, DisplaySettings(), OutputFile(tmp_path / "a.png"), transparent=True)
    image = saved(tmp_path / "a.png").astype(float)
    assert image.shape == (90, 120, 4) and image[..., 3].min() == 0 and image[..., 3].max() > 200
    alpha = image[..., 3:] / 255
    for grey in (0.0, 1.0):
        page, _ = draw(rasterize, ball(), CAMERA, DisplaySettings(background=(grey, grey, grey)))
        composited = image[..., :3] * alpha + 255 * grey * (1 - alpha)
        assert np.abs(composited - page.numpy()).max() < 2


def test_a_still_is_of_one_state_of_the_scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An edit between two tiles changes no tile, and pages are rendered meanwhile."""
    monkeypatch.setattr("luxel.viewer.web.images.still_image.TILE", 2000)
    session = StaticSession(ball())
    editor = SceneEditor(session, tmp_path / "edits")

    def delete(share: float) -> None:
        if share < 0.2:
            editor.run(lambda document: document.select(torch.arange(250) < 200))
            editor.run(lambda document: document.apply(operations.delete(document.state)))

    write_page_still(session, CAMERA, DisplaySettings(), OutputFile(tmp_path / "a.png"), on_progress=delete)
    assert session.status()["count"] == 50
    page, _ = draw(rasterize, ball(), CAMERA, DisplaySettings())
    difference = np.abs(saved(tmp_path / "a.png").astype(int) - page.numpy())
    assert difference.max() <= 3, "tiles differ"


def test_a_range_of_colours_spans_the_whole_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("luxel.viewer.web.images.still_image.TILE", 2000)
    settings = DisplaySettings(output="depth")
    shares: list[float] = []
    output = OutputFile(tmp_path / "a.png")
    write_page_still(StaticSession(ball()), CAMERA, settings, output, on_progress=shares.append)
    page, _ = draw(rasterize, ball(), CAMERA, settings)
    assert shares == [1] and np.array_equal(saved(tmp_path / "a.png"), page.numpy())


def test_a_still_of_a_training_is_of_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("luxel.viewer.web.images.still_image.TILE", 2000)
    steps: list[int] = []
    with FakeTrainerRunning() as trainer:
        until(lambda: trainer.step > 2, "no step")
        write_page_still(
            TrainingSession(trainer),
            CAMERA,
            DisplaySettings(),
            OutputFile(tmp_path / "a.png"),
            on_progress=lambda share: steps.append(trainer.step),
        )
    assert len(steps) > 3 and len(set(steps)) == 1


def test_a_still_is_cancelled_and_is_not_too_large(tmp_path: Path) -> None:
    output = OutputFile(tmp_path / "a.png")
    session = StaticSession(ball())
    with pytest.raises(StillCancelledError):
        write_page_still(session, CAMERA, DisplaySettings(), output, cancelled=lambda: True)
    with pytest.raises(ValueError, match="at most 7680 pixels a side, got 7681x90"):
        write_page_still(session, replace(CAMERA, width=7681), DisplaySettings(), output)
    assert list(tmp_path.iterdir()) == []
