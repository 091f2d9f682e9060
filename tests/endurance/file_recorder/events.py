"""What the recorder wrote: one event for each call that changed files, in order."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Event:
    """One call.

    Args:
        call: open, write, content (of a whole file), size, sync (of a file or folder), syncfs, rename, link, symlink,
            unlink, mkdir, rmdir, special, shared (mapped for writing), output.
        path: of the file, links resolved; of output: the descriptor.
        inode: of the file, device and number.
        to: new name of rename, target of symlink.
        at: offset of write, new size of size.
        data: what was written.
        new, cut: of open: whether it made the file, and whether it removed the content.
        flags: of open.
    """

    call: str
    path: str
    inode: str = ""
    to: str = ""
    at: int = 0
    data: bytes = b""
    new: bool = False
    cut: bool = False
    flags: int = 0


def read_events(folder: Path) -> list[Event]:
    """The events of a record."""
    data = {int(path.suffix[1:]): path.read_bytes() for path in folder.glob("data.*")}
    events = []
    text = (folder / "events.jsonl").read_bytes().decode(errors="surrogateescape")
    for line in text.split("\n")[:-1]:
        entry = json.loads(line)
        pid = entry.pop("pid")
        if "data" in entry:
            start, size = entry["data"]
            entry["data"] = data[pid][start : start + size]
        events.append(Event(**entry))
    return events
