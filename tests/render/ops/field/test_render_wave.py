"""An image drawn in waves is the image of all samples at once, whatever the size of the waves."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.ops.field.composite import composite
from luxel.render.ops.field.march_rays import Region, march_pixels, pack_cells
from luxel.render.ops.field.render_wave import begin_waves_, composite_wave_, march_wave_
from luxel.render.ops.field.wave_buffers import WaveRays, WaveSamples
from luxel.render.reference.field.render_wave import render_waves_reference

REGION = Region.of_box((-1, -1, -1, 1, 1, 1), diagonal_samples=256, near=0.2, resolution=32)
SCALE = 0.5


def shell_cells() -> Tensor:
    """Cells around a sphere of radius 0.7, bool [G, G, G]."""
    axis = (torch.arange(32) + 0.5) / 16 - 1
    z, y, x = torch.meshgrid(axis, axis, axis, indexing="ij")
    return ((x * x + y * y + z * z).sqrt() - 0.7).abs() < 0.12


def shell(device: torch.device) -> Tensor:
    """The same as bits."""
    return pack_cells(shell_cells()).to(device)


def field(positions: Tensor, directions: Tensor) -> tuple[Tensor, Tensor]:
    """Density and colour before their activations."""
    x = 2 * positions - 1
    density = 4.5 - 14 * (x.norm(dim=-1) - 0.7).abs() + 2 * (9 * x[:, 0]).sin()
    return density, 3 * torch.sin(5 * x + directions)


def camera_of(width: int, height: int, dtype: torch.dtype, device: torch.device) -> Camera:
    camera = Camera.look_at((2.2, 1.4, 1.1), (0.1, 0, 0), width=width, height=height, fov_y=math.radians(60))
    return camera.to(dtype).to(device)


def at_once(
    camera: Camera, occupancy: Tensor | None, background: Tensor, region: Region = REGION
) -> tuple[Tensor, ...]:
    count = camera.width * camera.height
    pixels = torch.arange(count, device=background.device)
    views = torch.tensor([[0, camera.width]], device=background.device)
    pose, lens = camera.world_to_cam[None], camera.intrinsics[None]
    samples = march_pixels(pixels, views, pose, lens, region, occupancy, capacity=count * 300)
    density, colour = field(samples.positions, samples.directions)
    behind = background.expand(count, 3).contiguous()
    return composite(
        density, colour, samples.dt, samples.t, samples.ranges, samples.counters, behind, scale=SCALE
    )[:3]


def in_waves(
    camera: Camera,
    occupancy: Tensor | None,
    background: Tensor,
    capacity: int,
    most: int,
    first: int,
    count: int,
    plain: bool = False,
    region: Region = REGION,
) -> tuple[WaveRays, int]:
    rays = WaveRays.allocate(count, 2000, background)
    samples = WaveSamples.allocate(capacity, rays)
    view = camera.world_to_cam, camera.intrinsics, camera.width, first, region, occupancy
    begin_waves_(rays, *view, background)
    for wave in range(rays.waves):
        listed = int(rays.listed[wave])
        if listed == 0:
            return rays, wave
        march_wave_(wave, rays, samples, *view, listed=count if wave % 2 else listed, most=most)
        assert 0 < samples.requested[wave] <= max(capacity, listed)
        density, colour = field(samples.positions, samples.directions)
        if plain:  # what the activations give, in one; beyond where it is held too
            above = torch.cat([density[:, None].clamp(-15, 15).exp(), colour.sigmoid()], 1)
            density, colour = torch.where(above < 1e-4, above - 1e-4, above), None
        composite_wave_(wave, rays, samples, density, colour, region, background, listed=listed, scale=SCALE)
    raise AssertionError("rays go on and on")


@pytest.mark.parametrize("capacity,most", [(20_000, 8), (3001, 1000), (500, 4)])
@pytest.mark.parametrize("cells", [True, False])
def test_waves_are_all_samples_at_once(precision, capacity, most, cells):
    camera = camera_of(37, 29, **precision)
    background = torch.tensor([0.2, 0.9, 0.5]).to(**precision)
    occupancy = shell(precision["device"]) if cells else None
    expected = at_once(camera, occupancy, background)
    rays, waves = in_waves(camera, occupancy, background, capacity, most, 0, 37 * 29)
    assert waves > 1 and (expected[1] < 0.5).any() and (expected[1] > 0.99).any()
    near_least = (expected[1] - 1e-4).abs() < 1e-6  # either side of the least transmittance is right
    off = 1e-5 if background.dtype == torch.float32 else 1e-12
    for name, a, b in zip(("rgb", "transmittance", "depth"), rays[3:], expected, strict=True):
        torch.testing.assert_close(
            a[~near_least], b[~near_least], rtol=0, atol=3 * off, msg=lambda m, n=name: f"{n}: {m}"
        )
    assert near_least.float().mean() < 0.01
    if not cells:
        return
    part, _ = in_waves(camera, occupancy, background, capacity, most, 400, 301)
    torch.testing.assert_close(part.rgb, rays.rgb[400:701], rtol=0, atol=off)


@pytest.mark.parametrize("contracted", [True, False])
def test_waves_through_cascades(precision, contracted):
    camera = camera_of(23, 17, **precision)
    background = torch.tensor([0.2, 0.9, 0.5]).to(**precision)
    region = REGION._replace(cascades=3, contracted=contracted, growth=1 / 64)
    occupancy = shell(precision["device"]).repeat(3)
    expected = at_once(camera, occupancy, background, region)
    rays, waves = in_waves(camera, occupancy, background, 2000, 8, 0, 23 * 17, region=region)
    assert waves > 1 and (expected[1] < 0.5).any() and expected[2].max() > 2
    near_least = (expected[1] - 1e-4).abs() < 1e-6
    off = 1e-5 if background.dtype == torch.float32 else 1e-12
    for name, a, b in zip(("rgb", "transmittance", "depth"), rays[3:], expected, strict=True):
        torch.testing.assert_close(
            a[~near_least], b[~near_least], rtol=0, atol=3 * off, msg=lambda m, n=name: f"{n}: {m}"
        )
    assert near_least.float().mean() < 0.02


def test_values_in_one_need_no_activations(precision):
    camera = camera_of(37, 29, **precision)
    background = torch.tensor([0.2, 0.9, 0.5]).to(**precision)
    given = camera, shell(precision["device"]), background, 3001, 20, 0, 37 * 29
    expected, actual = in_waves(*given)[0], in_waves(*given, plain=True)[0]
    assert (expected.transmittance < 0.5).any()
    for a, b in zip(actual[3:], expected[3:], strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=2e-4)
    rays = WaveRays.allocate(8, 2, background)
    samples = WaveSamples.allocate(16, rays)
    for density, colour in ((samples.t, None), (samples.positions.new_zeros(16, 4), samples.positions)):
        with pytest.raises(ValueError, match=r"values must be \[16, 4\]|density must be \[16\]"):
            composite_wave_(0, rays, samples, density, colour, REGION, background, listed=8)


def test_it_is_the_reference(precision):
    camera = camera_of(41, 23, **precision)
    background = torch.tensor([0.7, 0.1, 0.4]).to(**precision)
    rays, _ = in_waves(camera, shell(precision["device"]), background, 5000, 16, 0, 41 * 23)
    given = camera.world_to_cam.cpu().double(), camera.intrinsics.cpu().double(), 41, 23
    actual = render_waves_reference(
        field,
        *given,
        REGION.box,
        REGION.step,
        shell_cells(),
        background.cpu().double(),
        near=REGION.near,
        scale=SCALE,
    )
    single = background.dtype == torch.float32
    for a, b in zip(rays[3:], actual, strict=True):
        off = (a.cpu().double() - b).abs().reshape(41 * 23, -1).amax(-1)
        # In float some place is within rounding of a face of its cell, and counts on one side only.
        assert (
            off.max() < (0.02 if single else 1e-9)
            and (off > (2e-5 if single else 1e-11)).double().mean() < 0.02
        )


def test_rays_that_meet_nothing(device):
    camera = camera_of(20, 10, torch.float32, device)
    background = torch.tensor([0.1, 0.2, 0.3], device=device)
    rays, waves = in_waves(camera, torch.zeros_like(shell(device)), background, 100, 4, 0, 200)
    assert waves == 0 and rays.listed[0] == 0
    assert (
        torch.equal(rays.rgb, background.expand(200, 3))
        and (rays.transmittance == 1).all()
        and not rays.depth.any()
    )


def test_what_is_refused(device):
    camera = camera_of(4, 4, torch.float32, device)
    background = torch.zeros(3, device=device)
    rays = WaveRays.allocate(16, 3, background)
    samples = WaveSamples.allocate(64, rays)
    view = camera.world_to_cam, camera.intrinsics, 4, 0, REGION, None
    with pytest.raises(ValueError, match=r"background must be \[3\]"):
        begin_waves_(rays, *view, background[:2])
    with pytest.raises(ValueError, match=r"state must be float32 or float64, got torch.float16"):
        halves = camera.world_to_cam.half(), camera.intrinsics.half(), *view[2:], background.half()
        begin_waves_(rays._replace(state=rays.state.half()), *halves)
    with pytest.raises(ValueError, match=r"count must be 0 to 16, .* got 17"):
        march_wave_(0, rays, samples, *view, listed=17, most=4)
    with pytest.raises(ValueError, match=r"colour must be \[64, 3\]"):
        composite_wave_(
            0,
            rays,
            samples,
            torch.zeros(64, device=device),
            torch.zeros(63, 3, device=device),
            REGION,
            background,
            listed=16,
        )
