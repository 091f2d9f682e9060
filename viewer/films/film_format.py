"""Which films luxel writes, and what each format can hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from luxel.render.errors import LuxelError

QUALITY = 90  # of 1 to 100, where none is chosen


@dataclass(frozen=True)
class FilmOptions:
    """How a film is written.

    Args:
        fps: frames per second.
        quality: 1 (small) to 100 (best); None: QUALITY. For formats with `FilmFormat.lossy`.
        loop: how often it is played, 0: for ever; None: for ever. For formats with `FilmFormat.loops`.
        alpha: whether the frames have alpha, straight. For formats with `FilmFormat.alpha`.
    """

    fps: float
    quality: int | None = None
    loop: int | None = None
    alpha: bool = False


@dataclass(frozen=True)
class FilmFormat:
    """What a format of films can hold.

    Args:
        alpha: a transparent background; of GIF each pixel is opaque or transparent.
        lossy: has a quality.
        loops: says how often it is played.
        max_fps: frames per second that it can state and that browsers play.
        max_side: pixels along a side.
    """

    alpha: bool = False
    lossy: bool = False
    loops: bool = False
    max_fps: float = 1000.0
    max_side: int = 65535


VIDEO = FilmFormat(lossy=True)
# By suffix. A folder has PNG files.
FORMATS = {
    ".mp4": VIDEO,
    ".mov": VIDEO,
    ".mkv": VIDEO,
    ".webm": FilmFormat(alpha=True, lossy=True),
    ".gif": FilmFormat(
        alpha=True, loops=True, max_fps=50
    ),  # browsers slow down what is shown for less than 0.02 s
    ".webp": FilmFormat(alpha=True, lossy=True, loops=True, max_side=16383),
    ".apng": FilmFormat(alpha=True, loops=True),
}
FOLDER = FilmFormat(alpha=True)


def film_format(path: Path) -> FilmFormat:
    """The format of a film: that of the suffix, or of a folder.

    Raises:
        LuxelError: the path has the suffix of something else.
    """
    known = FORMATS.get(path.suffix.lower())
    if known is not None:
        return known
    if path.suffix and not path.is_dir():
        raise LuxelError(
            f"{path}: frames cannot be written as {path.suffix}.",
            f"Give a name that ends in {_listed(FORMATS)}, or a folder for PNG files.",
        )
    return FOLDER


def check_options(path: Path, options: FilmOptions, width: int, height: int) -> None:
    """Checks before frames are rendered that a format holds them.

    Args:
        path: of the film, or the folder of PNG files.
        options: of the film.
        width, height: of the frames, pixels.

    Raises:
        LuxelError: the format has no alpha, no quality or no number of loops, fewer frames per second, or fewer pixels
            along a side.
    """
    known, name = film_format(path), path.suffix.lower() or "PNG files"
    if options.alpha and not known.alpha:
        raise LuxelError(
            f"{path}: {name} has no alpha.",
            f"Give --out a folder for PNG files, or a name that ends in {_listed(_having('alpha'))}.",
        )
    if options.quality is not None and not known.lossy:
        raise LuxelError(f"{path}: {name} has no quality to choose.", "Leave --quality out.")
    if options.loop is not None and not known.loops:
        raise LuxelError(
            f"{path}: {name} does not say how often it is played.",
            f"Leave --loop out, or give a name that ends in {_listed(_having('loops'))}.",
        )
    if options.fps > known.max_fps:
        raise LuxelError(
            f"{path}: {name} has at most {known.max_fps:g} frames per second, not {options.fps:g}.",
            f"Give --fps {known.max_fps:g} or less.",
        )
    if max(width, height) > known.max_side:
        raise LuxelError(
            f"{path}: {name} has at most {known.max_side} pixels along a side, not {width}x{height}.",
            "Give a smaller --width and --height.",
        )


def _having(what: str) -> list[str]:
    return [suffix for suffix, known in FORMATS.items() if getattr(known, what)]


def _listed(suffixes: Iterable[str]) -> str:
    """Suffixes as a sentence has them: .a, .b or .c."""
    *first, last = suffixes
    return f"{', '.join(first)} or {last}"
