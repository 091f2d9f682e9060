"""The visual hull of images with alpha, its box, and cells that stay empty outside of it."""

from __future__ import annotations

from dataclasses import replace

import torch
from test_radiance import CONFIG, SmallRadianceField, ring

from luxel.render.fields.capture.posed_images import BLENDER_BOX, Box, DeviceImages, PosedImages, box_of
from luxel.render.fields.capture.silhouettes import hull_cells, in_hull, silhouette_box
from luxel.render.geometry.camera import Camera, Pixels, View

CPU = torch.device("cpu")


def ball(radius: float, centre: tuple[float, float, float] = (0.0, 0.0, 0.0), size: int = 40) -> list[View]:
    """White images of a ball from 12 directions, with its outline as alpha."""
    views = []
    middle = torch.tensor(centre)
    for k, direction in enumerate(
        torch.nn.functional.normalize(torch.randn(12, 3, generator=torch.manual_seed(3)))
    ):
        camera = Camera.look_at(
            tuple((4.0 * direction).tolist()), (0, 0, 0), width=size, height=size, fov_y=0.7
        )
        pose, (fx, fy, cx, cy) = camera.world_to_cam, camera.intrinsics
        row, column = torch.meshgrid(torch.arange(size) + 0.5, torch.arange(size) + 0.5, indexing="ij")
        ray = torch.stack([(column - cx) / fx, (row - cy) / fy, torch.ones(size, size)], -1)
        ray = torch.nn.functional.normalize(ray, dim=-1)
        local = pose[:3, :3] @ middle + pose[:3, 3]
        away = (local - (ray @ local)[..., None] * ray).norm(dim=-1)
        alpha = (255 * (away < radius)).to(torch.uint8).numpy()
        white = torch.full((size, size, 3), 255, dtype=torch.uint8).numpy()
        views.append(View(f"{k}", camera, lambda alpha=alpha, white=white: Pixels(white, alpha)))
    return views


def searched(views: list[View]) -> tuple[Box, DeviceImages, list[Camera]]:
    """The box, and what it was found by."""
    images, cameras = DeviceImages.read(views, CPU), [view.camera for view in views]
    return silhouette_box(images, cameras, box_of(views)), images, cameras


def test_points_of_an_object_are_in_its_hull() -> None:
    _, images, cameras = searched(ball(0.4))
    points = torch.randn(2000, 3, generator=torch.Generator().manual_seed(1))
    inside, observed = in_hull(points, 0.0, images, cameras)
    away = points.norm(dim=1)
    assert inside[away < 0.4].all() and not inside[(away > 0.7) & (observed >= 10)].any()
    larger, _ = in_hull(points, 0.2, images, cameras)
    assert larger[away < 0.6].all() and larger.sum() > inside.sum()
    behind = torch.tensor([[0.0, 0.0, 40.0]])  # of no camera, as far as it knows
    assert in_hull(behind, 0.0, images, cameras[:1] * 12)[1] <= 12


def test_the_box_holds_the_object_whatever_its_size_and_position() -> None:
    for radius, centre in ((0.2, (0.0, 0.0, 0.0)), (0.3, (0.5, -0.3, 0.2)), (0.9, (0.0, 0.0, 0.0))):
        box, *_ = searched(ball(radius, centre))
        low, high = torch.tensor(box[:3]), torch.tensor(box[3:])
        middle = torch.tensor(centre)
        assert (low < middle - radius).all() and (high > middle + radius).all(), (box, radius)
        side = float((high - low).max())
        assert side < 2.7 * radius + 0.8 and float((high - low).min()) > side - 1e-5


def test_images_without_an_outline_retain_the_box_of_the_cameras() -> None:
    assert searched(ball(0.0))[0] == box_of(ball(0.0))


def test_cells_outside_stay_empty_and_those_of_the_object_can_be_occupied() -> None:
    field = SmallRadianceField(replace(CONFIG, exposure="none"))
    field.begin(ball(0.4), CPU)
    allowed = field.march.occupancy.observed
    assert allowed is not None
    box = torch.tensor(field.region.box)
    g = field.cells
    along = (torch.arange(g) + 0.5) / g
    z, y, x = torch.meshgrid(along, along, along, indexing="ij")
    away = (box[:3] + (box[3:] - box[:3]) * torch.stack([x, y, z], -1)).norm(dim=-1)
    assert allowed[0][away < 0.4].all() and allowed.float().mean() < 0.9
    assert torch.equal(hull_cells(field.region, field.rays.images, field.rays.cameras), allowed)
    field.march.update(0, lambda p: torch.full((len(p),), 1e3))
    assert torch.equal(field.march.occupancy.occupied(), allowed[0])


def test_a_box_that_is_given_stays() -> None:
    field = SmallRadianceField(replace(CONFIG, exposure="none"))
    field.begin(PosedImages(ring(6), box=BLENDER_BOX), CPU)
    assert field.region.box == BLENDER_BOX
