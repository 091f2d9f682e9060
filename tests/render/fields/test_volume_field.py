"""Fields of volumes, and images of volumes."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from luxel.render.errors import LuxelError
from luxel.render.fields import volume
from luxel.render.fields.config import defaults
from luxel.render.fields.drawing.rays import camera_rays, clip_to_box
from luxel.render.fields.drawing.uniform_march import march_uniform
from luxel.render.fields.nets.point_function import PlainSnapshot
from luxel.render.fields.training.trainer import FieldTrainer
from luxel.render.fields.volume import DEPTH, GREY, GridVolume, VolumeField
from luxel.render.geometry.camera import Camera
from luxel.render.ops.field.march_rays import unpack_cells
from luxel.scenes.synthetic.cloud import DENSEST, Cloud


def ball(size: int = 24) -> np.ndarray:
    """A ball that is densest in its middle, coloured by place, [Z, Y, X, 4]."""
    z, y, x = np.mgrid[:size, :size, :size] / (size - 1)
    density = np.clip(1 - 2.4 * np.sqrt((x - 0.5) ** 2 + (y - 0.5) ** 2 + (z - 0.5) ** 2), 0, 1)
    return np.stack([density, x, y, z], -1).astype(np.float32)


class Lump(nn.Module):
    """A coloured ball in place of a network."""

    def __init__(self) -> None:
        super().__init__()
        self.highest = nn.Parameter(torch.tensor(0.8))

    def forward(self, x: Tensor, coherent: bool | None = None) -> Tensor:
        """Density and albedo, [S, 4]; below 0 and above 1 too."""
        with torch.no_grad():
            density = self.highest - 2.5 * (x - 0.5).norm(dim=-1, keepdim=True)
            return torch.cat([density, 1.6 * x - 0.3], -1)

    def snapshot(self) -> PlainSnapshot:
        """As `luxel.render.fields.nets.field.Field.snapshot`."""
        return PlainSnapshot(self.forward)


def field(data: Any, **changes: Any) -> VolumeField:
    """An untrained field that has taken a volume."""
    made = VolumeField(replace(defaults("volume"), log2_entries=12, width=16, batch=64, **changes))
    made.begin(data, torch.device("cpu"))
    return made


def test_learns_a_small_volume(tmp_path: Path) -> None:
    config = replace(defaults("volume"), batch=2048, steps=150, log2_entries=13)
    run = FieldTrainer.new(config, ball(), tmp_path, say=lambda _: None)
    result = run.run(progress=False)
    assert result.scores["psnr"] > 35 and result.scores["mean_density_error"] < 0.01


def test_rays_through_an_even_cube_follow_beer_and_lambert(device: torch.device) -> None:
    density, albedo = 3.0, torch.tensor([0.2, 0.5, 0.9], device=device)

    def even(x: Tensor) -> Tensor:
        return torch.cat([torch.full_like(x[:, :1], density), albedo.expand(len(x), 3)], 1)

    low, high = torch.zeros(3, device=device), torch.tensor([1.0, 0.5, 0.25], device=device)
    behind = torch.tensor([1.0, 0.0, 0.5], device=device)
    origins = torch.tensor(
        [[-1.0, 0.2, 0.1], [0.5, 0.25, -2.0], [0.5, 0.2, 0.1], [0.5, 3.0, 0.1]], device=device
    )
    directions = torch.tensor([[1.0, 0, 0], [0, 0, 1.0], [-1.0, 0, 0], [0, 1.0, 0]], device=device)
    actual = march_uniform(even, origins, directions, low, high, 1 / 64, behind)
    for row, length in enumerate((1.0, 0.25, 0.5, 0.0)):
        through = math.exp(-density * length)
        torch.testing.assert_close(actual[row], (1 - through) * albedo + through * behind, atol=1e-5, rtol=0)


def test_rays_meet_boxes() -> None:
    low, high = torch.zeros(3), torch.ones(3)
    origins = torch.tensor(
        [[-1.0, 0.5, 0.5], [0.5, 0.5, 0.5], [-1.0, 2.0, 0.5], [0.5, 0.5, 2.0], [0, -1.0, 0.5]]
    )
    directions = torch.tensor([[1.0, 0, 0], [0, 0, 1.0], [1.0, 0, 0], [0, 0, 1.0], [0, 1.0, 0]])
    near, far = clip_to_box(origins, directions, low, high)
    assert near[0] == 1 and far[0] == 2 and near[1] == 0 and far[1] == 0.5
    assert near[2] > far[2] and near[3] > far[3], "beside the box, and behind the ray"
    assert near[4] == 1 and far[4] == 2, "along a side"


def test_rays_of_a_camera_go_through_its_pixels() -> None:
    camera = Camera.look_at((1.0, -2.0, 0.5), (0.1, 0.2, 0.3), width=7, height=5)
    origins, directions = camera_rays(camera)
    world = origins + 3 * directions
    local = world @ camera.world_to_cam[:3, :3].T + camera.world_to_cam[:3, 3]
    fx, fy, cx, cy = camera.intrinsics
    pixels = local[:, :2] / local[:, 2:] * torch.stack([fx, fy]) + torch.stack([cx, cy])
    y, x = torch.meshgrid(torch.arange(5) + 0.5, torch.arange(7) + 0.5, indexing="ij")
    torch.testing.assert_close(pixels, torch.stack([x, y], -1).reshape(-1, 2), atol=1e-4, rtol=0)


@pytest.mark.parametrize("limits", [(1 << 21, 1 << 23), (100, 1 << 18)])
def test_a_field_is_drawn_as_rays_that_are_marched(
    device: torch.device, monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int]
) -> None:
    """In waves and without the empty cells it is the image of plain torch, down to the least transmittance."""
    made = VolumeField(replace(defaults("volume"), log2_entries=8, width=16, precise=True))
    made.extent.copy_(torch.tensor([1.0, 0.7, 0.5]))
    made.peak.fill_(30.0)
    made.field = Lump()  # pyright: ignore[reportAttributeAccessIssue]
    made = made.to(device)
    monkeypatch.setattr(volume, "RAYS", limits[0])
    monkeypatch.setattr(volume, "ROWS", limits[1])
    monkeypatch.setattr(volume, "FIELD_STEPS", volume.STEPS)
    monkeypatch.setattr(volume, "DIM", 1e-4)
    share = unpack_cells(made.occupied_cells()).float().mean()
    assert 0.02 < share < 0.5
    behind = torch.tensor([0.9, 0.2, 0.6], device=device)
    for camera in made.views(40):
        expected = made._march_uniform(made.values, camera, behind)
        actual = made.render(camera, behind)
        assert 0.05 < float((actual - behind).abs().amax(-1).gt(0.1).float().mean()) < 0.9
        # The plain one ends rays after blocks, and adds densities below what counts as empty.
        assert float((actual - expected).abs().max()) < 3e-3
    assert torch.equal(made.render(camera), made.render(camera, torch.zeros(3)))
    monkeypatch.undo()
    coarse = VolumeField.render(made, camera, behind)
    made._forget()
    assert float((made.render(camera, behind) - coarse).abs().max()) < 0.02


def test_empty_cells_follow_the_parameters() -> None:
    made = field(ball(8))
    made.field = Lump()  # pyright: ignore[reportAttributeAccessIssue]
    first = made.occupied_cells()
    assert made.occupied_cells() is first
    made.field.highest.data.fill_(-1.0)  # pyright: ignore
    made.after_step(0)
    assert not made.occupied_cells().any()
    assert torch.equal(made.render(made.views(8)[0], torch.ones(3)), torch.ones(8, 8, 3))


def test_grids_have_their_values_in_the_middle_of_voxels() -> None:
    grid = torch.rand(3, 4, 5, 4, generator=torch.Generator().manual_seed(0))
    volume = GridVolume(grid)
    z, y, x = torch.meshgrid(*(torch.arange(n) for n in (3, 4, 5)), indexing="ij")
    places = torch.stack([(x + 0.5) / 5, (y + 0.5) / 4, (z + 0.5) / 3], -1).reshape(-1, 3)
    actual = volume(places)
    torch.testing.assert_close(actual[:, 1:], grid[..., 1:].reshape(-1, 3), atol=1e-5, rtol=0)
    assert float(actual[:, 0].max()) == pytest.approx(DEPTH)


def test_the_box_has_the_shape_of_the_grid() -> None:
    made = field(ball(8)[:4, :, :6, 0])
    assert made.extent.tolist() == pytest.approx([6 / 8, 1, 4 / 8])
    assert made.centres.amax(0).tolist() == made.extent.tolist()
    assert made._truth(torch.full((1, 3), 0.5))[0, 1:].tolist() == pytest.approx([GREY] * 3)  # pyright: ignore
    image = made.render_truth(made.views(16)[0], torch.zeros(3))
    assert image.shape == (16, 16, 3) and 0.1 < float(image.max()) <= GREY + 1e-6


def test_nothing_is_negative_and_zero_is_learned_from_above_only() -> None:
    made = field(ball(8))
    values = made.values(torch.rand(100, 3))
    assert bool((values >= 0).all()) and bool((values[:, 1:] <= 1).all())
    empty = torch.zeros(5, 3)
    made.field.network.weights.data.fill_(-1.0)
    made.field.encoding.table.data.fill_(1.0)  # pyright: ignore
    assert float(made.loss(empty).detach()) == 0, "below 0 counts as 0"


def test_the_cloud_is_a_cloud(device: torch.device) -> None:
    cloud = Cloud().to(device)
    generator = torch.Generator(device).manual_seed(0)
    places = torch.rand(20_000, 3, generator=generator, device=device)
    actual = cloud(places)
    density = actual[:, 0]
    assert bool(actual.isfinite().all()) and bool((actual >= 0).all()) and float(density.max()) <= DENSEST
    assert 0.05 < float((density > 0).float().mean()) < 0.5 and float(actual[:, 1:].max()) <= 1
    edges = places.clone()
    edges[:, 0] = (places[:, 0] > 0.5).float()
    assert float((cloud(edges)[:, 0] > 0).float().mean()) < 0.01, "the box does not cut it"
    nudged = (places + 1e-5).clamp(0, 1)
    assert float((cloud(nudged) - actual).abs().max()) < 0.2, "it has no jumps"
    assert not torch.equal(Cloud(1).to(device)(places), actual)


@pytest.mark.parametrize(
    "data, wrong",
    [
        (np.zeros((4, 4), np.float32), "must be"),
        (np.zeros((4, 4, 4, 3), np.float32), "must be"),
        (np.zeros((4, 0, 4), np.float32), "must be"),
        (np.zeros((4, 4, 4), np.float32), "empty"),
        (np.full((4, 4, 4), np.nan, np.float32), "not finite"),
        (np.full((4, 4, 4), -1, np.float32), "negative"),
        (np.full((4, 4, 4, 4), 2, np.float32), "above 1"),
        ("cloud", "must be"),
    ],
)
def test_what_is_no_volume(data: Any, wrong: str) -> None:
    with pytest.raises(LuxelError, match=wrong):
        field(data)


@pytest.mark.gpu
def test_a_captured_step_of_the_cloud(tmp_path: Path, gpu: torch.device) -> None:
    config = replace(defaults("volume"), batch=1 << 14, steps=200, log2_entries=15)
    run = FieldTrainer.new(config, Cloud(), tmp_path, gpu, say=lambda _: None)
    result = run.run(progress=False)
    assert run.optimizer.captures == 1 and result.scores["psnr"] > 28
