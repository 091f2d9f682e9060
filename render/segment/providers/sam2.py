"""SAM 2 (Ravi et al. 2024, arXiv 2408.00714) as a segmenter, where its package is installed."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from luxel.render.errors import LuxelError
from luxel.render.segment.segmenter import Box, MaskChoice, Point

MODULE = "sam2.sam2_image_predictor"
MODEL = "facebook/sam2.1-hiera-small"


class Sam2Segmenter:
    """A `luxel.render.segment.segmenter.Segmenter` made of SAM 2's predictor of images.

    Args:
        predictor: a ``SAM2ImagePredictor``; see `load_sam2`.
    """

    def __init__(self, predictor: Any) -> None:
        self.predictor = predictor
        self._image: np.ndarray | None = None

    def embed(self, image: np.ndarray) -> np.ndarray:
        """Encodes an image, uint8 [H, W, 3], and returns it: the predictor holds what is encoded, of one image."""
        self.predictor.set_image(np.ascontiguousarray(image))
        self._image = image
        return image

    def masks(self, embedding: Any, points: Sequence[Point], box: Box | None = None) -> MaskChoice:
        """Three masks; an image that is not the last one is encoded again."""
        if embedding is not self._image:
            self.embed(embedding)
        logits, scores, _ = self.predictor.predict(
            point_coords=np.array([(x, y) for x, y, _ in points], np.float32) if points else None,
            point_labels=np.array([int(inside) for *_, inside in points], np.int32) if points else None,
            box=None if box is None else np.array(box, np.float32),
            multimask_output=True,
            return_logits=True,
        )
        values = torch.as_tensor(logits).float()
        return MaskChoice(values > 0, values, torch.as_tensor(scores).float())


def load_sam2(model: str = MODEL, device: torch.device | str = "cpu") -> Sam2Segmenter:
    """SAM 2 with published weights, which its package fetches once.

    Args:
        model: name of the weights.
        device: where it computes.

    Raises:
        LuxelError: the package is not installed, or does not find the weights.
    """
    try:
        module = importlib.import_module(MODULE)
    except ImportError as error:
        raise LuxelError(
            f"SAM 2 is not installed ({error}).", "Install its package (sam2), or use MobileSAM."
        ) from error
    try:
        predictor = module.SAM2ImagePredictor.from_pretrained(model, device=str(device))
    except Exception as error:
        reason = " ".join(str(error).split())[:160] or type(error).__name__
        raise LuxelError(
            f"The weights {model} of SAM 2 cannot be loaded ({reason}).",
            "Check the name and the connection, or use MobileSAM.",
        ) from error
    return Sam2Segmenter(predictor)
