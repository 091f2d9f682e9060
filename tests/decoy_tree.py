"""A tree of files with names that luxel gives, which it did not write, and what became of them."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path

from luxel.render.storage.manifest import HEAD
from luxel.render.storage.manifest import NAME as MANIFEST

NAMES = (
    "config.json",
    "scene.json",
    "scene.ply",
    "metrics.jsonl",
    "objects.json",
    "index.html",
    "report.json",
    "inspect.html",
    "inspect.json",
    *(f"images/{number:03d}-DSC.jpg" for number in range(12)),
    "images/000-view-render.png",
    "eval/index.html",
    "eval/report.json",
    "eval/images/001-mine.jpg",
    "renders/mine.png",
    "objects/holiday.png",
    "checkpoints/step-00000500.safetensors",
    "checkpoints/.step-00000500.safetensors.part",
    "00000.png",
    "00001.png",
    "00007.png",
    "frame-00000.ply",
    "frame-00009.ply",
    "tour.mp4",
    "out.ply",
    "out.splat",
    "out.spz",
    "out.safetensors",
    "out.html",
    "model.obj",
    "model.mtl",
    "model.png",
    "meta.json",
    "means_l.webp",
    "cameras.bin",
    "points3D.bin",
    "results.json",
    "results.md",
    *(
        f"{name}.{end}"
        for name in ("raster", "train", "fields", "segment", "view", "strangers")
        for end in ("json", "html")
    ),
    "thesis.md.tmp",
    ".part-1",
    ".config.json.part",
    "index.html.tmp",
    ".luxel-0123456789abcdef.png",
    ".luxel/working-sfm-0123/database.db",
    ".luxel/mine.txt",
    "mine.txt",
)
FORGED = (
    "thesis.md.tmp",
    ".part-1",
    "mine.txt",
    "images/000-DSC.jpg",
    "images/005-DSC.jpg",
    ".luxel/mine.txt",
)


class DecoyTree:
    """Decoys in a folder, in one beside it, and in one that links lead to.

    Args:
        work: folder that all this is in.
        place: the output of a command, in ``work``; what is there stays.
        leave_out: pattern of names in ``place`` that get no decoy.
        names: of the decoys in ``place``.
    """

    def __init__(self, work: Path, place: Path, leave_out: str = "", names: Sequence[str] = NAMES) -> None:
        self.place, self.planted = place, list[Path]()
        outside = work / "outside"
        for folder, others in ((outside, NAMES), (work / "neighbour", NAMES), (work, NAMES[:8])):
            self._plant(folder, others)
        self._plant(place, [name for name in names if not re.fullmatch(leave_out, name)])
        for name, target in (("linked.txt", outside / "mine.txt"), ("linked", outside)):
            (place / name).symlink_to(target)
            self.planted.append(place / name)
        (place / "empty").mkdir()
        self.planted.append(place / "empty")
        self._forge_manifest()
        self._before = dict[Path, str]()
        self._before = self._contents()

    def _plant(self, folder: Path, names: Sequence[str]) -> None:
        for name in names:
            path = folder / name
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(f"mine: {path}")
                self.planted.append(path)

    def _forge_manifest(self) -> None:
        """A manifest that claims decoys of names that luxel does not give, with the right hashes."""
        path = self.place / MANIFEST
        lines = path.read_text().splitlines() if path.exists() else [json.dumps(HEAD)]
        own = [name for name in FORGED if (self.place / name).exists()]
        for name in (*own, "../outside/mine.txt", "../neighbour/images/000-DSC.jpg", "linked/mine.txt"):
            content = (self.place / name).read_bytes()
            entry = {"name": name, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            lines.append(json.dumps(entry))
        path.write_text("\n".join(lines) + "\n")

    def _contents(self) -> dict[Path, str]:
        return {path: self._content(path) for path in self.planted}

    def _content(self, path: Path) -> str:
        """Of a decoy, under the name it was set aside with where that has what it held before."""
        before = self._before.get(path)
        aside = path.parent.glob(f"{path.name}.before-*") if before else ()
        return next((content for file in aside if (content := _content(file)) == before), _content(path))

    def changed(self) -> list[str]:
        """Decoys that were changed or are gone: names relative to the place. One that was given another name,
        NAME.before-N as `OutputFolder.set_aside` does, is neither."""
        now = self._contents()
        return [os.path.relpath(path, self.place) for path in self.planted if now[path] != self._before[path]]

    def gone(self) -> list[str]:
        """Decoys that are gone."""
        return [
            os.path.relpath(path, self.place)
            for path, content in self._contents().items()
            if content == "gone"
        ]


def _content(path: Path) -> str:
    if path.is_symlink():
        return f"link to {os.readlink(path)}"
    if path.is_dir():
        return "folder"
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "gone"
