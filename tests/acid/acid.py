"""Extensions of luxel that are given as new files and a patch, applied to a copy of its sources.

A folder of an extension has ``files/``, new files at their places in the source tree, and ``patch.diff``, the changes
of files that are there. The number of lines of that patch is what an extension costs outside of its own files.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from luxel.render.native import native_folder

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("render", "scenes", "viewer", ".editor")
# Import hooks of an installation would find its sources in place of the copy.
START = """
import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in type(finder).__module__.lower()]
import luxel.render
assert luxel.render.__file__.startswith({root!r}), luxel.render.__file__
"""
LUXEL = "from luxel.viewer.cli import main\nsys.exit(main(sys.argv[1:]))\n"


class Extended(NamedTuple):
    """A copy of the sources with an extension."""

    root: Path

    def python(self, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs code that imports luxel of the copy, in its folder; fails with its output where it fails."""
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.root / ".editor"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "LUXEL_NATIVE_DIR": str(native_folder()),
        }
        words = [sys.executable, "-c", START.format(root=str(self.root)) + code, *arguments]
        done = subprocess.run(words, capture_output=True, text=True, env=environment, cwd=self.root)
        assert done.returncode == 0, f"{arguments}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
        return done

    def luxel(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs a command of luxel of the copy."""
        return self.python(LUXEL, *arguments)


def extended(extension: Path, folder: Path) -> Extended:
    """A copy of the sources in a folder, with the new files and the patch of an extension.

    Args:
        extension: folder with ``files/`` and ``patch.diff``.
        folder: an empty one.
    """
    root = folder.resolve() / "luxel"
    for name in COPIED:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, root / name, symlinks=True, ignore=ignored)
    for file in sorted((extension / "files").rglob("*")):
        place = root / file.relative_to(extension / "files")
        assert file.is_dir() or not place.exists(), f"{place} is no new file"
        place.mkdir(parents=True, exist_ok=True) if file.is_dir() else shutil.copy(file, place)
    words = ["git", "apply", str(extension / "patch.diff")]
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(root.parent)}  # of no repository
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return Extended(root)


def changed_lines(extension: Path) -> int:
    """Number of lines that the patch of an extension adds or removes."""
    lines = (extension / "patch.diff").read_text().splitlines()
    return sum(line[:1] in ("+", "-") and not line.startswith(("+++ ", "--- ")) for line in lines)
