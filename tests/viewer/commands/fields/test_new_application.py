"""A new application of neural fields is one class and one line of the registry: the command line and files follow."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pytest
from PIL import Image
from torch import Tensor

from luxel.render.bounds import Bounds
from luxel.render.errors import LuxelError
from luxel.render.fields import config as field_config
from luxel.render.fields.applications import APPLICATIONS
from luxel.render.fields.config import FieldConfig, option_owners
from luxel.render.fields.image import ImageField
from luxel.scenes.loading.run_results import load_run_field
from luxel.viewer.cli import main
from luxel.viewer.commands.train_field import TrainField

QUICK = ["--device", "cpu", "--batch", "256", "--log2-entries", "10", "--width", "16", "--steps", "30"]


@dataclass
class LightConfig(FieldConfig):
    """A field of light and its training."""

    gamma: Annotated[float, Bounds(0, 10, above=True)] = 2.2
    """Exponent from sRGB values to light."""


class LightField(ImageField):
    """An image whose error is measured in linear light."""

    kind = "light"
    config_type = LightConfig
    config: LightConfig

    def loss(self, batch: Tensor) -> Tensor:
        """Mean squared error of light at positions [S, 2]."""
        light = self.field(batch).clamp_min(1e-3).pow(self.config.gamma)
        return (light - self._pixels_at(batch).pow(self.config.gamma)).square().mean()


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line of the registry."""
    monkeypatch.setitem(APPLICATIONS, "light", f"{__name__}:LightField")
    monkeypatch.setattr(field_config, "FieldName", Literal[tuple(APPLICATIONS)])


@pytest.fixture
def image_file(tmp_path: Path) -> Path:
    pixels = np.zeros((16, 24, 3), np.uint8)
    pixels[:, :12, 0] = 255
    Image.fromarray(pixels).save(tmp_path / "image.png")
    return tmp_path / "image.png"


@pytest.mark.usefixtures("registered")
def test_a_new_application_is_trained_scored_and_drawn(
    image_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert (
        main(["train", str(image_file), "--field", "light", "--gamma", "1.5", "--run", str(run), *QUICK]) == 0
    )
    assert json.loads((run / "config.json").read_text())["config"]["gamma"] == 1.5
    assert main(["train", "--resume", str(run), "--device", "cpu", "--steps", "40"]) == 0
    field = load_run_field(run)
    assert isinstance(field, LightField) and field.config.gamma == 1.5 and field.config.steps == 40
    capsys.readouterr()
    assert main(["eval", str(run), "--device", "cpu", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["psnr"] > 5
    assert main(["render", str(run), "--device", "cpu", "--out", str(tmp_path / "out.png")]) == 0
    assert Image.open(tmp_path / "out.png").size == (24, 16)


@pytest.mark.usefixtures("registered")
def test_its_options_are_refused_elsewhere(image_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for kind, option, owner in (
        ("image", "--gamma=2", "--field light"),
        ("light", "--huber", "--field radiance"),
        ("light", "--least-alpha=0.1", "--field radiance"),
        ("sdf", "--max-size=9", "--field image or radiance or light"),
        ("volume", "--masks=none", "--field radiance"),
    ):
        words = [
            "train",
            str(image_file if kind != "sdf" else "knot"),
            "--field",
            kind,
            "--device",
            "cpu",
            option,
        ]
        assert main(words) == 2
        said = " ".join(capsys.readouterr().err.split())
        assert f"{option.split('=')[0]}: a field of '{kind}' has no such option" in said and owner in said
    assert main(["train", str(image_file), "--field", "light", "--device", "cpu", "--gamma", "0"]) == 2
    assert "Give a number above 0 and at most 10." in capsys.readouterr().err
    assert option_owners("gamma") == ["light"] and option_owners("rate") == []


def test_files_with_the_options_of_all_applications_are_read() -> None:
    """As those from before applications had configurations of their own."""
    config = FieldConfig.from_dict({"field": "image", "marched": 4, "huber": 0.1, "rate": 0.5})
    assert type(config) is FieldConfig and config.rate == 0.5 and config.ema == 0.99
    with pytest.raises(LuxelError, match="unknown field sound"):
        FieldConfig.from_dict({"field": "image", "sound": 1})
    assert "gamma" not in vars(TrainField.defaults(["x", "--field", "image"]).config)
