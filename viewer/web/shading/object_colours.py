"""Images in the colours of objects: each pixel shows which object is visible there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera
from luxel.render.primitives import Parameters
from luxel.render.segment.label_map import label_map
from luxel.render.segment.objects import Objects
from luxel.viewer.web.shading.emptiness import write_on
from luxel.viewer.web.shading.legend import Caption

LUMINANCE = (0.2126, 0.7152, 0.0722)  # Rec. 709
UNNAMED = 0.5  # grey level of labels that no object has


class ObjectSource(Protocol):
    """Has the objects of a scene; see `luxel.viewer.web.editing.editor.SceneEditor`. Neither waits for anything."""

    @property
    def objects(self) -> Objects:
        """The present objects; replaced, never written to."""
        ...

    @property
    def objects_problem(self) -> LuxelError | None:
        """Why they are not those of the run."""
        ...


@dataclass(frozen=True)
class ObjectFrame:
    """A frame with the object that is visible at each pixel.

    Args:
        rgb, alpha: of the frame.
        labels: uint8 [H, W], 0 where no object is visible; None: there are none to be shown.
        palette: colours in [0, 1] of all labels, [256, 3].
        strength: how much of the objects' colours is shown, 0 to 1.
        text: how many objects there are, or why there are none.
    """

    rgb: Tensor
    alpha: Tensor
    labels: Tensor | None
    palette: Tensor
    strength: float
    text: str


def label_frame(
    frame: Any,
    scene: Parameters | None,
    camera: Camera,
    source: ObjectSource | None,
    strength: float,
    **options: Any,
) -> ObjectFrame:
    """A frame with the object that is visible at each pixel; as `luxel eval` has it, that with the largest weight.

    Args:
        frame: of the scene.
        scene: N primitives, as they are rendered; None: there are none.
        camera: of the frame.
        source: of the objects.
        strength: see `ObjectFrame`.
        options: of the rasterizer that change alpha, and the time.
    """
    palette = frame.rgb.new_zeros(256, 3)
    problem = _problem(scene, source)
    if problem or source is None or scene is None:
        return ObjectFrame(frame.rgb, frame.alpha, None, palette, strength, problem)
    objects = source.objects
    count = 1 + max(entry.label for entry in objects.objects)
    labels = label_map(scene, camera, objects.labels.to(scene.device), count, **options)
    number = len(objects.objects)
    text = f"{number} object{'s' if number > 1 else ''}"
    return ObjectFrame(frame.rgb, frame.alpha, labels, palette_of(objects).to(palette), strength, text)


def shade_objects(frame: ObjectFrame, background: Tensor) -> tuple[Tensor, str]:
    """The colours of the objects over those of the scene; what belongs to no object becomes grey."""
    if frame.labels is None:
        return _written(frame.rgb, frame.text), Caption(frame.text)
    grey = (frame.rgb @ frame.rgb.new_tensor(LUMINANCE))[..., None].expand_as(frame.rgb)
    colours = torch.where((frame.labels > 0)[..., None], frame.palette[frame.labels.long()], grey)
    return torch.lerp(frame.rgb, colours, frame.strength), Caption(frame.text)


def palette_of(objects: Objects) -> Tensor:
    """Colours in [0, 1] of all labels, float32 [256, 3]."""
    palette = torch.full((256, 3), UNNAMED)
    for entry in objects.objects:
        palette[entry.label] = torch.tensor(entry.colour) / 255
    return palette


def _problem(scene: Parameters | None, source: ObjectSource | None) -> str:
    """Why there are no objects to be shown; empty where there are."""
    if source is not None and source.objects_problem is not None:
        return str(source.objects_problem)
    if source is None or not source.objects.objects or scene is None:
        return (
            "This scene has no objects yet: select primitives and add them as one in Objects, "
            "or run luxel segment."
        )
    if len(source.objects.labels) != scene.count:  # the scene is being replaced
        return "The objects are of another scene."
    return ""


def _written(rgb: Tensor, text: str) -> Tensor:
    """An image with a text on it."""
    pixels = rgb.clamp(0, 1).mul(255).round().to(torch.uint8).cpu().numpy()
    return torch.from_numpy(write_on(pixels, text)).to(rgb).div(255)
