"""Files of a capture by the paths that its own files state: other Unicode forms, upper case, and absolute paths."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path, PurePosixPath, PureWindowsPath


def actual_path(folder: Path, relative: str) -> Path:
    """The entry of a folder that a relative path names.

    macOS stores names in decomposed Unicode (NFD) where other systems have NFC, and Windows does not tell upper from
    lower case: where there is no entry of exactly this name, the only one that differs in nothing else is meant.

    Args:
        folder: the path is relative to it.
        relative: with forward slashes.

    Returns:
        ``folder / relative`` where nothing matches.
    """
    exact = folder / relative
    if exact.exists():
        return exact
    current = folder
    for part in PurePosixPath(relative).parts:
        following = current / part
        if part != ".." and not following.exists():
            names = _entries(current).get(folded(part), ())
            if len(names) != 1:
                return exact
            following = current / names[0]
        current = following
    return current


def folded(name: str) -> str:
    """A name without what differs between file systems: the Unicode form, and upper or lower case."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _entries(folder: Path) -> dict[str, tuple[str, ...]]:
    """Names of the entries of a folder, by what `folded` makes of them."""
    try:
        return _listed(str(folder), folder.stat().st_mtime_ns)
    except OSError:
        return {}


@lru_cache(maxsize=32)
def _listed(folder: str, modified: int) -> dict[str, tuple[str, ...]]:
    names: dict[str, tuple[str, ...]] = {}
    for name in os.listdir(folder):
        names[folded(name)] = (*names.get(folded(name), ()), name)
    return names


def is_absolute(given: str) -> bool:
    """Whether a path is absolute on some system: /a, C:\\a, \\\\server\\a."""
    windows = PureWindowsPath(given)
    return PurePosixPath(given).is_absolute() or bool(windows.drive) or given.startswith("\\")


def is_of_another_folder(folder: Path, given: str) -> bool:
    """Whether a path is absolute and of another folder or machine than that of the capture."""
    return is_absolute(given) and _below(folder, given) is None


def relative_of_absolute(folder: Path, given: str, suffixes: Iterable[str] = ()) -> str | None:
    """The path relative to a capture of an absolute one that lies in it, or that did on another machine.

    Of a path that lies elsewhere, the longest end is taken that there is in the capture. Nothing outside is looked at.

    Args:
        folder: of the capture.
        given: an absolute path, of any system.
        suffixes: that names may lack.

    Returns:
        With forward slashes; None: there is no such file in the capture.
    """
    below = _below(folder, given)
    if below is not None:
        return below
    windows = PureWindowsPath(given)
    slashed = windows.as_posix() if windows.drive or given.startswith("\\") else given
    parts = [part for part in os.path.normpath(slashed).replace("\\", "/").split("/") if part]
    parts = parts[1:] if windows.drive else parts
    for first in range(len(parts)):
        end = "/".join(parts[first:])
        if any(actual_path(folder, end + suffix).exists() for suffix in ("", *suffixes)):
            return end
    return None


def _below(folder: Path, given: str) -> str | None:
    """The rest of an absolute path of this machine that begins with that of a folder."""
    if not os.path.isabs(given):
        return None
    path = os.path.normpath(given)
    for root in dict.fromkeys((os.path.abspath(folder), os.path.realpath(folder))):
        start = os.path.join(root, "")
        if os.path.normcase(path).startswith(os.path.normcase(start)):
            return path[len(start) :].replace("\\", "/") if os.sep == "\\" else path[len(start) :]
    return None
