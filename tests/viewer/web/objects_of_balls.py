"""Two balls as a run with objects, for tests of the page."""

from __future__ import annotations

from pathlib import Path

import torch

from luxel.render.geometry.camera import Camera
from luxel.render.primitives import Gaussians
from luxel.render.segment.objects import Objects, save_objects, scene_digest
from luxel.viewer.web.navigate import Pose

POSE = Pose.of_camera(Camera.look_at((0.0, -5.0, 0.0), (0, 0, 0), fov_y=0.8, width=320, height=240))
LEFT, RIGHT, OUTSIDE = (0.36, 0.5), (0.64, 0.5), (0.5, 0.05)  # of the image, from its upper left corner


def two_balls() -> Gaussians:
    """200 red Gaussians left of the middle, then 200 green ones right of it."""
    generator = torch.Generator().manual_seed(0)
    offsets = torch.nn.functional.normalize(torch.randn(400, 3, generator=generator), dim=1) * 0.5
    means = offsets + torch.tensor([[-1.0, 0, 0]] * 200 + [[1.0, 0, 0]] * 200)
    colours = torch.tensor([[0.9, 0.1, 0.1]] * 200 + [[0.1, 0.9, 0.1]] * 200)
    return Gaussians(
        means,
        torch.tensor([[1.0, 0, 0, 0]]).repeat(400, 1),
        torch.full((400, 3), -2.2),
        torch.full((400,), 3.0),
        (colours - 0.5) / 0.28209479,
        torch.zeros(400, 0, 3),
    )


def with_objects(folder: Path, scene: Gaussians | None = None, *names: str) -> None:
    """Makes the right ball an object of a run, and the left one too where there are two names."""
    names = names or ("green ball",)
    labels = torch.zeros(400, dtype=torch.uint8)
    labels[200:] = 1
    if len(names) > 1:
        labels[:200] = 2
    objects = Objects(scene_digest(two_balls() if scene is None else scene), labels)
    for name in names:
        objects.add(name)
    save_objects(folder, objects)
