"""Streamed SOG (PlayCanvas): a folder of SOG scenes at several levels of detail, with lod-meta.json as their index.

Specification: the page "The Streamed SOG Format" of PlayCanvas's user manual, version 1. The leaves of a tree name, for
each level, a range of Gaussians of a part; level 0 is the finest. The environment, where there is one, always counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from luxel.render.primitives import Gaussians
from luxel.render.storage.reading import available_memory
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.reading import check_file, read_bytes, reading
from luxel.scenes.files.scene_format import SceneFacts, SceneFormat
from luxel.scenes.files.sog.containers import EXPORT_AGAIN, INDEX, MEMORY
from luxel.scenes.files.sog.decode import load_sog, read_sog_facts, read_sog_unused
from luxel.scenes.unused import LOST, Unused, things_are

VERSION = 1
LARGEST_INDEX = 1 << 27  # bytes
KEYS = {"version", "asset", "count", "counts", "lodLevels", "environment", "filenames", "tree"}


@dataclass(frozen=True)
class _Index:
    """What lod-meta.json says.

    Args:
        path: of the scene, for messages.
        folder: of lod-meta.json.
        meta: its content.
    """

    path: Path
    folder: Path
    meta: dict[str, Any]

    @staticmethod
    def of(path: Path) -> _Index:
        file = path / INDEX if path.is_dir() else path
        meta = json.loads(read_bytes(file)) if check_file(file) <= LARGEST_INDEX else None
        if not isinstance(meta, dict):
            raise _damaged(path, f"{INDEX} holds no JSON object of at most {LARGEST_INDEX >> 20} MiB")
        version = meta.get("version", VERSION)
        if not isinstance(version, int) or version > VERSION:
            raise CaptureError(
                f"{path}: streamed SOG of version {str(version)[:20]}; luxel reads version {VERSION}.",
                "Convert the scene to one .sog file with the program that made it.",
            )
        return _Index(path, file.parent, meta)

    @property
    def environment(self) -> Path | None:
        """The part that belongs to no level; None: there is none."""
        name = self.meta.get("environment")
        return None if name is None else self.part(name)

    def part(self, name: Any) -> Path:
        """The file of a part, which exists.

        Raises:
            CaptureError: it is outside of the folder, or missing.
        """
        parts = Path(name).parts if isinstance(name, str) else ()
        if not parts or ".." in parts or "\\" in name or Path(name).is_absolute():
            raise _damaged(
                self.path, f"{INDEX} names the part {str(name)[:80]!r}, which is outside of its folder"
            )
        file = self.folder / name
        if not file.is_file():
            levels = self.meta.get("lodLevels")
            raise CaptureError(
                f"{self.path}: this is a streamed SOG scene of {str(levels)[:10]} levels of detail, and its part "
                f"{name} is missing.",
                "Copy all of its folder, or give one part that is there (its meta.json), or the scene as one .sog.",
            )
        return file

    def parts(self) -> list[tuple[Path, list[tuple[int, int]]]]:
        """The parts with Gaussians of the finest level, and the ranges of these: first and number.

        A leaf without level 0 is read at the finest that it has.
        """
        names = self.meta.get("filenames")
        ranges: dict[int, list[tuple[int, int]]] = {}
        for lods in _leaves(self.meta.get("tree")):
            levels = [int(level) for level in lods if level.isdecimal()]
            entry = lods[str(min(levels))] if levels else None
            keys = ("file", "offset", "count")
            numbers = [entry.get(key) for key in keys] if isinstance(entry, dict) else []
            naturals = [n for n in numbers if isinstance(n, int) and not isinstance(n, bool) and n >= 0]
            if len(naturals) != len(keys):
                raise _damaged(self.path, "a leaf of its tree names no range of a part")
            file, first, count = naturals
            ranges.setdefault(file, []).append((first, count))
        if not isinstance(names, list) or not ranges or max(ranges) >= len(names):
            raise _damaged(self.path, "its tree has no leaves, or names parts that it does not list")
        total = sum(count for part in ranges.values() for _, count in part)
        if total * MEMORY > available_memory():
            raise MemoryError
        return [(self.part(names[file]), sorted(ranges[file])) for file in sorted(ranges)]


def _damaged(path: Path, reason: str) -> CaptureError:
    return CaptureError(f"{path}: damaged, or not a streamed SOG scene: {reason}.", EXPORT_AGAIN)


def _leaves(tree: Any) -> Iterator[dict[str, Any]]:
    """The levels of the leaves of a tree, in its order."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            children, lods = node.get("children"), node.get("lods")
            waiting += reversed(children) if isinstance(children, list) else []
            if isinstance(lods, dict) and lods:
                yield lods


def is_streamed(path: Path) -> bool:
    """Whether a path is the index of a streamed scene, or the folder of one."""
    return path.is_file() if path.name.lower() == INDEX else (path / INDEX).is_file()


def load_streamed(path: str | Path) -> Gaussians:
    """The Gaussians of the finest level of all leaves, and those of the environment.

    Raises:
        CaptureError: a file is missing, damaged, or of a later version.
    """
    path = Path(path)
    with reading(path, "a streamed SOG scene", EXPORT_AGAIN):
        index = _Index.of(path)
        parts = [_ranges_of(path, file, ranges) for file, ranges in index.parts()]
        if index.environment is not None:
            parts.append(load_sog(index.environment))
        width = max(part.sh_rest.shape[1] for part in parts)
        arrays = {
            name: torch.cat([_padded(part.tensors()[name], name, width) for part in parts])
            for name in Gaussians.names
        }
        return Gaussians(**arrays)


def _ranges_of(path: Path, file: Path, ranges: list[tuple[int, int]]) -> Gaussians:
    """The Gaussians of ranges of a part, which do not overlap."""
    part, end = load_sog(file), 0
    for first, count in ranges:
        if first < end or first + count > part.count:
            raise _damaged(
                path, f"ranges of {file.parent.name}/{file.name} overlap or exceed {part.count:,} Gaussians"
            )
        end = first + count
    if sum(count for _, count in ranges) == part.count:
        return part
    return part.select(torch.cat([torch.arange(first, first + count) for first, count in ranges]))


def _padded(tensor: torch.Tensor, name: str, width: int) -> torch.Tensor:
    """Coefficients filled up with zeros to the degree of all parts; other parameters as they are."""
    if name != "sh_rest":
        return tensor
    return torch.nn.functional.pad(tensor, (0, 0, 0, width - tensor.shape[1]))


def read_streamed_facts(path: Path) -> SceneFacts:
    """What the first part says of the scene.

    Raises:
        CaptureError: it cannot be read.
    """
    with reading(path, "a streamed SOG scene", EXPORT_AGAIN):
        return read_sog_facts(_Index.of(path).parts()[0][0])


def read_streamed_unused(path: Path) -> list[Unused]:
    """Entries of the index, and of its first part, that luxel does not read.

    Raises:
        CaptureError: they cannot be read.
    """
    with reading(path, "a streamed SOG scene", EXPORT_AGAIN):
        index = _Index.of(path)
        left = [key for key in index.meta if key not in KEYS]
        out = read_sog_unused(index.parts()[0][0])
    if left:
        said = f"{things_are(left, 'entry', 'entries', f' of {INDEX}')} not read."
        out.append(Unused("entries of the index", len(left), left[0], said, harm=LOST))
    return out


STREAMED_SOG = SceneFormat(
    INDEX,
    "SOG in parts at several levels of detail, of which the finest is read",
    load_streamed,
    primitives=(Gaussians,),
    read_facts=read_streamed_facts,
    read_unused=read_streamed_unused,
    recognises=is_streamed,
)
