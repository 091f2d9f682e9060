"""Fields of images."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from luxel.render.errors import LuxelError
from luxel.render.fields.config import FieldConfig, defaults
from luxel.render.fields.image import ImageField
from luxel.render.fields.training.trainer import FieldTrainer
from luxel.render.geometry.camera import Camera
from luxel.scenes.synthetic.landscape import landscape


def field(image: Any, **changes: Any) -> ImageField:
    """An untrained field that has taken an image."""
    config = replace(defaults("image"), log2_entries=10, width=16, batch=64, **changes)
    made = ImageField(ImageField.adapt_config(config, image))
    made.begin(image, torch.device("cpu"))
    return made


def test_learns_a_small_photograph(tmp_path: Path) -> None:
    config = replace(defaults("image"), batch=4096, steps=400)
    run = FieldTrainer.new(config, landscape(128, 128), tmp_path, say=lambda _: None)
    assert run.config.finest == 64
    assert run.run(progress=False).scores["psnr"] > 35


def test_targets_are_pixels_at_their_centres_and_linear_between(device: torch.device) -> None:
    image = np.random.default_rng(0).integers(0, 256, (5, 7, 3)).astype(np.uint8)
    made = field(image).to(device)
    made.begin(image, device)
    y, x = np.mgrid[:5, :7]
    centres = torch.tensor(np.stack([(x + 0.5) / 7, (y + 0.5) / 5], -1), dtype=torch.float32).reshape(-1, 2)
    actual = made._pixels_at(centres.to(device)).cpu() * 255
    torch.testing.assert_close(
        actual, torch.tensor(image, dtype=torch.float32).reshape(-1, 3), atol=1e-3, rtol=0
    )
    between = torch.tensor([[2.0 / 7, 0.5 / 5], [0.0, 0.0], [1.0, 1.0]], device=device)
    expected = np.stack([0.5 * image[0, 1] + 0.5 * image[0, 2], image[0, 0], image[4, 6]])
    actual = made._pixels_at(between).cpu() * 255
    torch.testing.assert_close(actual, torch.tensor(expected, dtype=torch.float32), atol=1e-3, rtol=0)


def test_a_camera_straight_before_it_sees_the_whole_image() -> None:
    made = field(np.zeros((20, 30, 3), np.uint8))
    with torch.no_grad():
        made.field.encoding.table.uniform_(-1, 1)
        made.field.network.weights.mul_(4)
    aspect = 20 / 30
    distance = 2.0
    camera = Camera.look_at(
        (0.5, aspect / 2, distance),
        (0.5, aspect / 2, 0),
        (0, 1, 0),
        fov_y=2 * math.atan(aspect / 2 / distance),
        width=30,
        height=20,
    )
    torch.testing.assert_close(made.render(camera), made.render_size(30, 20), atol=2e-4, rtol=0)
    wide = Camera.look_at((0.5, aspect / 2, 20), (0.5, aspect / 2, 0), (0, 1, 0), width=16, height=12)
    behind = torch.tensor([0.1, 0.2, 0.3])
    torch.testing.assert_close(made.render(wide, behind)[0, 0], behind)
    away = Camera.look_at((0.5, aspect / 2, 1), (0.5, aspect / 2, 2), (0, 1, 0), width=4, height=4)
    assert torch.equal(made.render(away, behind), behind.expand(4, 4, 3)), "nothing lies behind a camera"


def test_what_it_is_measured_by(monkeypatch: pytest.MonkeyPatch) -> None:
    image = np.random.default_rng(0).random((6, 9, 3)).astype(np.float32)
    made = field(image)
    assert made.size.tolist() == [9, 6] and made.centres.amax(0).tolist() == pytest.approx([1, 6 / 9, 0])
    exact = torch.tensor((image * 255).round() / 255)
    monkeypatch.setattr(made, "bands", lambda width, height: iter([exact]))
    assert made.evaluate()["psnr"] == pytest.approx(120)
    monkeypatch.setattr(made, "bands", lambda width, height: iter([exact + 10 / 255]))
    assert made.evaluate()["psnr"] == pytest.approx(20 * math.log10(25.5), abs=1e-6)


@pytest.mark.parametrize(
    "image, wrong",
    [
        (np.zeros((4, 4)), "must be"),
        (np.zeros((0, 4, 3), np.uint8), "must be"),
        (np.zeros((4, 4, 4), np.uint8), "must be"),
        (np.full((4, 4, 3), np.nan, np.float32), "not finite"),
        (np.zeros((4, 4, 3), np.int64), "bytes or floats"),
        ("photo.jpg", "must be"),
    ],
)
def test_what_is_no_image(image: Any, wrong: str) -> None:
    with pytest.raises(LuxelError, match=wrong):
        field(image)


def test_the_finest_level_follows_the_image() -> None:
    image = np.zeros((600, 900, 3), np.uint8)
    assert ImageField.adapt_config(defaults("image"), image).finest == 450
    assert ImageField.adapt_config(replace(defaults("image"), finest=99), image).finest == 99
    made = ImageField(FieldConfig(finest=512, log2_entries=12, width=16))
    assert made.field.encoding.grid.resolutions[-1] == 512  # pyright: ignore[reportAttributeAccessIssue]
