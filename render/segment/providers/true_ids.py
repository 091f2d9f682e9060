"""True ids of made-up scenes as label maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera
from luxel.render.segment.providers.given_maps import GivenMaps
from luxel.render.segment.segmenter import Prompt
from luxel.render.segment.votes import NO_LABEL


class TrueIds:
    """A `luxel.render.segment.providers.MaskProvider` of true ids.

    Args:
        ids: numbers of the solids from 1, 0 for no surface, uint8 [H, W], by name of the view; see
            `luxel.scenes.captures.true_ids.read_ids`.

    Raises:
        LuxelError: more than 254 solids.
    """

    def __init__(self, ids: Mapping[str, np.ndarray | Tensor]) -> None:
        self._maps = GivenMaps(ids)
        for name, image in ids.items():
            if bool((torch.as_tensor(image) == NO_LABEL).any()):
                raise LuxelError(
                    f"{name}: the true ids have more than {NO_LABEL - 1} solids.",
                    "Make a scene of fewer solids; labels are numbers of 8 bits, and 255 says nothing.",
                )

    def __call__(
        self, images: Mapping[str, np.ndarray], cameras: Mapping[str, Camera], prompts: Sequence[Prompt] = ()
    ) -> dict[str, Tensor]:
        """The ids as labels; with prompts, the solids that these mean, in all views, under the prompts' labels.

        Raises:
            LuxelError: a prompt is on no solid, or ids have another size than their camera's image.
        """
        maps = self._maps(images, cameras)
        if not prompts:
            return maps
        table = torch.zeros(256, dtype=torch.uint8)
        for prompt in prompts:
            if prompt.view in maps:
                table[_solid(maps[prompt.view], prompt)] = prompt.label
        return {name: table[ids.long()] for name, ids in maps.items()}


def _solid(ids: Tensor, prompt: Prompt) -> int:
    """The solid below the first point inside, else the one that fills most of the box."""
    height, width = ids.shape
    inside = [(x, y) for x, y, positive in prompt.points if positive]
    if inside:
        x, y = (min(max(int(v), 0), end - 1) for v, end in zip(inside[0], (width, height), strict=True))
        solid = int(ids[y, x])
    else:
        x0, y0, x1, y1 = (max(int(edge), 0) for edge in prompt.box or (0, 0, 0, 0))
        counts = torch.bincount(ids[y0:y1, x0:x1].flatten().long(), minlength=2)[1:]
        solid = int(counts.argmax()) + 1 if int(counts.sum()) else 0
    if not solid:
        raise LuxelError(
            f"{prompt.view}: the prompt of label {prompt.label} is on no solid.",
            "Give a point or a box on a solid.",
        )
    return solid
