"""Radiance fields of full scenes: what a capture chooses and gains, what files keep, what is refused."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch

from luxel.render.errors import LuxelError
from luxel.render.fields.application import make_application
from luxel.render.fields.capture.extent import cascades_of, finest_of, inner_box, nearest
from luxel.render.fields.capture.occupancy import Occupancy, observed_cells
from luxel.render.fields.capture.posed_images import PosedImages
from luxel.render.fields.files import load_field, save_field
from luxel.render.fields.radiance import RadianceConfig, RadianceField
from luxel.render.fields.training.optimizer import FieldOptimizer
from luxel.render.geometry.camera import Camera, Pixels, Points, View
from luxel.render.ops.field.march_rays import Region
from luxel.render.reference.field.march_rays import pixel_rays_reference

CONFIG = RadianceConfig(
    field="radiance", hidden=1, width=16, log2_entries=12, finest=64, batch=1 << 11, seed=3, sparse=True,
    weight_decay=0.0, marched=2, growth=1 / 24, hashing="blocks",
)  # fmt: skip


class SmallField(RadianceField):
    cells: ClassVar[int] = 16
    diagonal_samples: ClassVar[int] = 96


def place(camera: Camera) -> np.ndarray:
    """A ball before a room of six coloured, striped walls at a distance of 6, under no light, uint8 [H, W, 3]."""
    count = camera.width * camera.height
    views = torch.tensor([[0, camera.width]])
    lens = camera.world_to_cam[None], camera.intrinsics[None]
    origins, directions = pixel_rays_reference(torch.arange(count), views, *lens)
    walls = (6 * directions.sign() - origins) / directions
    t = walls.amin(-1)
    b = (directions * origins).sum(-1)
    root = b * b - (origins * origins).sum(-1) + 0.64
    ball = torch.where(root > 0, -b - root.clamp_min(0).sqrt(), torch.inf)
    hit = (ball > 0) & (ball < t)
    points = origins + torch.where(hit, ball, t)[:, None] * directions
    colours = 0.5 + 0.4 * torch.sin(0.9 * points + torch.tensor([0.0, 1, 2]))
    colours[hit] = 0.5 + 0.45 * torch.sin(4 * points[hit] + torch.tensor([2.0, 0, 1]))
    return (255 * colours).round().to(torch.uint8).view(camera.height, camera.width, 3).numpy()


def walk(count: int, size: int = 24, start: float = 0.0) -> list[View]:
    views = []
    for k in range(count):
        turn = start + 2 * math.pi * k / count
        eye = (3 * math.cos(turn), 3 * math.sin(turn), (0.4, 1.3, -0.8)[k % 3])
        camera = Camera.look_at(eye, (0, 0, 0), width=size, height=size, fov_y=math.radians(70))
        image = place(camera)
        views.append(View(f"{k}", camera, lambda i=image: Pixels(i)))
    return views


def points_of_place() -> Points:
    random = np.random.default_rng(0)
    ball = random.normal(size=(850, 3))
    ball *= 0.8 / np.linalg.norm(ball, axis=1, keepdims=True)
    walls = random.uniform(-6, 6, (150, 3))
    walls[np.arange(150), random.integers(0, 3, 150)] = 6.0
    return Points(np.concatenate([ball, walls]).astype(np.float32), np.zeros((1000, 3), np.uint8))


def trained(config: RadianceConfig, data: PosedImages, steps: int, device: torch.device) -> SmallField:
    field = SmallField(config).to(device)
    field.begin(data, device)
    optimizer = FieldOptimizer(field)
    for step in range(steps):
        optimizer.step(step)
    return field


@pytest.mark.slow
def test_a_whole_place_gains_over_a_box(device):
    """Held-out views of a ball in a room, whose walls are outside of the box that most of the points give."""
    data = PosedImages(walk(14), walk(3, start=0.2), points_of_place())
    scores = {}
    for extent in ("box", "contracted", "cascades"):
        growth = None if extent == "box" else CONFIG.growth
        config = RadianceField.adapt_config(replace(CONFIG, extent=extent, growth=growth), data)
        box = (-1.5, -1.5, -1.5, 1.5, 1.5, 1.5) if extent == "box" else None
        field = trained(config, replace(data, box=box), 210, device)
        scores[extent] = field.evaluate()["psnr"]
        if extent == "box":
            continue
        assert field.config.cascades is not None
        assert field.march.occupancy.bits.numel() == field.config.cascades * 16**3 // 8
        image, alpha, _ = field.layers(data.held_out[0].camera.to(device))
        assert image.isfinite().all() and alpha.min() >= 0
    assert scores["contracted"] > scores["box"] + 3 and scores["cascades"] > scores["box"] + 3, scores


def expected_finest(config: RadianceConfig, views: list[View], points: Points | None) -> int:
    """Points along the place whose distance is a pixel at the median depth, within 256 and 2^17."""
    sizes = []
    low, *_, high = np.asarray(inner_box(views, points, config.extent == "contracted")).reshape(2, 3)
    for view in views:
        pose, focal = view.camera.world_to_cam.double().numpy(), float(view.camera.intrinsics[0])
        if points is None:
            local = pose[:3, :3] @ (low + high) / 2 + pose[:3, 3]
            sizes.append(np.linalg.norm(local) / focal)
            continue
        local = points.xyz @ pose[:3, :3].T + pose[:3, 3]
        pixels = local[:, :2] / local[:, 2:] * focal + view.camera.intrinsics[2:].numpy()
        sides = view.camera.width, view.camera.height
        seen = (local[:, 2] > 0) & ((pixels >= 0) & (pixels <= sides)).all(1)
        sizes.extend(local[seen, 2] / focal)
    boxes = 2 if config.extent == "contracted" else 2 ** (config.cascades - 1)
    return round(min(max(boxes * (high - low).max() / np.median(sizes), 256), 1 << 17))


def test_what_a_capture_chooses():
    views, points = walk(4, 8), points_of_place()
    chosen = RadianceField.adapt_config(
        replace(CONFIG, extent="contracted", log2_entries=None, growth=None),
        PosedImages(views, points=points),
    )
    assert isinstance(chosen, RadianceConfig)
    assert (chosen.extent, chosen.cascades, chosen.sky, chosen.log2_entries) == ("contracted", 3, True, 19)
    assert (chosen.growth, chosen.finest) == (1 / 256, 64)
    assert (chosen.distortion, chosen.distortion_final) == (0.01, 3e-4)
    given = replace(CONFIG, extent="contracted", distortion=1e-3)
    assert RadianceField.adapt_config(given, PosedImages(views, points=points)).distortion_final is None
    open_options = replace(CONFIG, finest=None, growth=None)
    for size, points_given in itertools.product((8, 80), (points, None)):
        for extent in ("auto", "cascades", "contracted"):
            given = walk(4, size)
            chosen = RadianceField.adapt_config(
                replace(open_options, extent=extent), PosedImages(given, points=points_given)
            )
            assert isinstance(chosen, RadianceConfig) and (extent != "auto" or chosen.extent == "cascades")
            assert chosen.finest == expected_finest(chosen, given, points_given)
            assert finest_of(chosen, walk(4, 16 * size), points_given) > chosen.finest
    kept = RadianceField.adapt_config(
        replace(CONFIG, extent="cascades", cascades=3, growth=0.0, sky=False), views
    )
    assert isinstance(kept, RadianceConfig)
    assert (kept.extent, kept.cascades, kept.growth, kept.sky) == ("cascades", 3, 0.0, False)
    boxed = RadianceField.adapt_config(replace(CONFIG, extent="box", growth=None), views)
    assert boxed == replace(CONFIG, extent="box", growth=None)
    rgba = [
        View(v.name, v.camera, lambda v=v: Pixels(v.read().rgb, np.full((8, 8), 255, np.uint8)))
        for v in views
    ]
    cut_out = RadianceField.adapt_config(replace(CONFIG, finest=None, growth=None), rgba)
    of_object = {"huber": 0.3, "distortion": 0.003, "warm_up": min(500, CONFIG.steps // 20)}
    assert cut_out == replace(CONFIG, extent="box", finest=2048, growth=None, **of_object)
    own = {"huber": 1.0, "distortion": 0.0, "warm_up": 3}
    assert RadianceField.adapt_config(replace(CONFIG, growth=None, **own), rgba) == replace(
        CONFIG, extent="box", growth=None, **own
    )
    assert RadianceField.adapt_config(CONFIG, []) == CONFIG


def test_boxes_around_a_place():
    points = points_of_place()
    box = np.asarray(inner_box(walk(4, 8), points)).reshape(2, 3)
    assert (np.abs(box.mean(0)) < 0.1).all() and 0.5 < box[1, 0] < 1.5
    around = np.asarray(inner_box(walk(4, 8), points, contracted=True)).reshape(2, 3)
    eyes = np.stack([view.camera.position.numpy() for view in walk(4, 8)])
    assert (around[0] < eyes).all() and (eyes < around[1]).all()
    far = Points(np.concatenate([points.xyz, 1e4 * points.xyz[-20:]]), np.zeros((1020, 3), np.uint8))
    assert cascades_of(walk(4, 8), far) == 9 and cascades_of(walk(4, 8), points) == 5
    assert cascades_of(walk(4, 8)) == 5 and inner_box(walk(4, 8))[0] < 0
    one = Points(np.zeros((3, 3), np.float32), np.zeros((3, 3), np.uint8))
    assert inner_box(walk(4, 8), one)[3] > inner_box(walk(4, 8), one)[0]


def test_where_training_rays_begin():
    views, points = walk(4, 8), points_of_place()
    near = nearest(views, points, 2.0)
    assert 0.2 < near < 1.1  # cameras are 3 from the middle, points at least 2.2
    assert (
        nearest(views, None, 2.0)
        == nearest(views, Points(np.full((3, 3), 1e3, np.float32), np.zeros((3, 3), np.uint8)), 2.0)
        == 0.1
    )
    field = SmallField(
        RadianceField.adapt_config(replace(CONFIG, extent="cascades"), PosedImages(views, points=points))
    )
    field.begin(PosedImages(views, points=points), torch.device("cpu"))
    raw = field.march.samples(field.draw_batch(torch.Generator().manual_seed(0)), field.rays.images)
    assert raw.t[raw.t > 0].min() >= near
    alone = SmallField(field.config)
    alone.begin(PosedImages(views[:1], points=points), torch.device("cpu"))
    assert alone.march.occupancy.occupied().any()  # cells of a single view are seen by one camera only


def test_cells_that_cameras_see():
    """All cells whose centres two cameras see are among them; those behind every camera are not."""
    cameras = [view.camera for view in walk(3, 8)]
    region = Region.of_box((-1, -1, -1, 1, 1, 1), diagonal_samples=96, near=0.5, resolution=32)._replace(
        cascades=4
    )
    seen = {fewest: observed_cells(region, cameras, fewest, torch.device("cpu")) for fewest in (1, 2, 4)}
    axis = (torch.arange(32) + 0.5) / 16 - 1
    z, y, x = torch.meshgrid(axis, axis, axis, indexing="ij")
    for k in range(4):
        count = torch.zeros(32, 32, 32)
        for camera in cameras:
            local = (
                2**k * torch.stack([x, y, z], -1) @ camera.world_to_cam[:3, :3].T + camera.world_to_cam[:3, 3]
            )
            fx, fy, cx, cy = camera.intrinsics.tolist()
            u, v, depth = (
                fx * local[..., 0] / local[..., 2] + cx,
                fy * local[..., 1] / local[..., 2] + cy,
                local[..., 2],
            )
            count += (depth > 0.5) & (u > 0) & (u < 8) & (v > 0) & (v < 8)
        for fewest, cells in seen.items():
            assert cells[k][count >= fewest].all() and (fewest < 4 or not cells.any())
    assert seen[2][0].any() and seen[2][3].float().mean() < 0.8 and (seen[1] | ~seen[2]).all()
    occupancy = Occupancy(32, 4)
    occupancy.restrict(seen[2])
    assert torch.equal(occupancy.occupied(), seen[2])
    occupancy.update(0, lambda p: torch.full((len(p),), 50.0))
    assert not (occupancy.occupied() & ~seen[2]).any()


def test_occupancy_of_cascades():
    occupancy = Occupancy(16, 3)
    for step in (0, 300):
        occupancy.update(step, lambda p: 100.0 * ((p - 0.5).norm(dim=-1) > 0.8))
    axis = (torch.arange(16) + 0.5) / 16 - 0.5
    z, y, x = torch.meshgrid(axis, axis, axis, indexing="ij")
    distance = (x * x + y * y + z * z).sqrt()
    for k, grid in enumerate(occupancy.occupied()):
        reach = distance * 2**k
        cell = 2**k / 16
        assert grid[reach > 0.8 + cell].all() and not grid[reach < 0.8 - cell].any()
    thin = Occupancy(16, 3)
    thin.densities.view(3, -1)[:, ::2] = 2.0
    thin.densities.view(3, -1)[:, 1::2] = 30.0
    thin.refresh()
    assert [float(grid.float().mean()) for grid in thin.occupied()] == [0.5, 0.5, 0.5]
    thin.refresh(alone=True)  # thresholds are 5.9, 3.0 and 1.5: steps are longer farther out
    assert [float(grid.float().mean()) for grid in thin.occupied()] == [0.5, 0.5, 1.0]


def test_it_is_kept_in_files(tmp_path: Path, device):
    data = PosedImages(walk(3, 8), points=points_of_place())
    config = RadianceField.adapt_config(replace(CONFIG, extent="contracted"), data)
    field = make_application(config).to(device)
    assert isinstance(field, RadianceField) and field.sky is not None
    field.begin(data, device)
    save_field(tmp_path / "field.safetensors", field)
    again = load_field(tmp_path / "field.safetensors", device)
    assert isinstance(again, RadianceField)
    assert again.config == config and again.region == field.region and again.region.cascades == 3
    directions = torch.nn.functional.normalize(torch.ones(2, 3, device=device), dim=-1)
    assert again.sky is not None
    torch.testing.assert_close(again.sky(directions), field.sky(directions))


def test_what_is_refused():
    with pytest.raises(LuxelError, match="need extent contracted or cascades"):
        replace(CONFIG, extent="box", cascades=4).check()
    replace(CONFIG, extent="box", distortion=0.01, growth=None).check()
    view = walk(1, 8)[0]
    clear = View("", view.camera, lambda: Pixels(view.read().rgb, np.full((8, 8), 9, np.uint8)))
    field = SmallField(replace(CONFIG, extent="contracted", cascades=2, sky=True))
    with pytest.raises(LuxelError, match="behind transparent images"):
        field.begin([clear], torch.device("cpu"))
