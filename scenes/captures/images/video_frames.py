"""Frames of a video that are worth training on: the sharpest of each part of it, without blurred ones and repetitions.

A frame's sharpness is the variance of its Laplacian (Pech-Pacheco et al. 2000), measured at SMALL pixels. It depends on
what is visible, so that it is compared between neighbouring frames only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from luxel.scenes.errors import CaptureError
from luxel.scenes.files.pixel_limit import check_megapixels
from luxel.scenes.files.reading import check_file, reading

SMALL = 480  # pixels of the longer side at which sharpness is measured
THUMBNAIL = (32, 18)  # pixels in which frames are compared
SAME = 0.5  # mean difference of two thumbnails, of 255 levels, below which a frame repeats the one before
BLURRED = 0.35  # of the median sharpness of the frames around, below which a frame is left out
AROUND = 5  # frames before and after
PER_SECOND, FEWEST, MOST = 2.0, 60, 300  # frames that are taken where nothing else is asked for
HDR = (16, 18)  # FFmpeg's numbers of the transfer functions PQ and HLG
CONTAINERS = (
    "mov,mp4,matroska,webm,avi,mpegts"  # FFmpeg's names of the formats that are read: none names other files
)
REMEDY = "Copy the video again, or convert it: ffmpeg -i VIDEO -c:v libx264 -crf 18 NEW.mp4"


@dataclass(frozen=True)
class FrameMeasure:
    """What is measured of a frame.

    Args:
        index: among all frames, from 0.
        time: seconds since the first frame.
        sharpness: variance of the Laplacian of its grey levels of 0 to 255.
        thumbnail: grey levels, float32 [18, 32].
    """

    index: int
    time: float
    sharpness: float
    thumbnail: np.ndarray


@dataclass(frozen=True)
class Selection:
    """The frames that were chosen of a video.

    Args:
        frames: in the order of their times.
        total: frames of the video.
        blurred, repeated: how many chosen ones were left out again.
        hdr: whether its colours have a high dynamic range.
    """

    frames: list[FrameMeasure]
    total: int
    blurred: int = 0
    repeated: int = 0
    hdr: bool = False


def default_count(seconds: float) -> int:
    """How many frames are chosen of a video of this length."""
    return round(min(max(PER_SECOND * seconds, FEWEST), MOST))


def choose_frames(
    path: Path, count: int | None = None, on_progress: Callable[[float], None] = lambda _: None
) -> Selection:
    """Frames of a video that show it evenly in time.

    Args:
        path: of the video.
        count: of parts of equal length of which the sharpest frame is chosen; None: see `default_count`.
        on_progress: called with the fraction done in [0, 1].

    Raises:
        CaptureError: it cannot be read, or has no frames.
    """
    measures, hdr = [], False
    resize = reformatter()
    with opened_video(path) as (stream, frames):
        length = float(stream.duration * stream.time_base) if stream.duration else 0.0
        for frame in frames:
            measures.append(_measured(frame, len(measures), resize))
            hdr = hdr or getattr(frame, "color_trc", None) in HDR
            on_progress(min(1.0, measures[-1].time / length) if length else 0.0)
    if not measures:
        raise CaptureError(f"{path}: there are no frames in this video.", REMEDY)
    chosen, blurred, repeated = select(measures, count)
    return Selection(chosen, len(measures), blurred, repeated, hdr)


def select(measures: Sequence[FrameMeasure], count: int | None) -> tuple[list[FrameMeasure], int, int]:
    """The chosen frames, and how many were left out because they are blurred, or repeat another one.

    Args:
        measures: of all frames, by time.
        count: see `choose_frames`.
    """
    start, seconds = measures[0].time, measures[-1].time - measures[0].time
    parts = min(count or default_count(seconds), len(measures))
    best: dict[int, FrameMeasure] = {}
    for measure in measures:
        share = (measure.time - start) / seconds if seconds > 0 else measure.index / len(measures)
        part = min(int(share * parts), parts - 1)
        if part not in best or measure.sharpness > best[part].sharpness:
            best[part] = measure
    candidates = [best[part] for part in sorted(best)]
    values = np.array([measure.sharpness for measure in candidates])
    around = [np.median(values[max(0, i - AROUND) : i + AROUND + 1]) for i in range(len(values))]
    sharp = [m for m, usual in zip(candidates, around, strict=True) if m.sharpness >= BLURRED * usual]
    retained: list[FrameMeasure] = []
    for measure in sharp:
        if not retained or float(np.abs(measure.thumbnail - retained[-1].thumbnail).mean()) >= SAME:
            retained.append(measure)
    return retained, len(candidates) - len(sharp), len(sharp) - len(retained)


def decode_frames(path: Path, chosen: Sequence[FrameMeasure]) -> Iterator[tuple[FrameMeasure, np.ndarray]]:
    """The pixels of chosen frames, upright and with square pixels, uint8 RGB [H, W, 3].

    Args:
        path: of the video.
        chosen: by index.

    Raises:
        CaptureError: the video cannot be read, or has changed.
    """
    by_index = {measure.index: measure for measure in chosen}
    left, convert = len(by_index), reformatter()
    with opened_video(path) as (stream, frames):
        for index, frame in enumerate(frames):
            if index in by_index:
                yield by_index[index], upright(frame, stream, convert)
                left -= 1
            if not left:
                return
    raise CaptureError(f"{path}: the video has changed while it was read.", "Try again.")


@contextmanager
def opened_video(path: Path) -> Iterator[tuple[Any, Iterator[Any]]]:
    """The first video stream of a file, and its frames that are complete, decoded one after another.

    Raises:
        CaptureError: the file cannot be read, has no video, or its frames have more pixels than images may have.
    """
    check_file(path)
    with reading(path, "a video", REMEDY), _opened(path) as container:
        if not container.streams.video:
            raise CaptureError(
                f"{path}: there is no video in this file.", "Give a video, or a folder of images."
            )
        stream = container.streams.video[0]
        check_megapixels(path, stream.codec_context.width, stream.codec_context.height)
        stream.thread_type = "AUTO"
        size = (stream.codec_context.width, stream.codec_context.height)
        yield stream, (frame for frame in container.decode(stream) if _is_complete(path, frame, size))


def _opened(path: Path) -> Any:
    """The container of a video."""
    import av
    from av.error import ArgumentError

    # Playlists and descriptions of streams would have FFmpeg open other files and addresses.
    options = {"format_whitelist": CONTAINERS, "protocol_whitelist": "file"}
    try:
        return av.open(str(path.absolute()), container_options=options)
    except ArgumentError:
        raise CaptureError(
            f"{path}: this is no MP4, MOV, Matroska, WebM, AVI or MPEG-TS file, whatever its suffix says.",
            REMEDY,
        ) from None


def _is_complete(path: Path, frame: Any, size: tuple[int, int]) -> bool:
    """Whether a frame is not damaged and of the size of the others; checks its pixels where it is not."""
    if (frame.width, frame.height) != size:
        check_megapixels(path, frame.width, frame.height)
        return False
    return not frame.is_corrupt


def reformatter() -> Any:
    """Scales frames and converts their colours; its tables are retained while the frames are of one kind."""
    from av.video.reformatter import VideoReformatter

    return VideoReformatter()


def _measured(frame: Any, index: int, resize: Any) -> FrameMeasure:
    import cv2

    scale = min(1.0, SMALL / max(frame.width, frame.height))
    width, height = (max(2, round(side * scale)) for side in (frame.width, frame.height))
    grey = resize.reformat(frame, width=width, height=height, format="gray").to_ndarray()
    thumbnail = cv2.resize(grey, THUMBNAIL, interpolation=cv2.INTER_AREA).astype(np.float32)
    time = float(frame.time) if frame.time is not None else float(index)
    return FrameMeasure(index, time, float(cv2.Laplacian(grey, cv2.CV_32F).var()), thumbnail)


def upright(frame: Any, stream: Any, convert: Any) -> np.ndarray:
    """The pixels of a frame as they are to be shown, uint8 RGB [H, W, 3]; ``convert`` is a `reformatter`."""
    ratio = stream.sample_aspect_ratio or 1
    width = max(1, round(frame.width * float(ratio))) if 0.1 < ratio < 10 else frame.width
    pixels = convert.reformat(frame, width=width, height=frame.height, format="rgb24").to_ndarray()
    return np.ascontiguousarray(np.rot90(pixels, round(frame.rotation / 90)))
