"""The viewer under many pages for long, under hostile clients, and under thousands of connects.

What it measures
    A viewer in a process of its own, on the CPU, driven by clients that speak its protocol and acknowledge images like
    a page. Always: resident memory of the server (start, end, slope) and what it printed that is an error. While pages
    are open: the median of the third minute of the first window, and of the last minute of the last one.
    Default: ``--clients`` pages whose cameras move for ``--minutes``; images a second of each, and connections lost.
    With ``--train`` the demo capture is trained meanwhile, and steps/s with pages are compared with those without
    (windows before, between and after), against the largest share of time that pages may take.
    ``--chaos N``: N actions of hostile clients (tests/viewer/web/chaos.py); afterwards a good page must get the image
    that it got before. ``--connects N``: N pages that open, get an image and close, one after another.

How to run
    python tests/bench/viewer/viewer_endurance.py --train --minutes 30
    python tests/bench/viewer/viewer_endurance.py --chaos 1000
    python tests/bench/viewer/viewer_endurance.py --connects 2400
    The exit status is 1 where a bound was missed; ``--out FILE`` writes the figures as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "viewer"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "viewer" / "web"))

from chaos import run_chaos
from page_driver import ball
from stream_client import Address, StreamClient, still_image
from viewer_process import Server

from luxel.render.geometry.camera import Camera
from luxel.scenes import save_scene
from luxel.scenes.captures.demo import demo_path
from luxel.viewer.attach import RunConnection, connect
from luxel.viewer.web.navigate import Pose

SHARE = 0.3  # of the time: the viewer's default
MEMORY_LONG, MEMORY = 0.02, 0.10  # tolerated growth: of a long run, of many connects
SLACK = 0.05  # by which training may be slower than its bound
WINDOW = 20.0  # seconds of a window without pages


def orbit(width: int, height: int, radius: float, count: int = 120) -> list[Pose]:
    """Cameras around the origin."""
    angles = np.linspace(0, 2 * np.pi, count, endpoint=False)
    eyes = [(radius * np.cos(a), radius * np.sin(a), 0.3 * radius) for a in angles]
    return [
        Pose.of_camera(Camera.look_at(eye, (0, 0, 0), fov_y=0.8, width=width, height=height)) for eye in eyes
    ]


@dataclass
class Report:
    """Figures and the bounds that were missed."""

    figures: dict[str, Any] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)

    def add(self, **figures: Any) -> None:
        """Adds and prints figures."""
        for name, value in figures.items():
            self.figures[name] = value
            shown = f"{value:.4g}" if isinstance(value, float) else value
            print(f"{name.replace('_', ' ')}: {shown}", flush=True)

    def require(self, met: bool, bound: str) -> None:
        """Notes a bound that is not met."""
        if not met:
            self.missed.append(bound)
            print(f"MISSED: {bound}", flush=True)

    def memory(self, start: float, end: float, tolerance: float, of: str = "memory") -> None:
        """Notes memory at the start and at the end, MiB; ``of`` names the figures."""
        growth = end / start - 1
        self.add(**{f"{of}_start_mib": start, f"{of}_end_mib": end, f"{of}_growth_percent": 100 * growth})
        shown = of.replace("_", " ")
        self.require(growth <= tolerance, f"{shown} grew by {growth:.1%}, allowed are {tolerance:.0%}")

    def health(self, server: Server) -> None:
        """Notes whether the server lives and what it printed."""
        errors = server.errors()
        self.add(server_alive=server.alive, log_bytes=server.log_bytes(), errors_in_log=len(errors))
        for line, times in Counter(errors).most_common(10):
            print(f"  {times} x {line[:200]}")
        self.require(server.alive and not errors, "the server died or printed errors")


def pixels(file: bytes) -> np.ndarray:
    """A decoded image."""
    return np.asarray(Image.open(io.BytesIO(file)).convert("RGB"), float)


def slope(samples: Sequence[tuple[float, float]]) -> float:
    """Least-squares growth of memory, MiB a minute."""
    if len(samples) < 3:
        return 0.0
    seconds, mib = np.array(samples).T
    return float(np.polyfit(seconds / 60, mib, 1)[0])


async def pages_for(
    address: Address, seconds: float, count: int, poses: Sequence[Pose], rate: float
) -> list[StreamClient]:
    """Pages for some time, each beginning at another pose."""
    shifted = [[*poses[i * 7 % len(poses) :], *poses[: i * 7 % len(poses)]] for i in range(count)]
    clients = [StreamClient(address, shown, rate) for shown in shifted]
    end = asyncio.Event()
    tasks = [asyncio.create_task(client.run(end)) for client in clients]
    await asyncio.sleep(seconds)
    end.set()
    await asyncio.gather(*tasks)
    return clients


def measured(run: RunConnection | None, work: Callable[[], Any]) -> tuple[Any, float]:
    """What ``work`` returns, and the steps a second of the training meanwhile."""
    if run is None:
        return work(), 0.0
    first, start = run.request("status")["step"], time.monotonic()
    result = work()
    return result, (run.request("status")["step"] - first) / (time.monotonic() - start)


def endure(args: argparse.Namespace, server: Server, run: RunConnection | None, report: Report) -> None:
    """Many pages for long."""
    address, poses = Address.of(server.url), orbit(args.width, args.height, args.radius)
    rates: list[list[float]] = [[] for _ in range(args.clients)]
    lost: Counter[str] = Counter()
    alone, shared, held = [], [], []
    asyncio.run(pages_for(address, min(90.0, 20 * args.minutes), args.clients, poses, args.rate))  # warm-up
    start, began = server.rested(), time.monotonic()
    print(f"{start:.0f} MiB after the warm-up", flush=True)
    first_sample = len(server.memory)
    window = min(args.window, 60 * args.minutes / 2)
    while (left := began + 60 * args.minutes - time.monotonic()) > 0:
        if run is not None:
            alone.append(measured(run, lambda: time.sleep(min(WINDOW, window)))[1])
        seconds = min(window, max(left, 5.0))
        opened = time.monotonic()
        clients, speed = measured(
            run, lambda s=seconds: asyncio.run(pages_for(address, s, args.clients, poses, args.rate))
        )
        shared.append(speed)
        if seconds >= window / 2:  # a short rest at the end says little
            held.append(server.held_within(opened, seconds))
        for rate, client in zip(rates, clients, strict=True):
            rate.append(len(client.times) / seconds)
            lost.update(client.lost)
        print(
            f"{(time.monotonic() - began) / 60:5.1f} min: {server.resident():.0f} MiB, {server.threads()} threads, "
            f"{held[-1][0]:.1f} to {held[-1][1]:.1f} MiB with pages, "
            f"slowest page {min(rate[-1] for rate in rates):.2f} images/s, {speed:.1f} steps/s "
            f"({alone[-1] if alone else 0:.1f} alone), lost {sum(lost.values())}",
            flush=True,
        )
    if run is not None:
        alone.append(measured(run, lambda: time.sleep(min(WINDOW, window)))[1])
    means = [sum(rate) / len(rate) for rate in rates]
    report.add(clients=args.clients, minutes=(time.monotonic() - began) / 60)
    report.add(images_per_s_min=min(means), images_per_s_median=median(means), images_per_s_max=max(means))
    report.add(slowest_window_images_per_s=min(min(rate) for rate in rates), connections_lost=dict(lost))
    report.require(min(min(rate) for rate in rates) > 0, "a page got no images")
    report.require(not lost, "connections were lost")
    if run is not None:
        slowed = 1 - (sum(shared) / len(shared)) / (sum(alone) / len(alone))
        report.add(steps_per_s_alone=sum(alone) / len(alone), steps_per_s=sum(shared) / len(shared))
        report.add(training_slowed_percent=100 * slowed, bound_percent=100 * SHARE)
        report.require(
            slowed <= SHARE + SLACK, f"training is {slowed:.0%} slower, allowed are {SHARE + SLACK:.0%}"
        )
    report.add(memory_slope_mib_per_min=slope(server.memory[first_sample:]))
    report.memory(held[0][0], held[-1][1], MEMORY_LONG, of="memory_with_pages")
    report.memory(start, server.rested(), MEMORY_LONG)  # without pages


def chaos(args: argparse.Namespace, server: Server, report: Report) -> None:
    """Hostile clients, then a good one."""
    address, poses = Address.of(server.url), orbit(args.width, args.height, args.radius)
    expected = pixels(asyncio.run(still_image(address, poses[0])))
    asyncio.run(run_chaos(address, 100, poses, seed=1))  # warm-up
    start = server.settled()
    began = time.monotonic()
    outcomes = asyncio.run(run_chaos(address, args.chaos, poses, seed=2, at_once=args.at_once))
    report.add(actions=args.chaos, seconds=time.monotonic() - began)
    for outcome, times in sorted(outcomes.items()):
        print(f"  {times:5d} {outcome}")
    difference = float(np.abs(pixels(asyncio.run(still_image(address, poses[0]))) - expected).mean())
    report.add(mean_difference_of_image=difference, threads=server.threads())
    report.require(difference < 1.0, "the image of a good page is not what it was")
    report.memory(start, server.settled(12.0), MEMORY)  # after the last trim


def connects(args: argparse.Namespace, server: Server, report: Report) -> None:
    """Pages that open, get an image and close."""
    address, poses = Address.of(server.url), orbit(args.width, args.height, args.radius)

    async def visits(first: int, count: int) -> None:
        for i in range(first, first + count):
            await still_image(address, poses[i % len(poses)])

    asyncio.run(visits(0, 50))  # warm-up
    start, began = server.settled(), time.monotonic()
    for first in range(0, args.connects, 200):
        asyncio.run(visits(first, min(200, args.connects - first)))
        done, seconds = first + 200, time.monotonic() - began
        print(
            f"{done:5d}: {server.resident():.0f} MiB, {server.threads()} threads, {seconds:.0f} s", flush=True
        )
    report.add(connects=args.connects, seconds=time.monotonic() - began, threads=server.threads())
    report.memory(start, server.settled(12.0), MEMORY)  # after the last trim


def command_of(args: argparse.Namespace, folder: Path) -> list[str]:
    """Arguments of `luxel` for the server."""
    common = ["--port", "0", "--device", "cpu"]
    if args.train:
        fixed = [
            "--strategy",
            "fixed",
            "--steps",
            "10000000",
            "--resolution.halvings",
            "0",
            "--eval-every",
            "0",
        ]
        fixed += ["--report-every", "1000", "--checkpoints.every", "0", "--checkpoints.minutes", "0"]
        fixed += ["--sh-every", "0", "--fixed.prune-opacity", "0"]  # steps cost the same from the first on
        size = ["--max-size", str(args.train_size)]
        return ["train", str(demo_path()), "--view", "--run", str(folder / "run"), *fixed, *size, *common]
    if args.scene:
        return ["view", str(args.scene), *common]
    save_scene(folder / "ball.ply", ball(args.primitives))
    return ["view", str(folder / "ball.ply"), "--capture", str(demo_path()), *common]


def main() -> int:
    """Measures; 1 where a bound was missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--window", type=float, default=300.0, help="seconds of a window with pages")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--rate", type=float, default=10.0, help="cameras a second of each page")
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--train-size", type=int, default=200, help="longer side of the images trained on")
    parser.add_argument("--chaos", type=int, default=0)
    parser.add_argument("--at-once", type=int, default=8, help="hostile clients at a time")
    parser.add_argument("--connects", type=int, default=0)
    parser.add_argument("--scene", type=Path, help="scene file; default: a ball with the views of the demo")
    parser.add_argument("--primitives", type=int, default=300, help="of the ball")
    parser.add_argument("--radius", type=float, default=4.0, help="distance of the cameras from the origin")
    parser.add_argument("--width", type=int, default=640)
    parser.add_argument("--height", type=int, default=360)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the server ends, too
    report = Report()
    with tempfile.TemporaryDirectory() as name, Server(command_of(args, Path(name)), Path(name)) as server:
        run = None
        if args.train:
            deadline = time.monotonic() + 60
            while (run := connect(Path(name) / "run")) is None and time.monotonic() < deadline:
                time.sleep(0.2)
        if args.chaos:
            chaos(args, server, report)
        elif args.connects:
            connects(args, server, report)
        else:
            endure(args, server, run, report)
        report.health(server)
    if args.out:
        args.out.write_text(json.dumps({**report.figures, "missed": report.missed}, indent=2))
    return 1 if report.missed else 0


if __name__ == "__main__":
    sys.exit(main())
