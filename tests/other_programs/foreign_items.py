"""Files that capture folders of strangers hold beside a capture, drawn at random, with the kind that names them."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

LETTERS = "bcdfghjklmnpqrstvwxz"  # no vowels: no name of a folder or key that means something

# What systems and people leave everywhere; nothing is said of it.
SILENT = (
    ".DS_Store", "Thumbs.db", "desktop.ini", "README", "README.md", "README.txt", "LICENSE", "LICENSE.txt",
    "__MACOSX/._0000.png", "__MACOSX/images/._a", ".git/config", ".git/objects/ab/cd", "._0000.png", ".gitignore",
    "$RECYCLE.BIN/x.bin", "images/.DS_Store", "images/Thumbs.db", "@eaDir/0000.png/SYNOPHOTO.jpg", ".Trashes/x",
)  # fmt: skip


def word(random: np.random.Generator, length: int = 6) -> str:
    """Letters, in either case."""
    letters = random.choice(list(LETTERS), length)
    return "".join(letter.upper() if random.random() < 0.3 else letter for letter in letters)


def image(random: np.random.Generator, kind: str = "PNG") -> bytes:
    """A small image in colours."""
    file = io.BytesIO()
    Image.fromarray(random.integers(0, 256, (12, 16, 3), np.uint8)).save(file, kind)
    return file.getvalue()


@dataclass(frozen=True)
class Family:
    """Files of one sort.

    Args:
        kinds: by which their entries go, all of which count together.
        suffixes: of names, with the dot or empty.
        content: of a file.
        folders: whether they are put into folders of their own only: in the folder of the capture they would make
            another one of it.
    """

    kinds: tuple[str, ...]
    suffixes: tuple[str, ...]
    content: Callable[[np.random.Generator], bytes]
    folders: bool = False

    def write(self, random: np.random.Generator, root: Path) -> Path:
        """One of them, at a random place below a folder."""
        depth = int(random.integers(1 if self.folders else 0, 4))
        folder = root.joinpath(*(word(random) for _ in range(depth)))
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{word(random, int(random.integers(3, 10)))}{random.choice(self.suffixes)}"
        if random.random() < 0.3:
            path = path.with_name(path.stem + path.suffix.upper())
        path.write_bytes(self.content(random))
        return path


def noise(random: np.random.Generator) -> bytes:
    """Bytes of no format."""
    return random.bytes(int(random.integers(0, 200)))


def jpeg(random: np.random.Generator) -> bytes:
    """An image as JPEG."""
    return image(random, "JPEG")


FAMILIES = {
    "other files": Family(("other files",), (".dat", ".zzz", ".sqlite", ".rar", ".gpx", ".srt", ""), noise),
    "photographs": Family(
        ("images without a pose", "images in other folders", "images of other types"),
        (".jpg", ".jpeg"),
        jpeg,
        True,
    ),
    "PNG images": Family(("images without a pose", "images in other folders"), (".png",), image, True),
    "raw images": Family(("images of other types",), (".dng", ".cr2", ".nef", ".avif", ".gif"), noise, True),
    "films": Family(("films",), (".mp4", ".mov", ".avi", ".insv"), noise, True),
    "clouds": Family(("point clouds and meshes",), (".las", ".e57", ".pcd", ".fbx"), noise),
}
