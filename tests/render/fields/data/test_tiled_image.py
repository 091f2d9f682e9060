"""Tiles of images that stay on disk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from luxel.render.fields.config import defaults
from luxel.render.fields.data.tiled_image import TiledImage, TileOptions, TilePool
from luxel.render.fields.image import ImageField
from luxel.render.fields.training.trainer import FieldTrainer
from luxel.scenes.synthetic.landscape import landscape


class InMemory(TiledImage):
    """A tiled image that counts what is read of it."""

    def __init__(self, pixels: np.ndarray) -> None:
        self.pixels, self.name, self.largest = pixels, "array", 0
        self.height, self.width = pixels.shape[:2]

    def read(self, top: int, left: int, height: int, width: int) -> np.ndarray:
        assert top >= 0 and left >= 0 and top + height <= self.height and left + width <= self.width
        self.largest = max(self.largest, height * width)
        return self.pixels[top : top + height, left : left + width]


def pool_of(image: TiledImage, device: torch.device, side: int, count: int, fresh: int) -> TilePool:
    return TilePool(image, TileOptions(side, count, fresh), 3, device)


def random_image(height: int, width: int) -> InMemory:
    return InMemory(np.random.default_rng(0).integers(0, 256, (height, width, 3)).astype(np.uint8))


@pytest.mark.parametrize(
    "height, width, side", [(37, 53, 8), (16, 16, 8), (5, 200, 16), (1, 1, 4), (9, 9, 64)]
)
def test_targets_are_those_of_the_whole_image(
    height: int, width: int, side: int, device: torch.device
) -> None:
    image = random_image(height, width)
    pool = pool_of(image, device, side, 10**6, 4)
    pool.advance(0)
    whole = ImageField(replace(defaults("image"), log2_entries=4, width=16, finest=16)).to(device)
    whole.begin(image.pixels, device)
    drawn = pool.draw(4096, torch.Generator(device).manual_seed(0))
    assert drawn.positions.min() >= 0 and drawn.positions.max() <= 1
    torch.testing.assert_close(drawn.targets, whole._pixels_at(drawn.positions), atol=2e-4, rtol=0)
    corners = torch.tensor([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0]], device=device)
    for number in (0, pool.count - 1):
        at = pool.samples_at(torch.full((3,), number, device=device), corners)
        torch.testing.assert_close(at.targets, whole._pixels_at(at.positions), atol=2e-4, rtol=0)


def test_all_tiles_are_visited_equally_often_and_positions_are_uniform(device: torch.device) -> None:
    image = random_image(60, 100)
    pool = pool_of(image, device, 10, 12, 3)
    assert (pool.total, pool.count, pool.fresh) == (60, 12, 3)
    for turn in range(3):
        assert sorted(pool.tile_at(turn * 60 + k) for k in range(60)) == list(range(60))
    visits = torch.zeros(6, 10)
    generator = torch.Generator(device).manual_seed(0)
    for step in range(80):  # the first and the last 12 tiles are not held as long as the others
        pool.advance(step)
        if step >= 20:
            x, y = pool.draw(500, generator).positions.cpu().T
            visits += torch.histogramdd(torch.stack([y, x], 1), [6, 10], range=[0.0, 1.0, 0.0, 1.0]).hist
    share = visits / visits.mean()
    assert (share - 1).abs().max() < 0.75 and abs(float(share[0].mean()) - 1) < 0.25
    assert image.largest <= 12 * 12, "nothing larger than a tile is read"


def test_the_tiles_of_a_step_depend_on_its_number_alone(device: torch.device) -> None:
    image = random_image(60, 100)
    steps, jumps = (pool_of(image, device, 10, 12, 5) for _ in range(2))
    assert steps.count == 10
    for step in range(31):
        steps.advance(step)
        if step in (0, 1, 17, 18, 30):
            jumps.advance(step)
            assert torch.equal(steps.cells, jumps.cells) and torch.equal(steps.pixels, jumps.pixels)
    steps.advance(4)
    jumps.advance(4)
    assert torch.equal(steps.pixels, jumps.pixels)


def tiled_run(image: TiledImage, folder: Path, steps: int) -> FieldTrainer:
    config = replace(defaults("image"), batch=512, steps=steps, log2_entries=10, width=16)
    application = ImageField(ImageField.adapt_config(config, image))
    application.tiles = TileOptions(16, 6, 2)
    return FieldTrainer(application, image, folder, say=lambda _: None)


def test_a_resumed_run_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TileOptions, "__init__", lambda self: self.__dict__.update(side=16, count=6, fresh=2))
    image = InMemory(landscape(80, 64))
    config = replace(defaults("image"), batch=512, log2_entries=10, width=16)
    whole = FieldTrainer.new(replace(config, steps=40), image, tmp_path / "a", say=lambda _: None)
    scores = whole.run(progress=False).scores
    FieldTrainer.new(replace(config, steps=17), image, tmp_path / "b", say=lambda _: None).run(progress=False)
    said: list[str] = []
    again = FieldTrainer.resume(tmp_path / "b", image, overrides={"steps": 40}, say=said.append)
    assert again.run(progress=False).scores == scores
    assert not [line for line in said if "data are not those" in line]


def test_learns_an_image_of_which_a_part_is_in_memory(tmp_path: Path) -> None:
    pixels = landscape(128, 128)
    run = tiled_run(InMemory(pixels), tmp_path / "a", 250)
    assert run.application._pool.count < run.application._pool.total  # pyright: ignore
    psnr = run.run(progress=False).scores["psnr"]
    made = ImageField(run.config)
    made.load_state_dict(run.application.state_dict())
    made.begin(pixels, torch.device("cpu"))
    assert made.evaluate()["psnr"] == pytest.approx(psnr, abs=1e-9) and psnr > 24


def test_another_image_is_noticed() -> None:
    image, other = random_image(40, 50), random_image(40, 50)
    before = image.content_digest()
    assert other.content_digest() == before
    other.pixels[20:] ^= 1
    assert other.content_digest() != before
