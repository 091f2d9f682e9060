"""A generated capture with more photographs than fit into memory, and what training on it takes.

    python tests/bench/captures/large_capture.py [FOLDER] [--count 3000] [--limit 8] [-- OPTIONS OF luxel train]

Writes COUNT photographs of 4 megapixels with exact poses and points into FOLDER (kept, and written once; it has about a
megabyte for each), then trains in a process that may not allocate more than LIMIT GB, and prints what it took.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np

from luxel.render.geometry.camera import Points
from luxel.scenes.files.ply import save_points

WIDTH, HEIGHT = 2312, 1736  # 4.01 megapixels
FOCAL = 2000.0  # pixels
DISTANCE = 4.0  # of the cameras from the wall, so that a pixel is 2 mm
WALL = 1.6  # of the wall, in images
SPOTS = 4000
TRAINING = ("--steps", "30", "--max-gaussians", "2000", "--eval-every", "0", "--no-lpips", "--device", "cpu")

# Runs in the child: the limit holds for all that it allocates, and the last line says what it has used.
CHILD = """
import resource, sys
limit = int(sys.argv[1])
if limit:
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
from luxel.viewer.cli import main
status = main(sys.argv[2:])
lines = open("/proc/self/status").read().splitlines()
peak = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
print("peak", peak, flush=True)
sys.exit(status)
"""


class Measured(NamedTuple):
    """What a training took.

    Args:
        status: exit status.
        peak: largest resident memory, bytes, of which some is code; 0 where the process did not end by itself.
        opening: seconds until the capture was open, the start of Python included.
        start: seconds until the first step.
        total: seconds.
        output: all that was printed.
    """

    status: int
    peak: int
    opening: float
    start: float
    total: float
    output: str


def write_capture(folder: Path, count: int, width: int = WIDTH, height: int = HEIGHT, seed: int = 0) -> None:
    """Photographs of a painted wall from cameras that face it, as transforms.json with points.

    The wall is plane, so that each photograph is a piece of it that is only moved and turned, and poses are exact.

    Args:
        folder: is made; what a complete earlier call wrote there is kept.
        count: photographs.
        width, height: of each, pixels.
        seed: of the painting and the places.
    """
    file = folder / "transforms.json"
    if file.is_file() and len(json.loads(file.read_text())["frames"]) == count:
        return
    (folder / "images").mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    wall = _painted(round(WALL * width), round(WALL * height), random)
    tall, wide = wall.shape[:2]
    scale = DISTANCE / FOCAL  # units for each pixel of the wall
    frames = []
    for number in range(count):
        middle = (0.5 + random.uniform(-0.13, 0.13, 2)) * (wide, tall)
        angle = random.uniform(-0.1, 0.1)
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        # A pixel centre p of the photograph shows the wall at middle + turn @ (p - centre).
        centre = np.array([width, height]) / 2
        moved = np.column_stack([turn, middle - 0.5 + turn @ (0.5 - centre)])
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        photograph = cv2.warpAffine(wall, moved, (width, height), flags=flags, borderMode=cv2.BORDER_REFLECT)
        name = f"images/{number:05d}.jpg"
        cv2.imwrite(str(folder / name), photograph, [cv2.IMWRITE_JPEG_QUALITY, 85])
        pose = np.eye(4)  # camera to world, OpenCV: x right, y down, z towards the wall at z = DISTANCE
        pose[:2, :2] = turn
        pose[:2, 3] = (middle - (wide / 2, tall / 2)) * scale
        frames.append({"file_path": name, "transform_matrix": (pose * [1, -1, -1, 1]).tolist()})
    _write_points(folder / "points3D.ply", wall, scale, random)
    camera = {"w": width, "h": height, "fl_x": FOCAL, "fl_y": FOCAL, "cx": width / 2, "cy": height / 2}
    file.write_text(json.dumps({**camera, "camera_model": "PINHOLE", "frames": frames}))


def _painted(width: int, height: int, random: np.random.Generator) -> np.ndarray:
    """Clouds with spots on them, and grain as of a sensor: uint8 [height, width, 3]."""
    coarse = random.uniform(40, 215, (12, 16, 3)).astype(np.float32)
    wall = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
    for _ in range(SPOTS):
        centre = (int(random.integers(width)), int(random.integers(height)))
        colour = tuple(float(c) for c in random.uniform(0, 255, 3))
        cv2.circle(wall, centre, int(random.integers(4, 40)), colour, -1, cv2.LINE_AA)
    wall += random.normal(0, 4, wall.shape).astype(np.float32)
    return np.clip(wall, 0, 255).astype(np.uint8)


def _write_points(path: Path, wall: np.ndarray, scale: float, random: np.random.Generator) -> None:
    tall, wide = wall.shape[:2]
    at = np.stack([random.integers(wide, size=5000), random.integers(tall, size=5000)], 1)
    xy = (at + 0.5 - (wide / 2, tall / 2)) * scale
    xyz = np.column_stack([xy, np.full(len(xy), DISTANCE)]).astype(np.float32)
    save_points(path, Points(xyz, np.ascontiguousarray(wall[at[:, 1], at[:, 0], ::-1])))


def measure(
    capture: Path, run: Path, limit: int, options: Sequence[str] = TRAINING, timeout: float = 3600
) -> Measured:
    """Trains in a process of its own.

    Args:
        capture: that `write_capture` wrote.
        run: folder of the run, which must not exist.
        limit: bytes that the process may allocate; 0: no limit.
        options: of `luxel train`.
        timeout: seconds after which the process is ended.
    """
    command = [
        sys.executable,
        "-u",
        "-c",
        CHILD,
        str(limit),
        "train",
        str(capture),
        "--run",
        str(run),
        *options,
    ]
    started = time.perf_counter()
    environment = {**os.environ, "COLUMNS": "200"}
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )
    watchdog = threading.Timer(timeout, child.kill)
    watchdog.start()
    lines, opening, start = [], 0.0, 0.0
    try:
        assert child.stdout is not None
        for line in child.stdout:
            now = time.perf_counter() - started
            opening = opening or now * ("views to train on" in line)
            start = start or now * line.startswith("run: ")
            lines.append(line)
        child.wait()
    finally:
        watchdog.cancel()
        child.kill()
    output = "".join(lines)
    peak = re.search(r"^peak (\d+)$", output, re.MULTILINE)
    total = time.perf_counter() - started
    return Measured(child.returncode, int(peak[1]) if peak else 0, opening, start, total, output)


def main() -> int:
    """Generates, trains and prints; returns the exit status of the training."""
    own, dash, options = _split(sys.argv[1:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("build/large-capture"))
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--limit", type=float, default=8.0, help="GB (10^9 bytes); 0: none")
    chosen = parser.parse_args(own)
    started = time.perf_counter()
    write_capture(chosen.folder, chosen.count)
    print(f"{chosen.count} photographs after {time.perf_counter() - started:.0f} s", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        limit = round(chosen.limit * 1e9)
        taken = measure(chosen.folder, Path(folder) / "run", limit, options if dash else TRAINING)
    print(taken.output)
    print(
        f"status {taken.status}, peak {taken.peak / 1e9:.2f} GB, open after {taken.opening:.1f} s, "
        f"first step after {taken.start:.1f} s, all {taken.total:.1f} s"
    )
    return taken.status


def _split(words: list[str]) -> tuple[list[str], bool, list[str]]:
    """The words before and after a `--`, and whether there is one."""
    if "--" not in words:
        return words, False, []
    at = words.index("--")
    return words[:at], True, words[at + 1 :]


if __name__ == "__main__":
    sys.exit(main())
