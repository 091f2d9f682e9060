"""The page of all error messages, read from the source."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

import error_sites

HEAD = """# Error messages

Every message that ends a command or an action of the viewer, by module: what it says and what it advises. Names in
braces stand for values.
"""
INTERFACE_HEAD = """# Errors of the Python interface

Built-in exceptions of functions and classes, for arguments that do not fit, by module. Where a command or the viewer
can cause one, it is caught and becomes one of the messages above.
"""


def page() -> str:
    """The Markdown page."""
    messages = table(error_sites.sites(), ("problem", "remedy"), ("message", "remedy"))
    interface = table(error_sites.interface_sites(), ("kind", "problem"), ("exception", "message"))
    return "\n".join([HEAD, *messages, INTERFACE_HEAD, *interface]).rstrip() + "\n"


def table(
    sites: tuple[error_sites.Site, ...], fields: tuple[str, str], titles: tuple[str, str]
) -> Iterator[str]:
    """A table for each source file with two fields of its places."""
    for path, here in groupby(sites, key=lambda site: site.path):
        yield from (f"## {path}", "", f"| {' | '.join(titles)} |", "|---|---|")
        for site in here:
            yield f"| {' | '.join(_cell(getattr(site, name)) for name in fields)} |"
        yield ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "\\<").replace("*", "\\*")
