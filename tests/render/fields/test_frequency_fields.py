"""Every application with the frequency encoding, and with large tables."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from luxel.render.fields.applications import APPLICATIONS
from luxel.render.fields.config import FieldConfig, defaults
from luxel.render.fields.encodings.frequency import FrequencyEncoding
from luxel.render.fields.encodings.grid_encoding import grid_of
from luxel.render.fields.files import load_field, save_field
from luxel.render.fields.nets.field import Field
from luxel.render.fields.nets.point_function import refreshed_snapshot
from luxel.render.fields.sdf import SdfField
from luxel.render.fields.training.trainer import FieldTrainer
from luxel.render.geometry.camera import Camera
from luxel.scenes.synthetic.knot_mesh import ridged_knot
from luxel.scenes.synthetic.landscape import landscape
from luxel.viewer.bench.fields.datasets import make_dataset


def data_of(kind: Any) -> Any:
    if kind == "image":
        return landscape(48, 48)
    if kind == "sdf":
        return ridged_knot(60, 8, ridges=0.0)
    if kind == "volume":
        grid = np.zeros((8, 8, 8), np.float32)
        grid[2:6, 2:6, 2:6] = 1
        return grid
    return make_dataset(kind, small=True).data


def small(kind: Any, **changes: Any) -> FieldConfig:
    return replace(defaults(kind), encoding="frequency", width=16, batch=512, steps=25, **changes)


@pytest.mark.parametrize("kind", list(APPLICATIONS))
def test_it_is_trained_drawn_and_stored(kind: Any, tmp_path: Path) -> None:
    data = data_of(kind)
    trainer = FieldTrainer.new(small(kind, report_every=1), data, tmp_path / "run", say=lambda _: None)
    fields = [m for m in trainer.application.modules() if isinstance(m, Field)]
    assert len(fields) == 1 and isinstance(fields[0].encoding, FrequencyEncoding)
    assert fields[0].encoding.width == (40 if kind == "image" else 60)
    assert not trainer.application.table_parameters()
    trainer.step()
    trainer.synchronize()
    first = trainer.loss
    assert first is not None
    result = trainer.run(progress=False)
    assert all(math.isfinite(score) for score in result.scores.values())
    assert trainer.loss is not None and trainer.loss < first
    corner = trainer.application.centres.amax(0)
    camera = Camera.look_at((corner * 1.7 + 0.3).tolist(), (0.5, 0.5, 0.5), width=8, height=6)
    image = trainer.application.render(camera)
    assert image.shape == (6, 8, 3) and bool(image.isfinite().all())
    save_field(tmp_path / "a.safetensors", trainer.application)
    again = load_field(tmp_path / "a.safetensors")
    assert again.config.encoding == "frequency"
    torch.testing.assert_close(again.render(camera), image)


def test_normals_of_a_distance_field_are_its_gradient() -> None:
    field = SdfField(small("sdf", frequencies=4)).double()
    x = torch.rand(20, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).mul(0.8).add(0.1)
    step = 1e-6
    for axis in range(3):
        aside = torch.zeros(3, dtype=torch.float64)
        aside[axis] = step
        difference = (field.field(x + aside) - field.field(x - aside))[:, 0] / (2 * step)
        torch.testing.assert_close(field.slopes(x, 512)[:, axis], difference, atol=1e-6, rtol=1e-5)


def test_frequencies_are_those_of_the_configuration() -> None:
    for count in (1, 16):
        field = SdfField(small("sdf", frequencies=count)).field
        assert field.encoding.width == field.network.network.inputs == 6 * count


@pytest.mark.parametrize("kind", list(APPLICATIONS))
@pytest.mark.parametrize("encoding", ["hash", "dense", "lowres"])
def test_tables_of_2_to_the_24_entries_are_accepted(kind: Any, encoding: Any) -> None:
    config = replace(defaults(kind), encoding=encoding, log2_entries=24, finest=16384)
    config.check()
    grid = grid_of(config, 2 if kind == "image" else 3)
    sizes = np.diff(grid.offsets)
    assert sizes.max() <= 2**24 and grid.entries < 2**31 // grid.features
    if encoding == "hash":
        assert sizes[-1] == 2**24


def test_eikonal_losses_need_second_derivatives(monkeypatch: pytest.MonkeyPatch) -> None:
    SdfField(small("sdf"), eikonal=0.1)
    monkeypatch.setattr(FrequencyEncoding, "twice", False)
    SdfField(small("sdf"))
    with pytest.raises(ValueError, match="encoding frequency has no second derivatives"):
        SdfField(small("sdf"), eikonal=0.1)


def test_snapshots_follow_the_parameters() -> None:
    field = SdfField(small("sdf")).field
    x = torch.rand(5, 3)
    snapshot = refreshed_snapshot(field, None)
    assert snapshot.key() is None and not snapshot.supports_live_count()
    with torch.no_grad():
        field.network.weights.mul_(0.5)
        assert refreshed_snapshot(field, snapshot) is snapshot and torch.equal(snapshot(x), field(x))
    assert not snapshot(x).requires_grad
