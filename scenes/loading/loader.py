"""The interface of a loader: a kind of path that holds a scene, and what writes such scenes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch

from luxel.render.raster import Backend
from luxel.render.scene import Scene


class LoadOptions(NamedTuple):
    """How a scene is opened.

    Args:
        keep_non_finite: of primitives, see `luxel.scenes.files.scene_files.finite_primitives`.
        axes: of a file that ignores the specification of its format, see `luxel.scenes.files.axes`.
        backend: rasterizer backend of primitives.
        device: that draws it.
        measured: whether the up direction and the length of a unit are those that the user has measured, where there
            are such (`luxel.scenes.measuring`), or those of the file or run alone.
    """

    keep_non_finite: bool = False
    axes: str | None = None
    backend: Backend = "luxel"
    device: torch.device = torch.device("cpu")
    measured: bool = True


DEFAULT = LoadOptions()


class Writer(NamedTuple):
    """Writes scenes that have a part.

    Args:
        needs: the type of the part, of `Scene.parts`.
        suffixes: of the files that it writes, in lower case, with the dot.
        write: called as write(path, part, options).
    """

    needs: type
    suffixes: Callable[[], tuple[str, ...]]
    write: Callable[[Path, Any, Mapping[str, Any]], None]


class Loader(NamedTuple):
    """A kind of path that holds a scene.

    Args:
        about: what it is, for messages.
        recognises: whether an existing path is of this kind; reads no more of it than a header.
        load: opens it, on the device of the options.
        writers: of scenes that have such parts.
    """

    about: str
    recognises: Callable[[Path], bool]
    load: Callable[[Path, LoadOptions], Scene]
    writers: tuple[Writer, ...] = ()
