"""Files that a killed process or a full disk has left in a folder."""

from __future__ import annotations

import contextlib
import re
import time
from pathlib import Path

from luxel.render.runs.owner import is_alive

# Temporary names: .NAME.part.SUFFIX, .NAME.SUFFIX.part, .part-NAME, .NAME.PID.tmp, NAME.tmp of reports, and probes.
_TEMPORARY = re.compile(
    r"\..+\.part(\.[A-Za-z0-9]+)?|\.part-.+|\..+\.(?P<pid>[0-9]+)\.tmp|.+\.(json|md|html)\.tmp|\.writable|\.luxel-probe"
)
_TENSORS = re.compile(r"step-[0-9]{8,18}\.safetensors")
FOLDERS = ("", "checkpoints", "renders", "eval", "eval/images", "objects")
OLD = 600.0  # seconds after which a temporary file without a process number is left over, where others may write


def sweep(folder: Path, *, owned: bool) -> int:
    """Removes temporary files, empty images, and tensors of checkpoints without their JSON.

    Args:
        folder: of a run, or with reports of a benchmark.
        owned: whether no other process writes into it (`luxel.render.runs.owner`); else files that may be in use stay.

    Returns:
        The number of files removed.
    """
    removed = 0
    for name in FOLDERS:
        with contextlib.suppress(OSError):  # not there, or not to be read
            for path in list((folder / name).iterdir()):
                if _is_left_over(path, owned):
                    with contextlib.suppress(OSError):
                        path.unlink()
                        removed += 1
    return removed


def _is_left_over(path: Path, owned: bool) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    if match := _TEMPORARY.fullmatch(path.name):
        if match["pid"] is not None:
            return not is_alive(int(match["pid"]))
        return owned or time.time() - path.stat().st_mtime > OLD
    if not owned:
        return False
    if path.suffix == ".png" and path.parent.name in ("renders", "images"):
        return path.stat().st_size == 0
    return bool(_TENSORS.fullmatch(path.name)) and not path.with_suffix(".json").exists()
