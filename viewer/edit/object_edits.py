"""Edits of objects: shown, hidden and deleted as a whole, and their labels, names and colours."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.segment.objects import Objects, SceneObject
from luxel.viewer.edit.changes import Change, Edit, MaskChange, State
from luxel.viewer.edit.document import Document
from luxel.viewer.edit.masks import Mode
from luxel.viewer.edit.object_changes import ObjectsChange, rows_of, without_object

LONGEST_NAME = 60  # characters


def select_object(document: Document, label: int, mode: Mode = "replace") -> None:
    """Selects the shown primitives of an object.

    Raises:
        LuxelError: there is no such object, or it is hidden or deleted.
    """
    entry, rows = _entry(document.state, label), rows_of(document.state, label)
    if not bool((rows & document.shown).any()):
        raise LuxelError(f"{entry.name} is hidden or deleted.", "Show it, or undo its deletion.")
    document.select(rows, mode, f"Select {entry.name}")


def hide_object(state: State, label: int) -> Edit:
    """Hides an object.

    Raises:
        LuxelError: there is no such object, or nothing of it is shown.
    """
    entry, rows = _entry(state, label), rows_of(state, label)
    if not bool((rows & state.shown).any()):
        raise LuxelError(f"nothing of {entry.name} is shown.", "Choose another object.")
    return Edit(f"Hide {entry.name}", _masked(state, hidden=state.masks["hidden"] | rows))


def show_object(state: State, label: int) -> Edit:
    """Shows an object that is hidden.

    Raises:
        LuxelError: there is no such object, or nothing of it is hidden.
    """
    entry, rows = _entry(state, label), rows_of(state, label)
    if not bool((rows & state.masks["hidden"]).any()):
        raise LuxelError(f"nothing of {entry.name} is hidden.", "To bring back what was deleted, undo.")
    return Edit(f"Show {entry.name}", _masked(state, hidden=state.masks["hidden"] & ~rows))


def solo_object(state: State, label: int) -> Edit:
    """Shows an object, and hides everything else.

    Raises:
        LuxelError: there is no such object, or it is deleted.
    """
    entry, rows = _entry(state, label), rows_of(state, label)
    _need_rows(entry, rows)
    return Edit(f"Solo {entry.name}", _masked(state, hidden=~rows & ~state.masks["deleted"]))


def delete_object(state: State, label: int) -> Edit:
    """Deletes the primitives of an object; it stays in the list, so that its deletion can be seen and undone.

    Raises:
        LuxelError: there is no such object, or it is deleted.
    """
    entry, rows = _entry(state, label), rows_of(state, label)
    _need_rows(entry, rows)
    return Edit(f"Delete {entry.name}", _masked(state, deleted=state.masks["deleted"] | rows))


def add_object(state: State, name: str) -> Edit:
    """Makes the selection an object.

    Args:
        state: of the document.
        name: of the object; empty: the first of object-1, object-2, ... that is free.

    Raises:
        LuxelError: nothing is selected, the name cannot be used, or there are 254 objects.
    """
    _need_selection(state)
    copied = _copied(state.objects)
    entry = copied.add(_checked_name(state, name.strip() or unused_name(state.objects)))
    change = ObjectsChange.labelled(
        state.objects, state.masks["selected"], entry.label, [(entry.label, None, entry)]
    )
    return Edit(f"Add {entry.name}", (change,))


def change_object(state: State, label: int, name: str, colour: Sequence[float]) -> Edit:
    """Changes name and colour of an object.

    Args:
        state: of the document.
        label: of the object.
        name: new or as before.
        colour: red, green and blue, 0 to 255.

    Raises:
        LuxelError: there is no such object, or the name cannot be used.
    """
    entry = _entry(state, label)
    name = name.strip()
    if name != entry.name:
        _checked_name(state, name)
    red, green, blue = (min(max(round(part), 0), 255) for part in colour)
    after = SceneObject(label, name, (red, green, blue))
    nothing = torch.zeros(len(state.objects.labels), dtype=torch.bool)
    change = ObjectsChange.labelled(state.objects, nothing, label, [(label, entry, after)])
    return Edit(f"Rename {entry.name}" if name != entry.name else f"Colour of {name}", (change,))


def include_selection(state: State, label: int) -> Edit:
    """Adds the selection to an object.

    Raises:
        LuxelError: there is no such object, or nothing is selected that it does not have.
    """
    entry = _entry(state, label)
    _need_selection(state)
    new = state.masks["selected"] & ~rows_of(state, label)
    if not bool(new.any()):
        raise LuxelError(
            f"all that is selected belongs to {entry.name} already.", "Select what it lacks first."
        )
    return Edit(f"Add to {entry.name}", (ObjectsChange.labelled(state.objects, new, label),))


def exclude_selection(state: State, label: int) -> Edit:
    """Takes the selection away from an object; it belongs to none then.

    Raises:
        LuxelError: there is no such object, or nothing of it is selected.
    """
    entry = _entry(state, label)
    rows = state.masks["selected"] & rows_of(state, label)
    if not bool(rows.any()):
        raise LuxelError(f"nothing of {entry.name} is selected.", "Select a part of it first.")
    return Edit(f"Subtract from {entry.name}", (ObjectsChange.labelled(state.objects, rows, 0),))


def remove_object(state: State, label: int, voted: bool) -> Edit:
    """Removes an object from the list; its primitives belong to none then.

    Args:
        state: of the document.
        label: of the object.
        voted: whether prompts or masks that are retained have this label.

    Raises:
        LuxelError: there is no such object, or its masks are retained.
    """
    entry = _entry(state, label)
    if voted:
        raise LuxelError(
            f"{entry.name} was made by `luxel segment`, and its masks are retained.",
            "Drop all objects of the run by `luxel segment RUN --masks DIR --replace`.",
        )
    rows = state.objects.labels == label
    change = ObjectsChange.labelled(state.objects, rows, 0, [(label, entry, None)])
    return Edit(f"Remove {entry.name}", (change,))


def grow_object(document: Document, label: int) -> Edit:
    """Adds those neighbours to an object that are shown and belong to none.

    Raises:
        LuxelError: there is no such object, or there are no such neighbours.
    """
    state = document.state
    entry, rows = _entry(state, label), rows_of(state, label) & state.shown
    grown = document.neighbourhood().grow(rows, state.shown) & without_object(state)
    if not bool(grown.any()):
        raise LuxelError(
            f"{entry.name} has no neighbours that belong to no object.",
            "Select what it lacks, and add the selection to it.",
        )
    return Edit(f"Grow {entry.name}", (ObjectsChange.labelled(state.objects, grown, label),))


def shrink_object(document: Document, label: int) -> Edit:
    """Takes those primitives away from an object that are next to others that are shown.

    Raises:
        LuxelError: there is no such object, none of it is next to others, or nothing would be left of it.
    """
    state = document.state
    entry, rows = _entry(state, label), rows_of(state, label) & state.shown
    lost = rows & ~document.neighbourhood().shrink(rows, state.shown)
    if not bool(lost.any()):
        raise LuxelError(f"{entry.name} is next to nothing that is shown.", "Show what surrounds it.")
    if torch.equal(lost, rows):
        raise LuxelError(f"nothing would be left of {entry.name}.", "Subtract a selection from it instead.")
    return Edit(f"Shrink {entry.name}", (ObjectsChange.labelled(state.objects, lost, 0),))


def unused_name(objects: Objects) -> str:
    """The first of object-1, object-2, ... that no object has."""
    number = len(objects.objects) + 1
    while objects.named(f"object-{number}") is not None:
        number += 1
    return f"object-{number}"


def _copied(objects: Objects) -> Objects:
    """The objects with a list of their own, which may be changed."""
    return Objects(objects.scene, objects.labels, deepcopy(objects.objects))


def _entry(state: State, label: int) -> SceneObject:
    """The object of a label."""
    entry = next((entry for entry in state.objects.objects if entry.label == label), None)
    if entry is None:
        raise LuxelError(
            "there is no such object.",
            "Select primitives and add them as an object, or see `luxel segment --help`.",
        )
    return entry


def _need_rows(entry: SceneObject, rows: Tensor) -> None:
    if not bool(rows.any()):
        raise LuxelError(f"nothing is left of {entry.name}.", "Undo its deletion.")


def _need_selection(state: State) -> None:
    if not bool(state.masks["selected"].any()):
        raise LuxelError("nothing is selected.", "Select the primitives of an object first.")


def _checked_name(state: State, name: str) -> str:
    """A name for an object.

    Raises:
        LuxelError: it is empty, too long, not printable, or that of another object.
    """
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise LuxelError(
            f"{name[:LONGEST_NAME]!r} is no name of an object.",
            f"Use 1 to {LONGEST_NAME} printable characters.",
        )
    if state.objects.named(name) is not None:
        raise LuxelError(f"there is an object {name} already.", "Choose another name.")
    return name


def _masked(state: State, **after: Tensor) -> tuple[Change, ...]:
    """The changes to other masks, and to a selection of what is still shown."""
    changes = [MaskChange.between(name, state.masks[name], mask) for name, mask in after.items()]
    masks = {**state.masks, **after}
    selected = state.masks["selected"]
    left = selected & ~(masks["hidden"] | masks["deleted"])
    return (*changes, MaskChange.between("selected", selected, left))
