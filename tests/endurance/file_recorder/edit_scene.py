"""Edits a scene as the page does, with autosave. ``python edit_scene.py SCENE FOLDER``"""

from __future__ import annotations

import sys
from pathlib import Path

from luxel.scenes.files.scene_files import load_primitives
from luxel.viewer.edit import Autosave, Document, operations


def edit(scene_file: Path, folder: Path) -> None:
    """Makes, undoes and drops edits, in two sessions."""
    scene = load_primitives(scene_file)
    for _ in range(2):
        autosave = Autosave.within(folder, scene)
        document = Document(scene, autosave)
        document.select(scene.centres[:, 0] > 0)
        document.apply(operations.recolour(document.state, brightness=0.1))
        document.apply(operations.delete(document.state))
        document.undo()
        document.apply(operations.hide(document.state))
        autosave.close()
        if autosave.problem:
            sys.exit(f"{folder}: {autosave.problem}")


if __name__ == "__main__":
    edit(Path(sys.argv[1]), Path(sys.argv[2]))
