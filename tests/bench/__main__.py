"""`python -m tests.bench`, or `make bench`: what of `luxel bench` this machine can run, then Adam.

The published scenes are measured where a data folder is at hand: LUXEL_BENCH_DATA, else `splats` beside the captures
(LUXEL_SHARED, or ../shared). gsplat is measured beside luxel where it is installed. Results go to
tests/bench/results. Arguments are passed on to `luxel bench` (`raster --quick`), which then runs alone.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import torch

from luxel.viewer.cli import main as luxel

HERE = Path(__file__).resolve().parent


def main() -> int:
    """Runs the benchmarks; the worst exit status."""
    if sys.argv[1:]:
        return luxel(["bench", *sys.argv[1:]])
    shared = Path(os.environ.get("LUXEL_SHARED", HERE.parents[2] / "shared"))
    data = Path(os.environ.get("LUXEL_BENCH_DATA", shared / "splats"))
    words = ["bench", "raster", "--out", str(HERE / "results")]
    if torch.cuda.is_available():
        words += ["--data", str(data)] if (data / "garden-points.npz").is_file() else []
        words += ["--against", "gsplat"] if importlib.util.find_spec("gsplat") else []
    adam = [sys.executable, str(HERE / "train" / "bench_adam.py"), "--out", str(HERE / "results")]
    return max(luxel(words), subprocess.run(adam).returncode)


if __name__ == "__main__":
    sys.exit(main())
