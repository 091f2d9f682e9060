"""MobileSAM as a segmenter."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from luxel.render.segment.segmenter import Box, MaskChoice, Point


class PromptableNetwork(Protocol):
    """What is used of `luxel.render.nets.mobile_sam.MobileSam`; see there."""

    def encode(self, image: Tensor) -> Any: ...

    def predict(
        self,
        embedding: Any,
        points: Tensor | None = None,
        signs: Tensor | None = None,
        boxes: Tensor | None = None,
        multimask: bool | None = True,
    ) -> Any: ...

    def resize(self, logits: Tensor, embedding: Any) -> Tensor: ...


class StoredEmbeddings(Protocol):
    """What is used of `luxel.render.nets.mobile_sam.EmbeddingCache`; see there."""

    def get(self, key: Hashable, compute: Callable[[], Any]) -> Any: ...


class MobileSamSegmenter:
    """A `luxel.render.segment.segmenter.Segmenter` made of the network.

    Args:
        network: `luxel.render.nets.mobile_sam.load_mobile_sam`.
        embeddings: keeps what images were encoded to; None: nothing is stored.
    """

    def __init__(self, network: PromptableNetwork, embeddings: StoredEmbeddings | None = None) -> None:
        self.network, self.embeddings = network, embeddings

    def embed(self, image: np.ndarray, key: Hashable = None) -> Any:
        """The encoded image.

        Args:
            image: uint8 [H, W, 3].
            key: what the image shows, such as (name of the view, version of the scene); None: its pixels tell.
        """

        def encode() -> Any:
            return self.network.encode(torch.from_numpy(np.array(image)))

        if self.embeddings is None:
            return encode()
        return self.embeddings.get(_digest(image) if key is None else key, encode)

    def masks(self, embedding: Any, points: Sequence[Point], box: Box | None = None) -> MaskChoice:
        """Masks, see `Segmenter.masks`; one more than three for a box or several points.

        Pixels of a segmenter begin at their corner, those of the network at their centre.
        """
        single = box is not None or len(points) > 1
        made = self.network.predict(embedding, **as_tensors(points, box), multimask=None if single else True)
        logits = self.network.resize(made.logits[0], embedding)
        return MaskChoice(logits > 0, logits, made.predicted_iou[0], single)


def as_tensors(points: Sequence[Point], box: Box | None) -> dict[str, Any]:
    """A prompt as arguments of the network, with a leading 1."""
    given: dict[str, Any] = {}
    if points:
        given["points"] = torch.tensor([[(x - 0.5, y - 0.5) for x, y, _ in points]])
        given["signs"] = torch.tensor([[int(inside) for *_, inside in points]])
    if box is not None:
        given["boxes"] = torch.tensor([box]) - 0.5
    return given


def _digest(image: np.ndarray) -> str:
    return hashlib.sha256(f"{image.shape}".encode() + np.ascontiguousarray(image).tobytes()).hexdigest()
