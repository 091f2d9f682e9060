"""Operations, undo and redo, and files, on every primitive."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.primitives import Gaussians, Parameters
from luxel.render.primitives.similarity import Similarity
from luxel.scenes import load_primitives
from luxel.viewer.edit import Document, operations
from luxel.viewer.edit.regions import above_plane

QUARTER = (0.7071067811865476, 0.0, 0.0, 0.7071067811865476)  # a quarter turn about z


def lower_half(scene: Parameters) -> Tensor:
    return above_plane(scene.centres, (0, 0, 2.5), (0, 0, -1))


def same(a: Parameters, b: Parameters) -> bool:
    """Whether two scenes are equal bit for bit."""
    return all(torch.equal(x, y) for x, y in zip(a.tensors().values(), b.tensors().values(), strict=True))


def everything(document: Document) -> list[Tensor]:
    """All that edits change."""
    return [*document.state.scene.tensors().values(), *document.state.masks.values()]


def test_every_edit_is_undone_and_redone_bit_for_bit(any_scene: Parameters) -> None:
    before = any_scene.map(torch.clone)
    document = Document(any_scene)
    states = [everything(document)]

    def note() -> None:
        states.append(everything(document))

    document.select(lower_half(any_scene))
    note()
    document.apply(operations.transform(document.state, Similarity.about((1, 2, 3), quat=QUARTER, scale=1.5)))
    note()
    document.apply(operations.recolour(document.state, tint=(1.2, 0.5, 0.5), brightness=0.1, saturation=0.5))
    note()
    document.apply(operations.scale_opacity(document.state, 0.5))
    note()
    document.apply(operations.hide(document.state))
    note()
    document.select(document.state.scene.centres[:, 0] > 2)
    note()
    document.apply(operations.delete(document.state))
    note()
    document.apply(operations.show_all(document.state))
    note()
    assert same(any_scene, before), "the scene that was opened is not written to"
    for state in reversed(states[:-1]):
        assert document.undo()
        assert all(torch.equal(a, b) for a, b in zip(everything(document), state, strict=True))
    assert not document.undo() and same(document.remaining(), before)
    for state in states[1:]:
        assert document.redo()
        assert all(torch.equal(a, b) for a, b in zip(everything(document), state, strict=True))
    assert not document.redo()


def test_untouched_rows_stay_as_they_are(any_scene: Parameters) -> None:
    document = Document(any_scene)
    document.select(lower_half(any_scene))
    rest = ~document.selected
    document.apply(operations.transform(document.state, Similarity(translation=(1.0, 0.0, 0.0))))
    document.apply(operations.recolour(document.state, brightness=0.2))
    assert same(document.state.scene.select(rest), any_scene.select(rest))
    moved = document.state.scene.centres[~rest] - any_scene.centres[~rest]
    torch.testing.assert_close(moved, torch.tensor([[1.0, 0, 0]]).expand_as(moved))
    brighter = document.state.scene.base_colours[~rest] - any_scene.base_colours[~rest]
    torch.testing.assert_close(brighter, torch.full_like(brighter, 0.2))
    document.apply(operations.delete(document.state))
    assert same(document.remaining(), any_scene.select(rest))


def test_hidden_rows_are_neither_drawn_nor_selected_but_saved(any_scene: Parameters, tmp_path: Path) -> None:
    document = Document(any_scene)
    half = lower_half(any_scene)
    document.select(half)
    document.apply(operations.hide(document.state))
    assert document.numbers == {"kept": 216, "hidden": 108, "selected": 0}
    assert float(document.drawn().opacities[half].max()) < 1e-12
    assert torch.equal(document.drawn().opacities[~half], any_scene.opacities[~half])
    document.select_all()
    assert torch.equal(document.selected, ~half)
    document.save(tmp_path / "all.ply")
    assert same(load_primitives(tmp_path / "all.ply"), any_scene)


def test_save_and_export_write_what_is_kept_and_selected(any_scene: Parameters, tmp_path: Path) -> None:
    document = Document(any_scene)
    half = lower_half(any_scene)
    document.select(half)
    assert document.save(tmp_path / "part.ply", selection=True) == 108
    assert same(load_primitives(tmp_path / "part.ply"), any_scene.select(half))
    document.apply(operations.solo(document.state))
    assert torch.equal(document.shown, half) and torch.equal(document.selected, half)
    document.undo()
    document.apply(operations.crop(document.state))
    assert document.save(tmp_path / "cropped.ply") == 108
    assert same(load_primitives(tmp_path / "cropped.ply"), any_scene.select(half))
    with pytest.raises(LuxelError, match="exists already"):
        document.save(tmp_path / "cropped.ply")
    document.select_none()
    with pytest.raises(LuxelError, match="nothing is selected"):
        document.save(tmp_path / "none.ply", selection=True)
    assert not (tmp_path / "none.ply").exists()
    document.save(tmp_path / "cropped.ply", overwrite=True)


def test_selection_is_tinted_in_what_is_drawn_only(any_scene: Parameters) -> None:
    document = Document(any_scene)
    half = lower_half(any_scene)
    document.select(half)
    change = (document.drawn().base_colours - any_scene.base_colours).abs().amax(-1)
    assert bool((change[half] > 0.05).all()) and float(change[~half].max()) < 1e-5
    assert same(document.remaining(), any_scene)
    assert same(document.drawn(highlight=False), any_scene)


def test_opacity_factor_and_its_limits(any_scene: Parameters) -> None:
    document = Document(any_scene)
    document.select_all()
    document.apply(operations.scale_opacity(document.state, 0.5))
    torch.testing.assert_close(document.state.scene.opacities, 0.5 * any_scene.opacities)
    document.apply(operations.scale_opacity(document.state, 1e9))
    assert bool((document.state.scene.opacities > 0.999).all())
    assert bool(document.state.scene.opacity_logits.isfinite().all())
    for factor in (0.0, -1.0, float("nan")):
        with pytest.raises(LuxelError):
            operations.scale_opacity(document.state, factor)


def test_a_new_edit_drops_what_was_undone(grid: Callable[..., Gaussians]) -> None:
    document = Document(grid())
    document.select_all()
    document.apply(operations.delete(document.state))
    document.undo()
    assert list(document.history.redo_titles) == ["Delete"]
    document.apply(operations.hide(document.state))
    assert list(document.history.undo_titles) == ["Select all", "Hide"]
    assert not document.history.redo_titles and not document.redo()


def test_edits_of_nothing_are_refused_and_leave_no_trace(grid: Callable[..., Gaussians]) -> None:
    document = Document(grid())
    with pytest.raises(LuxelError, match="nothing is selected"):
        document.apply(operations.transform(document.state, Similarity(scale=2)))
    assert not document.select_none() and not document.history.undo_titles
    with pytest.raises(LuxelError, match="no selection named"):
        document.select_set("tree")


def test_differences_are_small(grid: Callable[..., Gaussians]) -> None:
    document = Document(grid(30))  # 27,000 rows
    document.select(torch.arange(27_000) < 100)
    assert document.history.nbytes == 400, "few rows are stored as positions"
    document.invert()
    assert document.history.nbytes == 400 + 27_000 // 8, "many as bits"
    before = document.history.nbytes
    document.select(torch.arange(27_000) < 50)
    document.apply(operations.transform(document.state, Similarity(translation=(1, 0, 0))))
    row = 8 + 3 * 4
    assert document.history.nbytes <= before + 27_000 // 8 + 50 * row + 8, "only the centres are stored"


def test_named_selections_survive_edits_and_undo(grid: Callable[..., Gaussians]) -> None:
    document = Document(grid())
    half = lower_half(document.state.scene)
    document.select(half)
    document.apply(operations.store_set(document.state, "floor"))
    document.select(document.state.scene.centres[:, 0] > 2)
    document.select_set("floor", "intersect")
    assert torch.equal(document.selected, half & (document.state.scene.centres[:, 0] > 2))
    document.apply(operations.delete(document.state))
    document.select_set("floor")
    assert torch.equal(document.selected, half & (document.state.scene.centres[:, 0] <= 2))
    document.apply(operations.remove_set(document.state, "floor"))
    assert not document.state.sets
    document.undo()
    assert list(document.state.sets) == ["floor"]
