"""Entries of folders, of which links may lead to nothing or to themselves."""

from __future__ import annotations

import os


def is_file(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a file, or a link to one. `os.DirEntry.is_file` raises for links in a circle."""
    try:
        return entry.is_file()
    except OSError:
        return False


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a folder, or a link to one; likewise."""
    try:
        return entry.is_dir()
    except OSError:
        return False
