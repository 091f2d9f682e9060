"""The interface of a scene format: a file type that stores primitives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

from luxel.render.primitives import Parameters
from luxel.scenes.files.axes import OWN
from luxel.scenes.unused import Unused

LABEL = "label"  # property or tensor with the labels of primitives


@dataclass(frozen=True)
class SceneFacts:
    """What is known of a scene alongside its primitives; None: it is not known.

    Args:
        antialiased: whether it was trained with Mip-Splatting's opacity compensation.
        up: direction, of length 1.
        metres: length of its unit.
        shift: what was subtracted from the coordinates of its capture, which are those of the scene plus this.
    """

    antialiased: bool | None = None
    up: tuple[float, float, float] | None = None
    metres: float | None = None
    shift: tuple[float, float, float] | None = None


FACTS = tuple(field.name for field in fields(SceneFacts))


@dataclass(frozen=True)
class SceneFormat:
    """A file format of primitives; `luxel.scenes.files.registry` lists all.

    Args:
        suffix: of its files, in lower case, with the dot; of several, such as .compressed.ply, the longest counts.
        about: what it stores, a clause for help texts.
        load: reads a file; None: the format is only written. Raises CaptureError for files that are unreadable or
            invalid.
        save: called as save(path, scene, **options); None: the format is only read. Raises CaptureError where the
            file cannot be written.
        primitives: classes of primitives that it stores; None: all.
        options: names of the options of ``save``, each off by default.
        axes: of its specification, see `luxel.scenes.files.axes`; ``load`` and ``save`` know these alone.
        read_axes: the axes that a file states for itself, which ``load`` does not apply; None: those of ``axes``.
        sh_degree: highest degree of spherical harmonics that it stores.
        holds: names of SceneFacts that it stores; ``save`` then takes ``facts``, in its axes.
        read_facts: reads them; None: it stores none.
        read_unused: what a file holds that ``load`` and ``read_facts`` do not use; None: nothing can be in it.
        recognises: whether a path is of this format whatever its suffix; for folders, and suffixes of two formats.
    """

    suffix: str
    about: str
    load: Callable[[Path], Parameters] | None = None
    save: Callable[..., None] | None = None
    primitives: tuple[type[Parameters], ...] | None = None
    options: tuple[str, ...] = ()
    axes: str = OWN
    sh_degree: int = 3
    holds: tuple[str, ...] = ()
    read_facts: Callable[[Path], SceneFacts] | None = None
    read_axes: Callable[[Path], str] | None = None
    read_unused: Callable[[Path], list[Unused]] | None = None
    recognises: Callable[[Path], bool] | None = None

    def stores(self, scene: Parameters) -> bool:
        """Whether files of this format can store the primitives of a scene."""
        return self.primitives is None or isinstance(scene, self.primitives)
