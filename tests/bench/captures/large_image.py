"""Trains a field on a generated image that is larger than the memory it may take, and prints what that took.

    python tests/bench/captures/large_image.py [--side 32768] [--folder build/large-image] [-- OPTIONS OF luxel train]

Writes the image once into FOLDER (SIDE x SIDE pixels, 3 bytes each, uncompressed TIFF; kept), trains on it from disk in
a process of its own, and prints the largest resident memory of that process, the largest memory that it allocated
on the GPU, PSNR over all pixels and seconds. A second process draws a window of it and all of it at 1024 x 1024.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import cv2
import numpy as np

from luxel.render.native import best_device
from luxel.scenes.files.images.tiff_blocks import write_tiff
from luxel.scenes.synthetic.landscape import landscape, landscape_bands

TRAINING = ("--steps", "10000", "--log2-entries", "22")
SMALL = 1024  # side of the landscape that is enlarged without a GPU

# Runs in the child; the last lines say what it has used.
CHILD = """
import resource, sys, torch
from luxel.viewer.cli import main
status = main(sys.argv[1:])
print("peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
print("device", torch.cuda.max_memory_reserved() if torch.cuda.is_available() else 0, flush=True)
sys.exit(status)
"""


def write_image(path: Path, side: int) -> None:
    """A landscape; without a GPU, where that would take an hour, a small one that is enlarged, with grain."""
    on_gpu = best_device().type == "cuda"
    bands = landscape_bands(side, side, device="cuda") if on_gpu else _enlarged(side)
    part = path.with_suffix(".part")
    write_tiff(part, side, side, bands)
    part.replace(path)


def _enlarged(side: int) -> Iterator[np.ndarray]:
    small, random = landscape(SMALL, SMALL), np.random.default_rng(0)
    scale, rows = SMALL / side, max(1, (1 << 22) // side)
    for top in range(0, side, rows):
        count = min(rows, side - top)
        moved = np.array([[scale, 0, 0.5 * scale - 0.5], [0, scale, (top + 0.5) * scale - 0.5]])
        flags = cv2.INTER_CUBIC | cv2.WARP_INVERSE_MAP
        band = cv2.warpAffine(small, moved, (side, count), flags=flags, borderMode=cv2.BORDER_REFLECT)
        grain = random.integers(-6, 7, (count, side, 1), np.int16)
        yield np.clip(band + grain, 0, 255).astype(np.uint8)


def run(words: Sequence[str]) -> tuple[int, dict[str, int], str, float]:
    """Runs `luxel` in a process of its own: status, bytes that it took, what it printed, seconds."""
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-u", "-c", CHILD, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    taken = {
        name: int(value) for name, value in re.findall(r"^(peak|device) (\d+)$", done.stdout, re.MULTILINE)
    }
    return done.returncode, taken, done.stdout, time.perf_counter() - started


def report(name: str, words: Sequence[str]) -> int:
    """Runs and prints; returns the exit status."""
    status, taken, output, seconds = run(words)
    print("\n".join(output.splitlines()[-12:]))
    host, device = (taken.get(key, 0) / 1e9 for key in ("peak", "device"))
    print(f"{name}: status {status}, host {host:.2f} GB, device {device:.2f} GB, {seconds:.1f} s", flush=True)
    return status


def main() -> int:
    """Generates, trains, draws; returns the first exit status that is not 0."""
    own, _, options = " ".join(sys.argv[1:]).partition("-- ")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--side", type=int, default=32768)
    parser.add_argument("--folder", type=Path, default=Path("build/large-image"))
    chosen = parser.parse_args(own.split())
    chosen.folder.mkdir(parents=True, exist_ok=True)
    path = chosen.folder / f"landscape-{chosen.side}.tif"
    started = time.perf_counter()
    if not path.is_file():
        write_image(path, chosen.side)
    print(
        f"{path}: {path.stat().st_size / 1e9:.2f} GB after {time.perf_counter() - started:.0f} s", flush=True
    )
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        trained = Path(folder) / "run"
        words = ["train", str(path), "--field", "image", "--stream", "--run", str(trained)]
        if status := report("training", [*words, *(options.split() or TRAINING)]):
            return status
        corner = str(chosen.side // 2)
        window = ["--window", corner, corner, "512", "512", "--width", "1024", "--out", f"{folder}/part.png"]
        if status := report("a window", ["render", str(trained), *window]):
            return status
        return report("the whole", ["render", str(trained), "--width", "1024", "--out", f"{folder}/all.png"])


if __name__ == "__main__":
    sys.exit(main())
