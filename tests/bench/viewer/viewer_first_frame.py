"""How long a page waits for its first image: from opening its address to the image on the page.

What it measures
    A scene in `luxel view`, in a process of its own. ``client``: a Python client, from connecting to its first image.
    ``browser``: headless Chromium (SwiftShader), from the navigation to the first view that is shown while the page
    loads, to the acknowledgement that the first image of the stream was drawn, and to that of the first in full
    resolution. Each several times; the first is listed by itself, as
    the server's caches are cold then.

How to run
    python tests/bench/viewer/viewer_first_frame.py SCENE [--width 1280 --height 720] [--repeat 3] [--device cpu]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from viewer_endurance import Address, Server, orbit, still_image  # puts the tests of the page on the path

from page_driver import CHROMIUM, FLAGS  # isort: skip
from luxel.viewer.web.transport.wire import split_image


def browser_times(url: str, width: int, height: int, repeat: int) -> list[dict[str, float]]:
    """Seconds until the first image came, was drawn, and was drawn in full, of pages opened one after another."""
    from playwright.sync_api import sync_playwright

    pages: list[dict[str, float]] = []
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
        for _ in range(repeat):
            page = chromium.new_page(viewport={"width": width, "height": height})
            times: dict[str, float] = {}
            full: set[int] = set()
            start = time.monotonic()

            def received(data: Any, times: dict = times, full: set = full, start: float = start) -> None:
                if isinstance(data, bytes):
                    header, _ = split_image(data)
                    times.setdefault("received", time.monotonic() - start)
                    times.setdefault("render_ms", header.render_ms)
                    full.update({header.image} if header.full else ())

            def sent(data: Any, times: dict = times, full: set = full, start: float = start) -> None:
                message = json.loads(data) if isinstance(data, str) else {}
                if message.get("type") == "drawn":
                    times.setdefault("drawn", time.monotonic() - start)
                    if message["image"] in full:
                        times.setdefault("drawn_in_full", time.monotonic() - start)

            def watch(socket: Any, received: Any = received, sent: Any = sent) -> None:
                if "/luxel/stream" in socket.url:
                    socket.on("framereceived", received)
                    socket.on("framesent", sent)

            page.on("websocket", watch)
            page.goto(url, wait_until="commit")
            deadline = start + 60
            while "drawn_in_full" not in times and time.monotonic() < deadline:
                page.wait_for_timeout(10)
            mark = page.evaluate("performance.getEntriesByName('luxel-first-image')[0]?.startTime ?? null")
            times["first_view"] = float("nan") if mark is None else mark / 1e3
            pages.append(times)
            page.close()
        chromium.close()
    return pages


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("scene", type=Path)
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--height", type=int, default=720)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    command = ["view", str(args.scene), "--port", "0", "--device", args.device]
    with tempfile.TemporaryDirectory() as name, Server(command, Path(name)) as server:
        address, poses = Address.of(server.url), orbit(args.width, args.height, 4.0)
        for _ in range(args.repeat):
            start = time.monotonic()
            asyncio.run(still_image(address, poses[0]))
            print(f"client: first image in full after {time.monotonic() - start:.2f} s", flush=True)
        for times in browser_times(server.url, args.width, args.height, args.repeat):
            shown = ", ".join(f"{key} {value:.2f}" for key, value in times.items())
            print(f"browser, seconds: {shown}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
