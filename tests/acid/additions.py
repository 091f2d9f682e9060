"""Extensions of luxel that are given as new files and a patch, applied to a copy of its sources.

A folder of an extension has ``files/``, new files at their places in the source tree, and ``patch.diff``, the changes
of files that are there. The number of lines of that patch is what an extension costs outside of its own files.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

from luxel.render.native import native_folder
from luxel.viewer.web.images.first_image import FIRST_IMAGE_PATH

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("render", "scenes", "viewer", ".editor")
# Import hooks of an installation would find its sources in place of the copy.
START = """
import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in type(finder).__module__.lower()]
import luxel.render
assert luxel.render.__file__.startswith({root!r}), luxel.render.__file__
"""
# Options of a short training on the CPU.
SHORT = [
    "--device",
    "cpu",
    "--no-lpips",
    "--no-check-capture",
    "--max-size",
    "64",
    "--init.max-points",
    "600",
]
LUXEL = "from luxel.viewer.cli import main\nsys.exit(main(sys.argv[1:]))\n"


class Extended(NamedTuple):
    """A copy of the sources with an extension, and the folder of the native libraries that it uses."""

    root: Path
    native: Path

    def python(self, code: str, *arguments: object) -> str:
        """Runs code that imports luxel of the copy, in its folder; returns what it printed.

        Raises:
            AssertionError: it failed; with its output.
        """
        words = [*self._words(code), *map(str, arguments)]
        done = subprocess.run(words, capture_output=True, text=True, env=self._environment(), cwd=self.root)
        assert done.returncode == 0, f"{arguments}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
        return done.stdout

    def luxel(self, *arguments: object) -> str:
        """Runs a command of luxel of the copy; returns what it printed."""
        return self.python(LUXEL, *arguments)

    def viewed(self, path: Path) -> bytes:
        """The first image that `luxel view` of the copy shows of a path, a JPEG file."""
        words = [*self._words(LUXEL), "view", str(path), "--port", "0", "--device", "cpu"]
        environment = {**self._environment(), "PYTHONUNBUFFERED": "1"}
        with subprocess.Popen(
            words, env=environment, cwd=self.root, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                assert process.stdout is not None
                address = next(line for line in process.stdout if line.startswith("viewer: ")).split()[1]
                for _ in range(100):
                    with urlopen(f"{address}{FIRST_IMAGE_PATH.strip('/')}?width=64&height=48") as answer:
                        if image := answer.read():
                            return image
                    time.sleep(0.2)
                raise AssertionError("there is no image")
            finally:
                process.send_signal(signal.SIGINT)

    def _words(self, code: str) -> list[str]:
        return [sys.executable, "-c", START.format(root=str(self.root)) + code]

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(
                [str(self.root / ".editor"), *filter(None, [os.environ.get("PYTHONPATH")])]
            ),
            "PYTHONDONTWRITEBYTECODE": "1",
            "LUXEL_NATIVE_DIR": str(self.native),
        }


def extended(extension: Path, folder: Path, *more: str) -> Extended:
    """A copy of the sources in a folder, with the new files and the patch of an extension.

    Args:
        extension: folder with ``files/`` and ``patch.diff``.
        folder: an empty one.
        more: further folders of the sources, such as "cuda".
    """
    root = folder.resolve() / "luxel"
    for name in (*COPIED, *more):
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
    return Extended(root, native_folder())


def changed_lines(extension: Path) -> int:
    """How many lines of existing files the patch of an extension adds or changes; a changed line counts once."""
    total = added = removed = 0
    for line in [*(extension / "patch.diff").read_text().splitlines(), "@@"]:
        if line.startswith(("@@", "--- ", "+++ ", "diff ")):
            total, added, removed = total + max(added, removed), 0, 0
        else:
            added, removed = added + line.startswith("+"), removed + line.startswith("-")
    return total
