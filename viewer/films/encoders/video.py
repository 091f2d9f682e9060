"""H.264 and VP9, by PyAV."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import cast

import av
import numpy as np
from av.video.stream import VideoStream

from luxel.render.errors import LuxelError
from luxel.viewer.films.film_format import QUALITY, FilmOptions

CONTAINERS = {".mp4": "mp4", ".mov": "mov", ".mkv": "matroska", ".webm": "webm"}
BT709, LIMITED = 1, 1  # FFmpeg's numbers of the colour space and the range of values
H264 = {"movflags": "+faststart"}
VP9 = {"b": "0", "row-mt": "1", "deadline": "good", "cpu-used": "4"}


@contextmanager
def encode_h264(
    path: Path, size: tuple[int, int], options: FilmOptions
) -> Iterator[Callable[[np.ndarray], None]]:
    """H.264 in .mp4, .mov or .mkv; quality 90 is a constant rate factor (CRF) of 18, almost without visible loss."""
    # CRF 0 is lossless, in a profile that browsers do not play.
    crf = max(1, _crf(options, 51, 0.45))
    with _encode(path, size, options, "libx264", {**H264, "crf": str(crf)}) as write:
        yield write


@contextmanager
def encode_vp9(
    path: Path, size: tuple[int, int], options: FilmOptions
) -> Iterator[Callable[[np.ndarray], None]]:
    """VP9 in .webm, with alpha in a second stream; quality 90 is a constant rate factor (CRF) of 24.

    Raises:
        LuxelError: this build of the encoder has no alpha.
    """
    settings = {**VP9, "crf": str(_crf(options, 63, 0.42))}
    if options.alpha:
        settings["auto-alt-ref"] = "0"  # with it libvpx refuses alpha
        if "yuva420p" not in [form.name for form in av.Codec("libvpx-vp9", "w").video_formats or ()]:
            raise LuxelError(
                f"{path.suffix}: the VP9 encoder of this PyAV has no alpha.",
                "Write .webp, .apng, or PNG files into a folder.",
            )
    with _encode(path, size, options, "libvpx-vp9", settings) as write:
        yield write


def _crf(options: FilmOptions, largest: int, power: float) -> int:
    """The constant rate factor of a quality of 1 to 100: ``largest`` to 0."""
    quality = QUALITY if options.quality is None else options.quality
    return round(largest * (1 - quality / 100) ** power)


@contextmanager
def _encode(
    path: Path, size: tuple[int, int], options: FilmOptions, codec: str, settings: dict[str, str]
) -> Iterator[Callable[[np.ndarray], None]]:
    width, height = size
    even = (height + height % 2, width + width % 2)  # 4:2:0 chroma has no odd sizes
    source, target = ("rgba", "yuva420p") if options.alpha else ("rgb24", "yuv420p")
    with av.open(str(path), "w", format=CONTAINERS[path.suffix.lower()]) as container:
        rate = Fraction(options.fps).limit_denominator(1001)
        stream = cast(VideoStream, container.add_stream(codec, rate=rate, options=settings))
        stream.height, stream.width, stream.pix_fmt = *even, target
        stream.codec_context.colorspace = stream.codec_context.color_primaries = BT709
        stream.codec_context.color_trc, stream.codec_context.color_range = BT709, LIMITED
        if options.alpha:
            stream.metadata["alpha_mode"] = "1"

        def write(image: np.ndarray) -> None:
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(_padded(image, even)), source)
            frame = frame.reformat(format=target, dst_colorspace=BT709, dst_color_range=LIMITED)
            container.mux(stream.encode(frame))

        yield write
        container.mux(stream.encode(None))


def _padded(frame: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """The frame with its last row and column repeated up to ``size``."""
    down, right = size[0] - frame.shape[0], size[1] - frame.shape[1]
    return np.pad(frame, ((0, down), (0, right), (0, 0)), mode="edge") if down or right else frame
