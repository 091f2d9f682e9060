"""Points of a plane sweep lie on the surfaces of a scene whose depth is known exactly."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from luxel.render.geometry.camera import Camera, Pixels
from luxel.scenes import static_scene
from luxel.scenes.captures.initial_points.plane_sweep import ON_CPU, neighbours_by_parallax, sweep

VIEWS, WIDTH, HEIGHT = 12, 72, 54
CPU = torch.device("cpu")


class Rendered:
    """Views around a made scene, as posed images, and the depth of each, [H, W], 0 where there is nothing."""

    def __init__(self) -> None:
        scene, self.posed, self.depth = static_scene(0), [], []
        for turn in np.linspace(0, 2 * math.pi, VIEWS, endpoint=False):
            eye = (3 * math.cos(turn), 3 * math.sin(turn), 1.2)
            camera = Camera.look_at(eye, (0, 0, 0), width=WIDTH, height=HEIGHT)
            view = scene.render(camera, samples=2)
            rgb = (np.asarray(view.rgb) * 255).clip(0, 255).astype(np.uint8)
            alpha = (np.asarray(view.alpha) * 255).astype(np.uint8)
            self.posed.append((camera, Reader(Pixels(rgb, alpha=alpha))))
            self.depth.append(np.asarray(view.depth))


class Reader:
    """Gives pixels that are there."""

    def __init__(self, pixels: Pixels) -> None:
        self.pixels = pixels

    def __call__(self) -> Pixels:
        return self.pixels


@pytest.fixture(scope="module")
def rendered() -> Rendered:
    return Rendered()


def on_surfaces(xyz: np.ndarray, rendered: Rendered) -> tuple[float, float]:
    """Share of points [P, 3] that at least two views show within 4 %, and share in front of the surface of a view."""
    shown, before = np.zeros(len(xyz), int), np.zeros(len(xyz), bool)
    for (camera, _), depth in zip(rendered.posed, rendered.depth, strict=True):
        x, y, z = (xyz @ camera.world_to_cam[:3, :3].numpy().T + camera.world_to_cam[:3, 3].numpy()).T
        fx, fy, cx, cy = camera.intrinsics.tolist()
        column, row = (fx * x / z + cx).astype(int), (fy * y / z + cy).astype(int)
        inside = (column >= 0) & (column < WIDTH) & (row >= 0) & (row < HEIGHT)
        stored = np.zeros(len(xyz))
        stored[inside] = depth[row[inside], column[inside]]
        ratio = z / np.where(stored > 0, stored, np.nan)
        shown += np.abs(ratio - 1) < 0.04
        before |= ratio < 0.9
    return float((shown >= 2).mean()), float(before.mean())


def test_points_are_on_the_surfaces(rendered: Rendered) -> None:
    points = sweep(rendered.posed, CPU)
    assert len(points.xyz) > 2000 and points.xyz.dtype == np.float32 and points.rgb.dtype == np.uint8
    shown, before = on_surfaces(points.xyz, rendered)
    assert shown > 0.93 and before < 0.1
    again = sweep(rendered.posed, CPU, replace(ON_CPU, count=700))
    assert len(again.xyz) == len(again.rgb) == 700


def test_exposure_does_not_matter(rendered: Rendered) -> None:
    darker = [
        (camera, Reader(replace(reader(), rgb=(reader().rgb * (0.5 + 0.5 * (index % 2))).astype(np.uint8))))
        for index, (camera, reader) in enumerate(rendered.posed)
    ]
    points = sweep(darker, CPU)
    assert len(points.xyz) > 1500 and on_surfaces(points.xyz, rendered)[0] > 0.9


def test_images_of_two_sizes(rendered: Rendered) -> None:
    mixed = [
        (camera.resized(36, 27), Reader(Pixels(reader().rgb[::2, ::2], alpha=reader().alpha[::2, ::2])))
        if index % 2
        else (camera, reader)
        for index, (camera, reader) in enumerate(rendered.posed)
    ]
    assert on_surfaces(sweep(mixed, CPU).xyz, rendered)[0] > 0.75


def test_nothing_is_found_without_parallax_or_texture(rendered: Rendered) -> None:
    camera, reader = rendered.posed[0]
    assert len(sweep([(camera, reader)] * 4, CPU).xyz) == 0
    flat = Reader(Pixels(np.full((HEIGHT, WIDTH, 3), 90, np.uint8)))
    assert len(sweep([(camera, flat) for camera, _ in rendered.posed], CPU).xyz) == 0


def test_neighbours_look_the_same_way_from_elsewhere() -> None:
    eyes = [(3.0, 0, 0), (3.0, 0, 0), (3.0, 0.5, 0), (-3.0, 0, 0), (3.0, -1.0, 0)]
    poses = np.stack(
        [Camera.look_at(eye, (0, 0, 0), width=8, height=8).cam_to_world.double().numpy() for eye in eyes]
    )
    assert [set(row) for row in neighbours_by_parallax(poses, 4)] == [
        {2, 4},
        {2, 4},
        {0, 1, 4},
        set(),
        {0, 1, 2},
    ]
    assert neighbours_by_parallax(poses, 1)[2] in ([0], [1])
