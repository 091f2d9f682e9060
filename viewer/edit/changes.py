"""What an edit changes, as small differences that can be exchanged with the present state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from luxel.render.primitives import Parameters
from luxel.render.segment.objects import Objects
from luxel.viewer.edit.masks import PackedMask

CHUNK = 1 << 16  # rows that are changed at a time on a CPU


@dataclass
class State:
    """What edits change. Tensors are replaced, never written to, so that a scene that is being rendered stays as it is.

    Args:
        scene: all rows, also deleted ones.
        masks: "selected", "hidden" and "deleted", bool [N].
        sets: named selections.
        objects: of all rows, without their label maps; replaced, never written to.
        keep: called with other objects before they replace ``objects``; raises LuxelError to refuse them.
    """

    scene: Parameters
    masks: dict[str, Tensor]
    sets: dict[str, PackedMask]
    objects: Objects = field(default_factory=lambda: no_objects(0))
    keep: Callable[[Objects], None] = lambda objects: None

    @property
    def shown(self) -> Tensor:
        """Rows that are neither hidden nor deleted, bool [N]."""
        return ~(self.masks["hidden"] | self.masks["deleted"])


class Change(Protocol):
    """A difference between two states."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        ...

    def exchange(self, state: State) -> Change:
        """Applies the difference to the state; returns the change that takes it back, bit for bit."""
        ...


@dataclass(frozen=True)
class MaskChange:
    """Rows of a mask that flip; its own reverse.

    Args:
        name: of the mask.
        flips: the rows.
    """

    name: str
    flips: PackedMask

    @staticmethod
    def between(name: str, before: Tensor, after: Tensor) -> MaskChange:
        """The change from one mask to another, bool [N]."""
        return MaskChange(name, PackedMask(before ^ after))

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self.flips.nbytes

    def exchange(self, state: State) -> Change:
        """Flips the rows."""
        before = state.masks[self.name]
        state.masks[self.name] = before ^ self.flips.unpack(before.device)
        return self


@dataclass(frozen=True)
class RowChange:
    """New values of some rows of parameters.

    Args:
        rows: positions, int64 [R].
        values: the parameters that change, by name, [R, ...].
    """

    rows: Tensor
    values: dict[str, Tensor]

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return sum(t.numel() * t.element_size() for t in (self.rows, *self.values.values()))

    def exchange(self, state: State) -> Change:
        """Writes the values into copies of the parameters; the reverse holds the values that were there."""
        tensors = state.scene.tensors()
        before = {name: tensors[name].index_select(0, self.rows) for name in self.values}
        for name, values in self.values.items():
            tensors[name] = tensors[name].index_copy(0, self.rows, values)
        state.scene = type(state.scene)(**tensors)
        return RowChange(self.rows, before)


@dataclass(frozen=True)
class SetChange:
    """A named selection that is stored, replaced or (None) removed."""

    name: str
    mask: PackedMask | None

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return 0 if self.mask is None else self.mask.nbytes

    def exchange(self, state: State) -> Change:
        """Stores the selection, or removes it."""
        before = state.sets.get(self.name)
        state.sets = {name: mask for name, mask in state.sets.items() if name != self.name}
        if self.mask is not None:
            state.sets[self.name] = self.mask
        return SetChange(self.name, before)


@dataclass(frozen=True)
class Edit:
    """One step of undo and redo.

    Args:
        title: what it did, in a few words, for buttons and lists.
        changes: applied in order.
    """

    title: str
    changes: tuple[Change, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return sum(change.nbytes for change in self.changes)

    def exchange(self, state: State) -> Edit:
        """Applies the changes; returns the edit that takes them back."""
        reverse = [change.exchange(state) for change in self.changes]
        return Edit(self.title, tuple(reversed(reverse)))


def no_objects(count: int) -> Objects:
    """No objects of a scene of so many primitives."""
    return Objects("", torch.zeros(count, dtype=torch.uint8))


def changed_rows(scene: Parameters, change: Callable[[Parameters], Parameters], rows: Tensor) -> RowChange:
    """What ``change`` makes of some rows; parameters that stay equal are left out.

    Works on some rows at a time on a CPU, where new memory costs more than the arithmetic.

    Args:
        scene: all rows.
        change: gives as many primitives as it gets.
        rows: positions, int64 [R].
    """
    chunk = CHUNK if rows.device.type == "cpu" else max(1, len(rows))
    after: dict[str, Tensor] = {}
    changed: set[str] = set()
    for start in range(0, len(rows), chunk):
        part = scene.map(lambda tensor, at=rows[start : start + chunk]: tensor.index_select(0, at))
        before = part.tensors()
        for name, values in change(part).tensors().items():
            if values is before[name]:
                continue
            if name not in changed and not torch.equal(values, before[name]):
                changed.add(name)
            if name not in after:
                after[name] = values.new_empty(len(rows), *values.shape[1:])
            after[name][start : start + chunk] = values
    return RowChange(rows, {name: values for name, values in after.items() if name in changed})
