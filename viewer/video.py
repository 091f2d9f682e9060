"""Writes frames as an MP4 video or as numbered PNG files; what a film or an image may replace."""

from __future__ import annotations

import errno
import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from luxel.render.errors import LuxelError
from luxel.render.storage.drafts import Draft
from luxel.render.storage.folder import OutputFolder
from luxel.render.storage.single import writing_file, writing_unused

CONTAINERS = {".mp4": "mp4", ".mov": "mov", ".mkv": "matroska", ".webm": "webm"}
VIDEOS = tuple(CONTAINERS)
FRAME = re.compile(r"[0-9]{5,}\.png")
H264 = {"crf": "18", "movflags": "+faststart"}  # almost without visible loss
VP9 = {"crf": "24", "b": "0", "row-mt": "1", "deadline": "good", "cpu-used": "4"}
REMEDY = "Give another --out, or replace it with --force."
BT709, LIMITED = 1, 1  # FFmpeg's numbers of the colour space and the range of values


class OutputFile:
    """A file that is written under a temporary name, and replaces only what it may.

    Args:
        path: of the file.
        run: folder of a run; a file directly in it that luxel wrote and nobody changed is replaced. None: no run.
        force: replace any file of this name.
        numbered: where something has the name, write NAME-2, NAME-3, ... instead.

    Attributes:
        path: of the file; with ``numbered`` the one that it has got, after it was written.
    """

    def __init__(
        self, path: Path, *, run: Path | None = None, force: bool = False, numbered: bool = False
    ) -> None:
        self.path = path
        self._force, self._numbered = force, numbered
        inside = run is not None and os.path.abspath(path.parent) == os.path.abspath(run)
        self._folder = OutputFolder(path.parent, force=force) if inside else None

    def require(self) -> None:
        """Checks before long work that the file may be written.

        Raises:
            LuxelError: something that may not be replaced has its name.
        """
        if self._numbered:
            return
        if self._folder is not None:
            self._folder.require([self.path.name])
        elif not self._force and os.path.lexists(self.path):
            raise LuxelError(f"{self.path}: already exists.", REMEDY)

    @contextmanager
    def writing(self, suffix: str = "") -> Iterator[Draft]:
        """The temporary file; it gets its name when the context ends, and is removed where it ends with an exception.

        Raises:
            LuxelError: something that may not be replaced has the name by now.
            OSError: it cannot be written.
        """
        self.require()
        if self._folder is not None:
            with self._folder.writing(self.path.name, suffix) as draft:
                yield draft
        elif self._numbered:
            with writing_unused(self.path.parent, self.path.stem, self.path.suffix) as draft:
                yield draft
            self.path = draft.target or self.path
        else:
            try:
                with writing_file(self.path, replace=self._force, suffix=suffix) as draft:
                    yield draft
            except FileExistsError as error:
                raise LuxelError(f"{self.path}: another file has got this name meanwhile.", REMEDY) from error


def require_output(output: OutputFile, count: int, *, force: bool = False) -> None:
    """Checks before frames are rendered that a film may be written.

    Args:
        output: a video, or the folder of PNG files.
        count: number of frames.
        force: of `write_video`.

    Raises:
        LuxelError: something that may not be replaced has the name of the video or of a frame.
    """
    with _writing(output.path):
        if _is_video(output.path):
            output.require()
        else:
            OutputFolder(output.path, force=force).require(_name(number) for number in range(count))


def write_video(
    output: OutputFile | Path,
    frames: Iterable[np.ndarray],
    fps: float,
    on_frame: Callable[[], None] = lambda: None,
    *,
    force: bool = False,
) -> int:
    """Writes all frames.

    A video gets its name when it is complete, a PNG file when it is. Of PNG files of an earlier film those that luxel
    wrote are replaced, and deleted where it had more frames.

    Args:
        output: a video (.mp4, .mov, .mkv, .webm; H.264, in .webm VP9), else a folder.
        frames: uint8 [H, W, 3], or [H, W, 4] for PNG files only; all of one size.
        fps: frames per second of a video.
        on_frame: called after each frame.
        force: replace PNG files of these names that luxel did not write, too.

    Returns:
        Number of frames written.

    Raises:
        LuxelError: the path cannot be written, something that may not be replaced has a name, or there is no video
            encoder.
    """
    output = output if isinstance(output, OutputFile) else OutputFile(output, force=force)
    with _writing(output.path):
        if _is_video(output.path):
            return _encode(output, frames, fps, on_frame)
        return _write_images(OutputFolder(output.path, force=force), frames, on_frame)


def _is_video(path: Path) -> bool:
    """Whether a path names a video; False: a folder.

    Raises:
        LuxelError: it has the suffix of something else.
    """
    if path.suffix.lower() in VIDEOS:
        return True
    if path.suffix and not path.is_dir():
        raise LuxelError(
            f"{path}: frames cannot be written as {path.suffix}.",
            "Give a name that ends in .mp4, or a folder for PNG files.",
        )
    return False


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
    """Writes each frame when it is there: those of an interrupted render stay."""
    folder.make()
    count = 0
    for frame in frames:
        with folder.writing(_name(count)) as draft:
            Image.fromarray(frame).save(draft.file, "PNG")
        count += 1
        on_frame()
    folder.delete(set(folder.names(FRAME)).difference(map(_name, range(count))))
    return count


def _encode(
    output: OutputFile, frames: Iterable[np.ndarray], fps: float, on_frame: Callable[[], None]
) -> int:
    """Encodes with FFmpeg; the video gets its name when it is complete."""
    try:
        import av
        from av.error import FFmpegError
    except ImportError as error:
        raise LuxelError(
            "PyAV, which encodes videos, is not installed.",
            "Install it (pip install av), or write PNG files into a folder.",
        ) from error
    suffix = output.path.suffix.lower()
    with output.writing(suffix) as draft:
        try:
            with av.open(str(draft.path), "w", format=CONTAINERS[suffix]) as container:
                return _write_frames(container, iter(frames), fps, on_frame)
        except FFmpegError as error:
            raise OSError(error.errno, error.strerror) from error


def _write_frames(
    container: Any, source: Iterator[np.ndarray], fps: float, on_frame: Callable[[], None]
) -> int:
    import av

    first = next(source)
    height, width = first.shape[:2]
    even = (height + height % 2, width + width % 2)  # 4:2:0 chroma has no odd sizes
    codec, options = ("libvpx-vp9", VP9) if container.format.name == "webm" else ("libx264", H264)
    stream = container.add_stream(codec, rate=Fraction(fps).limit_denominator(1001), options=options)
    stream.height, stream.width, stream.pix_fmt = *even, "yuv420p"
    stream.codec_context.colorspace = stream.codec_context.color_primaries = BT709
    stream.codec_context.color_trc, stream.codec_context.color_range = BT709, LIMITED
    count = 0
    for image in itertools.chain([first], source):
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(_padded(image, even)), "rgb24")
        container.mux(
            stream.encode(frame.reformat(format="yuv420p", dst_colorspace=BT709, dst_color_range=LIMITED))
        )
        count += 1
        on_frame()
    container.mux(stream.encode(None))
    return count


def _padded(frame: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """The frame with its last row and column repeated up to ``size``."""
    down, right = size[0] - frame.shape[0], size[1] - frame.shape[1]
    return np.pad(frame, ((0, down), (0, right), (0, 0)), mode="edge") if down or right else frame
