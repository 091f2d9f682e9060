"""A copy of luxel's source with an addition: new files below NAME/new, and NAME/patch.diff of existing files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
SOURCE = ("render", "scenes", "viewer", ".editor")


def shared_lines(name: str) -> int:
    """How many lines of existing files the patch of an addition adds or changes; a changed line counts once."""
    total = added = removed = 0
    for line in [*(HERE / name / "patch.diff").read_text().splitlines(), "@@"]:
        if line.startswith(("@@", "--- ", "+++ ", "diff ")):
            total, added, removed = total + max(added, removed), 0, 0
        else:
            added, removed = added + line.startswith("+"), removed + line.startswith("-")
    return total


def copy_with(name: str, folder: Path, *more: str) -> Path:
    """A copy of luxel's source in a folder, with an addition.

    Args:
        name: of the addition.
        folder: where the copy is made.
        more: further folders of the source, such as "cuda".
    """
    skipped = shutil.ignore_patterns("__pycache__", "node_modules")
    for part in (*SOURCE, *more):
        shutil.copytree(ROOT / part, folder / part, symlinks=True, ignore=skipped)
    for path in sorted((HERE / name / "new").rglob("*")):
        target = folder / path.relative_to(HERE / name / "new")
        if path.is_file() and "__pycache__" not in path.parts:
            assert not target.exists(), (
                f"{target}: there already; an addition changes files only by its patch"
            )
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    patch = (HERE / name / "patch.diff").read_bytes()
    subprocess.run(["git", "apply", "-p1", "--whitespace=nowarn"], cwd=folder, input=patch, check=True)
    return folder


def run_in(copy: Path, code: str, *arguments: object, **environment: str) -> str:
    """Runs Python code that imports luxel from a copy; returns its standard output."""
    paths = os.pathsep.join([str(copy / ".editor"), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": paths, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def luxel_in(copy: Path, *arguments: object, **environment: str) -> str:
    """Runs the command line of a copy; returns its standard output."""
    code = "import sys; from luxel.viewer.cli import main; sys.exit(main(sys.argv[1:]))"
    return run_in(copy, code, *arguments, **environment)


def luxel_here(*arguments: object) -> str:
    """Runs the command line of the present source."""
    return luxel_in(ROOT, *arguments)
