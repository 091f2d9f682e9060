"""A model of a POSIX file system that loses what was not flushed: which trees may be there after a power cut.

Content is on the disk after an fsync of its file, a name after an fsync of its folder. Everything else may be there or
not, in any combination. A rename is one change, also of two folders.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from .events import Event

PAGE = 4096  # bytes that are on the disk together
Tree = dict[str, bytes | None]  # content by path below the root; None: a folder; links: b"-> target"
Write = tuple[int, bytes | None]  # offset and data; without data: the new size


@dataclass(eq=False)
class Node:
    """A file, folder or link.

    Args:
        folder: whether it is a folder.
        content: of a file in memory.
        durable: of a file on the disk.
        pending: writes since the last flush.
        names: of a folder in memory; durable_names: on the disk.
    """

    folder: bool = False
    content: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    pending: list[Write] = field(default_factory=list)
    names: dict[str, Node] = field(default_factory=dict)
    durable_names: dict[str, Node] = field(default_factory=dict)

    def write(self, offset: int, data: bytes | None) -> None:
        """Changes the content in memory."""
        self.pending.append((offset, data))
        applied(self.content, offset, data)

    def flush(self) -> None:
        """Brings the content to the disk."""
        self.durable, self.pending = bytes(self.content), []


def applied(content: bytearray, offset: int, data: bytes | None) -> None:
    """Applies a write or a change of the size."""
    if data is None:
        del content[offset:]
        content.extend(bytes(offset - len(content)))
        return
    content.extend(bytes(max(0, offset - len(content))))
    content[offset : offset + len(data)] = data


@dataclass(eq=False)
class Change:
    """Names that change together.

    Args:
        names: folder, name, and what it names then; None: nothing.
        missing: folders that were not flushed since.
    """

    names: list[tuple[Node, str, Node | None]]
    missing: set[Node]


class Disk:
    """Memory and disk while events are replayed.

    Args:
        root: folder whose tree is as it was before the first event; all of it is on the disk.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.changes: list[Change] = []
        self._nodes: dict[str, Node] = {}
        self.top = self._read(root)

    def _read(self, path: Path) -> Node:
        status = os.lstat(path)
        node = Node(stat.S_ISDIR(status.st_mode))
        if node.folder:
            node.names = {child.name: self._read(child) for child in path.iterdir()}
            node.durable_names = dict(node.names)
        elif stat.S_ISLNK(status.st_mode):
            node.durable = f"-> {os.readlink(path)}".encode()
        elif stat.S_ISREG(status.st_mode):
            node.durable = path.read_bytes()
        node.content = bytearray(node.durable)
        self._nodes[f"{status.st_dev:x}:{status.st_ino:x}"] = node
        return node

    def apply(self, event: Event) -> None:
        """Replays one event; those outside of the root change nothing."""
        at = self._place(event.path)
        if event.call == "syncfs":
            self._flush_everything()
        if at is None:
            return
        folder, name = at
        method = getattr(self, f"_{event.call}", None)
        if method is not None:
            method(event, folder, name)

    def _place(self, path: str) -> tuple[Node | None, str] | None:
        """Folder and name of a path; without a folder: the root itself."""
        if path == str(self.root):
            return None, ""
        if not path.startswith(f"{self.root}/"):
            return None
        *folders, name = Path(path).relative_to(self.root).parts
        node = self.top
        for part in folders:
            if part not in node.names:
                return None
            node = node.names[part]
        return node, name

    def _change(self, *names: tuple[Node, str, Node | None]) -> None:
        for folder, name, node in names:
            if node is None:
                folder.names.pop(name, None)
            else:
                folder.names[name] = node
        self.changes.append(Change(list(names), {folder for folder, _, _ in names}))

    def _new(self, event: Event, folder: Node, name: str, node: Node) -> None:
        self._nodes[event.inode] = node
        self._change((folder, name, node))

    def _open(self, event: Event, folder: Node, name: str) -> None:
        if event.new:
            self._new(event, folder, name, Node())
        elif event.cut and (node := self._nodes.get(event.inode)):
            node.write(0, None)

    def _write(self, event: Event, folder: Node, name: str) -> None:
        if (node := self._nodes.get(event.inode)) and event.at >= 0:
            node.write(event.at, event.data)

    def _content(self, event: Event, folder: Node, name: str) -> None:
        if (node := self._nodes.get(event.inode)) and bytes(node.content) != event.data:
            node.write(0, None)
            node.write(0, event.data)

    def _size(self, event: Event, folder: Node, name: str) -> None:
        if node := self._nodes.get(event.inode):
            node.write(event.at, None)

    def _mkdir(self, event: Event, folder: Node, name: str) -> None:
        self._new(event, folder, name, Node(folder=True))

    def _symlink(self, event: Event, folder: Node, name: str) -> None:
        target = f"-> {event.to}".encode()
        self._new(event, folder, name, Node(content=bytearray(target), durable=target))

    def _special(self, event: Event, folder: Node, name: str) -> None:
        self._new(event, folder, name, Node())

    def _link(self, event: Event, folder: Node, name: str) -> None:
        if node := self._nodes.get(event.inode):
            self._change((folder, name, node))

    def _unlink(self, event: Event, folder: Node, name: str) -> None:
        self._change((folder, name, None))

    _rmdir = _unlink

    def _rename(self, event: Event, folder: Node, name: str) -> None:
        target = self._place(event.to)
        node = folder.names.get(name)
        if node is None or target is None or target[0] is None:
            raise ValueError(f"the record renames what it does not know: {event.path} to {event.to}")
        self._change((folder, name, None), (target[0], target[1], node))

    def _sync(self, event: Event, folder: Node | None, name: str) -> None:
        node = self.top if folder is None else self._nodes.get(event.inode)
        if node is None:
            return
        if not node.folder:
            node.flush()
            return
        for change in list(self.changes):
            change.missing.discard(node)
            if not change.missing:
                self.changes.remove(change)
                _apply_to_disk(change)

    def _flush_everything(self) -> None:
        for change in self.changes:
            _apply_to_disk(change)
        self.changes = []
        for node in self._nodes.values():
            node.flush()

    def node(self, path: str) -> Node | None:
        """What a path names in memory."""
        at = self._place(path)
        if at is None:
            return None
        return self.top if at[0] is None else at[0].names.get(at[1])

    def tree(self) -> Tree:
        """The tree in memory: what is there after a process ended without a power cut."""
        return _tree(self.top, lambda node: node.names, lambda node: bytes(node.content))

    def crash_trees(self, random: Random, count: int) -> Iterator[Tree]:
        """Trees that may be there after a power cut now.

        First everything that was not flushed is lost; then the names are there, but not the contents, or their first
        halves; then random choices.

        Args:
            count: random choices.
        """
        yield self._crash_tree(lambda change: False, lambda node: node.durable)
        if not self.changes and not any(node.pending for node in self._nodes.values()):
            return
        yield self._crash_tree(lambda change: True, lambda node: node.durable)
        yield self._crash_tree(lambda change: True, _half)
        for _ in range(count):
            share = random.choice((0.2, 0.5, 0.8))
            yield self._crash_tree(
                lambda change, share=share: random.random() < share,
                lambda node, share=share: _some_pages(node, random, share),
            )

    def _crash_tree(self, chosen: Callable[[Change], bool], content: Callable[[Node], bytes]) -> Tree:
        names: dict[Node, dict[str, Node]] = {}
        for change in self.changes:
            if not chosen(change):
                continue
            for folder, name, node in change.names:
                entries = names.setdefault(folder, dict(folder.durable_names))
                if node is None:
                    entries.pop(name, None)
                else:
                    entries[name] = node
        return _tree(self.top, lambda node: names.get(node, node.durable_names), content)


def _apply_to_disk(change: Change) -> None:
    for folder, name, node in change.names:
        if node is None:
            folder.durable_names.pop(name, None)
        else:
            folder.durable_names[name] = node


def _half(node: Node) -> bytes:
    """The first half of what was written since the last flush."""
    if not node.pending:
        return node.durable
    content, size = bytearray(node.durable), sum(len(data or b"") for _, data in node.pending) // 2
    for offset, data in node.pending:
        part = None if data is None else data[:size]
        size -= len(part or b"")
        if part != b"":
            applied(content, offset, part)
    return bytes(content)


def _some_pages(node: Node, random: Random, share: float) -> bytes:
    """Some of the pages that were written since the last flush."""
    if not node.pending:
        return node.durable
    content = bytearray(node.durable)
    for offset, data in node.pending:
        if data is None:
            if random.random() < share:
                applied(content, offset, None)
            continue
        for start in range(0, len(data), PAGE):
            if random.random() < share:
                applied(content, offset + start, data[start : start + PAGE])
    return bytes(content)


def _tree(top: Node, names: Callable[[Node], dict[str, Node]], content: Callable[[Node], bytes]) -> Tree:
    out: Tree = {}

    def visit(node: Node, path: str) -> None:
        for name, child in names(node).items():
            below = f"{path}/{name}" if path else name
            out[below] = None if child.folder else content(child)
            if child.folder:
                visit(child, below)

    visit(top, "")
    return out


def digest(content: bytes | None) -> str:
    """What a content is compared by; of a folder: a word."""
    return "folder" if content is None else hashlib.blake2b(content, digest_size=12).hexdigest()


def written_to(tree: Tree, root: Path) -> None:
    """Makes a tree on the real disk."""
    root.mkdir(parents=True)
    for name, content in tree.items():
        path = root / name
        if content is None:
            path.mkdir()
        elif content.startswith(b"-> "):
            path.symlink_to(content[3:].decode())
        else:
            path.write_bytes(content)
