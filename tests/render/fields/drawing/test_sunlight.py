"""Distance fields and volumes in the light of a sun, with shadows."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from luxel.render.fields.config import defaults
from luxel.render.fields.drawing.delta_tracking import AMBIENT, SUN, track_sunlit
from luxel.render.fields.drawing.rays import camera_rays, clip_to_box
from luxel.render.fields.image import ImageField
from luxel.render.fields.nets.point_function import PlainSnapshot
from luxel.render.fields.sdf import SdfField
from luxel.render.fields.volume import HEADROOM, VolumeField
from luxel.render.geometry.camera import Camera

LOW, HIGH = torch.zeros(3, dtype=torch.float64), torch.tensor([1.0, 0.8, 0.6], dtype=torch.float64)
TO_SUN = torch.nn.functional.normalize(torch.tensor([0.3, -0.4, 0.8], dtype=torch.float64), dim=0)
BACKGROUND = torch.tensor([0.1, 0.2, 0.9], dtype=torch.float64)


def puff(x: Tensor) -> Tensor:
    """A soft ball of density at most 9, whose albedo varies."""
    density = 9 * torch.exp(-((x - 0.5 * HIGH.to(x)) ** 2).sum(-1) / 0.03)
    return torch.cat([density[:, None], 0.4 + 0.5 * x], 1)


def optical_depth(start: Tensor, direction: Tensor, length: Tensor, steps: int = 400) -> Tensor:
    """The integral of the density along rays [R, 3], by the midpoint rule."""
    at = (torch.arange(steps, dtype=torch.float64) + 0.5) / steps * length[:, None]
    x = start[:, None] + at[..., None] * direction[:, None]
    return puff(x.view(-1, 3))[:, 0].view(at.shape).mean(1) * length


def quadrature(origins: Tensor, directions: Tensor, steps: int = 300) -> Tensor:
    """The same light by the midpoint rule, along the rays and towards the sun."""
    enter, leave = clip_to_box(origins, directions, LOW, HIGH)
    colour, through = torch.zeros_like(directions), torch.ones_like(enter)
    step = (leave - enter).clamp_min(0) / steps
    for k in range(steps):
        x = origins + (enter + (k + 0.5) * step)[:, None] * directions
        values = puff(x)
        alpha = 1 - torch.exp(-values[:, 0] * step)
        sun = TO_SUN.expand_as(x)
        lit = torch.exp(-optical_depth(x, sun, clip_to_box(x, sun, LOW, HIGH)[1]))
        colour += (through * alpha * (AMBIENT + SUN * lit))[:, None] * values[:, 1:]
        through = through * (1 - alpha)
    return colour + through[:, None] * BACKGROUND


def test_delta_tracking_agrees_with_quadrature() -> None:
    camera = Camera.look_at((1.9, 1.3, 0.9), (0.5, 0.4, 0.3), fov_y=0.5, width=4, height=3)
    origins, directions = (rows.double() for rows in camera_rays(camera))
    exact = quadrature(origins, directions)
    assert float((exact - BACKGROUND).abs().amax(1).max()) > 0.2
    generator = torch.Generator().manual_seed(0)
    paths, turns = 500, 16
    given = puff, origins, directions, LOW, HIGH, 9.0, TO_SUN, BACKGROUND, paths, generator
    means = torch.stack([track_sunlit(*given) for _ in range(turns)])
    error = means.std(0) / turns**0.5
    off = (means.mean(0) - exact).abs()
    assert bool((off <= 4.5 * error + 1e-3).all()) and float(error.max()) < 0.01


def test_a_higher_majorant_changes_nothing_but_noise() -> None:
    origins = torch.tensor([[0.5, 0.4, -1.0]], dtype=torch.float64)
    directions = torch.tensor([[0.0, 0.0, 1.0]], dtype=torch.float64)
    exact = quadrature(origins, directions)
    for majorant in (9.0, 27.0):
        generator = torch.Generator().manual_seed(1)
        given = LOW, HIGH, majorant, TO_SUN, BACKGROUND, 20_000, generator
        torch.testing.assert_close(track_sunlit(puff, origins, directions, *given), exact, atol=0.01, rtol=0)


def test_rays_that_miss_the_box_have_the_background() -> None:
    origins = torch.tensor([[5.0, 5.0, 5.0]], dtype=torch.float64)
    directions = torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64)
    given = LOW, HIGH, 9.0, TO_SUN, BACKGROUND, 3, torch.Generator()
    torch.testing.assert_close(track_sunlit(puff, origins, directions, *given)[0], BACKGROUND)


def test_a_volume_casts_shadows_on_itself(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    grid = torch.zeros(12, 12, 12)
    grid[2:10, 2:10, 2:10] = 1
    made = VolumeField(replace(defaults("volume"), log2_entries=10, width=16))
    made.begin(grid, torch.device("cpu"))

    def ball(x: Tensor, live: Tensor | None = None) -> Tensor:
        density = ((x - 0.5).abs().amax(-1, keepdim=True) < 0.35).to(x)
        return torch.cat([density, torch.ones_like(x)], 1)

    made = made.to(device)
    monkeypatch.setattr(made.field, "snapshot", lambda: PlainSnapshot(ball))
    camera = Camera.look_at((0.5, -2.0, 0.5), (0.5, 0.5, 0.5), fov_y=0.4, width=9, height=9).to(device)
    sunny = made.render_sunlit(camera, to_sun=(0.0, -3.0, 0.0)).mean()
    dark = made.render_sunlit(camera, to_sun=(0.0, 1.0, 0.0)).mean()
    assert float(sunny) > 0.35 and float(dark) < 0.6 * float(sunny)
    again = made.render_sunlit(camera, to_sun=(0.0, 1.0, 0.0)).mean()
    assert float(again) == pytest.approx(float(dark)), "without flicker"
    assert HEADROOM >= 1


def test_a_distance_field_casts_shadows(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wall shades the half of the floor behind it."""
    made = SdfField(replace(defaults("sdf"), log2_entries=10, width=16)).to(device)

    def scene(x: Tensor, *_: object, **__: object) -> Tensor:
        floor = x[:, 2] - 0.2
        side = torch.stack([(x[:, 0] - 0.5).abs() - 0.04, x[:, 2] - 0.6], -1)
        wall = side.clamp_min(0).norm(dim=-1) + side.amax(-1).clamp_max(0)
        return torch.minimum(floor, wall)[:, None]

    monkeypatch.setattr(made.field, "forward", scene)
    monkeypatch.setattr(made.field, "snapshot", lambda: PlainSnapshot(scene))
    up = torch.tensor([0.0, 0.0, 1.0], device=device)
    monkeypatch.setattr(made, "slopes", lambda x, detail=None: up.expand_as(x))
    camera = Camera.look_at((0.5, 0.45, 2.5), (0.5, 0.5, 0.2), fov_y=0.25, width=32, height=32)
    image = made.render_sunlit(camera.to(device), to_sun=(1.0, 0.0, 1.0)).mean(-1)
    plain = made.render(camera.to(device)).mean(-1)
    row = image[16]
    lit, shaded = (float(row[i]) for i in ((28, 6) if row[28] > row[6] else (6, 28)))
    assert lit > 1.5 * shaded and float((plain[16, 28] - plain[16, 6]).abs()) < 0.02


def test_other_fields_have_no_shadows() -> None:
    assert "shadows" not in ImageField.outputs
    made = ImageField(replace(defaults("image"), log2_entries=4, width=16, finest=16))
    with pytest.raises(NotImplementedError, match="no shadows"):
        made.render_sunlit(Camera.look_at((0.5, 0.6, 2), (0.5, 0.5, 0), width=4, height=4))
