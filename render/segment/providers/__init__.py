"""Mask providers: label maps of views, from true ids, given masks, or a segmenter that is prompted.

One file each. Readers of files are in `luxel.scenes.captures`, networks in `luxel.render.nets`; providers take what
these give as arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.segment.segmenter import Prompt


class MaskProvider(Protocol):
    """Gives label maps of views."""

    def __call__(
        self, images: Mapping[str, np.ndarray], cameras: Mapping[str, Camera], prompts: Sequence[Prompt] = ()
    ) -> dict[str, Tensor]:
        """Label maps, uint8 [H, W], by name of the view; views of which the provider knows nothing are left out.

        Args:
            images: what is segmented, RGB uint8 [H, W, 3], by name of the view.
            cameras: of the same views.
            prompts: what is meant, where the provider can choose; of views among the images.

        Raises:
            LuxelError: a prompt that means nothing, or maps that do not fit the cameras.
        """
        ...
