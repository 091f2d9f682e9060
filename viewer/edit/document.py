"""A scene that is being edited: its state, its history, and what is rendered and saved of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from weakref import ref

import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.primitives import Parameters
from luxel.render.primitives.similarity import Similarity
from luxel.render.segment.objects import Objects
from luxel.scenes import save_scene
from luxel.scenes.files.scene_format import SceneFacts
from luxel.viewer.edit import operations
from luxel.viewer.edit.changes import Edit, State, no_objects
from luxel.viewer.edit.history import History
from luxel.viewer.edit.masks import Mode, combine
from luxel.viewer.edit.neighbourhood import NeighbourGraphs, Neighbourhood

HIGHLIGHT = (1.0, 0.72, 0.1)  # colour of the selection in the images
FOREIGN = (0.1, 0.7, 1.0)  # of one that another page has made
HIGHLIGHT_WEIGHT = 0.65
INVISIBLE = -40.0  # logit of an opacity that no image shows


class Document:
    """An edited scene. Its own rows are never removed or reordered, so that every edit can be taken back exactly.

    Not safe for threads: callers hold a lock of their own.

    Args:
        scene: the scene as it was opened; its tensors are not written to.
        on_edit: called after each edit, undo and redo with the edit (None: undo, redo) and the document.
        history: a new one; None: one whose older edits wait in a temporary file of the system's folder.
        objects: of the scene; None: none.
        keep: see `State`; None: objects live as long as the document.
        facts: written into files next to the primitives; None: none.

    Attributes:
        state: all rows, masks, named selections and objects.
        history: for undo and redo.
        version: increases with each edit, undo and redo.
        facts: see above.
        graphs: nearest neighbours for `grow` and `shrink`; to be asked for in advance, as the first one takes a while.
    """

    def __init__(
        self,
        scene: Parameters,
        on_edit: Callable[[Edit | None, Document], None] | None = None,
        history: History | None = None,
        objects: Objects | None = None,
        keep: Callable[[Objects], None] | None = None,
        facts: SceneFacts | None = None,
    ) -> None:
        none = torch.zeros(scene.count, dtype=torch.bool, device=scene.device)
        masks = {name: none for name in ("selected", "hidden", "deleted")}
        self.state = State(scene.detach(), masks, {}, no_objects(scene.count) if objects is None else objects)
        if keep is not None:
            self.state.keep = keep
        self.history = History() if history is None else history
        self.version = 0
        self._opened = ref(self.state.scene)
        self.on_edit = on_edit
        self.facts = facts
        self.graphs = NeighbourGraphs()
        self._grows = False  # whether the selection was grown or shrunk

    @property
    def selected(self) -> Tensor:
        """The selection, bool [N]; never of hidden or deleted rows."""
        return self.state.masks["selected"]

    @property
    def shown(self) -> Tensor:
        """Rows that are neither hidden nor deleted, bool [N]."""
        return self.state.shown

    @property
    def changed(self) -> bool:
        """Whether edits in effect may have changed what `save` writes."""
        if not self.history.undo_titles:
            return False
        return bool(self.state.masks["deleted"].any()) or self.state.scene is not self._opened()

    @property
    def numbers(self) -> dict[str, int]:
        """How many rows are retained, hidden and selected."""
        masks = self.state.masks
        stacked = torch.stack([masks["deleted"], masks["hidden"] & ~masks["deleted"], masks["selected"]])
        deleted, hidden, selected = stacked.sum(1).tolist()
        return {"kept": self.state.scene.count - deleted, "hidden": hidden, "selected": selected}

    def apply(self, edit: Edit) -> None:
        """Makes an edit of `luxel.viewer.edit.operations`."""
        self.history.apply(self.state, edit)
        self._changed(edit)

    def undo(self) -> bool:
        """Takes the last edit back; false if there is none."""
        return self._stepped(self.history.undo(self.state))

    def redo(self) -> bool:
        """Makes the edit again that was taken back last; false if there is none."""
        return self._stepped(self.history.redo(self.state))

    def _stepped(self, done: bool) -> bool:
        if done:
            self._changed(None)
        return done

    def _changed(self, edit: Edit | None) -> None:
        self.version += 1
        if self.on_edit is not None:
            self.on_edit(edit, self)

    def select(self, mask: Tensor, mode: Mode = "replace", title: str = "Select") -> bool:
        """Combines the selection with the shown rows of a mask, bool [N]; false if that changes nothing."""
        after = combine(self.selected, mask & self.shown, mode)
        if torch.equal(after, self.selected):
            return False
        self.apply(operations.select(self.state, after, title))
        return True

    def select_all(self) -> bool:
        """Selects all that is shown."""
        return self.select(self.shown, title="Select all")

    def select_none(self) -> bool:
        """Selects nothing."""
        return self.select(torch.zeros_like(self.selected), title="Select none")

    def invert(self) -> bool:
        """Selects what is shown and not selected."""
        return self.select(~self.selected, title="Invert")

    def grow(self) -> bool:
        """Adds the neighbours of the selection to it."""
        return self.select(self.neighbourhood().grow(self.selected, self.shown), title="Grow")

    def shrink(self) -> bool:
        """Removes those from the selection that are next to others that are shown."""
        return self.select(self.neighbourhood().shrink(self.selected, self.shown), title="Shrink")

    def select_set(self, name: str, mode: Mode = "replace") -> bool:
        """Selects what was stored under a name.

        Raises:
            LuxelError: there is no such set.
        """
        if name not in self.state.sets:
            raise LuxelError(f"there is no selection named {name!r}.", "Store one first.")
        return self.select(self.state.sets[name].unpack(self.selected.device), mode, f"Select {name}")

    def neighbourhood(self) -> Neighbourhood:
        """The nearest neighbours of what is shown; the first one takes a while."""
        self._grows = True
        return self.graphs.of(self.state.scene, self.shown)

    @property
    def graph_due(self) -> bool:
        """Whether `graphs` should be asked for in advance: none was built, or primitives moved and `grow` was used."""
        return not self.graphs.built_for(self.state.scene) and (self._grows or not self.graphs.built)

    def pivot(self) -> tuple[float, float, float]:
        """The median of the selected centres, [3].

        Raises:
            LuxelError: nothing is selected.
        """
        centres = self.state.scene.centres[self.selected]
        if not len(centres):
            raise LuxelError("nothing is selected.", "Select primitives first.")
        x, y, z = centres.median(0).values.tolist()
        return x, y, z

    def drawn(
        self,
        highlight: bool = True,
        preview: Similarity | None = None,
        selected: Tensor | None = None,
        colour: tuple[float, float, float] = HIGHLIGHT,
    ) -> Parameters:
        """What a viewer draws: all rows, hidden and deleted ones transparent, the selection tinted.

        Much cheaper than leaving rows out: only opacities and base colours are new tensors.

        Args:
            highlight: tint the selection.
            preview: shows the selection transformed, without an edit.
            selected: tint these rows instead of the selection, bool [N].
            colour: of the tint, in [0, 1].
        """
        state = self.state
        tinted = self.selected if selected is None else selected
        if preview is not None and bool(self.selected.any()):
            state = State(state.scene, dict(state.masks), {})
            operations.transform(state, preview).exchange(state)
        scene = state.scene
        tensors = scene.tensors()
        tensors["opacity_logits"] = scene.opacity_logits.masked_fill(~self.shown, INVISIBLE)
        drawn = type(scene)(**tensors)
        if not highlight or not bool(tinted.any()):
            return drawn
        colours = scene.base_colours
        tint = colours.new_tensor(colour)
        weight = HIGHLIGHT_WEIGHT * tinted[:, None].to(colours)
        return drawn.with_base_colours(torch.lerp(colours, tint, weight))

    def remaining(self) -> Parameters:
        """The scene without its deleted rows; hidden ones are part of it."""
        return self.state.scene.select(~self.state.masks["deleted"])

    def selection(self) -> Parameters:
        """The selected primitives.

        Raises:
            LuxelError: nothing is selected.
        """
        if not bool(self.selected.any()):
            raise LuxelError("nothing is selected.", "Select what is to be exported.")
        return self.state.scene.select(self.selected)

    def save(
        self,
        path: str | Path,
        *,
        selection: bool = False,
        rows: Tensor | None = None,
        overwrite: bool = False,
    ) -> int:
        """Writes the edited scene, or a part of it, in the format of the path's suffix.

        Args:
            path: of a new file.
            selection: write the selection alone.
            rows: write these alone, bool [N]; deleted ones are left out.
            overwrite: replace a file that exists.

        Returns:
            The number of primitives written.

        Raises:
            LuxelError: the file exists, nothing is selected, there are no such rows, or the file cannot be written.
        """
        if os.path.lexists(path) and not overwrite:
            raise LuxelError(f"{path} exists already.", "Choose another name.")
        if rows is not None:
            scene = self.state.scene.select(rows.to(self.selected.device) & ~self.state.masks["deleted"])
            if not scene.count:
                raise LuxelError("no primitives are left to write.", "Undo their deletion.")
        else:
            scene = self.selection() if selection else self.remaining()
        save_scene(path, scene, facts=self.facts)
        return scene.count
