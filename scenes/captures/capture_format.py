"""The interface of a capture format: how a data set on disk is recognised and read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from luxel.scenes.captures.contents import CaptureContents
from luxel.scenes.captures.panorama_options import PanoramaOptions

Progress = Callable[[str, float], None]  # called with the name of a stage and its fraction done in [0, 1]


def ignore_progress(stage: str, fraction: float) -> None:
    """A Progress that does nothing."""


@dataclass(frozen=True)
class ReadOptions:
    """Options of `luxel.scenes.open` that concern the reading of files.

    Args:
        masks: "auto", "cutout", "ignore" or "none": how masks are used, see `luxel.scenes.open`.
        cache_dir: folder for computed results; None: ``.luxel`` in the capture, or ~/.cache/luxel.
        on_progress: called with (stage, fraction done in [0, 1]).
        frames: that are chosen of a video; None: by its length.
        cut_object: masks the object in the middle of images without masks before poses are estimated.
        panorama: how panoramas are recognised and cut.
    """

    masks: str = "auto"
    cache_dir: str | Path | None = None
    on_progress: Progress = ignore_progress
    frames: int | None = None
    cut_object: bool = False
    panorama: PanoramaOptions = field(default_factory=PanoramaOptions)


@dataclass(frozen=True)
class CaptureFormat:
    """A format of captures on disk; `luxel.scenes.captures.registry` lists all.

    Args:
        name: for display and error messages.
        mismatch: called with a path that exists. Returns None where it holds a capture of this format, otherwise the
            reason why it does not, as a phrase ("there is no transforms.json"). Raises CaptureError for a capture of
            this format that is incomplete.
        read: called with a path that ``mismatch`` accepts. Raises CaptureError where a file is missing or invalid; the
            message names the file or frame.
    """

    name: str
    mismatch: Callable[[Path], str | None]
    read: Callable[[Path, ReadOptions], CaptureContents]
