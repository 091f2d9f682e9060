"""The files of a capture's folder that nothing has read: without litter of systems, notes, and what luxel wrote."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from luxel.render.storage.manifest import NAME as MANIFEST
from luxel.render.storage.manifest import Manifest
from luxel.scenes.captures.entries import is_file, is_folder

MAX_ENTRIES, MAX_DEPTH = 50_000, 8  # of the folder that are looked at
LITTER = (
    "__macosx", "@eadir", "thumbs.db", "desktop.ini", "icon\r", "$recycle.bin", "system volume information",
)  # fmt: skip
NOTES = re.compile(
    r"(readme|licen[sc]e|copying|attribution|citation|notice|authors|changelog)\b.*|.*\.(md|pdf|rst|bib|url|thm)",
    re.IGNORECASE,
)
RUN_FILES = {"config.json", "metrics.jsonl"}  # of a training of a version without manifests
Parts = tuple[str, ...]


@dataclass
class Listing:
    """Files of a folder.

    Args:
        root: the folder, absolute.
        files: names in each folder, by the path of that relative to the root, in parts; those that are used as well.
        used: absolute paths that are used; of folders, with all in them.
        complete: whether the folder has no more.
        broken: links that lead to nothing or to themselves, likewise.
    """

    root: str
    used: set[str]
    files: dict[Parts, list[str]] = field(default_factory=dict)
    complete: bool = True
    broken: list[Parts] = field(default_factory=list)

    def path(self, parts: Parts) -> Path:
        """Of a file."""
        return Path(self.root, *parts)

    def unused(self) -> Iterable[Parts]:
        """The files that are not used, as paths relative to the root, in parts."""
        for folders, names in self.files.items():
            folder = os.path.join(self.root, *folders)
            for name in names:
                if os.path.join(folder, name) not in self.used:
                    yield (*folders, name)


def list_files(root: Path, used: Iterable[Path]) -> Listing:
    """The files of a folder and those below, at most `MAX_ENTRIES`; links to folders are followed to used files only.

    Hidden files, those of `LITTER` and `NOTES`, and folders and files that luxel wrote are left out.

    Args:
        root: the folder.
        used: files and folders that were read; what is below such a folder is not listed.
    """
    out = Listing(os.path.abspath(root), {os.path.abspath(path) for path in used})
    above_used = set()
    for path in out.used:
        path = os.path.dirname(path)
        while path not in above_used and len(path) >= len(out.root):
            above_used.add(path)
            path = os.path.dirname(path)
    remaining = MAX_ENTRIES

    def visit(folder: str, parts: Parts) -> None:
        nonlocal remaining
        try:
            with os.scandir(folder) as entries:
                present = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            return
        names = {entry.name for entry in present}
        if parts and (MANIFEST in names or names >= RUN_FILES):
            return
        own = set(Manifest(Path(folder)).read()) if MANIFEST in names else set()
        files, folders = [], []
        for entry in present:
            if entry.name.startswith(".") or entry.name.lower() in LITTER or entry.name in own:
                continue
            remaining -= 1
            if remaining < 0:
                out.complete = False
                break
            if is_folder(entry):
                followed = entry.path in above_used or not entry.is_symlink()
                if followed and entry.path not in out.used and len(parts) < MAX_DEPTH:
                    folders.append(entry)
            elif is_file(entry):
                if not NOTES.fullmatch(entry.name):
                    files.append(entry.name)
            elif entry.is_symlink():
                out.broken.append((*parts, entry.name))
        if files:
            out.files[parts] = files
        for entry in folders:
            visit(entry.path, (*parts, entry.name))

    visit(out.root, ())
    return out
