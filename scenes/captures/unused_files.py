"""Files of a capture's folder that are not used, by kind."""

from __future__ import annotations

from pathlib import Path

from luxel.scenes.captures.contents import CaptureContents
from luxel.scenes.unused import Unused


def unused_files(path: Path, contents: CaptureContents) -> list[Unused]:
    """The kinds of files in a capture that are not used.

    Args:
        path: the capture, as it was opened.
        contents: what its format has read; images with their masks and depth maps.
    """
    return []
