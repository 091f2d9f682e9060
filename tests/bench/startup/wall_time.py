"""What `luxel train` takes beside its training: from Enter to the first step, to the first page and to the prompt.

What it measures
    Wall seconds of `luxel train CAPTURE`, a process of its own, with those of its training taken away as metrics.jsonl
    has them; when the capture was open and when the first step was printed; the score of the held-out views. With
    --page also `luxel train CAPTURE --view`: until a Python client has the page and the first image in full of a
    window of 1280x720 (a browser adds the time in which it loads the page). With --import also `import torch` by
    itself, which all of them contain.

How to run
    python tests/bench/startup/wall_time.py CAPTURE... [--repeats 3] [--page] [--import] [--options="--preset fast"]

    On a machine where nothing else runs. The first run of each capture fills the cache of files and is not counted.
    Python's byte code of torch has to be there (`luxel doctor` says whether): without it an import of torch takes
    three times as long.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from startup import luxel, times_of_lines

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "viewer"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "viewer"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "viewer" / "web"))
from stream_client import Address, still_image
from viewer_process import Server

from luxel.render.geometry.camera import Camera
from luxel.viewer.web.navigate import Pose

SCORE = re.compile(r"held-out PSNR: ([\d.]+)")
IMPORT = [sys.executable, "-c", "import os, torch; os._exit(0)"]


def train(capture: Path, options: list[str]) -> dict[str, float]:
    """Seconds after Enter at which lines were printed and the prompt came back, of training, and the score in dB.

    Raises:
        SystemExit: the training failed; with its output.
    """
    with tempfile.TemporaryDirectory() as folder:
        seen, lines = times_of_lines(luxel("train", str(capture), "--run", f"{folder}/run", *options))
        records = Path(folder, "run", "metrics.jsonl").read_text().splitlines()
    if scores := SCORE.findall("".join(lines)):
        seen["dB"] = float(scores[-1])
    seen["training"] = max(json.loads(record).get("seconds", 0.0) for record in records)
    seen["rest"] = seen["prompt"] - seen["training"]
    return seen


def first_page(capture: Path, options: list[str]) -> dict[str, float]:
    """Seconds after Enter until the viewer listens, the page has come, and the first image in full.

    Raises:
        SystemExit: the viewer did not start; with the output.
    """
    seen: dict[str, float] = {}
    camera = Camera.look_at((4.0, 0.0, 1.2), (0.0, 0.0, 0.0), fov_y=0.8, width=1280, height=720)
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        command = ["train", str(capture), "--run", f"{folder}/run", "--view", "--port", "0", *options]
        with Server(command, Path(folder)) as server:
            seen["listens"] = time.perf_counter() - begin
            address = Address.of(server.url)
            connection = http.client.HTTPConnection(address.host, address.port, timeout=60)
            connection.request("GET", "/", headers={"Cookie": address.cookie} if address.cookie else {})
            connection.getresponse().read()
            seen["page"] = time.perf_counter() - begin
            asyncio.run(still_image(address, Pose.of_camera(camera)))
            seen["first image"] = time.perf_counter() - begin
    return seen


def timed(command: list[str]) -> dict[str, float]:
    """Wall seconds of a process."""
    begin = time.perf_counter()
    subprocess.run(command, check=True)
    return {"wall": time.perf_counter() - begin}


def show(what: str, runs: list[dict[str, float]]) -> None:
    """Prints the runs, one a line."""
    for run in runs:
        print(f"{what}: " + ", ".join(f"{name} {value:.2f}" for name, value in run.items()), flush=True)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("captures", nargs="+", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--page", action="store_true", help="until the first page, in runs of their own")
    parser.add_argument("--import", dest="importing", action="store_true", help="`import torch` by itself")
    parser.add_argument("--options", default="", help="of `luxel train`, such as --options='--preset fast'")
    given = parser.parse_args()
    options = shlex.split(given.options)
    if given.importing:
        show("import torch", [timed(IMPORT) for _ in range(given.repeats + 1)][1:])
    for capture in given.captures:
        train(capture, [*options, "--steps", "100"])
        show(capture.name, [train(capture, options) for _ in range(given.repeats)])
        if given.page:
            show(f"{capture.name}, --view", [first_page(capture, options) for _ in range(given.repeats)])


if __name__ == "__main__":
    main()
