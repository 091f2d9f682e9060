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
        remaining: primitives that are not deleted.
        shown: those of them that are not hidden.
        deleted: primitives that are deleted.
        selected: primitives that are selected.
        share: of the scene's primitives that are not deleted, 0 to 1.
    """

    entry: SceneObject
    remaining: int
    shown: int
    deleted: int
    selected: int
    share: float


def object_counts(state: State) -> list[ObjectCount]:
    """The objects in the order of their labels."""
    masks = [state.masks[name].cpu() for name in ("deleted", "hidden", "selected")]
    kinds = state.objects.labels.long()
    for mask in masks:  # one pass over a number for each combination of label and masks
        kinds = 2 * kinds + mask
    counted = torch.bincount(kinds, minlength=2048).reshape(
        256, 2, 2, 2
    )  # by label, deleted, hidden, selected
    remaining, shown = counted[:, 0].sum((1, 2)).tolist(), counted[:, 0, 0].sum(1).tolist()
    deleted, selected = counted[:, 1].sum((1, 2)).tolist(), counted[..., 1].sum((1, 2)).tolist()
    full = max(1, sum(remaining))
    return [
        ObjectCount(entry, remaining[i], shown[i], deleted[i], selected[i], remaining[i] / full)
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
