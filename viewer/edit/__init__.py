"""Editing of scenes without a user interface: selection, operations, history, autosave and files; any primitives.

`Document` holds a scene that is edited, `regions` makes selections, `operations` makes edits of it.
"""

from luxel.viewer.edit.autosave import Autosave
from luxel.viewer.edit.changes import Edit
from luxel.viewer.edit.document import Document
from luxel.viewer.edit.history import History
from luxel.viewer.edit.masks import MODES, Mode, combine

__all__ = ["MODES", "Autosave", "Document", "Edit", "History", "Mode", "combine"]
