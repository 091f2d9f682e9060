"""Where the images of a page go: over its own websocket, or as messages of viser where that is missing."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from luxel.viewer.web.transport.encoders import as_array, encode_jpeg, encode_png
from luxel.viewer.web.transport.figures import StreamFigures
from luxel.viewer.web.transport.link import Link
from luxel.viewer.web.transport.video import NAMES, MotionVideo
from luxel.viewer.web.transport.wire import DisplayedMessage, ImageHeader

log = logging.getLogger("luxel.viewer")

STREAM_PATIENCE = 2.0  # seconds that the first image waits for a page that was asked to connect
IN_FLIGHT = 2  # images that may be on their way to a page

Post = Callable[[bytes, Callable[[], None]], None]
"""Sends a message from any thread; calls the function, perhaps in another thread, when it has left the server."""


@dataclass(frozen=True)
class FrameInfo:
    """What a sink should know of an image.

    Args:
        sequence: of the camera, as the page counts them; 0: a camera that did not come through the stream.
        render_ms: time of rendering.
        full: whether the image has the full resolution.
        moving: whether the camera moves or the scene plays; such images may go as video.
    """

    sequence: int = 0
    render_ms: float = 0.0
    full: bool = True
    moving: bool = False


class Sink(Protocol):
    """Where the images of one page go.

    Attributes:
        takes_tensors: whether it is better to send images as tensors on the GPU.
    """

    @property
    def takes_tensors(self) -> bool: ...

    def wait(self) -> None:
        """Returns when the page is ready for the next image."""
        ...

    def send(self, image: np.ndarray | Tensor, quality: int, info: FrameInfo) -> None:
        """Sends an image, uint8 [H, W, 3], as JPEG of ``quality`` or, from 100 on, as PNG."""
        ...


class StreamSink:
    """Sends images over the websocket of a page; at most IN_FLIGHT wait for its acknowledgement.

    A thread encodes an image while the next is rendered. PNG, which takes long, has a thread of its own and is dropped
    if another image was sent meanwhile. On a slow link the images of a moving camera go as video, if the page decodes
    it.

    Args:
        codecs: of video that may be used; None: all that are installed.
    """

    def __init__(self, codecs: tuple[str, ...] | None = None) -> None:
        self.figures = StreamFigures()
        self._link = Link()
        self._video = MotionVideo(self._link, codecs)
        self._encoder = ThreadPoolExecutor(1, thread_name_prefix="luxel-encode")
        self._still_encoder = ThreadPoolExecutor(1, thread_name_prefix="luxel-encode-still")
        self._changed = threading.Condition()
        self._post: Post | None = None
        self._closed = False
        self._number = 0  # of the newest image
        self._not_displayed: set[int] = set()  # being encoded, or not acknowledged
        self._unsent: set[int] = set()  # not yet taken by the network

    takes_tensors = True  # the thread that encodes copies them, where it must

    @property
    def connected(self) -> bool:
        """Whether there is a websocket."""
        return self._post is not None

    def connect(self, post: Post) -> None:
        """Sends through ``post`` from now on."""
        with self._changed:
            self._post = post
            self._forget()

    def disconnect(self, post: Post) -> bool:
        """Forgets ``post``; false if another connection has replaced it."""
        with self._changed:
            if self._post is not post:
                return False
            self._post = None
            self._forget()
            return True

    def offer_video(self, codecs: tuple[str, ...]) -> None:
        """Takes the video codecs that the page decodes."""
        self._video.offer(codecs)

    def forbid_video(self) -> None:
        """Sends files alone from now on, whatever the page offers."""
        self._video.forbid()

    def note_round_trip(self, seconds: float) -> None:
        """Takes the time that an empty message to the page and its answer took."""
        self._link.answered(seconds)

    def _forget(self) -> None:
        self._not_displayed.clear()
        self._unsent.clear()
        self._link.forget_sent()
        self._video.offer(())
        self.figures.forget_sent()
        self._changed.notify_all()

    def wait(self) -> None:
        """Returns when fewer than IN_FLIGHT images are on their way, or the connection has ended."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._post is None or len(self._not_displayed | self._unsent) < IN_FLIGHT
            )

    def wait_for_connection(self, seconds: float) -> None:
        """Returns when there is a connection, the page was closed, or so many seconds have passed."""
        with self._changed:
            self._changed.wait_for(lambda: self._post is not None or self._closed, seconds)

    def send(self, image: np.ndarray | Tensor, quality: int, info: FrameInfo) -> None:
        """Sends an image, uint8 [H, W, 3], as JPEG of ``quality`` or, from 100 on, as PNG."""
        still = quality >= 100
        with self._changed:
            post = self._post
            if post is None:
                return
            self._number += 1
            number = self._number
            if not still:
                self._not_displayed.add(number)
        try:
            pool = self._still_encoder if still else self._encoder
            pool.submit(self._encode, post, number, image, quality, info)
        except RuntimeError:  # closed
            self._drop(number)

    def _encode(
        self, post: Post, number: int, image: np.ndarray | Tensor, quality: int, info: FrameInfo
    ) -> None:
        try:
            still = quality >= 100
            if still and number != self._number:
                return
            start = time.perf_counter()
            frame = self._video.encode(as_array(image), start) if info.moving and self._video.chosen else None
            if frame is not None:
                file = frame.data
            else:
                file = encode_png(image) if still else encode_jpeg(image, quality)
                if info.moving:
                    self._video.note_file(len(file))
            encode_ms = (time.perf_counter() - start) * 1e3
            header = ImageHeader(
                *(info.sequence, number, image.shape[1], image.shape[0], info.render_ms, encode_ms),
                full=info.full,
                png=still,
                video=frame and frame.codec,
                key=frame is not None and frame.key,
            )
            with self._changed:
                if self._post is not post or (still and number != self._number):
                    return
                self._not_displayed.add(number)
                self._unsent.add(number)
            self._link.sent(number, len(file))
            encoding = NAMES[frame.codec] if frame else "PNG" if still else "JPEG"
            self.figures.sent(number, info.render_ms, encode_ms, len(file), encoding)
            post(header.pack() + file, lambda: self._left(number))
        except Exception:
            log.exception("An image could not be encoded or sent.")
            self._drop(number)

    def _left(self, number: int) -> None:
        with self._changed:
            self._unsent.discard(number)
            self._changed.notify_all()

    def _drop(self, number: int) -> None:
        with self._changed:
            self._not_displayed.discard(number)
            self._unsent.discard(number)
            self._changed.notify_all()

    def drawn(self, message: DisplayedMessage) -> None:
        """Takes the acknowledgement of an image and of all before it."""
        self.figures.drawn(message.image, message.decode_ms, message.latency_ms)
        self._link.received(message.image, message.decode_ms)
        with self._changed:
            self._not_displayed = {number for number in self._not_displayed if number > message.image}
            self._changed.notify_all()

    def close(self) -> None:
        """Ends the connection and the threads."""
        with self._changed:
            self._post, self._closed = None, True
            self._forget()
        for pool in (self._encoder, self._still_encoder):
            pool.shutdown(wait=False, cancel_futures=True)


class ViserSink:
    """Sends images to a viser client and waits until it has received the previous one.

    viser does not confirm images, and a browser that gets them faster than it decodes them shows none. A query of
    the page's local storage, answered after the image was received, serves as confirmation.

    Args:
        client: viser ClientHandle.
        patience: seconds after which an unconfirmed image counts as received.
    """

    takes_tensors = False

    def __init__(self, client: Any, patience: float = 1.0) -> None:
        self._client, self._patience = client, patience
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="luxel-sink")
        self._pending: Future[None] | None = None

    def wait(self) -> None:
        """Returns when the page has received the last image, or does not answer."""
        if self._pending is not None:
            self._pending.result()

    def send(self, image: np.ndarray | Tensor, quality: int, info: FrameInfo) -> None:
        """Sends an image, uint8 [H, W, 3], as JPEG of ``quality`` or, from 100 on, as PNG."""
        pixels = as_array(image)
        if quality >= 100:
            self._client.scene.set_background_image(pixels, format="png")
        else:
            self._client.scene.set_background_image(pixels, format="jpeg", jpeg_quality=quality)
        with suppress(RuntimeError):  # the page was closed meanwhile
            self._pending = self._pool.submit(self._confirm)

    def remove_image(self) -> None:
        """Removes the image, so that the page shows what lies under viser's canvas."""
        self._client.scene.set_background_image(None)

    def close(self) -> None:
        """Ends the waiting thread."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _confirm(self) -> None:
        try:
            self._client.local_storage.get_item("luxel-image", timeout=self._patience)
        except (RuntimeError, TimeoutError):
            return  # storage is blocked (which is an answer too), the page hangs, or it is gone


class PageSink:
    """Sends images over the websocket of a page while it has one, else as messages of viser.

    Args:
        client: viser ClientHandle.
    """

    def __init__(self, client: Any) -> None:
        self.stream = StreamSink()
        self._viser = ViserSink(client)
        self._viser_image = False  # whether viser draws an image over those of the stream
        self._patience = 0.0

    def expect_stream(self) -> None:
        """The page was asked to connect: its first image waits for that, up to STREAM_PATIENCE, and not in vain for
        viser's drawing, which takes a page longer."""
        self._patience = STREAM_PATIENCE

    @property
    def takes_tensors(self) -> bool:
        """Whether the stream takes the images."""
        return self.stream.connected

    def wait(self) -> None:
        """Returns when the page is ready for the next image."""
        if self._patience and not self.stream.connected:
            self.stream.wait_for_connection(self._patience)
        self._patience = 0.0
        (self.stream if self.stream.connected else self._viser).wait()

    def send(self, image: np.ndarray | Tensor, quality: int, info: FrameInfo) -> None:
        """Sends an image, uint8 [H, W, 3], as JPEG of ``quality`` or, from 100 on, as PNG."""
        if self.stream.connected:
            self.stream.send(image, quality, info)
        else:
            self._viser_image = True
            self._viser.send(image, quality, info)

    def drawn(self, message: DisplayedMessage) -> None:
        """Takes the acknowledgement of an image of the stream."""
        self.stream.drawn(message)
        if self._viser_image and self.stream.connected:
            self._viser_image = False
            self._viser.remove_image()

    def close(self) -> None:
        """Ends the threads; whoever waits returns."""
        self.stream.close()
        self._viser.close()
