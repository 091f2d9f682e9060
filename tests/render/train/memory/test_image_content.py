"""What images show: detail, and how much of them the scene covers."""

import numpy as np
import pytest
import torch

from luxel.render.geometry.camera import Camera, Pixels, View
from luxel.render.train.config import TrainConfig
from luxel.render.train.densify import SplitStrategy
from luxel.render.train.step.objective import loss_context
from luxel.render.train.views.image_content import ImageContent, covered_share, detail_share, image_content

RANDOM = np.random.default_rng(0)


def grey(values: np.ndarray) -> np.ndarray:
    return np.repeat(values.clip(0, 255).round().astype(np.uint8)[..., None], 3, -1)


def stripes(height: int, width: int, period: int, contrast: float = 100.0) -> np.ndarray:
    x = np.arange(width) // (period // 2) % 2
    return np.broadcast_to(128 + contrast * (x - 0.5), (height, width))


def test_flat_areas_ramps_and_noise_show_none() -> None:
    assert detail_share(Pixels(grey(np.full((64, 64), 90.0)))) == 0
    ramp = np.broadcast_to(np.linspace(0, 255, 128), (64, 128))
    assert detail_share(Pixels(grey(ramp))) == 0
    noisy = RANDOM.normal(128, 4, (64, 64, 3)).clip(0, 255).astype(np.uint8)
    assert detail_share(Pixels(noisy)) < 0.1


def test_edges_count_where_they_are() -> None:
    """Stripes 8 pixels wide are 4 wide at half size: a fourth of the pixels has an edge on its right."""
    assert detail_share(Pixels(grey(stripes(64, 256, 16)))) == pytest.approx(0.25, abs=0.02)
    assert detail_share(Pixels(grey(stripes(64, 256, 16, contrast=10)))) == 0
    half = np.where(np.arange(256) < 128, stripes(64, 256, 16), 128.0)
    assert detail_share(Pixels(grey(half))) == pytest.approx(0.125, abs=0.02)


def test_masked_pixels_do_not_count() -> None:
    image = grey(stripes(64, 64, 8))
    weight = np.zeros((64, 64), np.uint8)
    assert detail_share(Pixels(image)) > 0.4
    assert detail_share(Pixels(image, weight=weight)) == 0
    assert detail_share(Pixels(image, alpha=weight)) == 0, "an empty cut-out is white"


def test_the_pixels_of_all_views_are_estimated_from_some() -> None:
    reads = []

    def view(k: int) -> View:
        def read() -> Pixels:
            reads.append(k)
            return Pixels(grey(stripes(32, 64, 16)))

        return View(f"{k}", Camera(torch.eye(4), torch.tensor([50.0, 50, 32, 16]), 64, 32), read)

    views = [view(k) for k in range(100)]
    assert image_content(views).detail == pytest.approx(100 * 64 * 32 * 0.25, rel=0.1)
    assert 10 < len(reads) < 40 and len(set(reads)) == len(reads)
    assert image_content([]) == ImageContent(0, 1.0)


def test_coverage_is_the_mean_of_alpha_where_pixels_count() -> None:
    image = grey(np.full((8, 8), 90.0))
    alpha, weight = np.zeros((8, 8), np.uint8), np.zeros((8, 8), np.uint8)
    alpha[:2], weight[:4] = 255, 255
    assert covered_share(Pixels(image)) == 1
    assert covered_share(Pixels(image, alpha=alpha)) == pytest.approx(0.25)
    assert covered_share(Pixels(image, weight=weight)) == pytest.approx(0.5)
    assert covered_share(Pixels(image, alpha=alpha, weight=255 - weight)) == 0


def test_split_regularises_in_proportion_to_the_coverage() -> None:
    config = TrainConfig(strategy=SplitStrategy(opacity_regulariser=0.01, scale_regulariser=0.02))
    opacity, scale = loss_context(config, False, 4.0, 0.25).penalties
    assert opacity == pytest.approx(0.0025) and scale == pytest.approx(0.02 * 0.25 / 4)
