"""How many primitives each object of an edited scene has."""

from __future__ import annotations

from typing import NamedTuple

import torch

from luxel.render.segment.objects import SceneObject
from luxel.viewer.edit.changes import State


class ObjectCount(NamedTuple):
    """An object and its primitives.

    Args:
        entry: label, name and colour.
        kept: primitives that are not deleted.
        shown: those of them that are not hidden.
        deleted: primitives that are deleted.
        selected: primitives that are selected.
        share: of the scene's primitives that are not deleted, 0 to 1.
    """

    entry: SceneObject
    kept: int
    shown: int
    deleted: int
    selected: int
    share: float


def object_counts(state: State) -> list[ObjectCount]:
    """The objects in the order of their labels."""
    labels = state.objects.labels.long()
    deleted = state.masks["deleted"].cpu()

    def counted(mask: torch.Tensor) -> list[int]:
        return torch.bincount(labels[mask.cpu()], minlength=256).tolist()

    kept, shown, gone, selected = (
        counted(mask) for mask in (~deleted, state.shown, deleted, state.masks["selected"])
    )
    whole = max(1, sum(kept))
    return [
        ObjectCount(entry, kept[i], shown[i], gone[i], selected[i], kept[i] / whole)
        for entry in state.objects.objects
        for i in (entry.label,)
    ]


def selected_object(counts: list[ObjectCount], selected: int) -> int | None:
    """The label of the object that is selected, all that is shown of it and nothing else; None: there is none.

    Args:
        counts: of all objects.
        selected: number of selected primitives.
    """
    exact = [c.entry.label for c in counts if c.selected == c.shown == selected > 0]
    return exact[0] if exact else None
