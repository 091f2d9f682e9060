"""Edits of objects: what they change, that they are undone, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from luxel.render.errors import LuxelError
from luxel.render.primitives import Gaussians, Parameters
from luxel.render.segment.objects import Objects
from luxel.viewer.edit import Document, operations
from luxel.viewer.edit import object_edits as edits
from luxel.viewer.edit.changes import Edit
from luxel.viewer.edit.edit_files import pack_edit, unpack_edit
from luxel.viewer.edit.object_changes import ObjectsChange
from luxel.viewer.edit.object_counts import object_counts, selected_object


def row_of_balls(count: int = 24) -> Gaussians:
    """Gaussians along the x axis, one unit apart."""
    means = torch.zeros(count, 3)
    means[:, 0] = torch.arange(count)
    return Gaussians(
        means,
        torch.tensor([[1.0, 0, 0, 0]]).repeat(count, 1),
        torch.full((count, 3), -2.0),
        torch.full((count,), 2.0),
        torch.zeros(count, 3),
        torch.zeros(count, 0, 3),
    )


def labelled(scene: Parameters | None = None, keep: Callable[[Objects], None] | None = None) -> Document:
    """A document with the object "low" of the first quarter of the primitives, and "high" of the last one."""
    scene = scene or row_of_balls()
    quarter = scene.count // 4
    objects = Objects("", torch.zeros(scene.count, dtype=torch.uint8))
    objects.labels[:quarter], objects.labels[-quarter:] = 1, 2
    for name in ("low", "high"):
        objects.add(name)
    return Document(scene, objects=objects, keep=keep)


def everything(document: Document) -> list[object]:
    """All that these edits change."""
    state, objects = document.state, document.state.objects
    hand = torch.zeros(len(objects.labels), dtype=torch.bool) if objects.by_hand is None else objects.by_hand
    masks = [state.masks[name].tolist() for name in ("selected", "hidden", "deleted")]
    return [*masks, objects.labels.tolist(), hand.tolist(), objects.objects]


def rows(document: Document, name: str) -> list[int]:
    """Rows of an object."""
    entry = document.state.objects.named(name)
    assert entry is not None
    return (document.state.objects.labels == entry.label).nonzero()[:, 0].tolist()


def test_every_edit_of_objects_is_undone_and_redone(any_scene: Parameters) -> None:
    document = labelled(any_scene)
    states = [everything(document)]
    steps: list[Callable[[], object]] = [
        lambda: document.apply(edits.hide_object(document.state, 1)),
        lambda: document.apply(edits.show_object(document.state, 1)),
        lambda: document.apply(edits.solo_object(document.state, 2)),
        lambda: document.apply(operations.show_all(document.state)),
        lambda: edits.select_object(document, 1),
        lambda: edits.select_object(document, 2, "add"),
        lambda: document.apply(edits.include_selection(document.state, 1)),
        lambda: document.apply(edits.exclude_selection(document.state, 1)),
        lambda: document.apply(edits.add_object(document.state, "both")),
        lambda: document.apply(edits.change_object(document.state, 3, "all of it", (1, 2, 300))),
        lambda: document.apply(edits.delete_object(document.state, 3)),
        lambda: document.apply(edits.remove_object(document.state, 3, voted=False)),
    ]
    for step in steps:
        step()
        states.append(everything(document))
    for state in reversed(states[:-1]):
        assert document.undo() and everything(document) == state
    for state in states[1:]:
        assert document.redo() and everything(document) == state
    assert len({str(state) for state in states}) > len(steps) - 3, "edits that change nothing"


def test_objects_grow_into_what_belongs_to_none_and_shrink_where_others_are() -> None:
    document = labelled()
    before = rows(document, "low")
    document.apply(edits.grow_object(document, 1))
    grown = rows(document, "low")
    assert grown[: len(before)] == before and before[-1] < grown[-1] <= before[-1] + 6
    for _ in range(5):
        with_rest = rows(document, "low")
        if grown[-1] >= 17:
            break
        document.apply(edits.grow_object(document, 1))
        grown = rows(document, "low")
        assert set(with_rest) < set(grown)
    assert rows(document, "high") == list(range(18, 24)), "nothing is taken from another object"
    with pytest.raises(LuxelError, match="has no neighbours that belong to no object"):
        document.apply(edits.grow_object(document, 1))
    document.apply(edits.shrink_object(document, 1))
    assert set(rows(document, "low")) < set(grown) and 0 in rows(document, "low")
    assert document.state.objects.by_hand is not None
    assert document.state.objects.by_hand[17], "set by hand, and now of no object"


def test_deleting_and_solo_act_on_the_whole_object_in_one_step() -> None:
    document = labelled()
    document.select_all()
    document.apply(edits.solo_object(document.state, 1))
    assert (
        document.shown.nonzero()[:, 0].tolist() == document.selected.nonzero()[:, 0].tolist() == [*range(6)]
    )
    document.undo()
    document.apply(edits.delete_object(document.state, 1))
    assert document.numbers == {"kept": 18, "hidden": 0, "selected": 18}
    low, high = object_counts(document.state)
    assert (low.remaining, low.deleted, low.share) == (0, 6, 0.0) and high.share == pytest.approx(6 / 18)
    document.undo()
    assert object_counts(document.state)[0].remaining == 6


def test_an_object_that_is_selected_exactly_is_known() -> None:
    document = labelled()

    def known() -> int | None:
        return selected_object(object_counts(document.state), document.numbers["selected"])

    assert known() is None
    edits.select_object(document, 2)
    assert known() == 2
    edits.select_object(document, 1, "add")
    assert known() is None


def test_edits_of_objects_are_kept_in_files() -> None:
    document = labelled()
    document.select(torch.arange(24) < 10)
    edit = edits.add_object(document.state, "left")
    read = unpack_edit(pack_edit(edit), edit.title, document.state)
    before = everything(document)
    document.apply(read)
    assert rows(document, "left") == list(range(10)) and rows(document, "low") == []
    document.undo()
    assert everything(document) == before
    change = edit.changes[0]
    assert isinstance(change, ObjectsChange) and edit.nbytes > 10 * 4
    for damaged in (
        ObjectsChange(change.rows + 20, change.before, change.after, change.entries),
        ObjectsChange(change.rows.long(), change.before, change.after, change.entries),
    ):
        with pytest.raises(ValueError, match="rows and labels must be of 24 primitives"):
            unpack_edit(pack_edit(Edit("x", (damaged,))), "x", document.state)


def test_objects_that_another_program_has_changed_are_left_alone_by_undo() -> None:
    document = labelled()
    document.select(torch.arange(24) < 10)
    document.apply(edits.add_object(document.state, "left"))
    other = Objects("", torch.full((24,), 3, dtype=torch.uint8))
    for name in ("a", "b", "c"):
        other.add(name)
    document.state.objects = other
    assert document.undo() and document.state.objects is other
    assert document.redo() and document.state.objects is other


def test_what_cannot_be_kept_is_not_changed() -> None:
    def refuse(objects: Objects) -> None:
        raise LuxelError("no room.", "Make some.")

    document = labelled(keep=refuse)
    document.select(torch.arange(24) < 10)
    before = everything(document)
    for make in (
        lambda: edits.add_object(document.state, "left"),
        lambda: edits.change_object(document.state, 1, "renamed", (0, 0, 0)),
        lambda: edits.grow_object(document, 1),
    ):
        with pytest.raises(LuxelError, match="no room"):
            document.apply(make())
        assert everything(document) == before and len(document.history.undo_titles) == 1


def test_edits_of_objects_that_cannot_be_made() -> None:
    document = labelled()
    state = document.state

    def refused(match: str, edit: Callable[[], Edit | None]) -> None:
        with pytest.raises(LuxelError, match=match):
            made = edit()
            assert made is None or document.apply(made)

    refused("there is no such object", lambda: edits.hide_object(state, 7))
    refused("nothing is selected", lambda: edits.add_object(state, "x"))
    refused("nothing is selected", lambda: edits.include_selection(state, 1))
    refused("nothing of low is selected", lambda: edits.exclude_selection(state, 1))
    refused("nothing of low is hidden", lambda: edits.show_object(state, 1))
    refused("its masks are retained", lambda: edits.remove_object(state, 1, voted=True))
    edits.select_object(document, 1)
    refused("belongs to low already", lambda: edits.include_selection(state, 1))
    refused("there is an object high already", lambda: edits.add_object(state, " high "))
    refused("there is an object high already", lambda: edits.change_object(state, 1, "high", (0, 0, 0)))
    for name in ("x" * 61, "two\nlines"):
        refused("is no name of an object", lambda name=name: edits.add_object(state, name))
    refused("is no name of an object", lambda: edits.change_object(state, 1, " ", (0, 0, 0)))
    document.apply(edits.hide_object(state, 1))
    refused("nothing of low is shown", lambda: edits.hide_object(state, 1))
    refused("low is hidden or deleted", lambda: edits.select_object(document, 1))
    document.apply(edits.solo_object(state, 1))
    refused("low is next to nothing", lambda: edits.shrink_object(document, 1))
    document.apply(operations.show_all(state))
    document.select(torch.arange(24) == 3)
    document.apply(edits.add_object(state, ""))
    assert state.objects.named("object-3") is not None
    refused("nothing would be left of object-3", lambda: edits.shrink_object(document, 3))
    document.apply(edits.delete_object(state, 3))
    refused("nothing is left of object-3", lambda: edits.delete_object(state, 3))
    refused("nothing is left of object-3", lambda: edits.solo_object(state, 3))
