"""The cases of `sanitize.py` of labels: votes in dense and sparse tables label images, alphas at points."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from functools import partial

import torch
from sanitize_convexes import convexes_that_hurt
from sanitize_gaussians4d import gaussians4d_that_hurt
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.ops.raster.label_votes import NO_LABEL
from luxel.render.ops.raster.probe import probe
from luxel.render.primitives.parameters import Parameters
from luxel.render.raster.rasterize import rasterize
from luxel.render.segment import Votes
from luxel.render.segment.label_image import label_image

TIME = 0.5


def maps_of(camera: Camera, labels: int) -> Tensor:
    """Columns two pixels wide of all labels and none, shifted from row to row, uint8 [.., H, W]."""
    cells = torch.arange(camera.width) // 2 + torch.arange(camera.height)[:, None] // 16
    maps = cells % (labels + 1)
    maps[maps == labels] = NO_LABEL
    return maps.to(torch.uint8).expand(*camera.world_to_cam.shape[:-2], -1, -1)


def votes(
    scene: Parameters, camera: Camera, labels: int, centre_rule: bool, device: torch.device
) -> dict[str, Tensor]:
    """Sums for each label, and what is seen; the second view of the same adds as much again. Which primitives find no
    room for further labels is a matter of order: then only what is seen."""
    table = Votes(scene.count, labels, device, centre_rule=centre_rule)
    for _ in range(2):
        table.add(scene.to(device), camera.to(device), maps_of(camera, labels), time=TIME)
    if table.over_capacity:
        return {"seen": table.seen}
    return {"weights": table.weights, "seen": table.seen, "top": table.leaders().top}


def image(scene: Parameters, camera: Camera, labels: int, device: torch.device) -> dict[str, Tensor]:
    """The weights of the leading labels; the labels themselves may differ where two are equal."""
    given = (torch.arange(scene.count) * 7 % (labels + 1)).to(torch.uint8)
    rendered = label_image(scene.to(device), camera.to(device), given, labels, TIME)
    return {"weights": rendered.weights, "transmittance": rendered.transmittance}


def alphas(scene: Parameters, camera: Camera, device: torch.device) -> dict[str, Tensor]:
    """Alpha of every visible primitive at two points of the image; rows of the others are not written."""
    frame = rasterize(scene.to(device), camera.to(device), time=TIME if scene.moves else None)
    assert frame.splats is not None
    rows, policy = frame.splats.reshape(-1, frame.splats.shape[-1]), str(scene.policy)
    visible = frame.tile_counts.reshape(-1) > 0
    points = ((33.5, 22.5), (0.5, 44.5))
    return {
        str(i): torch.where(visible, probe(rows, x, y, primitive=policy), 0).cpu()
        for i, (x, y) in enumerate(points)
    }


def label_cases(
    gaussians: Mapping[str, Parameters], cameras: Mapping[str, Camera]
) -> dict[str, Callable[[torch.device], dict[str, Tensor]]]:
    """Every case by name, as a function of the device.

    Args:
        gaussians: by name, on the CPU; convexes and 4D Gaussians join them.
        cameras: a camera or a batch, by name.
    """
    out: dict[str, Callable[[torch.device], dict[str, Tensor]]] = {}
    scenes = {f"Gaussians {name}": scene for name, scene in gaussians.items()}
    convexes, moving = convexes_that_hurt(), gaussians4d_that_hurt()
    scenes |= {
        f"convexes {name}": convexes[name] for name in ("of 5 points", "of 8 points", "broken", "pile")
    }
    scenes |= {f"4D Gaussians {name}": moving[name] for name in ("usual", "broken")}
    for (scene_name, scene), (camera_name, camera) in itertools.product(scenes.items(), cameras.items()):
        for labels in (1, 16, 255):
            name = f"{scene_name}, {camera_name}, {labels} labels"
            out[f"votes {name}"] = partial(votes, scene, camera, labels, False)
            out[f"label image {name}"] = partial(image, scene, camera, labels)
        name = f"{scene_name}, {camera_name}"
        out[f"votes by the centre rule {name}"] = partial(votes, scene, camera, 16, True)
        out[f"alpha at a point {name}"] = partial(alphas, scene, camera)
    return out
