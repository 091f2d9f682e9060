"""Video for slow links: the encoder, when it is used, and what a page receives."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from stream_sink import shifting_images

from luxel.viewer.web.transport import video
from luxel.viewer.web.transport.link import Link
from luxel.viewer.web.transport.sinks import FrameInfo, StreamSink
from luxel.viewer.web.transport.video import CODECS, MotionVideo, VideoEncoder, installed_codecs
from luxel.viewer.web.transport.wire import DisplayedMessage, split_image

av = pytest.importorskip("av")


def decoded(frames: list[bytes], codec: str) -> list[np.ndarray]:
    """RGB images of frames."""
    context: Any = av.CodecContext.create({"h264": "h264", "vp8": "vp8"}[codec], "r")
    out = [frame for data in frames for frame in context.decode(av.Packet(data))]
    out += context.decode(None)
    return [frame.to_ndarray(format="rgb24", src_colorspace=1) for frame in out]  # BT.709


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [(320, 240), (321, 241)])
def test_frames_are_the_images(codec: str, size: tuple[int, int]) -> None:
    given = shifting_images(6, *size)
    encoder = VideoEncoder(codec, *size, 2_000_000)
    frames = [encoder.encode(image, k / 30) for k, image in enumerate(given)]
    assert [frame.key for frame in frames] == [True] + [False] * 5
    for image, actual in zip(given, decoded([frame.data for frame in frames], codec), strict=True):
        expected = image[: size[1] // 2 * 2, : size[0] // 2 * 2].astype(float)
        assert actual.shape == expected.shape
        error = np.mean((actual - expected) ** 2)
        assert 10 * np.log10(255**2 / error) > 30
        assert (
            np.abs((actual - expected).mean((0, 1))).max() < 1.5
        )  # the colour matrix is the one that is named


def link_of(speed: float) -> Link:
    """A link that has been measured: bytes a second."""
    now = [0.0]
    link = Link(lambda: now[0])
    for number in range(1, 5):
        link.sent(number, 50_000)
        now[0] += 50_000 / speed
        link.received(number, 0.0)
    return link


def test_video_is_for_slow_links_and_pages_that_decode_it() -> None:
    for speed, codecs, chosen in (
        (5e5, ("h264",), True),
        (5e5, (), False),
        (5e7, ("h264",), False),
    ):
        motion = MotionVideo(link_of(speed))
        motion.offer(codecs)
        assert not motion.chosen  # no file was sent yet
        motion.note_file(60_000)
        assert motion.chosen is chosen
    assert MotionVideo(link_of(5e5), codecs=()).encode(shifting_images(1)[0], 0.0) is None


def test_a_page_that_offers_video_again_gets_none_where_it_is_forbidden() -> None:
    motion = MotionVideo(link_of(5e5))
    motion.note_file(60_000)
    motion.offer(("h264", "vp8"))
    assert motion.chosen
    motion.forbid()
    motion.offer(("h264", "vp8"))
    assert not motion.chosen and motion.encode(shifting_images(1)[0], 0.0) is None


def test_a_page_that_asks_again_gets_a_key_frame() -> None:
    motion = MotionVideo(link_of(5e5))
    motion.offer(CODECS)
    first, second, third, *_ = shifting_images(3)
    frames = [motion.encode(first, 0.0), motion.encode(second, 0.1)]
    motion.offer(("vp8",))
    frames.append(motion.encode(third, 0.2))
    assert [(frame.codec, frame.key) for frame in frames if frame] == [
        ("h264", True),
        ("h264", False),
        ("vp8", True),
    ]


def test_a_failing_encoder_is_given_up(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    motion = MotionVideo(link_of(5e5))
    motion.offer(CODECS)

    def fail(*_: Any) -> None:
        raise RuntimeError("no encoder")

    monkeypatch.setattr(video.VideoEncoder, "encode", fail)
    assert motion.encode(shifting_images(1)[0], 0.0) is None
    assert "JPEG files are sent" in caplog.text and not motion.chosen


def test_without_pyav_there_are_jpeg_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "av", None)
    installed_codecs.cache_clear()
    try:
        assert installed_codecs() == ()
    finally:
        installed_codecs.cache_clear()


def test_images_of_a_moving_camera_become_video_on_a_slow_link() -> None:
    sink, received = StreamSink(), []

    def post(message: bytes, left: Callable[[], None]) -> None:
        received.append(message)
        left()

    sink.connect(post)
    sink.offer_video(("h264",))

    def show(image: np.ndarray, quality: int, moving: bool) -> Any:
        before = len(received)
        sink.wait()
        sink.send(image, quality, FrameInfo(moving=moving))
        while len(received) == before:
            time.sleep(0.002)
        header, file = split_image(received[-1])
        time.sleep(len(file) / 2e5)  # 1.6 Mbit/s
        sink.drawn(DisplayedMessage(header.image, 0.0, None))
        return header

    headers = [show(image, 80, True) for image in shifting_images(9, 640, 480)]
    kinds = [header.video for header in headers]
    switch = kinds.index("h264")
    assert kinds == [None] * switch + ["h264"] * (len(kinds) - switch) and headers[switch].key
    assert show(shifting_images(1, 640, 480)[0], 90, False).video is None, "an image at rest is a file"
    assert show(shifting_images(1, 640, 480)[0], 100, False).png
    assert show(shifting_images(2, 640, 480)[1], 80, True).video == "h264"
    sink.close()


def test_an_encoder_that_holds_images_back_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = VideoEncoder("vp8", 32, 24, 1_000_000)
    monkeypatch.setattr(encoder, "_context", SimpleNamespace(width=32, height=24, encode=lambda frame: []))
    with pytest.raises(RuntimeError, match="the vp8 encoder gave 0 frames for one image"):
        encoder.encode(np.zeros((24, 32, 3), np.uint8), 0.0)
