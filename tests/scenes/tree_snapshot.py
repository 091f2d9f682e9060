"""What is below a folder, to see that a command left it as it was."""

from __future__ import annotations

import os
from pathlib import Path


def snapshot(folder: Path) -> dict[str, tuple[int, bytes | str]]:
    """Everything below a folder: time of change, and content or target."""
    out: dict[str, tuple[int, bytes | str]] = {}
    for parent, folders, files in os.walk(folder):
        for path in (Path(parent, name) for name in [*folders, *files]):
            status = path.lstat()
            content: bytes | str = ""
            if path.is_symlink():
                content = os.readlink(path)
            elif path.is_file():
                content = path.read_bytes()
            # The time of a folder changes with what is in it, which is compared itself.
            out[str(path.relative_to(folder))] = (0 if path.is_dir() else status.st_mtime_ns, content)
    return out
