"""The examples of a new strategy and of a new field: registered by their one line, trained, and removed again."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from luxel.render.errors import LuxelError
from luxel.render.fields.applications import APPLICATIONS
from luxel.render.fields.config import defaults
from luxel.render.fields.files import load_field
from luxel.render.fields.training.trainer import FieldTrainer
from luxel.render.primitives import PRIMITIVES
from luxel.render.raster.rasterize import rasterize
from luxel.render.train import TrainConfig, Trainer
from luxel.render.train.densify import STRATEGIES, register_strategy
from luxel.scenes import open as open_capture
from luxel.scenes.synthetic.landscape import landscape
from luxel.scenes.synthetic.toy import ring_cameras, write_toy_capture

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def budget(monkeypatch: pytest.MonkeyPatch) -> type[Any]:
    """The strategy of the example, registered during a test."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    strategy = importlib.import_module("strategy").OpacityBudget
    monkeypatch.setitem(STRATEGIES, "opacity_budget", strategy)
    monkeypatch.setitem(PRIMITIVES, "gaussians", PRIMITIVES["gaussians"])
    register_strategy("opacity_budget", strategy, "gaussians")
    return strategy


def test_a_strategy_is_one_file_and_one_line(budget: type[Any], tmp_path: Path) -> None:
    folder = write_toy_capture(
        tmp_path / "capture",
        lambda scene, camera: rasterize(scene, camera).rgb.detach().numpy(),
        cameras=ring_cameras(6, width=32, height=24),
    )
    capture = open_capture(folder)
    config = TrainConfig(steps=60, strategy=budget(budget=400, share=0.5, refine_every=20), lpips=False)
    trainer = Trainer(config, capture.train, [], capture.points, tmp_path / "run")
    assert trainer.scene.count == 600
    assert trainer.run(progress=False).count == 400
    again = TrainConfig.from_dict(config.to_dict())
    assert again.strategy == config.strategy and again.strategy_name == "opacity_budget"


def test_its_options_are_checked(budget: type[Any]) -> None:
    with pytest.raises(LuxelError, match="budget"):
        TrainConfig(strategy=budget(budget=0)).check()


def test_a_strategy_of_a_taken_name_is_refused(budget: type[Any]) -> None:
    with pytest.raises(ValueError, match="mcmc"):
        register_strategy("mcmc", budget, "gaussians")


@pytest.fixture
def height(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Any]]:
    """The field of the example, registered during a test."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    field = importlib.import_module("field")
    field.register()
    try:
        yield field.HeightField
    finally:
        del APPLICATIONS["height"]


def test_a_field_is_one_file_and_one_line(height: type[Any], tmp_path: Path) -> None:
    config = defaults("height")
    config.steps, config.batch, config.log2_entries = 40, 1 << 12, 14
    image = landscape(64, 64)
    result = FieldTrainer.new(config, image, tmp_path / "run").run(progress=False)
    guess = float(-10 * (torch.as_tensor(image).float().mean(-1) / 255).var().log10())
    assert result.scores["psnr"] > guess + 3  # a constant height scores `guess`
    assert isinstance(load_field(tmp_path / "run" / "field.safetensors"), height)
