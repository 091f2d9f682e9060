"""Changes of the objects of a scene: labels of rows, names and colours."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import torch
from torch import Tensor

from luxel.render.segment.objects import Objects, SceneObject
from luxel.render.segment.votes import NO_LABEL
from luxel.viewer.edit.changes import Change, State


@dataclass(frozen=True)
class Marks:
    """Labels of some rows, and whether they were set by hand.

    Args:
        labels: uint8 [R].
        by_hand: bool [R].
    """

    labels: Tensor
    by_hand: Tensor

    @staticmethod
    def of(objects: Objects, rows: Tensor) -> Marks:
        """Those that objects have at some rows, int32 [R]."""
        labels = objects.labels[rows.long()]
        hand = objects.by_hand
        return Marks(
            labels, torch.zeros_like(labels, dtype=torch.bool) if hand is None else hand[rows.long()]
        )

    def same(self, other: Marks) -> bool:
        """Whether both are equal."""
        return torch.equal(self.labels, other.labels) and torch.equal(self.by_hand, other.by_hand)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self.labels.numel() + self.by_hand.numel()


Entry = SceneObject | None


@dataclass(frozen=True)
class ObjectsChange:
    """Objects before and after a change. It is made where they are as before, else (another program may have segmented
    the run since) it leaves them alone.

    Args:
        rows: positions whose labels change, int32 [R], on the CPU.
        before, after: their labels.
        entries: label, and the object of this label before and after; None: there is none.
    """

    rows: Tensor
    before: Marks
    after: Marks
    entries: tuple[tuple[int, Entry, Entry], ...] = ()

    @staticmethod
    def labelled(
        objects: Objects, mask: Tensor, label: int, entries: Sequence[tuple[int, Entry, Entry]] = ()
    ) -> ObjectsChange:
        """Gives the rows of a mask, bool [N], a label by hand."""
        rows = mask.cpu().nonzero()[:, 0].int()
        labels = torch.full((len(rows),), label, dtype=torch.uint8)
        after = Marks(labels, torch.ones(len(rows), dtype=torch.bool))
        return ObjectsChange(rows, Marks.of(objects, rows), after, tuple(entries))

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return 4 * self.rows.numel() + self.before.nbytes + self.after.nbytes

    def exchange(self, state: State) -> Change:
        """Makes the change, unless the objects are other ones.

        Raises:
            LuxelError: the objects cannot be retained; nothing changes.
        """
        objects = state.objects
        known = {entry.label: entry for entry in objects.objects}
        same = all(known.get(label) == before for label, before, _ in self.entries)
        if same and self.before.same(Marks.of(objects, self.rows)):
            made = self._made(objects)
            state.keep(made)
            state.objects = made
        return ObjectsChange(
            self.rows,
            self.after,
            self.before,
            tuple((label, after, before) for label, before, after in self.entries),
        )

    def _made(self, objects: Objects) -> Objects:
        entries = {entry.label: entry for entry in objects.objects}
        for label, _, after in self.entries:
            entries.pop(label, None)
            if after is not None:
                entries[label] = after
        labels, rows = objects.labels.clone(), self.rows.long()
        hand = (
            torch.zeros_like(labels, dtype=torch.bool) if objects.by_hand is None else objects.by_hand.clone()
        )
        labels[rows], hand[rows] = self.after.labels, self.after.by_hand
        listed = [entries[label] for label in sorted(entries)]
        return replace(objects, labels=labels, by_hand=hand, objects=listed)

    def tensors(self) -> dict[str, Tensor]:
        """What a file needs besides `text`."""
        parts = {"before": self.before, "after": self.after}
        marks = {f"{name}.labels": part.labels for name, part in parts.items()}
        hands = {f"{name}.by_hand": part.by_hand for name, part in parts.items()}
        return {"rows": self.rows, **marks, **hands}

    def text(self) -> str:
        """The entries as JSON."""
        return json.dumps(msgspec.to_builtins(self.entries))

    @staticmethod
    def load(text: str, tensors: Mapping[str, Tensor], count: int) -> ObjectsChange:
        """The reverse of `tensors` and `text`.

        Raises:
            ValueError: the content does not fit a scene of ``count`` primitives.
        """
        rows = tensors["rows"]
        before, after = (
            Marks(tensors[f"{name}.labels"], tensors[f"{name}.by_hand"]) for name in ("before", "after")
        )
        fits = rows.dtype == torch.int32 and rows.ndim == 1
        fits = fits and (not len(rows) or (int(rows.min()) >= 0 and int(rows.max()) < count))
        for part in (before, after):
            fits = fits and part.labels.dtype == torch.uint8 and part.by_hand.dtype == torch.bool
            fits = fits and part.labels.shape == part.by_hand.shape == rows.shape
        if not fits:
            raise ValueError(f"rows and labels must be of {count} primitives, got rows {list(rows.shape)}")
        listed: Any = msgspec.json.decode(text, type=tuple[tuple[int, Entry, Entry], ...])
        return ObjectsChange(rows, before, after, listed)


def rows_of(state: State, label: int) -> Tensor:
    """The rows of an object that are not deleted, bool [N], on the device of the scene."""
    deleted = state.masks["deleted"]
    return (state.objects.labels == label).to(deleted.device) & ~deleted


def without_object(state: State) -> Tensor:
    """The rows that belong to no object, bool [N], on the device of the scene."""
    labels = state.objects.labels
    return ((labels == 0) | (labels == NO_LABEL)).to(state.masks["deleted"].device)
