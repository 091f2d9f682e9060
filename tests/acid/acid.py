"""Extensions that stand beside the source tree: new files and a patch, applied to a copy of it and run there."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

from luxel.render.native import native_folder
from luxel.viewer.web.images.first_image import FIRST_IMAGE_PATH

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("render", "scenes", "viewer")


def changed_lines(extension: Path) -> int:
    """Lines that the patch of an extension adds or changes in files that are there already."""
    patch = (extension / "patch.diff").read_text()
    return len(re.findall(r"^\+(?!\+\+ )", patch, re.MULTILINE))


class PatchedTree:
    """A copy of the source tree with an extension.

    Args:
        extension: folder with ``files``, which are added, and ``patch.diff``.
        folder: that takes the copy.
    """

    def __init__(self, extension: Path, folder: Path) -> None:
        ignored = shutil.ignore_patterns("__pycache__")
        for package in PACKAGES:
            shutil.copytree(ROOT / package, folder / "luxel" / package, ignore=ignored)
        subprocess.run(
            ["patch", "--strip=1", "--fuzz=0", f"--input={extension / 'patch.diff'}"],
            cwd=folder / "luxel",
            check=True,
            stdout=subprocess.DEVNULL,
        )
        for path in (extension / "files").rglob("*.py"):
            target = folder / "luxel" / path.relative_to(extension / "files")
            assert not target.exists(), f"{target} is there already: it belongs into the patch"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
        self.environment = os.environ | {"PYTHONPATH": str(folder), "LUXEL_NATIVE_DIR": str(native_folder())}

    def python(self, code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        """Runs a program in the copy."""
        words = [sys.executable, "-c", code, *map(str, arguments)]
        return subprocess.run(
            words, env=self.environment, capture_output=True, text=True, check=False, timeout=300
        )

    def viewed(self, path: Path) -> bytes:
        """The first image that `luxel view` shows of a path, a JPEG file."""
        code = "import sys; from luxel.viewer.cli import main; sys.exit(main(sys.argv[1:]))"
        words = [sys.executable, "-u", "-c", code, "view", str(path), "--port", "0", "--device", "cpu"]
        with subprocess.Popen(words, env=self.environment, stdout=subprocess.PIPE, text=True) as process:
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

    def luxel(self, *arguments: object) -> str:
        """Runs a command of luxel in the copy; returns what it printed."""
        code = "import sys; from luxel.viewer.cli import main; sys.exit(main(sys.argv[1:]))"
        done = self.python(code, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout
