"""Wavefront rendering with counts on the device draws the images of the polled one, captured or not."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.fields.application import Application
from luxel.render.fields.config import defaults
from luxel.render.fields.drawing.frame_mode import VARIABLE, frame_mode, use_frame_mode
from luxel.render.fields.drawing.wavefront import WAVES, WavefrontRenderer, rows_per_part
from luxel.render.fields.drawing.wavefront_polled import render_wavefront_polled
from luxel.render.fields.nets.point_function import refreshed_snapshot
from luxel.render.fields.radiance import RadianceConfig, RadianceField
from luxel.render.fields.sdf import SdfField
from luxel.render.fields.volume import VolumeField
from luxel.render.geometry.camera import Camera
from luxel.render.ops.field.march_rays import Region, pack_cells

REGION = Region.of_box((-1, -1, -1, 1, 1, 1), diagonal_samples=256, near=0.2, resolution=32)
SCALE = 0.5


def shell(device: torch.device) -> Tensor:
    """Cells around a sphere of radius 0.7."""
    axis = (torch.arange(32) + 0.5) / 16 - 1
    z, y, x = torch.meshgrid(axis, axis, axis, indexing="ij")
    return pack_cells(((x * x + y * y + z * z).sqrt() - 0.7).abs() < 0.12).to(device)


def field(positions: Tensor, directions: Tensor | None, live: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Density and colour before their activations."""
    assert directions is not None
    x = 2 * positions - 1
    density = 4.5 - 14 * (x.norm(dim=-1) - 0.7).abs() + 2 * (9 * x[:, 0]).sin()
    return density, 3 * torch.sin(5 * x + directions)


def values(positions: Tensor, directions: Tensor | None, live: Tensor | None = None) -> tuple[Tensor, None]:
    """Both in one."""
    return torch.cat([6 - 9 * (2 * positions - 1).norm(dim=-1, keepdim=True), positions], 1), None


def camera_of(width: int, height: int, device: torch.device) -> Camera:
    camera = Camera.look_at((2.2, 1.4, 1.1), (0.1, 0, 0), width=width, height=height, fov_y=math.radians(60))
    return camera.to(device)


def assert_same(actual: Any, expected: Any, off: float = 3e-5) -> None:
    for a, b in zip(actual, expected, strict=True):
        assert a.shape == b.shape
        wrong = (a - b).abs()
        # Either side of the least transmittance is right, and waves of other sizes sum up in another order.
        assert float((wrong > off).float().mean()) < 2e-3 and float(wrong.max()) < 2e-3


@pytest.mark.parametrize("size", [(1, 1), (7, 3), (8, 16), (9, 17), (61, 43)])
@pytest.mark.parametrize("rays,rows", [(1 << 20, 1 << 14), (500, 3001)])
def test_the_renderer_draws_the_images_of_polled_waves(device, size, rays, rows):
    renderer = WavefrontRenderer(device, rays, rows)
    background = torch.tensor([0.2, 0.9, 0.5], device=device)
    width, height = size
    camera = camera_of(width, height, device)
    for occupancy in (shell(device), None):
        given = camera, REGION, occupancy, background, SCALE
        expected = render_wavefront_polled(field, *given)
        assert_same(renderer.render(field, None, *given), expected)
    empty = torch.zeros_like(shell(device))
    colours, alpha, depth = renderer.render(field, None, camera, REGION, empty, background, SCALE)
    assert torch.equal(colours, background.expand_as(colours)) and not alpha.any() and not depth.any()


def test_values_in_one_and_no_layers(device):
    renderer = WavefrontRenderer(device, 1000, 5000, directions=False)
    given = camera_of(50, 40, device), REGION, shell(device), torch.ones(3, device=device), SCALE
    colours, alpha, depth = renderer.render(values, None, *given, layers=False)
    assert alpha.numel() == depth.numel() == 0
    assert_same([colours], render_wavefront_polled(values, *given)[:1])


def test_parts_that_need_more_waves_are_drawn_again(device):
    renderer = WavefrontRenderer(device, 2000, 500)  # so few samples that rays wait for free rows
    given = camera_of(50, 80, device), REGION, shell(device), torch.ones(3, device=device), SCALE
    expected = render_wavefront_polled(field, *given)
    assert_same(renderer.render(field, None, *given), expected)
    first = renderer.redrawn
    assert first > 0
    for _ in range(2):
        assert_same(renderer.render(field, None, *given), expected)
    assert renderer.redrawn == first, "the next images get as many waves as the last ones needed"


@pytest.mark.parametrize(
    "width,height,rays,rows",
    [(3840, 2160, 1 << 21, 544), (100, 7, 1000, 7), (100, 30, 1000, 10), (2000, 5, 1000, 1)],
)
def test_parts_are_of_equal_size(width, height, rays, rows):
    assert rows_per_part(width, height, rays) == rows and rows * width <= max(rays, width)


def test_modes(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert frame_mode() == "captured"
    monkeypatch.setenv(VARIABLE, "polled")
    assert frame_mode() == "polled"
    with use_frame_mode("launched"):
        assert frame_mode() == "launched"
    monkeypatch.setenv(VARIABLE, "often")
    with pytest.raises(LuxelError, match="one of captured, launched, polled"):
        frame_mode()


def test_snapshots_keep_their_memory(device):
    made = VolumeField(replace(defaults("volume"), log2_entries=8, width=64)).to(device)
    x = torch.rand(50, 3, device=device)
    with torch.no_grad():
        first = refreshed_snapshot(made.field, None)
        key, before = first.key(), first(x)
        assert key is not None
        for parameter in made.parameters():
            parameter.mul_(-2.0)
        second = refreshed_snapshot(made.field, first)
        assert second is first and second.key() == key
        assert not torch.equal(second(x), before)
        torch.testing.assert_close(second(x), made.field(x, coherent=True), rtol=0, atol=1e-6)
        live = torch.tensor([20], dtype=torch.int32, device=device)
        assert torch.equal(second(x, live)[:20], second(x)[:20])
        made.field.network.weights.data = made.field.network.weights.data.clone()
        assert refreshed_snapshot(made.field, first).key() != key
        other = VolumeField(replace(defaults("volume"), log2_entries=8, width=64)).to(device)
        assert refreshed_snapshot(other.field, first) is not first


class SmallRadianceField(RadianceField):
    """With few cells."""

    cells = 16
    diagonal_samples = 200


def volume(device: torch.device) -> VolumeField:
    """With parameters that show something."""
    made = VolumeField(replace(defaults("volume"), log2_entries=12)).to(device)
    made.peak.fill_(20.0)
    return brightened(made)


def radiance(device: torch.device) -> RadianceField:
    """The same."""
    config = RadianceConfig(field="radiance", hidden=1, log2_entries=12, finest=128, batch=2048)
    made = SmallRadianceField(config).to(device)
    made.march.box.copy_(torch.tensor([-1.0, -1, -1, 1, 1, 1]))
    made.march.occupancy.bits.copy_(torch.randint(0, 256, (16**3 // 8,), dtype=torch.uint8))
    return brightened(made)


def sdf(device: torch.device) -> SdfField:
    """A distance of 0 somewhere."""
    made = SdfField(replace(defaults("sdf"), log2_entries=12)).to(device)
    return brightened(made)


def brightened(made: Any) -> Any:
    """Tables of large numbers, of a device's own chance."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for table in made.table_parameters():
            table.copy_(torch.randn(table.shape, generator=generator) * 0.5)
    made.eval()
    return made


MADE = {"volume": volume, "radiance": radiance, "sdf": sdf}
DRAWN_IN = {"volume": "volume", "radiance": "capture.march", "sdf": "sdf"}  # modules that draw each


def drawer_of(made: Any) -> Any:
    """What has the renderer of an application."""
    return made.march if made.kind == "radiance" else made


def renderer_of(made: Any) -> Any:
    """What an application draws with counts on the device with, or None."""
    return drawer_of(made)._renderer


def frames(made: Application, sizes: list[tuple[int, int]], device: torch.device) -> list[Tensor]:
    """From two sides, in several sizes."""
    middle = made.centres.float().mean(0).tolist()
    out = []
    for eye in ((1.9, 1.2, 0.8), (-1.1, 2.3, 0.4)):
        for width, height in sizes:
            at = [a + b for a, b in zip(middle, eye, strict=True)]
            camera = Camera.look_at(at, middle, width=width, height=height).to(device)
            out.append(made.render(camera, torch.tensor([0.1, 0.6, 0.3], device=device)))
    return out


def assert_images(actual: list[Tensor], expected: list[Tensor], share: float = 2e-3) -> None:
    for a, b in zip(actual, expected, strict=True):
        off = (a - b).abs().amax(-1)
        assert float((off > 2e-3).float().mean()) <= share, float(off.max())
    assert max(float(a.std()) for a in expected) > 0.01, "there is something to see"


@pytest.mark.parametrize("kind", MADE)
def test_each_kind_is_drawn_with_counts_on_the_device(kind, monkeypatch):
    made, cpu = MADE[kind](torch.device("cpu")), torch.device("cpu")
    sizes = [(40, 30), (29, 61)]
    expected = frames(made, sizes, cpu)
    assert renderer_of(made) is None
    monkeypatch.setattr(f"luxel.render.fields.{DRAWN_IN[kind]}.counts_on_device", lambda device: True)
    if kind != "sdf":
        monkeypatch.setattr(
            f"luxel.render.fields.{DRAWN_IN[kind]}.WavefrontRenderer",
            lambda device, *_, **o: WavefrontRenderer(device, 900, 9000, **o),
        )
    actual = frames(made, sizes, cpu)
    assert renderer_of(made) is not None
    assert_images(actual, expected)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", MADE)
def test_captured_frames_equal_polled_ones(gpu, kind):
    sizes = [(70, 50), (333, 217), (70, 50), (64, 8), (401, 300)]
    made = MADE[kind](gpu)
    images = {}
    for mode in ("polled", "launched", "captured"):
        with use_frame_mode(mode):
            images[mode] = frames(made, sizes, gpu)
    assert_images(images["launched"], images["polled"])
    assert_images(images["captured"], images["launched"])
    renderer = renderer_of(made)
    assert renderer is not None and 1 <= renderer.captures <= 2, "one for each size of its workspace"


@pytest.mark.gpu
@pytest.mark.parametrize("kind", MADE)
def test_captured_frames_follow_parameters_and_applications(gpu, kind):
    """Parameters that change in place are not captured again; two fields have graphs of their own."""
    one, two = MADE[kind](gpu), MADE[kind](gpu)
    sizes = [(120, 90)]
    with torch.no_grad():
        for table in two.table_parameters():
            table.mul_(-0.7)
    first = frames(one, sizes, gpu), frames(two, sizes, gpu)
    captures = renderer_of(one).captures
    with torch.no_grad():
        for table in one.table_parameters():
            table.add_(0.3 * torch.randn_like(table))
    one.after_step(1)
    changed = frames(one, sizes, gpu)
    assert renderer_of(one).captures == captures, "parameters have not moved"
    assert not torch.equal(changed[0], first[0][0])
    with use_frame_mode("polled"):
        assert_images(changed, frames(one, sizes, gpu))
        assert_images(first[1], frames(two, sizes, gpu))
    for parameter in one.parameters():
        parameter.data = parameter.data.clone()
    assert_images(frames(one, sizes, gpu), changed)
    assert renderer_of(one).captures == captures + 1
    del two
    assert_images(frames(one, sizes, gpu), changed)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", MADE)
def test_memory_of_frames_is_bounded_and_freed(gpu, kind):
    from luxel.render.replay import release_memory

    made = MADE[kind](gpu)
    release_memory()
    before = torch.cuda.memory_allocated(gpu)
    for _ in range(3):
        frames(made, [(300, 200)], gpu)
    held = torch.cuda.memory_allocated(gpu)
    for _ in range(5):
        frames(made, [(300, 200), (150, 100)], gpu)
    assert torch.cuda.memory_allocated(gpu) <= held + (1 << 20)
    made._snapshot = None
    drawer_of(made)._renderer = None
    release_memory()
    assert torch.cuda.memory_allocated(gpu) <= before + (16 << 20)


def test_rays_of_a_part_go_along_tiles():
    """They have the numbers that plain loops over tiles give."""
    from luxel.render.ops.field.render_wave import begin_waves_
    from luxel.render.ops.field.wave_buffers import WaveRays

    width, height, top = 21, 13, 5
    cpu = torch.device("cpu")
    camera = camera_of(width, height + top + 2, cpu)
    rays = WaveRays.allocate(width * height + 9, 2, torch.zeros(3))
    part = torch.tensor([width, top * width, width * height], dtype=torch.int32)
    view = camera.world_to_cam, camera.intrinsics, 0, 0, REGION, None
    begin_waves_(rays, *view, torch.zeros(3), part=part)
    listed = rays.lists[0, : int(rays.listed[0])].numpy()
    order = [
        (y, x)
        for band in range(0, height, 8)
        for left in range(0, width, 8)
        for y in range(band, min(band + 8, height))
        for x in range(left, min(left + 8, width))
    ]
    missing = np.setdiff1d(np.arange(width * height), listed)
    rays.rgb.fill_(7.0)
    rays.listed.zero_()
    begin_waves_(rays, *view, torch.zeros(3), part=part)
    done = (rays.rgb[: width * height, 0] == 0).nonzero().flatten().tolist()
    assert sorted(done) == sorted(order[n][0] * width + order[n][1] for n in missing)
    assert len(listed) > 50 and WAVES % 2 == 0 and (rays.rgb[width * height :] == 7).all()
