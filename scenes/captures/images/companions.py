"""Image files that accompany photographs in one folder, and are none: masked copies, masks, depth maps, thumbnails.

They are known by their names next to that of a photograph, such as NAME_masked.jpg next to NAME.jpg, or depth0007.png
next to frame0007.jpg; depth maps also by their 16 bits of grey next to images of 8 bits or of colour.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

MASK, MASKED, DEPTH, MAP, THUMBNAIL = "mask", "masked copy", "depth map", "map", "thumbnail"
# Words in the names of such files, by what they are.
WORDS = {
    MASK: "masks?",
    MASKED: "masked|no[_-]?bg|rembg|remove[_-]?bg|bg[_-]?removed|cut[_-]?out|foreground",
    DEPTH: "depth(?:[_-]?map)?|disp(?:arity)?",
    MAP: "normals?|semantics?|segmentation|seg|instances?|labels?|conf(?:idence)?|alpha|matte|albedo",
    THUMBNAIL: "thumb(?:nail)?|preview",
}
ANY = re.compile("|".join(WORDS.values()), re.IGNORECASE)
LAST = {
    role: re.compile(rf"(.+?)[._ -]+(?:{words})(?:[._ -]?\d+)?", re.IGNORECASE)
    for role, words in WORDS.items()
}
FIRST = {
    role: re.compile(rf"(?:{words})(?:[._ -]+|(?=\d))(.+)", re.IGNORECASE) for role, words in WORDS.items()
}
ALONE = re.compile(WORDS[THUMBNAIL], re.IGNORECASE)  # never a photograph
COLOUR = "frame|rgb|colou?r|image|img|photo|left"
COLOUR_LAST = re.compile(rf"(.+?)[._ -]+(?:{COLOUR})", re.IGNORECASE)
COLOUR_FIRST = re.compile(rf"(?:{COLOUR})(?:[._ -]+|(?=\d))(.+)", re.IGNORECASE)
DEEP_SUFFIXES = (".png", ".tif", ".tiff")
MAX_SERIES = 64  # of names; of more, files are sorted by their suffixes
MIN_COLOUR = 0.5  # colour images for each depth map, at least
PNG_HEAD = b"\x89PNG\r\n\x1a\n"


def companions(folder: Path, names: Sequence[str]) -> dict[str, str]:
    """Which of the image files in a folder accompany others, by name: what each is.

    Args:
        folder: of the files.
        names: of all image files in it.
    """
    out = {name: THUMBNAIL for name in names if ALONE.fullmatch(os.path.splitext(name)[0])}
    marked = [name for name in names if name not in out and ANY.search(name)]
    if marked:
        plain = _base_names(names)
        for name in marked:
            role = _role(name, plain)
            if role:
                out[name] = role
    return out | _deep_grey(folder, [name for name in names if name not in out])


def _base_names(names: Sequence[str]) -> dict[str, set[str]]:
    """What photographs are called, with and without suffix and words such as "rgb": the files of each name."""
    out: dict[str, set[str]] = defaultdict(set)
    for name in names:
        stem = os.path.splitext(name)[0]
        out[name.lower()].add(name)
        out[stem.lower()].add(name)
        for pattern in (COLOUR_LAST, COLOUR_FIRST):
            match = pattern.fullmatch(stem)
            if match:
                out[match[1].lower()].add(name)
    return out


def _role(name: str, plain: dict[str, set[str]]) -> str | None:
    """What a file accompanies another one as; None: nothing."""
    stem = os.path.splitext(name)[0]
    for patterns in (LAST, FIRST):
        for role, pattern in patterns.items():
            match = pattern.fullmatch(stem)
            if match and plain.get(match[1].lower(), set()) - {name}:
                return role
    return None


def _deep_grey(folder: Path, names: Sequence[str]) -> dict[str, str]:
    """Images of 16 bits of grey, or of floats, where the folder has another series of images."""
    if not any(name.lower().endswith(DEEP_SUFFIXES) for name in names):
        return {}
    series: dict[str, list[str]] = defaultdict(list)
    for name in names:
        series[re.sub(r"\d+", "#", name.lower())].append(name)
    if len(series) > MAX_SERIES:
        series.clear()
        for name in names:
            series[os.path.splitext(name)[1].lower()].append(name)
    if len(series) < 2:
        return {}
    deep = [name for files in series.values() if is_deep_grey(folder / files[0]) for name in files]
    if not deep or len(names) - len(deep) < MIN_COLOUR * len(deep):
        return {}
    return {name: DEPTH for name in deep if is_deep_grey(folder / name)}


def is_deep_grey(path: Path) -> bool:
    """Whether a PNG or TIFF file is grey of 16 bits or more; False for one that cannot be read."""
    if not path.name.lower().endswith(DEEP_SUFFIXES):
        return False
    try:
        with path.open("rb") as file:
            head = file.read(26)
            if head.startswith(PNG_HEAD):
                return len(head) == 26 and head[24:] == b"\x10\0"
            file.seek(0)
            with Image.open(file) as image:
                return image.mode in ("F", "I") or image.mode.startswith("I;16")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return False
