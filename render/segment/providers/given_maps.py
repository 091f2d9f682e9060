"""Label maps that exist already: a folder of masks, or those that a run has kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera
from luxel.render.segment.segmenter import Prompt


class GivenMaps:
    """A `luxel.render.segment.providers.MaskProvider` of label maps that are given.

    Args:
        maps: uint8 [H, W], by name of the view, such as `luxel.scenes.captures.images.label_files.read_label_maps`
            reads.
    """

    def __init__(self, maps: Mapping[str, np.ndarray | Tensor]) -> None:
        self.maps = dict(maps)

    def __call__(
        self, images: Mapping[str, np.ndarray], cameras: Mapping[str, Camera], prompts: Sequence[Prompt] = ()
    ) -> dict[str, Tensor]:
        """The maps of the views among the cameras; prompts choose nothing.

        Raises:
            LuxelError: a map has another size than its camera's image.
        """
        return {
            name: _fitting(name, self.maps[name], camera)
            for name, camera in cameras.items()
            if name in self.maps
        }


def _fitting(name: str, labels: np.ndarray | Tensor, camera: Camera) -> Tensor:
    if tuple(labels.shape) != (camera.height, camera.width):
        raise LuxelError(
            f"{name}: the label map is {' x '.join(map(str, labels.shape[::-1]))} pixels, the view "
            f"{camera.width} x {camera.height}.",
            "Give label maps at the size of the views, made smaller without interpolation.",
        )
    return torch.as_tensor(labels).to(torch.uint8)
