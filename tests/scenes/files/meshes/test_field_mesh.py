"""The surface of a distance field as a mesh file."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from luxel.render.errors import LuxelError
from luxel.render.fields.config import defaults
from luxel.render.fields.image import ImageField
from luxel.render.fields.radiance import RadianceField
from luxel.render.fields.sdf import SdfField
from luxel.render.fields.volume import VolumeField
from luxel.scenes.files.meshes.field_mesh import save_field_mesh
from luxel.scenes.files.meshes.mesh_files import read_mesh


class _Ball(torch.nn.Module):
    """An exact distance in place of a network."""

    def __init__(self) -> None:
        super().__init__()
        self.radius = torch.nn.Parameter(torch.tensor(0.4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x - 0.5).norm(dim=-1, keepdim=True) - self.radius


@pytest.mark.parametrize("suffix", [".ply", ".obj"])
def test_surface_of_a_distance_field(tmp_path, suffix):
    field = SdfField(dataclasses.replace(defaults("sdf"), log2_entries=8))
    field.field = _Ball()  # pyright: ignore[reportAttributeAccessIssue]
    field.centre.copy_(torch.tensor([1.0, 2.0, 3.0]))
    field.side.fill_(10.0)
    written = save_field_mesh(tmp_path / f"ball{suffix}", field, 32)
    loaded = read_mesh(tmp_path / f"ball{suffix}")
    assert len(loaded.faces) == len(written.faces) > 1000
    radius = np.linalg.norm(loaded.xyz - [1, 2, 3], axis=1)
    assert np.abs(radius - 4).max() < 0.02


class _Lump(torch.nn.Module):
    """A density in place of a network."""

    def __init__(self) -> None:
        super().__init__()
        self.highest = torch.nn.Parameter(torch.tensor(1.0))

    def forward(self, x: torch.Tensor, coherent: bool | None = None) -> torch.Tensor:
        density = self.highest - 2 * (x - 0.5).norm(dim=-1, keepdim=True)
        return torch.cat([density, torch.ones_like(x)], -1)


def test_isosurface_of_a_density(tmp_path):
    field = VolumeField(dataclasses.replace(defaults("volume"), log2_entries=8))
    field.field = _Lump()  # pyright: ignore[reportAttributeAccessIssue]
    field.extent.copy_(torch.tensor([1.0, 0.5, 0.25]))
    field.peak.fill_(20.0)
    for level in (None, 4.0):
        mesh = save_field_mesh(tmp_path / "lump.ply", field, 32, level)
        places = mesh.xyz / field.extent.numpy() - 0.5
        expected = 0.5 * (1 - (VolumeField.surface_level if level is None else level) / 20)
        assert np.abs(np.linalg.norm(places, axis=1) - expected).max() < 0.01
    for level, wrong in ((0.0, "must be above 0"), (21.0, "no surface in its box")):
        with pytest.raises(LuxelError, match=wrong):
            save_field_mesh(tmp_path / "lump.ply", field, 32, level)
    small = RadianceField(dataclasses.replace(defaults("radiance"), log2_entries=8))
    small.densities = lambda x: 120 - 240 * (x - 0.5).norm(dim=-1)  # pyright: ignore[reportAttributeAccessIssue]
    mesh = save_field_mesh(tmp_path / "lump.ply", small, 32)
    side = np.array(small.region.box[3:]) - np.array(small.region.box[:3])
    places = (mesh.xyz - np.array(small.region.box[:3])) / side - 0.5
    assert np.abs(np.linalg.norm(places, axis=1) - 70 / 240).max() < 0.01


def test_invalid_options_are_refused(tmp_path):
    config = dataclasses.replace(defaults("sdf"), log2_entries=8)
    field = SdfField(config)
    with pytest.raises(LuxelError, match="mesh of 2000 cells"):
        save_field_mesh(tmp_path / "a.ply", field, 2000)
    field.field = torch.nn.Linear(3, 1)  # pyright: ignore[reportAttributeAccessIssue]
    torch.nn.init.zeros_(field.field.weight)  # pyright: ignore[reportArgumentType]
    torch.nn.init.ones_(field.field.bias)  # pyright: ignore[reportArgumentType]
    with pytest.raises(LuxelError, match="no surface in its box"):
        save_field_mesh(tmp_path / "a.ply", field, 8)
    image = ImageField(dataclasses.replace(defaults("image"), log2_entries=8))
    with pytest.raises(LuxelError, match="A field of 'image' has no surface"):
        save_field_mesh(tmp_path / "a.ply", image)
    assert not (tmp_path / "a.ply").exists()
