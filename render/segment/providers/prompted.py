"""Label maps of a segmenter that is prompted with points and boxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera
from luxel.render.segment.segmenter import Prompt, Segmenter, on_cpu


class PromptedMaps:
    """A `luxel.render.segment.providers.MaskProvider` of any segmenter: MobileSAM, SAM 2, true ids.

    Of the masks that the segmenter proposes, the one that it is surest of counts; overlaps belong to the higher logit.

    Args:
        segmenter: finds masks in an image.
    """

    def __init__(self, segmenter: Segmenter) -> None:
        self.segmenter = segmenter

    def __call__(
        self, images: Mapping[str, np.ndarray], cameras: Mapping[str, Camera], prompts: Sequence[Prompt] = ()
    ) -> dict[str, Tensor]:
        """Label maps of the views that have prompts; the prompts of one label in a view are one.

        Raises:
            LuxelError: a prompt of no view, or for which the segmenter finds no mask.
        """
        by_view: dict[str, dict[int, list[Prompt]]] = {}
        for prompt in prompts:
            by_view.setdefault(prompt.view, {}).setdefault(prompt.label, []).append(prompt)
        if unknown := sorted(set(by_view) - set(images)):
            raise LuxelError(
                f"{unknown[0]}: none of the {len(images)} views has that name.",
                f"Give the name of a view, such as {next(iter(images), 'none: there are no views')}.",
            )
        return {view: self._label_map(images[view], given) for view, given in by_view.items()}

    def _label_map(self, image: np.ndarray, given: Mapping[int, Sequence[Prompt]]) -> Tensor:
        embedding = self.segmenter.embed(image)
        logits = torch.stack([self._logits(embedding, prompts) for prompts in given.values()])
        top, index = logits.max(dim=0)
        labels = torch.tensor(list(given), dtype=torch.uint8)
        return torch.where(top > 0, labels[index], 0).to(torch.uint8)

    def _logits(self, embedding: Any, prompts: Sequence[Prompt]) -> Tensor:
        """Logits of an object, [H, W]."""
        points = [point for prompt in prompts for point in prompt.points]
        box = next((prompt.box for prompt in prompts if prompt.box is not None), None)
        choice = on_cpu(self.segmenter.masks(embedding, points, box))
        best = choice.logits[choice.surest]
        if not bool((best > 0).any()):
            raise LuxelError(
                f"{prompts[0].view}: the segmenter finds no mask for the prompt of label {prompts[0].label}.",
                "Click inside an object, or draw a box around it.",
            )
        return best
