"""A made-up scene of solids as Gaussians on their surfaces, and a segmenter made from its true ids."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from luxel.render.geometry.camera import Pixels, View
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.primitives.parameters import SH_C0
from luxel.render.segment import Box, MaskChoice, Point
from luxel.scenes.synthetic.captures.dnerf import hemisphere_camera
from luxel.scenes.synthetic.id_segmenter import IdSegmenter, image_key
from luxel.scenes.synthetic.solids.motions import Still
from luxel.scenes.synthetic.solids.solid_scene import Solid, SolidScene, Texture
from luxel.scenes.synthetic.solids.solids import Box as Cuboid
from luxel.scenes.synthetic.solids.solids import Capsule, Cylinder, sphere

INSET = 0.03


@dataclass
class MadeUpScene:
    """Gaussians with the solid that each is on, views around them, and their true label maps."""

    gaussians: Gaussians
    solids: Tensor
    views: list[View]
    ids: dict[str, Tensor]
    count: int

    def segmenter(self, noise: float = 0.0, blind: set[int] | None = None) -> BlindSegmenter:
        """A segmenter of these views."""
        known = {image_key(view.read().rgb): self.ids[view.name].numpy() for view in self.views}
        return BlindSegmenter(known, noise, blind or set())

    def click(self, label: int, name: str) -> tuple[float, float]:
        """A pixel of a solid in a view, see `middle`."""
        return middle(self.ids[name] == label)


def middle(mask: Tensor) -> tuple[float, float]:
    """The pixel of a mask that is nearest to the mean of its pixels, x and y."""
    pixels = mask.nonzero().float()
    y, x = pixels[(pixels - pixels.mean(0)).square().sum(1).argmin()].tolist()
    return x + 0.5, y + 0.5


def three_solids() -> SolidScene:
    """A ball, a box and a capsule on a platform."""
    parts = [
        ("platform", Cylinder(0.95, 0.08), (0.0, 0.0, -0.4)),
        ("ball", sphere(0.33), (0.5, 0.0, 0.01)),
        ("box", Cuboid((0.25, 0.25, 0.3)), (-0.35, 0.45, -0.02)),
        ("capsule", Capsule(0.24, 0.2), (-0.3, -0.45, 0.12)),
    ]
    return SolidScene(
        [
            Solid(name, shape, Texture(index, index / 4), Still(place))
            for index, (name, shape, place) in enumerate(parts)
        ]
    )


def made_up(points: int = 12000, views: int = 10, side: int = 80) -> MadeUpScene:
    """Gaussians at random points of the surfaces, without training."""
    scene = three_solids()
    cloud, ids = scene.sample_points(points)
    n = len(ids)
    centres = np.array([solid.motion(0.0)[:3, 3] for solid in scene.solids])[ids - 1]
    inward = centres - cloud.xyz  # as far as a splat reaches beyond its centre
    means = cloud.xyz + INSET * inward / np.linalg.norm(inward, axis=1, keepdims=True)
    gaussians = Gaussians(
        means=torch.from_numpy(means).float(),
        quats=torch.tensor([1.0, 0, 0, 0]).repeat(n, 1),
        log_scales=torch.full((n, 3), math.log(0.008)),
        opacity_logits=torch.full((n,), 3.0),
        sh_dc=(torch.from_numpy(cloud.rgb).float() / 255 - 0.5) / SH_C0,
        sh_rest=torch.zeros(n, 0, 3),
    )
    images, truth = [], {}
    for index in range(views):
        camera = hemisphere_camera(2 * math.pi * index / views, 0.7, radius=3.4, width=side, height=side)
        rendered = scene.render(camera, samples=1)
        name = f"r_{index:03d}"
        rgb = (rendered.rgb * 255).round().astype(np.uint8)
        images.append(View(name, camera, lambda rgb=rgb: Pixels(rgb)))
        truth[name] = torch.from_numpy(rendered.ids)
    return MadeUpScene(gaussians, torch.from_numpy(ids), images, truth, 5)


class BlindSegmenter(IdSegmenter):
    """Takes some solids for the whole image, in all images but the first one."""

    def __init__(self, known: Mapping[str, np.ndarray], noise: float, blind: set[int]) -> None:
        super().__init__(known, noise)
        self.blind, self.embedded = blind, 0

    def embed(self, image: np.ndarray) -> Tensor:
        self.embedded += 1
        return super().embed(image)

    def masks(self, embedding: Any, points: Sequence[Point], box: Box | None = None) -> MaskChoice:
        choice = super().masks(embedding, points, box)
        if self.embedded > 1 and self._label(embedding, points, box) in self.blind:
            choice.masks[:] = True
        return choice
