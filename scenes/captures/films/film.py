"""An open film: its largest video stream, and the frames of it that are complete, deinterlaced, as pixels."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from luxel.scenes.captures.films.deinterlacing import deinterlaced
from luxel.scenes.captures.films.film_state import FilmState
from luxel.scenes.captures.films.orientation import axes_of, shown
from luxel.scenes.captures.films.tone_mapping import peak_of, standard_range
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.pixel_limit import check_megapixels
from luxel.scenes.files.reading import check_file, reading

TRANSFERS = {16: "PQ", 18: "HLG"}  # FFmpeg's numbers of transfer functions of high dynamic range
CONTAINERS = (
    "mov,mp4,matroska,webm,avi,mpegts"  # FFmpeg's names of the formats that are read: none names other files
)
ALPHA_DECODERS = {"vp8": "libvpx", "vp9": "libvpx-vp9"}  # FFmpeg's own ones leave out the alpha channel
STILLS = ("attached_pic", "timed_thumbnails")  # streams of covers and previews
OPAQUE = 250  # alpha of pixels from which on they count as opaque, of 255
ENDING = 0.95  # of the length that a film announces, below which it is cut short
REMEDY = "Copy the video again, or convert it: ffmpeg -i VIDEO -c:v libx264 -crf 18 NEW.mp4"


@contextmanager
def opened_film(path: Path) -> Iterator[Film]:
    """A film, open for reading.

    Raises:
        CaptureError: the file cannot be read, has no video, or its frames have more pixels than images may have.
    """
    check_file(path)
    with reading(path, "a video", REMEDY), _opened(path) as container:
        streams = _video_streams(container)
        if not streams:
            raise CaptureError(
                f"{path}: there is no video in this file.", "Give a video, or a folder of images."
            )
        yield Film(path, container, streams)


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


def _video_streams(container: Any) -> list[Any]:
    """Video streams that are films, the one of the most pixels first; of equal ones the default, then the first."""
    streams = [
        stream
        for stream in container.streams.video
        if not any(getattr(type(stream.disposition), name) in stream.disposition for name in STILLS)
    ]

    def rank(stream: Any) -> tuple[int, bool]:
        default = type(stream.disposition).default in stream.disposition
        return -stream.codec_context.width * stream.codec_context.height, not default

    return sorted(streams, key=rank)


class Film:
    """The largest video stream of a file, as ffmpeg chooses it.

    Args:
        path: of the file.
        container: av's, open.
        streams: its video streams, the used one first.

    Attributes:
        stream: that is read.
        state: what was noticed so far; complete when all frames were read.
        format: FFmpeg's name of the file's format, such as "mov,mp4,m4a,3gp,3g2,mj2".
        seconds: length of the stream as the file states it; 0: unknown.
    """

    def __init__(self, path: Path, container: Any, streams: list[Any]) -> None:
        self.path, self.stream = path, streams[0]
        self._container, self.format = container, str(container.format.name)
        context = self.stream.codec_context
        check_megapixels(path, context.width, context.height)
        self.stream.thread_type = "AUTO"
        self._size: tuple[int, int] | None = None  # of the first frame
        self.seconds = _seconds(container, self.stream)
        self.state = FilmState(
            expected=_announced(container, self.stream),
            streams=[(s.codec_context.width, s.codec_context.height) for s in streams],
        )
        self._convert = reformatter()

    def packets(self) -> Iterator[Any]:
        """The packets of the stream (av.Packet) with data, up to the end of the file, or to where it is damaged."""
        from av.error import FFmpegError

        count, end, last = 0, 0.0, -1
        try:
            for packet in self._container.demux(self.stream):
                if not packet.size:
                    continue
                count += not packet.is_discard
                last = last if packet.dts is None else packet.dts
                if packet.pts is not None and packet.time_base:
                    end = max(end, float((packet.pts + (packet.duration or 0)) * packet.time_base))
                yield packet
        except FFmpegError as error:
            if not count or isinstance(error, MemoryError):
                raise
        if self.format == "avi":  # frames that repeat the one before have no data there, but a number
            count = max(count, last + 1)
        short = 0 < end < ENDING * self.seconds
        if self.state.expected:
            self.state.cut_short = self.state.cut_short or count < self.state.expected
        elif short and self.format.startswith("matroska"):
            self.state.cut_short = True
            rate = float(self.stream.average_rate or 0)
            self.state.expected = round(self.seconds * rate)

    def frames(self) -> Iterator[Any]:
        """The frames (av.VideoFrame) that are complete and of one size, deinterlaced, one after another."""
        return deinterlaced(self._complete(), self.stream)

    def _complete(self) -> Iterator[Any]:
        damaged: set[int] = set()
        for frame in self._decoded(damaged):
            if not frame.time_base:  # of the last ones, which no packet came with
                frame.time_base = self.stream.time_base
            size = (frame.width, frame.height)
            if size != self._size:
                check_megapixels(self.path, *size)
            if self._size is None and not frame.is_corrupt:
                self._size = self.state.streams[0] = size
            if self._size not in (size, None):
                self.state.other_size += 1
            elif frame.is_corrupt or (frame.pts is not None and frame.pts in damaged):
                self.state.damaged += 1
            else:
                self.state.read += 1
                self.state.interlaced = self.state.interlaced or bool(frame.interlaced_frame)
                self.state.transfer = self.state.transfer or TRANSFERS.get(frame.color_trc, "")
                yield frame

    def _decoded(self, damaged: set[int]) -> Iterator[Any]:
        """All frames; timestamps of packets that are not complete are added to ``damaged``."""
        from av.error import FFmpegError

        decoder, first_error = self._decoder(), None
        packets, some = self.packets(), False
        packet = next(packets, None)
        while True:
            following = next(packets, None)
            if packet is not None and packet.is_corrupt:
                if (
                    following is None
                ):  # the file ends within it; decoders with threads would lose frames before it
                    self.state.damaged += 1
                    self.state.cut_short = True
                    packet = None
                elif packet.pts is not None:
                    damaged.add(packet.pts)
            try:
                frames = decoder.decode(packet)
            except EOFError:
                frames = []
            except FFmpegError as error:
                if isinstance(error, MemoryError):
                    raise
                first_error, frames = first_error or error, []
                self.state.damaged += 1
            some = some or bool(frames)
            yield from frames
            if packet is None:
                break
            packet = following
        if first_error is not None and not some:
            raise first_error

    def _decoder(self) -> Any:
        """What decodes packets: of VP8 and VP9 with alpha libvpx, of all others FFmpeg's choice."""
        import av

        context = self.stream.codec_context
        marked = {key.lower(): value for key, value in self.stream.metadata.items()}.get("alpha_mode") == "1"
        if not marked or context.name not in ALPHA_DECODERS:
            return self.stream
        try:
            return av.CodecContext.create(ALPHA_DECODERS[context.name], "r")
        except ValueError:  # av.codec.codec.UnknownCodecError
            self.state.alpha_lost = True
            return self.stream

    def time_of(self, frame: Any, index: int) -> float:
        """Seconds of a frame on the clock of the film; by its number where it has no timestamp."""
        if frame.time is not None:
            return float(frame.time)
        return index / float(self.stream.average_rate or 1)

    def pixels(self, frame: Any) -> np.ndarray:
        """The pixels of a frame as they are to be shown, RGB uint8 [H, W, 3], or RGBA where some are not opaque.

        Colours of high dynamic range are mapped to the standard range, see `tone_mapping`.
        Pixels that are not square are made so by their width.
        """
        ratio = self.stream.sample_aspect_ratio or 1
        width = max(1, round(frame.width * float(ratio))) if 0.1 < ratio < 10 else frame.width
        if any(component.is_alpha for component in frame.format.components):
            pixels = self._converted(frame, width, "rgba")
            if int(pixels[..., 3].min()) < OPAQUE:
                return shown(pixels, axes_of(frame))
        transfer = TRANSFERS.get(frame.color_trc)
        if transfer:
            signals = self._converted(frame, width, "rgb48le")
            mapped = standard_range(signals, transfer, frame.color_primaries, peak_of(frame))
            return shown(mapped, axes_of(frame))
        return shown(self._converted(frame, width, "rgb24"), axes_of(frame))

    def _converted(self, frame: Any, width: int, form: str) -> np.ndarray:
        return self._convert.reformat(frame, width=width, height=frame.height, format=form).to_ndarray()


def reformatter() -> Any:
    """Scales frames and converts their colours; its tables are retained while the frames are of one kind."""
    from av.video.reformatter import VideoReformatter

    return VideoReformatter()


def _announced(container: Any, stream: Any) -> int:
    """How many frames a file says that a stream has, without those that its edit list leaves out; 0: unknown."""
    if container.format.name.startswith("mov"):
        return sum(1 for entry in stream.index_entries if entry.size and not entry.is_discard)
    if stream.frames > 0:
        return int(stream.frames)
    stated = _tag(stream, "NUMBER_OF_FRAMES")
    return int(stated) if stated.isdecimal() and len(stated) < 10 else 0


def _seconds(container: Any, stream: Any) -> float:
    if stream.duration:
        return float(stream.duration * stream.time_base)
    stated = re.fullmatch(r"(\d+):(\d\d):(\d\d(?:\.\d+)?)", _tag(stream, "DURATION"))
    if stated:
        hours, minutes, seconds = stated.groups()
        return 3600 * int(hours) + 60 * int(minutes) + float(seconds)
    alone = len(container.streams) == 1 and container.duration
    return container.duration / 1e6 if alone else 0.0


def _tag(stream: Any, name: str) -> str:
    """A tag of Matroska, which has a language behind its name in the files of some programs."""
    return next((value for key, value in stream.metadata.items() if key.split("-")[0] == name), "")
