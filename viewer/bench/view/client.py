"""Pages without a browser, in a process of their own: they send cameras, read images and acknowledge them like a page.

Reads a `Load` as JSON from stdin and writes what it measured as JSON to stdout; see `run_clients`.
"""

from __future__ import annotations

import asyncio
import json
import math
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

from websockets.asyncio.client import connect
from websockets.typing import Origin

from luxel.render.errors import LuxelError
from luxel.viewer.bench.view.slow_link import TokenBucket
from luxel.viewer.web.transport.wire import STREAM_PATH, rendered_text, split_image

STARTING = 60.0  # seconds that the process may take alongside its measurement


@dataclass(frozen=True)
class Load:
    """What the clients do.

    Args:
        address: host and port of the viewer.
        keys: of the streams, one for each client.
        cameras: camera messages without their number, sent in turn, again from the first after the last.
        rate: cameras a second.
        warmup, seconds: before and during the measurement.
        megabits: speed of each client's link, Mbit/s; None: unlimited.
    """

    address: str
    keys: list[str]
    cameras: list[dict[str, Any]]
    rate: float
    warmup: float
    seconds: float
    megabits: float | None = None


async def _client(load: Load, key: str, begin: float) -> dict[str, Any]:
    """One client: its latencies in ms and the number and bytes of its images, within the measured seconds."""
    url = f"ws://{load.address}{STREAM_PATH}?key={key}"
    origin = Origin(f"http://{load.address}")
    measured: dict[str, Any] = {"latencies": [], "images": 0, "bytes": 0, "render_ms": [], "encode_ms": []}
    sent: dict[int, float] = {}
    bucket = None if load.megabits is None else TokenBucket(load.megabits * 125_000)
    async with connect(
        url, origin=origin, compression=None, max_size=None, max_queue=2, proxy=None
    ) as socket:
        sender = asyncio.create_task(_send_cameras(socket, load, sent, begin))
        try:
            async with asyncio.timeout_at(asyncio.get_running_loop().time() + begin + load.seconds - _now()):
                async for message in socket:
                    if bucket is not None and (delay := bucket.delay(len(message), _now())) > 0:
                        await asyncio.sleep(delay)
                    header, file = split_image(message if isinstance(message, bytes) else message.encode())
                    now = _now()
                    at = sent.get(header.sequence)
                    latency = None if at is None else (now - at) * 1e3
                    await socket.send(rendered_text(header.image, 0.0, latency))
                    for number in [number for number in sent if number <= header.sequence]:
                        del sent[number]
                    if now >= begin:
                        measured["images"] += 1
                        measured["bytes"] += len(file)
                        measured["render_ms"].append(header.render_ms)
                        measured["encode_ms"].append(header.encode_ms)
                        if latency is not None:
                            measured["latencies"].append(latency)
        except TimeoutError:
            pass
        finally:
            sender.cancel()
    return measured


async def _send_cameras(socket: Any, load: Load, sent: dict[int, float], begin: float) -> None:
    sequence, start = 0, _now()
    while True:
        sequence += 1
        message = load.cameras[sequence % len(load.cameras)] | {"type": "camera", "sequence": sequence}
        sent[sequence] = _now()
        await socket.send(json.dumps(message))
        await asyncio.sleep(max(0.0, start + sequence / load.rate - _now()))


async def _all(load: Load) -> list[dict[str, Any]]:
    begin = _now() + load.warmup
    return await asyncio.gather(*(_client(load, key, begin) for key in load.keys))


def _now() -> float:
    return time.perf_counter()


def run_clients(load: Load) -> list[dict[str, Any]]:
    """Runs clients in a process of their own, so that they do not take the server's interpreter lock.

    Returns:
        Of each client: ``latencies``, ``render_ms``, ``encode_ms`` [images], ``images`` and ``bytes``.

    Raises:
        LuxelError: a client failed.
    """
    done = subprocess.run(
        [sys.executable, "-m", __name__],
        input=json.dumps(asdict(load)),
        capture_output=True,
        text=True,
        timeout=STARTING + load.warmup + load.seconds,
    )
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        raise LuxelError(
            f"A client of the benchmark failed: {lines[-1] if lines else 'no message'}.",
            "Measure with fewer --clients, or a lower --rate.",
        )
    return json.loads(done.stdout)


def summarize(clients: list[dict[str, Any]], seconds: float) -> dict[str, Any]:
    """Figures of all clients together: latency over all images, images a second of each and of the slowest."""
    from luxel.viewer.web.transport.figures import percentile

    latencies = sorted(value for one in clients for value in one["latencies"])
    if not latencies:
        raise LuxelError("No client received an image.", "Give the measurement more --seconds.")
    images = sum(one["images"] for one in clients)

    def median(key: str) -> float:
        return percentile(sorted(value for one in clients for value in one[key]), 0.5)

    return {
        "images": images,
        "fps": images / seconds / len(clients),
        "slowest_fps": min(one["images"] for one in clients) / seconds,
        "latency_ms": percentile(latencies, 0.5),
        "latency_p95_ms": percentile(latencies, 0.95),
        "render_ms": median("render_ms"),
        "encode_ms": median("encode_ms"),
        "kilobytes": sum(one["bytes"] for one in clients) / max(images, 1) / 1000,
    }


def orbit(matrix: list[list[float]], centre: list[float], up: list[float], count: int) -> list[list[float]]:
    """``count`` cameras on a circle about an axis through ``centre``.

    Args:
        matrix: camera to world of the first, [3, 4].
        centre, up: the axis.

    Returns:
        Camera to world [3, 4] of each, by rows, as 12 numbers.
    """
    import numpy as np

    first, axis, origin = np.array(matrix), np.array(up) / math.hypot(*up), np.array(centre)
    cross = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]])
    out = []
    for k in range(count):
        angle = 2 * math.pi * k / count
        turn = np.eye(3) + math.sin(angle) * cross + (1 - math.cos(angle)) * cross @ cross
        rotation, position = turn @ first[:, :3], origin + turn @ (first[:, 3] - origin)
        out.append(np.concatenate([rotation, position[:, None]], 1).reshape(-1).tolist())
    return out


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_all(Load(**json.load(sys.stdin))))))
