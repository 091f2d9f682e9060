"""A page without a browser that speaks luxel's image stream, in asyncio, so that one process can be many pages.

It needs an address only: the server may be another process.
"""

from __future__ import annotations

import asyncio
import http.client
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import viser
import websockets.asyncio.client as websocket_client
import zstandard
from page_client import CAMERA
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.transport.wire import camera_text, rendered_text, split_image

PATIENCE = 60.0  # seconds for what a busy machine may take long to do
_KEY = re.compile(rb'luxel\?\.connect\("([\w-]+)"\)')


@dataclass(frozen=True)
class Address:
    """Where a viewer listens, and the cookie of a page that has sent the token."""

    host: str
    port: int
    cookie: str = ""

    @staticmethod
    def of(url: str) -> Address:
        """The address that a viewer printed; sends its token, if it has one."""
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or 80
        if "token" not in parse_qs(parts.query):
            return Address(host, port)
        connection = http.client.HTTPConnection(host, port, timeout=PATIENCE)
        connection.request("GET", f"/?{parts.query}")
        cookie = connection.getresponse().headers["Set-Cookie"].split(";")[0]
        return Address(host, port, cookie)

    @property
    def origin(self) -> str:
        """Of the page."""
        return f"http://{self.host}:{self.port}"

    def connect(self, path: str = "/", **options: Any) -> Any:
        """A websocket, as a page opens it; ``options`` of websockets' ``connect`` replace the usual ones."""
        protocols = [f"viser-v{viser.__version__}"] if path == "/" else None
        usual = {
            "origin": self.origin,
            "subprotocols": protocols,
            "additional_headers": {"Cookie": self.cookie} if self.cookie else None,
            "open_timeout": PATIENCE,
            "max_size": None,
            "compression": None,
            "proxy": None,
        }
        return websocket_client.connect(
            f"ws://{self.host}:{self.port}{path}", **{**usual, **options}, logger=_silent()
        )


def _silent() -> Any:
    import logging

    logger = logging.getLogger("stream_client")
    logger.setLevel(logging.CRITICAL)
    return logger


def camera_message(pose: Pose) -> bytes:
    """viser's message of a camera."""
    values = {"wxyz": pose.wxyz.tolist(), "position": pose.position.tolist(), "fov": pose.fov_y}
    size = {"image_width": pose.width, "image_height": pose.height}
    return msgspec.msgpack.encode({**CAMERA, **values, **size})


def unpacked(message: bytes) -> bytes:
    """The part of a message of viser that is compressed, in msgpack."""
    length = int.from_bytes(message[8:16], "little")
    return zstandard.ZstdDecompressor().decompress(message[16 : 16 + length])


async def stream_key(control: Any) -> str:
    """Reads messages of viser until one carries the key of the image stream."""
    while True:
        if match := _KEY.search(unpacked(await control.recv())):
            return match[1].decode()


async def drain(connection: Any) -> None:
    """Reads and forgets whatever comes."""
    with suppress(ConnectionClosed):
        while True:
            await connection.recv()


@dataclass
class StreamClient:
    """A page whose camera goes through poses again and again.

    Args:
        address: of the viewer.
        poses: of the camera, with the size of the window.
        rate: cameras a second.

    Attributes:
        times: when images arrived, seconds.
        lost: why connections ended that the page did not end, in order.
    """

    address: Address
    poses: Sequence[Pose]
    rate: float = 10.0
    times: list[float] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    async def run(self, until: asyncio.Event) -> None:
        """Is a page until the event is set; connects again, as a page does, if the connection is lost."""
        while not until.is_set():
            work, end = asyncio.create_task(self._visit()), asyncio.create_task(until.wait())
            await asyncio.wait({work, end}, return_when=asyncio.FIRST_COMPLETED)
            end.cancel()
            if not work.done():
                work.cancel()
            try:
                await work
                self.lost.append("closed")
            except asyncio.CancelledError:
                pass
            except (ConnectionClosed, InvalidHandshake, OSError) as error:
                self.lost.append(f"{type(error).__name__}: {error}")
            if not until.is_set():
                await asyncio.sleep(0.5)

    async def _visit(self) -> None:
        async with self.address.connect() as control:
            await control.send(camera_message(self.poses[0]))
            key = await stream_key(control)
            async with self.address.connect(f"/luxel/stream?key={key}") as stream:
                tasks = [asyncio.create_task(drain(control)), asyncio.create_task(self._move(stream))]
                try:
                    async for message in stream:
                        self.times.append(time.monotonic())
                        await stream.send(rendered_text(split_image(message)[0].image))
                finally:
                    for task in tasks:
                        task.cancel()

    async def _move(self, stream: Any) -> None:
        sequence = 0
        with suppress(ConnectionClosed):
            while True:
                sequence += 1
                await stream.send(camera_text(sequence, self.poses[sequence % len(self.poses)]))
                await asyncio.sleep(1 / self.rate)


async def still_image(address: Address, pose: Pose, timeout: float = PATIENCE) -> bytes:
    """The image file of a camera that rests, in full resolution.

    Raises:
        TimeoutError: there was none in time.
    """
    async with asyncio.timeout(timeout), address.connect() as control:
        await control.send(camera_message(pose))
        key = await stream_key(control)
        reader = asyncio.create_task(drain(control))
        async with address.connect(f"/luxel/stream?key={key}") as stream:
            await stream.send(camera_text(1, pose))
            try:
                while True:
                    header, file = split_image(await stream.recv())
                    await stream.send(rendered_text(header.image))
                    if header.sequence == 1 and header.full:
                        return file
            finally:
                reader.cancel()
