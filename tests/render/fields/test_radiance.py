"""A radiance field learns a small scene on any device; its occupancy follows; what it is given is checked."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar, cast

import numpy as np
import pytest
import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.fields.capture.occupancy import Occupancy
from luxel.render.fields.capture.posed_images import BLENDER_BOX, DeviceImages, PosedImages, box_of, read_view
from luxel.render.fields.radiance import RadianceConfig, RadianceField
from luxel.render.fields.training.optimizer import FieldOptimizer
from luxel.render.geometry.camera import Camera, Pixels, Points, View
from luxel.render.ops.field.composite import composite
from luxel.render.ops.field.march_rays import ASKED, LEFT_OUT, RAYS, SAMPLES


class SmallRadianceField(RadianceField):
    cells: ClassVar[int] = 32
    diagonal_samples: ClassVar[int] = 192


CONFIG = RadianceConfig(
    field="radiance", hidden=1, width=32, log2_entries=13, finest=128, batch=1 << 12, seed=3
)


def balls(camera: Camera) -> np.ndarray:
    """Two balls coloured by place, straight RGBA bytes [H, W, 4]; hard edges, averaged over 3 x 3 rays of a pixel."""
    fine = camera.resized(3 * camera.width, 3 * camera.height)
    v, u = torch.meshgrid(torch.arange(fine.height) + 0.5, torch.arange(fine.width) + 0.5, indexing="ij")
    fx, fy, cx, cy = fine.intrinsics
    local = torch.nn.functional.normalize(
        torch.stack([(u - cx) / fx, (v - cy) / fy, torch.ones_like(u)], -1), dim=-1
    )
    d, o = local @ camera.world_to_cam[:3, :3], camera.position
    nearest = torch.full(u.shape, math.inf)
    rgba = torch.zeros(*u.shape, 4)
    for middle, radius in (((-0.3, 0.1, 0.0), 0.6), ((0.6, -0.4, 0.3), 0.35)):
        to = o - torch.tensor(middle)
        b = (d * to).sum(-1)
        root = b * b - to @ to + radius**2
        t = -b - root.clamp_min(0).sqrt()
        hit = (root > 0) & (t < nearest)
        place = o + t[..., None] * d
        colour = 0.5 + 0.45 * torch.sin(3 * place + torch.tensor([0.0, 1, 2]))
        nearest = torch.where(hit, t, nearest)
        rgba[hit] = torch.cat([colour[hit], torch.ones(int(hit.sum()), 1)], -1)
    rgba[..., :3] *= rgba[..., 3:]
    mean = torch.nn.functional.avg_pool2d(rgba.permute(2, 0, 1)[None], 3)[0].permute(1, 2, 0)
    mean[..., :3] /= mean[..., 3:].clamp_min(1e-6)
    return (255 * mean + 0.5).to(torch.uint8).numpy()


def ring(count: int, size: int = 32, start: float = 0.0) -> list[View]:
    views = []
    for k in range(count):
        turn = start + 2 * math.pi * k / count
        height = (0.5, 1.6, -0.9)[k % 3]
        eye = (3.8 * math.cos(turn), 3.8 * math.sin(turn), height)
        camera = Camera.look_at(eye, (0, 0, 0), width=size, height=size, fov_y=math.radians(34))
        image = balls(camera)
        views.append(View(f"{k}", camera, lambda i=image: Pixels(i[..., :3].copy(), i[..., 3].copy())))
    return views


def train(field: RadianceField, steps: int, device: torch.device) -> None:
    generator = torch.Generator(device).manual_seed(1)
    parameters = [*field.table_parameters(), *field.weight_parameters()]
    optimiser = torch.optim.Adam(parameters, lr=1e-2, betas=(0.9, 0.99), eps=1e-15)
    for step in range(steps):
        loss = field.loss(field.draw_batch(generator))
        optimiser.zero_grad()
        (1024 * loss).backward()
        for parameter in parameters:
            parameter.grad.div_(1024)
        optimiser.step()
        field.after_step(step)


@pytest.mark.slow
def test_it_learns_a_small_scene(device):
    field = SmallRadianceField(CONFIG).to(device)
    field.begin(PosedImages(ring(12), held_out=ring(4, start=0.3)), device)
    before = field.evaluate()
    train(field, 200, device)
    after = field.evaluate()
    assert after["psnr"] > 22 > before["psnr"], (before, after)
    assert after["ssim"] > 0.85
    assert 0.001 < field.march.occupancy.share() < 0.4
    assert field.march.live > 100  # rays, for a start of 8

    again = SmallRadianceField(CONFIG)
    again.load_state_dict({name: t.cpu() for name, t in field.state_dict().items()})
    again.to(device)
    camera = ring(1, 20, 0.7)[0].camera.to(device)
    white = torch.ones(3, device=device)
    image = again.render(camera, white)
    assert image.shape == (20, 20, 3) and again.region.box == BLENDER_BOX
    torch.testing.assert_close(image, field.render(camera, white), rtol=0, atol=1e-5)
    black, alpha, depth = again.layers(camera)
    torch.testing.assert_close(black + (1 - alpha[..., None]), image, rtol=0, atol=1e-5)
    seen = alpha > 0.99
    assert seen.any() and (depth[seen] / alpha[seen]).min() > 2.5 and (depth[seen] / alpha[seen]).max() < 5


def test_the_number_of_rays_follows_the_samples(device):
    field = SmallRadianceField(CONFIG).to(device)
    field.begin(ring(3, 16), device)
    generator = torch.Generator(device).manual_seed(0)
    asked = []
    for _ in range(8):
        batch = field.draw_batch(generator)
        rays = int(field.march.live)
        assert (batch.pixels >= 0).sum() == rays and not (batch.pixels[rays:] >= 0).any()
        samples = field.samples(batch)
        assert samples.counters[LEFT_OUT] == 0 and samples.counters[SAMPLES] == samples.counters[ASKED]
        asked.append(int(samples.counters[ASKED]))
    assert asked[0] < CONFIG.batch / 4 and 0.8 * CONFIG.batch < asked[-1] <= CONFIG.batch


class Thick(torch.nn.Module):
    """As dense everywhere."""

    def __init__(self, density: float) -> None:
        super().__init__()
        self.density = density

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([torch.full_like(x[:, :1], self.density), x.repeat(1, 5)], 1)


def thick(device: torch.device, **options) -> SmallRadianceField:
    field = SmallRadianceField(replace(CONFIG, **options)).to(device)
    field.density = cast(Any, Thick(4.5))
    field.begin(ring(3, 16), device)
    return field


def test_steps_are_of_samples_that_can_be_seen(device):
    field, whole = thick(device), thick(device, marched=0, batch=1 << 15)
    field.march.live.fill_(60)
    whole.march.live.fill_(60)
    batch = field.draw_batch(torch.Generator(device).manual_seed(0))
    seen, every = field.samples(batch), whole.samples(batch)
    assert seen.counters[RAYS] == every.counters[RAYS] == 60
    assert seen.counters[LEFT_OUT] == every.counters[LEFT_OUT] == 0
    assert 4 * seen.counters[SAMPLES] < every.counters[SAMPLES]
    field.march.live.fill_(60)
    whole.march.live.fill_(60)
    torch.testing.assert_close(field.loss(batch), whole.loss(batch), rtol=1e-5, atol=0)
    generator = torch.Generator(device).manual_seed(0)
    rays = []
    for marched in (4, 12):  # what is marched is the tighter room, then what is seen
        field = thick(device, marched=marched)
        for _ in range(10):
            samples = field.samples(field.draw_batch(generator))
        rays.append(int(samples.counters[RAYS]))
        share = int(samples.counters[SAMPLES]) / CONFIG.batch
        assert share < 0.8 if marched == 4 else 0.85 < share <= 1
    assert 1.2 < rays[1] / rays[0] < 3


@pytest.mark.gpu
def test_captured_steps_learn_and_adapt(gpu):
    field = SmallRadianceField(CONFIG).to(gpu)
    field.begin(PosedImages(ring(12), held_out=ring(4, start=0.3)), gpu)
    learner = FieldOptimizer(field)
    for step in range(300):
        learner.step(step)
    assert learner.captures == 1 and field.march.live > 100
    assert field.evaluate()["psnr"] > 22


def test_rays_without_room_do_not_count(device, monkeypatch):
    field = thick(device, marched=0)
    field.march.live.fill_(600)
    batch = field.draw_batch(torch.Generator(device).manual_seed(0))
    samples = field.samples(batch)
    monkeypatch.setattr(field, "samples", lambda _: samples)  # on a GPU others would be left out next time
    loss = field.loss(batch)
    left_out = int(samples.counters[LEFT_OUT])
    assert left_out > 100
    density, colour = field.evaluate_at(samples.positions, samples.directions)
    ends = samples.t, samples.ranges, samples.counters, batch.backgrounds
    seen = composite(density, colour, samples.dt, *ends, scale=1 / 3)
    errors = torch.nn.functional.huber_loss(seen.rgb, batch.targets, reduction="sum", delta=0.1)
    torch.testing.assert_close(loss, errors / (3 * (600 - left_out)), rtol=1e-5, atol=0)


def test_occupancy_finds_what_is_dense(device):
    field = SmallRadianceField(CONFIG).to(device)
    occupancy = field.march.occupancy

    def ball(x: Tensor) -> Tensor:
        return 50.0 * ((x - 0.5).norm(dim=-1) < 0.25)

    axis = (torch.arange(32, device=device) + 0.5) / 32 - 0.5
    z, y, x = torch.meshgrid(axis, axis, axis, indexing="ij")
    distance = (x * x + y * y + z * z).sqrt()
    for step in (0, 16, 400, 416, 432, 448, 464):
        occupancy.update(step, ball)
        actual = occupancy.occupied()
        assert actual[distance < 0.2].all() and not actual[distance > 0.3].any()
    assert abs(occupancy.share() - 4 / 3 * math.pi * 0.25**3) < 0.02

    def half(x: Tensor) -> Tensor:
        return torch.where(x[:, 0] < 0.5, 40.0, 0.0)

    for step in range(480, 480 + 16 * 60, 16):
        occupancy.update(step, half)
    actual = occupancy.occupied()
    assert actual[..., :16].all() and not actual[..., 16:].any()  # what was dense has decayed


def test_updates_come_often_at_first():
    due = [step for step in range(600) if Occupancy.due(step)]
    assert due[:17] == list(range(17)) and due[-1] == 592 and due[-2] == 576
    again = Occupancy(4), Occupancy(4)
    for occupancy in again:
        for step in (0, 300, 316):
            occupancy.update(step, lambda x: 20 * x.sum(-1), seed=5)
    assert torch.equal(again[0].densities, again[1].densities) and torch.equal(again[0].bits, again[1].bits)


def test_photographs(device):
    views = ring(2, 8)
    opaque = View("opaque", views[0].camera, lambda: Pixels(np.full((8, 8, 3), 7, np.uint8)))
    actual = DeviceImages.read([views[0], opaque, views[1]], device)
    assert actual.pixels.shape == (192, 4) and actual.candidates is None
    assert actual.table.tolist() == [[0, 8], [64, 8], [128, 8]]
    assert (actual.pixels[64:128].cpu() == torch.tensor([7, 7, 7, 255], dtype=torch.uint8)).all()
    assert torch.equal(actual.pixels[128:].cpu(), read_view(views[1])[0])
    weight = np.zeros((8, 8), np.uint8)
    weight[2, 3] = 9
    masked = View("masked", views[0].camera, lambda: Pixels(np.full((8, 8, 3), 7, np.uint8), None, weight))
    actual = DeviceImages.read([opaque, masked], device)
    assert actual.pixels.shape == (128, 3) and actual.candidates is not None
    assert actual.candidates.tolist() == [*range(64), 64 + 19]
    field = SmallRadianceField(CONFIG).to(device)
    field.begin([masked], device)
    assert field.rays.background is not None  # nothing is transparent
    assert (
        field.draw_batch(torch.Generator(device).manual_seed(0)).pixels[: int(field.march.live)] == 19
    ).all()


def test_boxes():
    assert box_of(ring(8)) == BLENDER_BOX
    eyes = [(10 + 8 * math.cos(k), 8 * math.sin(k), 1) for k in range(5)]
    far = [View("", Camera.look_at(eye, (10, 0, 1)), lambda: Pixels(np.zeros((1, 1, 3)))) for eye in eyes]
    box = torch.tensor(box_of(far)).view(2, 3)
    torch.testing.assert_close(box.mean(0), torch.tensor([10.0, 0, 1]), rtol=0, atol=1e-3)
    assert abs((box[1] - box[0]).max() - 16 * 1.5 / 4.0311) < 0.01
    xyz = np.random.default_rng(0).uniform(0, 2, (1000, 3)).astype(np.float32)
    box = torch.tensor(box_of(far, Points(xyz, np.zeros((1000, 3), np.uint8)))).view(2, 3)
    assert ((box[0] + 0.1).abs() < 0.06).all() and ((box[1] - 2.1).abs() < 0.06).all()


def test_what_is_refused():
    field = SmallRadianceField(CONFIG)
    cpu = torch.device("cpu")
    with pytest.raises(LuxelError, match="has no images"):
        field.evaluate()
    with pytest.raises(LuxelError, match="needs images"):
        field.begin([], cpu)
    views = ring(1, 8)
    with pytest.raises(LuxelError, match="is empty"):
        field.begin(PosedImages(views, box=(0, 0, 0, 1, 0, 1)), cpu)
    wrong = View("wrong", views[0].camera, lambda: Pixels(np.zeros((8, 9, 3), np.uint8)))
    with pytest.raises(LuxelError, match=r"wrong: rgb is uint8 \[8, 9, 3\]"):
        field.begin([wrong], cpu)


def test_names_of_tensors_in_files_stay() -> None:
    config = RadianceConfig(field="radiance", hidden=1, log2_entries=8, finest=64, batch=64)
    field, again = (SmallRadianceField(config) for _ in range(2))
    with torch.no_grad():
        field.march.live.fill_(7)
        field.march.occupancy.densities.fill_(0.5)
    state = field.state_dict()
    assert list(state) == [
        "box",
        "live",
        "density.encoding.table",
        "density.network.weights",
        "colour.weights",
        "occupancy.densities",
        "occupancy.bits",
    ]
    again.load_state_dict(dict(state))
    assert int(again.march.live) == 7 and float(again.march.occupancy.densities[0]) == 0.5
    del state["box"]
    with pytest.raises(RuntimeError, match="box"):
        again.load_state_dict(state)
