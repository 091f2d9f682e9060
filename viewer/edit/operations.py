"""Edits of a document's state: each function makes one `Edit`, which the document's history applies."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.primitives import Parameters
from luxel.render.primitives.similarity import Similarity
from luxel.viewer.edit.changes import Edit, MaskChange, SetChange, State, changed_rows
from luxel.viewer.edit.masks import PackedMask

MAX_OPAQUE = 1 - 1e-6  # the largest opacity that an edit gives


def select(state: State, mask: Tensor, title: str = "Select") -> Edit:
    """Selects the rows of a mask, bool [N]."""
    return Edit(title, (MaskChange.between("selected", state.masks["selected"], mask),))


def delete(state: State) -> Edit:
    """Deletes the selection; nothing is selected afterwards.

    Raises:
        LuxelError: nothing is selected.
    """
    return _move_selection(state, "deleted", "Delete")


def hide(state: State) -> Edit:
    """Hides the selection; nothing is selected afterwards.

    Raises:
        LuxelError: nothing is selected.
    """
    return _move_selection(state, "hidden", "Hide")


def show_all(state: State) -> Edit:
    """Shows what is hidden.

    Raises:
        LuxelError: nothing is hidden.
    """
    hidden = state.masks["hidden"]
    if not bool(hidden.any()):
        raise LuxelError("nothing is hidden.", "Hide a selection first.")
    return Edit("Show all", (MaskChange.between("hidden", hidden, torch.zeros_like(hidden)),))


def crop(state: State) -> Edit:
    """Deletes all that is shown and not selected; hidden primitives stay.

    Raises:
        LuxelError: nothing is selected.
    """
    return _move_rest(state, "deleted", "Crop")


def solo(state: State) -> Edit:
    """Hides all that is shown and not selected.

    Raises:
        LuxelError: nothing is selected.
    """
    return _move_rest(state, "hidden", "Solo")


def _move_rest(state: State, name: str, title: str) -> Edit:
    """Adds all that is shown and not selected to a mask."""
    _need_selection(state)
    before, rest = state.masks[name], state.shown & ~state.masks["selected"]
    return Edit(title, (MaskChange.between(name, before, before | rest),))


def _move_selection(state: State, name: str, title: str) -> Edit:
    """Adds the selection to a mask, and selects nothing."""
    _need_selection(state)
    before, selected = state.masks[name], state.masks["selected"]
    return Edit(
        title,
        (
            MaskChange.between(name, before, before | selected),
            MaskChange.between("selected", selected, torch.zeros_like(selected)),
        ),
    )


def transform(state: State, similarity: Similarity, title: str = "Transform") -> Edit:
    """Moves, rotates and scales the selection.

    Raises:
        LuxelError: nothing is selected, or the primitive does not support it.
    """
    return _change_rows(state, title, lambda scene: scene.transformed(similarity), turns=similarity.turns)


def recolour(
    state: State, *, tint: Sequence[float] = (1.0, 1.0, 1.0), brightness: float = 0.0, saturation: float = 1.0
) -> Edit:
    """Changes the base colours of the selection: saturation, then times the tint, plus the brightness.

    Args:
        tint: factors of red, green and blue, [3].
        brightness: added, -1 to 1.
        saturation: 0 is grey, 1 as it is.

    Raises:
        LuxelError: nothing is selected, or a number is not finite.
    """
    _need_finite(*tint, brightness, saturation)

    def change(scene: Parameters) -> Parameters:
        colours = scene.base_colours
        grey = colours.mean(-1, keepdim=True)
        colours = grey + saturation * (colours - grey)
        return scene.with_base_colours(colours * colours.new_tensor(list(tint)) + brightness)

    return _change_rows(state, "Recolour", change)


def scale_opacity(state: State, factor: float) -> Edit:
    """Multiplies the opacities of the selection, at most to nearly 1.

    Raises:
        LuxelError: nothing is selected, or the factor is not above 0.
    """
    _need_finite(factor)
    if not factor > 0:
        raise LuxelError(
            f"the factor of the opacity is {factor}.", "Give one above 0; to remove primitives, delete them."
        )

    def change(scene: Parameters) -> Parameters:
        opacities = (scene.opacities.double() * factor).clamp(1e-12, MAX_OPAQUE)
        logits = opacities.log() - (-opacities).log1p()
        return type(scene)(**(scene.tensors() | {"opacity_logits": logits.to(scene.opacity_logits)}))

    return _change_rows(state, "Opacity", change)


def store_set(state: State, name: str) -> Edit:
    """Stores the selection under a name; replaces one of that name."""
    return Edit(f"Store {name}", (SetChange(name, PackedMask(state.masks["selected"])),))


def remove_set(state: State, name: str) -> Edit:
    """Removes a named selection."""
    return Edit(f"Remove {name}", (SetChange(name, None),))


def _change_rows(
    state: State, title: str, change: Callable[[Parameters], Parameters], *, turns: bool = False
) -> Edit:
    """The edit that applies ``change`` to the selected rows.

    Args:
        turns: whether the change concerns spherical harmonics above degree 0, most of a scene's memory.
    """
    _need_selection(state)
    scene = state.scene
    if not turns and "sh_rest" in scene.names:
        scene = type(scene)(**(scene.tensors() | {"sh_rest": scene.sh_rest[:, :0]}))
    rows = state.masks["selected"].nonzero()[:, 0]
    return Edit(title, (changed_rows(scene, change, rows),))


def _need_selection(state: State) -> None:
    if not bool(state.masks["selected"].any()):
        raise LuxelError("nothing is selected.", "Select primitives first.")


def _need_finite(*numbers: float) -> None:
    if not all(math.isfinite(number) for number in numbers):
        raise LuxelError(f"{list(numbers)}: all must be finite numbers.", "Check the values.")
