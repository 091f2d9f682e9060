"""The images of a moving camera as video, for links on which JPEG files would come too seldom.

A frame of video holds what changed since the one before, a tenth to a hundredth of a JPEG file. Encoded by PyAV
(FFmpeg): H.264 by x264 without delay, else VP8 by libvpx.
"""

from __future__ import annotations

import functools
import logging
import os
from collections import deque
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from luxel.viewer.web.transport.link import Link

log = logging.getLogger("luxel.viewer")

CLOCK = 90_000  # ticks a second of presentation times
FRAMES = 30  # a second, for which the encoder plans; fewer are larger
FROM, UNTIL = (
    1 / 20,
    1 / 40,
)  # seconds a JPEG file takes on the link: from where on, and until where, it is video
SHARE = 0.7  # of the link's speed that the video may take
BITS = (100_000, 12_000_000)  # a second, least and most
CHANGE = 1.4  # ratio of bit rates from which the encoder is set up again
MAX_THREADS = 4
SMALLEST = 64  # pixels of a side; smaller images stay JPEG files
# Names as pages give them: the encoder of FFmpeg and its options.
ENCODERS: dict[str, tuple[str, dict[str, str]]] = {
    "h264": (
        "libx264",
        {"preset": "superfast", "tune": "zerolatency", "profile": "high", "x264-params": "scenecut=0"},
    ),
    "vp8": ("libvpx", {"deadline": "realtime", "cpu-used": "8", "lag-in-frames": "0"}),
}
CODECS = tuple(ENCODERS)
NAMES = {"h264": "H.264", "vp8": "VP8"}


@functools.cache
def installed_codecs() -> tuple[str, ...]:
    """The codecs that this machine can encode, the best first; none without PyAV, which is logged."""
    try:
        import av
    except ImportError as error:
        log.info("Slow links get JPEG files instead of video, as PyAV is not available: %s", error)
        return ()
    return tuple(name for name, (encoder, _) in ENCODERS.items() if encoder in av.codecs_available)


@dataclass(frozen=True)
class VideoFrame:
    """A frame of video.

    Args:
        codec: one of CODECS.
        key: whether it needs no frame before it.
        data: H.264 in Annex B format, or VP8.
    """

    codec: str
    key: bool
    data: bytes


class VideoEncoder:
    """Encodes images of one size without delay: each image gives one frame.

    Args:
        codec: one of CODECS.
        width, height: of the images, pixels; an odd last column or row is left out.
        bits: a second.
    """

    def __init__(self, codec: str, width: int, height: int, bits: int) -> None:
        import av
        from av.video.reformatter import ColorRange, Colorspace

        encoder, options = ENCODERS[codec]
        self.codec, self.size, self.bits = codec, (width, height), bits
        self._matrix, self._range = Colorspace.ITU709, ColorRange.MPEG  # as the page tells its decoder
        context: Any = av.CodecContext.create(encoder, "w")
        context.width, context.height = width - width % 2, height - height % 2
        context.pix_fmt, context.time_base, context.framerate = "yuv420p", Fraction(1, CLOCK), FRAMES
        context.bit_rate, context.gop_size = bits, 10_000
        context.thread_count = max(1, min(MAX_THREADS, (os.cpu_count() or 1) // 4))
        context.max_b_frames = 0
        context.options = {**options, "maxrate": str(bits), "bufsize": str(bits // 4)}
        if codec == "h264":
            context.color_primaries = context.color_trc = context.colorspace = 1  # BT.709
            context.color_range = 1  # limited
        self._context, self._last = context, -1

    def encode(self, image: np.ndarray, at: float) -> VideoFrame:
        """The frame of an image.

        Args:
            image: uint8 [H, W, 3], RGB.
            at: time in seconds, which grows.
        """
        import av

        width, height = self._context.width, self._context.height
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(image[:height, :width]), "rgb24")
        frame = frame.reformat(format="yuv420p", dst_colorspace=self._matrix, dst_color_range=self._range)
        self._last = frame.pts = max(self._last + 1, round(at * CLOCK))
        packets = self._context.encode(frame)
        if len(packets) != 1:
            raise RuntimeError(f"the {self.codec} encoder gave {len(packets)} frames for one image")
        return VideoFrame(self.codec, packets[0].is_keyframe, bytes(packets[0]))


class MotionVideo:
    """Decides whether the images of a moving camera go as video, and encodes them.

    One thread encodes; others may call `offer`.

    Args:
        link: its speed is asked for.
        codecs: that may be used.
    """

    def __init__(self, link: Link, codecs: tuple[str, ...] | None = None) -> None:
        self._link = link
        self._codecs = installed_codecs() if codecs is None else codecs
        self._codec: str | None = None  # that the page decodes too
        self._offers = 0
        self._encoder: VideoEncoder | None = None
        self._encoder_of = -1  # number of offers when it was made
        self._sizes: deque[int] = deque(maxlen=9)  # of the last JPEG files of a moving camera, bytes
        self._on = False

    def offer(self, codecs: tuple[str, ...]) -> None:
        """Takes the codecs that the page decodes; the next frame needs none before it."""
        self._codec = next((name for name in self._codecs if name in codecs), None)
        self._offers += 1

    def forbid(self) -> None:
        """No video from now on, whatever the page offers."""
        self._codecs = ()
        self.offer(())

    def note_file(self, size: int) -> None:
        """Takes the size of a JPEG file that was sent while the camera moved."""
        self._sizes.append(size)

    @property
    def chosen(self) -> bool:
        """Whether video is better than JPEG files now."""
        speed = self._link.speed
        if self._codec is None or speed is None or not self._sizes:
            return False
        seconds = sorted(self._sizes)[len(self._sizes) // 2] / speed
        self._on = seconds > (UNTIL if self._on else FROM)
        return self._on

    def encode(self, image: np.ndarray, at: float) -> VideoFrame | None:
        """The frame of an image, uint8 [H, W, 3], at a time in seconds; None where only a JPEG file is possible."""
        offers, codec, speed = self._offers, self._codec, self._link.speed
        height, width = image.shape[:2]
        if codec is None or speed is None or min(width, height) < SMALLEST:
            return None
        bits = int(min(max(SHARE * 8 * speed, BITS[0]), BITS[1]))
        try:
            retained = self._encoder
            fits = retained is not None and (retained.codec, retained.size) == (codec, (width, height))
            if (
                retained is None
                or not fits
                or self._encoder_of != offers
                or not 1 / CHANGE < bits / retained.bits < CHANGE
            ):
                retained, self._encoder_of = VideoEncoder(codec, width, height, bits), offers
                self._encoder = retained
            return retained.encode(image, at)
        except Exception as error:  # whatever FFmpeg raises: JPEG files serve too
            log.warning("Video could not be encoded; from now on JPEG files are sent. %s", error)
            self._codecs = tuple(name for name in self._codecs if name != codec)
            self._codec = self._encoder = None
            return None
