"""Scenes with parameters that are NaN or infinite: said with the counts, left out or kept."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from luxel.render.primitives import PRIMITIVES, Gaussians, Parameters
from luxel.render.primitives.non_finite import LIMITS, non_finite
from luxel.scenes import CaptureError, load_primitives, save_scene
from luxel.scenes.files.scene_files import finite_primitives

COUNT = 40


def made(primitive: str) -> Parameters:
    torch.manual_seed(3)
    parameters: Any = PRIMITIVES[primitive].engine.parameters
    return parameters.empty(sh_degree=1).map(lambda t: torch.randn(COUNT, *t.shape[1:]))


def spoilt(scene: Parameters, name: str, row: int, value: float) -> Parameters:
    def spoil(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        tensors[name].view(COUNT, -1)[row, -1] = value
        return tensors

    return type(scene)(**spoil({n: t.clone() for n, t in scene.tensors().items()}))


CASES = [(name, parameter) for name, spec in PRIMITIVES.items() for parameter in spec.engine.parameters.names]


@pytest.mark.parametrize(("primitive", "parameter"), CASES)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_each_parameter_of_each_primitive(
    primitive: str, parameter: str, value: float, caplog: pytest.LogCaptureFixture
) -> None:
    scene = made(primitive)
    broken = spoilt(scene, parameter, 7, value)
    with caplog.at_level(logging.WARNING):
        loaded = finite_primitives("scene.ply", broken)
    assert non_finite(loaded) is None and "scene.ply: 1 of 40" in caplog.text
    low, high = LIMITS.get(parameter, (None, None))
    limit = None if math.isnan(value) else high if value > 0 else low
    others = [i for i in range(COUNT) if i != 7]
    if limit is None:
        assert loaded.count == COUNT - 1 and f"({parameter} 1); they are left out" in caplog.text
        assert all(torch.equal(t, scene.tensors()[n][others]) for n, t in loaded.tensors().items())
    else:
        assert loaded.count == COUNT
        assert loaded.tensors()[parameter].view(COUNT, -1)[7, -1] == limit
    caplog.clear()
    kept = finite_primitives("scene.ply", broken, keep=True)
    assert kept is broken and "they are retained" in caplog.text


def test_a_whole_scene_is_said_nothing_of(caplog: pytest.LogCaptureFixture) -> None:
    scene = made("gaussians")
    assert finite_primitives("scene.ply", scene) is scene and not caplog.text


def test_none_left_is_an_error() -> None:
    scene = made("gaussians")
    scene.tensors()["means"].fill_(math.nan)
    with pytest.raises(CaptureError, match=r"s.ply: 40 of 40 Gaussians .* \(means 40\), which leaves none"):
        finite_primitives("s.ply", scene)
    assert finite_primitives("s.ply", scene, keep=True).count == COUNT
    empty = Gaussians.empty(sh_degree=0)
    assert finite_primitives("s.ply", empty).count == 0


@pytest.mark.parametrize("suffix", [".ply", ".safetensors"])
@pytest.mark.parametrize("primitive", sorted(PRIMITIVES))
def test_through_files(tmp_path: Path, primitive: str, suffix: str, caplog: pytest.LogCaptureFixture) -> None:
    scene: Any = spoilt(spoilt(made(primitive), "sh_dc", 3, math.nan), "sh_dc", 5, math.inf)
    path = tmp_path / f"scene{suffix}"
    save_scene(path, scene)
    with caplog.at_level(logging.WARNING):
        assert load_primitives(path).count == COUNT - 2
    assert f"{path}: 2 of 40" in caplog.text and "(sh_dc 2)" in caplog.text
    assert load_primitives(path, keep_non_finite=True).count == COUNT


def test_through_a_splat_file(tmp_path: Path) -> None:
    path = tmp_path / "scene.splat"
    save_scene(path, made("gaussians").map(lambda t: t[:, :0] if t.dim() == 3 else t))
    data = np.frombuffer(bytearray(path.read_bytes()), "<f4").reshape(COUNT, 8)
    data[4, 1] = math.nan
    path.write_bytes(data.tobytes())
    assert load_primitives(path).count == COUNT - 1
