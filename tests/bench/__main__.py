"""`python -m tests.bench`: the benchmarks that this machine can run.

With a GPU: the rasterizer on every row of `scenes_for_bench.ROWS`, beside gsplat where it is installed; the
data folder is LUXEL_BENCH_DATA, else `splats` beside the captures (LUXEL_SHARED, or ../shared). Without one,
or without the data: small random scenes on the CPU. Then the loss and the optimiser. Results go to
tests/bench/results. Arguments go to the rasterizer's script, which then runs alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent


def main() -> int:
    """Runs the fitting scripts, each in a process of its own; the worst exit status."""
    shared = Path(os.environ.get("LUXEL_SHARED", HERE.parents[2] / "shared"))
    data = Path(os.environ.get("LUXEL_BENCH_DATA", shared / "splats"))
    arguments = sys.argv[1:]
    if torch.cuda.is_available() and (data / "garden-points.npz").is_file():
        script = [HERE / "raster_against_gsplat.py", "--data", data, "--out", HERE / "results"]
    else:
        print(f"No GPU, or no data in {data}: timing the CPU backend on random scenes.", flush=True)
        script = [HERE / "raster_on_cpu.py", "--out", HERE / "results"]
    scripts = [script, [HERE / "bench_loss.py", "--out", HERE / "results"]]
    if arguments:  # meant for the rasterizer's
        scripts = [[*script, *arguments]]
    return max(subprocess.run([sys.executable, *map(str, command)]).returncode for command in scripts)


if __name__ == "__main__":
    sys.exit(main())
