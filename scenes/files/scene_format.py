"""The interface of a scene format: a file type that stores primitives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from luxel.render.primitives import Parameters

LABEL = "label"  # property or tensor with the labels of primitives


@dataclass(frozen=True)
class SceneFormat:
    """A file format of primitives; `luxel.scenes.files.formats` lists all.

    Args:
        suffix: of its files, in lower case, with the dot.
        about: what it stores, a clause for help texts.
        load: reads a file; None: the format is only written. Raises CaptureError for files that are unreadable or
            invalid.
        save: called as save(path, scene, **options); None: the format is only read. Raises CaptureError where the
            file cannot be written.
        primitives: classes of primitives that it stores; None: all.
        options: names of the options of ``save``, each off by default.
    """

    suffix: str
    about: str
    load: Callable[[Path], Parameters] | None = None
    save: Callable[..., None] | None = None
    primitives: tuple[type[Parameters], ...] | None = None
    options: tuple[str, ...] = ()

    def stores(self, scene: Parameters) -> bool:
        """Whether files of this format can store the primitives of a scene."""
        return self.primitives is None or isinstance(scene, self.primitives)
