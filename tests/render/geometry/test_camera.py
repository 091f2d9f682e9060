"""The conventions that render/geometry/camera.py states."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from luxel.render.geometry.camera import Camera, View, poses_of


def project(camera: Camera, point) -> tuple[torch.Tensor, float]:
    """Pixel position and z of a world point."""
    x, y, z = camera.world_to_cam[:3, :3] @ torch.tensor(point) + camera.world_to_cam[:3, 3]
    fx, fy, cx, cy = camera.intrinsics
    return torch.stack([fx * x / z + cx, fy * y / z + cy]), z.item()


def test_look_at_puts_the_target_in_the_centre_and_up_above():
    camera = Camera.look_at((1.0, -5.0, 2.0), (1.0, 0.0, 2.0), width=80, height=60)
    pixel, z = project(camera, [1.0, 0.0, 2.0])
    torch.testing.assert_close(pixel, torch.tensor([40.0, 30.0]))
    assert z == pytest.approx(5)
    assert project(camera, [1.0, 0.0, 2.5])[0][1] < 30  # y points down
    assert project(camera, [1.5, 0.0, 2.0])[0][0] > 40  # x points right, seen along +y with z up


def test_field_of_view_spans_the_height():
    camera = Camera.look_at((0, -2, 0), (0, 0, 0), fov_y=math.radians(90), width=30, height=20)
    torch.testing.assert_close(
        project(camera, [0.0, 0.0, 2.0])[0], torch.tensor([15.0, 0.0]), atol=1e-4, rtol=0
    )


def test_position_and_inverse():
    cameras = [Camera.look_at((1, 2, 3), (0, 0, 0)), Camera.look_at((-4, 0, 1), (0, 1, 0))]
    torch.testing.assert_close(cameras[0].position, torch.tensor([1.0, 2, 3]))
    batch = Camera.stack(cameras)
    assert batch.batched and not cameras[0].batched
    torch.testing.assert_close(batch.position, torch.tensor([[1.0, 2, 3], [-4, 0, 1]]), atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(
        batch.cam_to_world @ batch.world_to_cam, torch.eye(4).expand(2, 4, 4), atol=1e-6, rtol=0
    )


def test_resizing_moves_a_point_with_its_image():
    camera = Camera.look_at((1, -5, 2), (0, 0, 0), width=80, height=60)
    camera = replace(camera, intrinsics=camera.intrinsics + torch.tensor([3.0, -2.0, 5.0, 1.0]))
    small = camera.resized(40, 15)
    pixel, _ = project(camera, [0.3, 0.2, 0.1])
    torch.testing.assert_close(project(small, [0.3, 0.2, 0.1])[0], pixel * torch.tensor([0.5, 0.25]))
    assert (camera.scaled(0.5).width, camera.scaled(0.5).height) == (40, 30)
    assert (camera.scaled(1e-6).width, camera.scaled(1e-6).height) == (1, 1)


def test_a_part_of_an_image_has_its_points_nearer_to_the_corner():
    camera = Camera.look_at((1, -5, 2), (0, 0, 0), width=80, height=60)
    part = camera.cropped(30, 10, 25, 20)
    pixel, _ = project(camera, [0.3, 0.2, 0.1])
    torch.testing.assert_close(project(part, [0.3, 0.2, 0.1])[0], pixel - torch.tensor([30.0, 10.0]))
    assert (part.width, part.height) == (25, 20)
    with pytest.raises(ValueError, match="global shutter, got a rolling one"):
        replace(camera, shutter=torch.zeros(8)).cropped(0, 0, 10, 10)


def test_to_changes_both_tensors():
    camera = Camera.look_at((1, 2, 3), (0, 0, 0)).to(torch.float64)
    assert camera.world_to_cam.dtype == camera.intrinsics.dtype == torch.float64


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"world_to_cam": torch.eye(3)}, "world_to_cam"),
        ({"intrinsics": torch.ones(3)}, "intrinsics"),
        ({"world_to_cam": torch.eye(4).repeat(2, 1, 1)}, "intrinsics"),
        ({"width": 0}, "width and height must be at least 1, got 0x3"),
        ({"height": -1}, "width and height must be at least 1, got 4x-1"),
    ],
)
def test_wrong_shapes_are_refused_by_name(change, words):
    good = {"world_to_cam": torch.eye(4), "intrinsics": torch.ones(4), "width": 4, "height": 3}
    Camera(**good)
    with pytest.raises(ValueError, match=words):
        Camera(**{**good, **change})


def test_stack_wants_one_size():
    with pytest.raises(ValueError, match="one image size"):
        Camera.stack(
            [Camera.look_at((1, 0, 0), (0, 0, 0), width=4), Camera.look_at((1, 0, 0), (0, 0, 0), width=5)]
        )
    with pytest.raises(ValueError, match="at least one"):
        Camera.stack([])


@pytest.mark.parametrize("target", [(1.0, 2.0, 3.0), (1.0, 2.0, 9.0)])
def test_look_at_nowhere_or_along_up_is_refused(target):
    with pytest.raises(ValueError, match="target must differ from eye"):
        Camera.look_at((1.0, 2.0, 3.0), target)


def test_poses_of_views():
    cameras = [Camera.look_at((1, 2, 3), (0, 0, 0)), Camera.look_at((-4, 0, 1), (0, 1, 0))]
    poses = poses_of([View("", camera, lambda: None) for camera in cameras])  # type: ignore[arg-type, return-value]
    assert poses.dtype == "float64" and poses_of([]).shape == (0, 4, 4)
    for pose, camera in zip(poses, cameras, strict=True):
        torch.testing.assert_close(torch.tensor(pose).float(), camera.cam_to_world, rtol=0, atol=1e-6)
