"""Writes frames, as they are rendered, as a film or as numbered PNG files."""

from __future__ import annotations

import errno
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from luxel.render.errors import LuxelError
from luxel.render.storage.folder import OutputFolder
from luxel.viewer.films.film_format import FOLDER, FilmOptions, check_options, film_format
from luxel.viewer.films.output_file import OutputFile

FRAME = re.compile(r"[0-9]{5,}\.png")


def require_film(output: OutputFile, count: int, *, force: bool = False) -> None:
    """Checks before frames are rendered that a film may be written.

    Args:
        output: a film, or the folder of PNG files.
        count: number of frames.
        force: of `write_film`.

    Raises:
        LuxelError: something that may not be replaced has the name of the film or of a frame.
    """
    with _writing(output.path):
        if film_format(output.path) is FOLDER:
            OutputFolder(output.path, force=force).require(_name(number) for number in range(count))
        else:
            output.require()


def write_film(
    output: OutputFile | Path,
    frames: Iterable[np.ndarray],
    options: FilmOptions | float,
    on_frame: Callable[[], None] = lambda: None,
    *,
    force: bool = False,
) -> int:
    """Writes each frame when it is there; none is retained.

    A film gets its name when it is complete, a PNG file when it is. Of PNG files of an earlier film those that luxel
    wrote are replaced, and deleted where it had more frames.

    Args:
        output: a film, by the suffixes of `luxel.viewer.films.film_format.FORMATS`, else a folder.
        frames: at least one, uint8 [H, W, 3], or [H, W, 4] with straight alpha; all of one size.
        options: of the film, or its frames per second; ``alpha`` is that of the frames.
        on_frame: called after each frame.
        force: replace PNG files of these names that luxel did not write, too.

    Returns:
        Number of frames written.

    Raises:
        LuxelError: the path cannot be written, something that may not be replaced has a name, the format does not hold
            such frames or options, or there is no encoder.
    """
    output = output if isinstance(output, OutputFile) else OutputFile(output, force=force)
    options = options if isinstance(options, FilmOptions) else FilmOptions(options)
    with _writing(output.path):
        if film_format(output.path) is FOLDER:
            return _write_images(OutputFolder(output.path, force=force), frames, on_frame)
        return _write_file(output, iter(frames), options, on_frame)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Turns an OSError while a film is written into a LuxelError that names it."""
    try:
        yield
    except OSError as error:
        raise LuxelError(
            f"{path}: cannot be written ({error.strerror or str(error).splitlines()[0]}).",
            "Give a shorter name."
            if error.errno == errno.ENAMETOOLONG
            else "Free some space, or write elsewhere: `luxel render SCENE --out PATH`.",
        ) from error


def _name(number: int) -> str:
    return f"{number:05d}.png"


def _write_images(folder: OutputFolder, frames: Iterable[np.ndarray], on_frame: Callable[[], None]) -> int:
    """Those of an interrupted render stay."""
    import imageio.v3 as imageio

    folder.make()
    count = 0
    for frame in frames:
        with folder.writing(_name(count)) as draft:
            imageio.imwrite(draft.file, frame, plugin="pillow", extension=".png")
        count += 1
        on_frame()
    folder.delete(set(folder.names(FRAME)).difference(map(_name, range(count))))
    return count


def _write_file(
    output: OutputFile, source: Iterator[np.ndarray], options: FilmOptions, on_frame: Callable[[], None]
) -> int:
    """Encodes; the film gets its name when it is complete."""
    try:
        from av.error import FFmpegError

        from luxel.viewer.films.encoders import ENCODERS
    except ImportError as error:
        raise LuxelError(
            "PyAV, which encodes films, is not installed.",
            "Install it (pip install av), or write PNG files into a folder.",
        ) from error
    suffix = output.path.suffix.lower()
    count = 0
    with output.writing(suffix) as draft:
        first = next(source)
        check_options(output.path, options, first.shape[1], first.shape[0])
        try:
            with ENCODERS[suffix](draft.path, (first.shape[1], first.shape[0]), options) as write:
                for frame in itertools.chain([first], source):
                    write(frame)
                    count += 1
                    on_frame()
        except FFmpegError as error:
            raise OSError(error.errno, error.strerror) from error
    return count
