"""Messages about neural fields: files that are none, configurations of others, masks that leave nothing."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from luxel.render.errors import LuxelError
from luxel.render.fields.application import make_application
from luxel.render.fields.capture.occupancy import Occupancy
from luxel.render.fields.capture.posed_images import DeviceImages
from luxel.render.fields.config import FieldConfig, defaults
from luxel.render.fields.drawing.rays import camera_rays
from luxel.render.fields.files import field_of_checkpoint, load_field, save_field
from luxel.render.fields.sdf import SdfField
from luxel.render.geometry.camera import Camera, Pixels, View
from luxel.render.runs.checkpoints.checkpoint import Checkpoint


def small(kind: str, **changes: Any) -> FieldConfig:
    return replace(defaults(kind), log2_entries=10, **changes)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("log2_entries", 2),
        ("finest", 8),
        ("frequencies", 17),
        ("width", 48),
        ("hidden", 9),
        ("steps", 0),
        ("seconds", 0.0),
        ("batch", 0),
        ("rate", -1.0),
        ("rate", math.nan),
        ("beta1", 1.0),
        ("eps", 0.0),
        ("weight_decay", -1.0),
        ("ema", 1.0),
        ("warm_up", -1),
        ("decay_factor", 0.0),
        ("loss_scale", 0.0),
        ("seed", -1),
        ("report_every", 0),
        ("keep", 0),
    ],
)
def test_values_out_of_range_are_named(name: str, value: float) -> None:
    config = defaults("image")
    config.check()
    with pytest.raises(LuxelError, match=rf"\b{name}\b") as refused:
        replace(config, **{name: value}).check()
    assert refused.value.remedy


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"precise": True}, "precise needs backend luxel: tiny-cuda-nn computes in half precision"),
        ({"hashing": "blocks"}, "hashing blocks needs backend luxel: tiny-cuda-nn hashes single points"),
        ({"encoding": "frequency"}, "encoding frequency needs backend luxel: tiny-cuda-nn evaluates grids"),
    ],
)
def test_options_of_another_backend(change: dict[str, Any], wrong: str) -> None:
    with pytest.raises(LuxelError, match=wrong):
        replace(defaults("image"), **{"hashing": "spatial", **change}, backend="tiny-cuda-nn").check()


def test_the_configuration_of_another_field() -> None:
    config = replace(defaults("image"), field="radiance")
    with pytest.raises(LuxelError, match=r"'radiance' takes a \w+.*defaults\('radiance'\)"):
        config.check()
    defaults("radiance").check()


def test_files_that_hold_no_field(tmp_path: Path) -> None:
    save_file({"x": torch.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(LuxelError, match=r"other\.safetensors: this is not a neural field"):
        load_field(tmp_path / "other.safetensors")
    path = tmp_path / "field.safetensors"
    save_field(path, make_application(small("image")))
    load_field(path)
    tensors = load_file(path)
    first = next(iter(tensors))
    tensors[first] = tensors[first][:-1]
    save_file(tensors, path, {"luxel_field": json.dumps(small("image").to_dict())})
    with pytest.raises(LuxelError, match=r"field\.safetensors: cannot be read as a neural field: damaged"):
        load_field(path)


def test_a_checkpoint_of_something_else() -> None:
    checkpoint = Checkpoint(7, {}, {"config": small("image").to_dict()})
    with pytest.raises(LuxelError, match="checkpoint of step 7 is not of such a field"):
        field_of_checkpoint(checkpoint)


def test_masks_that_leave_nothing() -> None:
    camera = Camera.look_at((0, -3, 0), (0, 0, 0), fov_y=0.8, width=8, height=6)
    image, nothing = np.zeros((6, 8, 3), np.uint8), np.zeros((6, 8), np.uint8)
    views = [View("first.png", camera, lambda: Pixels(image, None, nothing))]
    with pytest.raises(LuxelError, match=r"no pixel of 1 images \(first\.png.*--masks none"):
        DeviceImages.read(views, torch.device("cpu"))
    without = [View("first.png", camera, lambda: Pixels(image, None, None))]
    assert len(DeviceImages.read(without, torch.device("cpu")).pixels) == 48, "the remedy works"


def test_a_distance_has_no_density() -> None:
    field = make_application(small("sdf"))
    assert isinstance(field, SdfField)
    with pytest.raises(LuxelError, match=r"'sdf' has no density\. Leave --level out"):
        field.surface(4, level=50.0)


def test_what_a_kind_of_field_does_not_have() -> None:
    image, surface = make_application(small("image")), make_application(small("sdf"))
    with pytest.raises(NotImplementedError, match="A field of 'image' has no density"):
        image.densities(torch.zeros(1, 3))
    with pytest.raises(NotImplementedError, match="A field of 'image' has no density"):
        _ = image.region
    with pytest.raises(NotImplementedError, match="A field of 'sdf' is rendered by a camera"):
        surface.render_size(4, 4)


def test_a_configuration_larger_than_its_file(tmp_path: Path) -> None:
    path = tmp_path / "field.safetensors"
    save_field(path, make_application(small("image")))
    large = replace(small("image"), log2_entries=22)
    save_file(load_file(path), path, {"luxel_field": json.dumps(large.to_dict())})
    with pytest.raises(
        LuxelError, match=r"its configuration has a tensor of \[\d+, 2\] numbers, the file fewer"
    ):
        load_field(path)


def test_rays_and_cells_that_cannot_be() -> None:
    camera = Camera.look_at((0, -3, 0), (0, 0, 0), fov_y=0.8, width=8, height=6)
    with pytest.raises(ValueError, match="camera must be a single one, got a batch of 2"):
        camera_rays(Camera.stack([camera, camera]))
    with pytest.raises(ValueError, match="resolution must be a multiple of 4, 4 to 1024, got 6"):
        Occupancy(6)
