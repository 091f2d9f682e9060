"""What a hostile or broken client does to a viewer: one function an action, picked at random.

Each action is given the address of the viewer and a generator of random numbers, and may raise whatever a connection
raises when the server refuses it.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from page_client import CAMERA
from stream_client import Address, camera_message, drain, stream_key, unpacked
from websockets.exceptions import WebSocketException

from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.transport.wire import camera_text, rendered_text

Action = Callable[[Address, random.Random, Pose], Awaitable[None]]

NAN = float("nan")
NUMBERS = (NAN, float("inf"), -1e300, 1e300, 0, -1, 1e6, "7", None, [], {}, True)
GRACE = 5.0  # seconds for a refusal


async def _raw(address: Address, data: bytes, wait: float = 0.0, abort: bool = True) -> bytes:
    """Sends bytes to the port and returns the first line of the response, if one is waited for."""
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        writer.write(data)
        await writer.drain()
        if not wait:
            return b""
        with suppress(TimeoutError):
            return await asyncio.wait_for(reader.readline(), wait)
        return b""
    finally:
        writer.transport.abort() if abort else writer.close()


def _request(address: Address, path: str = "/", extra: str = "", host: str = "") -> bytes:
    cookie = f"Cookie: {address.cookie}\r\n" if address.cookie else ""
    host = host or f"{address.host}:{address.port}"
    return f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{cookie}{extra}\r\n".encode("latin-1")


def _upgrade(address: Address, origin: str = "") -> str:
    return (
        f"Upgrade: websocket\r\nConnection: Upgrade\r\nOrigin: {origin or address.origin}\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    )


async def half_a_handshake(address: Address, rng: random.Random, pose: Pose) -> None:
    """Drops the connection in the middle of a request."""
    whole = _request(address, extra=_upgrade(address))
    await _raw(address, whole[: rng.randrange(len(whole))])


async def dropped_handshake(address: Address, rng: random.Random, pose: Pose) -> None:
    """Drops the connection before or while the response to a complete request arrives."""
    await _raw(address, _request(address, extra=_upgrade(address)), wait=rng.choice([0, 0.001, 0.05]))


async def slow_request(address: Address, rng: random.Random, pose: Pose) -> None:
    """Sends a request byte by byte (slow loris)."""
    _, writer = await asyncio.open_connection(address.host, address.port)
    with suppress(ConnectionError):
        for byte in _request(address)[: rng.randrange(4, 30)]:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.05)
    writer.transport.abort()


async def malformed_request(address: Address, rng: random.Random, pose: Pose) -> None:
    """Sends requests with impossible paths, hosts, cookies and methods; expects no 5xx."""
    line = await _raw(
        address,
        rng.choice(
            [
                _request(address, "/../../etc/passwd"),
                _request(address, "/%2e%2e/%2e%2e/etc/passwd"),
                _request(address, "/luxel/..%2f..%2fapp.py"),
                _request(address, "/?token=\xff\xfe"),
                _request(address, "//["),
                _request(address, "/" + "x" * 5000),
                _request(address, host="[::1"),
                _request(address, host="a:99999999"),
                _request(address, host="\xff"),
                _request(address, extra="Cookie: \xff\xfe\r\n"),
                _request(address, extra="X: " + "y" * 20000 + "\r\n"),
                _request(address, extra="".join(f"X{i}: y\r\n" for i in range(300))),
                b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\nxxxx",
                b"\x16\x03\x01" + rng.randbytes(200),
                rng.randbytes(500) + b"\r\n\r\n",
            ]
        ),
        wait=GRACE,
    )
    assert b" 5" not in line[:13] and b" 200" not in line[:13], line


async def foreign_origin(address: Address, rng: random.Random, pose: Pose) -> None:
    """Opens a websocket from the page of another site; expects 403 or 4xx."""
    path = rng.choice(["/", "/luxel/stream?key=x"])
    origin = rng.choice(["http://evil.example", "null", "http://127.0.0.1:1", "file://"])
    line = await _raw(address, _request(address, path, _upgrade(address, origin)), wait=GRACE)
    assert b" 4" in line[:13] or not line, line


async def wrong_token(address: Address, rng: random.Random, pose: Pose) -> None:
    """Guesses tokens and cookies; expects 4xx."""
    bare = Address(address.host, address.port, "luxel=" + "x" * rng.randrange(1, 300))
    path = rng.choice(["/", f"/?token=guess-{rng.random()}", "/?token=", "/luxel/stream?key=x&token=a"])
    line = await _raw(bare, _request(bare, path), wait=GRACE)
    if address.cookie:
        assert b" 4" in line[:13] or not line, line


async def wrong_version(address: Address, rng: random.Random, pose: Pose) -> None:
    """Connects as a page of another version of viser."""
    async with address.connect(
        subprotocols=[rng.choice(["viser-v0.0.1", "viser-v" + "9" * 1000, "x"])]
    ) as page:
        await asyncio.wait_for(page.recv(), GRACE)


async def page_dropped(address: Address, rng: random.Random, pose: Pose) -> None:
    """Opens a page and drops the connection, with or without having read anything."""
    async with address.connect() as page:
        if rng.random() < 0.8:
            await page.send(camera_message(pose))
        if rng.random() < 0.5:
            await asyncio.wait_for(stream_key(page), GRACE)
        page.transport.abort()


async def malformed_messages(address: Address, rng: random.Random, pose: Pose) -> None:
    """Sends what is no message of viser, then a good one."""
    async with address.connect() as page:
        reader = asyncio.create_task(drain(page))
        await page.send(camera_message(pose))
        good = camera_message(pose)
        for _ in range(rng.randrange(1, 30)):
            await page.send(
                rng.choice(
                    [
                        rng.randbytes(rng.randrange(300)),
                        "a text",
                        good[: rng.randrange(len(good))],
                        msgspec.msgpack.encode({"type": "x" * rng.randrange(1, 100_000)}),
                        msgspec.msgpack.encode({"type": ["x"], "a": 1}),
                        msgspec.msgpack.encode([1, 2, 3]),
                        b"\x91" * 50_000,  # arrays within arrays
                        msgspec.msgpack.encode({**CAMERA, "extra": 1}),
                    ]
                )
            )
        await page.send(good)
        reader.cancel()


async def oversized_message(address: Address, rng: random.Random, pose: Pose) -> None:
    """Sends a message that is larger than the server takes, in one frame or many."""
    async with address.connect() as page:
        await page.send(camera_message(pose))
        if rng.random() < 0.5:
            await page.send(b"\0" * rng.choice([1 << 21, 1 << 23]))
        else:
            await page.send(b"\0" * 60_000 for _ in range(40))
        await asyncio.wait_for(drain(page), GRACE)


async def impossible_cameras(address: Address, rng: random.Random, pose: Pose) -> None:
    """Sends cameras that cannot be drawn, or only with a memory that nobody has."""
    async with address.connect() as page:
        reader = asyncio.create_task(drain(page))
        for _ in range(rng.randrange(2, 12)):
            key = rng.choice([name for name in CAMERA if name != "type"])
            number = rng.choice(NUMBERS)
            value: Any = [number, *CAMERA[key][1:]] if isinstance(CAMERA[key], list) else number
            await page.send(msgspec.msgpack.encode({**CAMERA, key: value}))
        await page.send(msgspec.msgpack.encode({**CAMERA, "image_width": 10**6, "image_height": 10**6}))
        await asyncio.sleep(0.05)
        reader.cancel()


async def foreign_controls(address: Address, rng: random.Random, pose: Pose) -> None:
    """Sets values and properties of controls of another page, and of controls that are shared."""
    async with address.connect() as other, address.connect() as page:
        await other.send(camera_message(pose))
        await page.send(camera_message(pose))
        seen = await asyncio.wait_for(_controls(other), GRACE)
        for uuid in rng.sample(seen, min(8, len(seen))):
            updates = rng.choice(
                [
                    {"value": rng.choice([None, "x", -5, 1e9, [1, 2], True])},
                    {"update_cb": []},
                    {"removed": True},
                    {"sync_cb": None, "value": 1},
                    {"props": {}},
                    {"disabled": True},
                ]
            )
            fields = {"type": "GuiUpdateMessage", "uuid": uuid, "updates": updates}
            await page.send(msgspec.msgpack.encode(fields))
        await page.send(msgspec.msgpack.encode({"type": "GuiRemoveMessage", "uuid": rng.choice(seen)}))
        await page.send(msgspec.msgpack.encode({"type": "ResetSceneMessage"}))


async def _controls(page: Any) -> list[str]:
    """Ids of the controls that a page is given by its first messages."""
    seen: list[str] = []
    while len(seen) < 20:
        for message in msgspec.msgpack.decode(unpacked(await page.recv()))["messages"]:
            if "uuid" in message:
                seen.append(message["uuid"])
    return seen


async def upload(address: Address, rng: random.Random, pose: Pose) -> None:
    """Begins an upload of 400 MB that nobody has asked for."""
    start = {
        "type": "FileTransferStartUpload",
        "source_component_uuid": "x",
        "transfer_uuid": "y",
        "filename": "../../x",
        "mime_type": "a",
        "part_count": 400,
        "size_bytes": 400 << 20,
    }
    async with address.connect() as page:
        await page.send(camera_message(pose))
        await page.send(msgspec.msgpack.encode(start))
        for part in range(5):
            fields = {"type": "FileTransferPart", "source_component_uuid": "x", "transfer_uuid": "y"}
            fields |= {"part": part, "content": b"\0" * 900_000}
            await page.send(msgspec.msgpack.encode(fields))


async def stops_reading(address: Address, rng: random.Random, pose: Pose) -> None:
    """Opens a page with its stream, asks for images, and reads none of them."""
    async with address.connect() as page:
        await page.send(camera_message(pose))
        key = await asyncio.wait_for(stream_key(page), GRACE)
        async with address.connect(f"/luxel/stream?key={key}") as stream:
            page.transport.pause_reading()
            stream.transport.pause_reading()
            for sequence in range(1, 30):
                await stream.send(camera_text(sequence, pose))
                await stream.send(rendered_text(sequence))  # of images that it never had
                await asyncio.sleep(0.02)
            stream.transport.abort()
        page.transport.abort()


async def unknown_stream(address: Address, rng: random.Random, pose: Pose) -> None:
    """Opens streams with keys that nobody was given."""
    key = rng.choice(["", "x", "%00", "../..", "k" * 1000, f"{rng.random()}"])
    async with address.connect(f"/luxel/stream?key={key}") as stream:
        await asyncio.wait_for(stream.recv(), GRACE)


async def stream_garbage(address: Address, rng: random.Random, pose: Pose) -> None:
    """Sends through a good stream what is none of its messages."""
    camera = json.loads(camera_text(1, pose))
    key_of = rng.choice(list(camera))
    broken = json.dumps({**camera, key_of: rng.choice(NUMBERS)})
    texts = [
        "",
        "{",
        "[" * 1500,
        "null",
        broken,
        "x" * 3000,
        rendered_text(1, -1.0),
        rendered_text(2**31),
        b"\0" * 9,
    ]
    async with address.connect() as page:
        await page.send(camera_message(pose))
        key = await asyncio.wait_for(stream_key(page), GRACE)
        reader = asyncio.create_task(drain(page))
        try:
            async with address.connect(f"/luxel/stream?key={key}") as stream:
                await stream.send(rng.choice(texts))
                await asyncio.wait_for(drain(stream), 0.5)
        finally:
            reader.cancel()


async def stream_flood(address: Address, rng: random.Random, pose: Pose) -> None:
    """Sends cameras as fast as the server takes them."""
    async with address.connect() as page:
        await page.send(camera_message(pose))
        key = await asyncio.wait_for(stream_key(page), GRACE)
        reader = asyncio.create_task(drain(page))
        try:
            async with address.connect(f"/luxel/stream?key={key}") as stream:
                with suppress(TimeoutError):
                    async with asyncio.timeout(0.5):
                        for sequence in range(1, 3000):
                            await stream.send(camera_text(sequence, pose))
                stream.transport.abort()
        finally:
            reader.cancel()


async def two_streams(address: Address, rng: random.Random, pose: Pose) -> None:
    """Opens two streams with one key."""
    async with address.connect() as page:
        await page.send(camera_message(pose))
        key = await asyncio.wait_for(stream_key(page), GRACE)
        path = f"/luxel/stream?key={key}"
        async with address.connect(path) as first, address.connect(path) as second:
            await second.send(camera_text(1, pose))
            await asyncio.wait_for(drain(first), GRACE)
            await asyncio.wait_for(second.recv(), GRACE)


async def pings(address: Address, rng: random.Random, pose: Pose) -> None:
    """Sends many pings and half a message."""
    async with address.connect() as page:
        for _ in range(100):
            await page.ping()
        page.transport.write(b"\x02\xfe")  # a frame whose length never comes
        page.transport.abort()


ACTIONS: tuple[Action, ...] = (
    half_a_handshake,
    dropped_handshake,
    slow_request,
    malformed_request,
    foreign_origin,
    wrong_token,
    wrong_version,
    page_dropped,
    malformed_messages,
    oversized_message,
    impossible_cameras,
    foreign_controls,
    upload,
    stops_reading,
    unknown_stream,
    stream_garbage,
    stream_flood,
    two_streams,
    pings,
)


async def run_chaos(
    address: Address,
    count: int,
    poses: Sequence[Pose],
    seed: int = 0,
    at_once: int = 8,
    actions: Sequence[Action] = ACTIONS,
) -> Counter[str]:
    """Runs actions, each about equally often in random order.

    Returns:
        How each ended, by action and outcome: "done", or what the client met.

    Raises:
        AssertionError: the server accepted what it must refuse.
    """
    rng = random.Random(seed)
    queue = [actions[i % len(actions)] for i in range(count)]
    rng.shuffle(queue)
    outcomes: Counter[str] = Counter()

    async def worker() -> None:
        while queue:
            action = queue.pop()
            try:
                await action(address, rng, rng.choice(poses))
                outcome = "done"
            except (
                WebSocketException,
                OSError,
                EOFError,
                TimeoutError,
                AttributeError,
            ) as error:  # asyncio's
                outcome = type(error).__name__
            outcomes[f"{action.__name__}: {outcome}"] += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(worker())
    return outcomes
