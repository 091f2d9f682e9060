"""Data sets of the benchmark of neural fields: an image, a mesh, a volume, photographs; all synthetic.

landscape     A rendered landscape, 1024 x 1024; rendered with one query a pixel at any size.
ridged-knot   208,000 triangles with ridges and studs, viewed from a ring around it.
cloud         Density and colour of a synthetic cumulus, viewed from a ring around it.
playground    48 images of solids on a platform, 400 x 400 with alpha; viewed from cameras that it is not trained on.
              --capture replaces it.
Without a GPU all of them are small.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from luxel.render.fields.application import Application
from luxel.render.fields.applications import FieldName, application_type
from luxel.render.fields.capture.posed_images import PosedImages
from luxel.render.geometry.camera import Camera, Pixels, View
from luxel.scenes.captures.images.images import for_each
from luxel.scenes.synthetic.captures.dnerf import default_camera_samples
from luxel.scenes.synthetic.toy import as_bytes

ELEVATION, DISTANCE = 0.4, 2.6  # of a ring of cameras: radians, and half sides of the box


@dataclass
class FieldDataset:
    """A data set to train a field on, and the cameras to draw it from.

    Args:
        kind: of the field.
        name: in tables.
        data: as `luxel.render.fields.application.Application.begin` takes them.
        cameras: views to draw; empty: a ring around the data.
        background: behind it, [3]; None: that of the field.
    """

    kind: FieldName
    name: str
    data: Any
    cameras: Sequence[Camera] = field(default_factory=tuple)
    background: tuple[float, float, float] | None = None


def make_dataset(kind: FieldName, *, small: bool = False) -> FieldDataset:
    """Makes the synthetic data set of a kind of field.

    Args:
        kind: of the field.
        small: for a machine without a GPU.
    """
    return replace(_MADE_UP[application_type(kind).data_type](small), kind=kind)


def capture_dataset(path: Path) -> FieldDataset:
    """A capture, viewed from its held-out cameras.

    Raises:
        LuxelError: it cannot be opened.
    """
    from luxel.viewer.scene_loading.capture_options import Origin
    from luxel.viewer.scene_loading.field_data import FieldOrigin

    opened = FieldOrigin.of("radiance", str(path), Origin("")).open()
    held_out = list(opened.data.held_out) or list(opened.data.views)
    cameras = [view.camera for view in held_out]
    return FieldDataset("radiance", opened.name, opened.data, cameras, opened.background)


def _landscape(small: bool) -> FieldDataset:
    from luxel.scenes.synthetic.landscape import landscape

    side = 96 if small else 1024
    return FieldDataset("image", f"landscape {side}x{side}", landscape(side, side))


def _knot(small: bool) -> FieldDataset:
    from luxel.scenes.synthetic.knot_mesh import ridged_knot

    mesh = ridged_knot(260, 12, ridges=0.0) if small else ridged_knot()
    return FieldDataset("sdf", f"{'knot' if small else 'ridged-knot'}, {len(mesh.faces):,} triangles", mesh)


def _cloud(small: bool) -> FieldDataset:
    from luxel.scenes.synthetic.cloud import Cloud

    return FieldDataset("volume", "cloud", Cloud(), background=(1.0, 1.0, 1.0))


def _playground(small: bool) -> FieldDataset:
    from luxel.scenes.synthetic.example_scenes import static_scene

    views, held_out, side, samples = (8, 2, 40, 1) if small else (48, 4, 400, 2)
    scene = static_scene()
    camera_samples = default_camera_samples(views, 0, held_out, static=True, width=side, height=side)
    listed = [s.camera for part in ("train", "test") for s in camera_samples[part]]
    made: dict[int, Pixels] = {}

    def work(number: int) -> None:
        image = scene.render(listed[number], samples=samples)
        made[number] = Pixels(as_bytes(image.rgb), as_bytes(image.alpha))

    for_each(work, len(listed))
    all_views = [View(f"{k}", camera, lambda k=k: made[k]) for k, camera in enumerate(listed)]
    data = PosedImages(all_views[:views], all_views[views:])
    name = f"playground, {views} x {side}x{side}"
    return FieldDataset("radiance", name, data, listed[views:], data.background)


_MADE_UP: dict[str, Callable[[bool], FieldDataset]] = {
    "image": _landscape,
    "mesh": _knot,
    "volume": _cloud,
    "capture": _playground,
}


def frames(
    application: Application, dataset: FieldDataset, width: int, height: int, views: int
) -> list[Callable[[], Tensor]]:
    """Functions that each draw one frame [H, W, 3]: an image as a whole, others from some cameras.

    Args:
        application: trained on the dataset.
        dataset: what it is trained on.
        width, height: pixels.
        views: how many cameras at most.
    """
    if application.image_size() is not None:
        return [lambda: application.render_size(width, height)]
    background = None
    if dataset.background is not None:
        background = torch.tensor(dataset.background, device=application.device)
    if dataset.cameras:
        chosen = [resized(camera, width, height) for camera in dataset.cameras[:views]]
    else:
        chosen = ring(application.centres, width, height, views)
    cameras = [camera.to(application.device) for camera in chosen]
    return [lambda c=camera: application.render(c, background) for camera in cameras]


def resized(camera: Camera, width: int, height: int) -> Camera:
    """The same camera with another number of pixels: what it sees from top to bottom stays."""
    scale = height / camera.height
    fx, fy, cx, cy = camera.intrinsics.tolist()
    across = 0.5 * width + scale * (cx - 0.5 * camera.width)
    numbers = torch.tensor([scale * fx, scale * fy, across, scale * cy]).to(camera.intrinsics)
    return replace(camera, intrinsics=numbers, width=width, height=height)


def ring(points: Tensor, width: int, height: int, views: int) -> list[Camera]:
    """Cameras around the box of some points [P, 3], z up, evenly over a turn, on the CPU."""
    low, high = points.detach().cpu().amin(0), points.detach().cpu().amax(0)
    middle, half = (0.5 * (low + high)).tolist(), 0.5 * float((high - low).max())
    cameras = []
    for k in range(views):
        angle, away = 2 * math.pi * (k + 0.5) / views, DISTANCE * half
        level = away * math.cos(ELEVATION)
        offset = (level * math.cos(angle), level * math.sin(angle), away * math.sin(ELEVATION))
        eye = [m + o for m, o in zip(middle, offset, strict=True)]
        cameras.append(Camera.look_at(eye, middle, width=width, height=height))
    return cameras
