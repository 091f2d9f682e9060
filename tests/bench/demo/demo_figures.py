"""What a minute of `luxel demo` reaches on two cores, alone and beside a busy process.

What it measures
    The demo is run in its exit mode, alone, and then beside a process that computes without end on one of the cores:
    held-out PSNR, steps, the share of the cores that training had, and the load of the machine just before each run.
    The mean PSNR is also given without the one held-out view whose mask is not its author's.

How to run
    python tests/bench/demo/demo_figures.py [--runs 10] [--cores 0,1] [--out tests/bench/results/demo.json]

The machine should be idle otherwise: a load above 0.3 before a run alone is pointed out. Each run takes about 80 s.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

LUXEL = "import sys; from luxel.viewer.cli import main; sys.exit(main(sys.argv[1:]))"
REMARK = re.compile(r"([\d,]+) steps in (\d+) s of training with (\d+)% of")
CORRECTED = "IMG_9733"  # the held-out view whose mask was corrected for the package, see ATTRIBUTION.md of the capture
IDLE = 0.3  # load of a machine on which nothing else runs


def spin(core: int) -> None:
    """Computes without end on one core."""
    os.sched_setaffinity(0, {core})
    while True:
        sum(range(100_000))


@contextmanager
def busy(core: int) -> Iterator[None]:
    """Keeps a core busy meanwhile."""
    process = multiprocessing.Process(target=spin, args=(core,), daemon=True)
    process.start()
    try:
        yield
    finally:
        process.terminate()
        process.join()


def demo(cores: list[int], minutes: float) -> dict[str, Any]:
    """One demo on these cores; its figures."""
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        options = ["--device", "cpu", "--minutes", f"{minutes:g}", "--run", f"{folder}/run"]
        started = time.perf_counter()
        run = subprocess.run(
            ["taskset", "-c", ",".join(map(str, cores)), sys.executable, "-c", LUXEL, "demo", *options],
            env={**os.environ, "LUXEL_DEMO_EXIT": "1", "OMP_NUM_THREADS": str(len(cores))},
            capture_output=True,
            text=True,
        )
        wall = time.perf_counter() - started
        remark = REMARK.search(run.stdout)
        if run.returncode or remark is None:
            raise SystemExit(f"The demo failed ({run.returncode}).\n{run.stdout}\n{run.stderr}")
        views = json.loads(Path(folder, "run/eval/report.json").read_text())["views"]
    psnrs = {Path(view["name"]).stem: view["psnr"] for view in views}
    return {
        "psnr": statistics.fmean(psnrs.values()),
        "psnr_others": statistics.fmean(psnr for name, psnr in psnrs.items() if name != CORRECTED),
        "steps": int(remark[1].replace(",", "")),
        "share": int(remark[3]),
        "wall_s": round(wall, 1),
        "load": load,
    }


def table(name: str, runs: list[dict[str, Any]]) -> str:
    """The runs as lines of a Markdown table, then their smallest, mean and largest PSNR."""
    lines = [
        f"| {name} {i} | {r['psnr']:.2f} | {r['psnr_others']:.2f} | {r['steps']:,} | {r['share']} % | {r['load']:.1f} |"
        for i, r in enumerate(runs, 1)
    ]
    columns = ([r[key] for r in runs] for key in ("psnr", "psnr_others"))
    spread = " | ".join(f"{min(c):.2f} to {max(c):.2f}, mean {statistics.fmean(c):.2f}" for c in columns)
    steps = statistics.fmean(r["steps"] for r in runs)
    return "\n".join([*lines, f"| {name}, all {len(runs)} | {spread} | {steps:,.0f} | | |"])


def main() -> None:
    """Runs the demos and prints their table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument(
        "--cores", default="0,1", help="that the demo may use; the busy process uses the last"
    )
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--only", choices=("alone", "beside"))
    parser.add_argument("--out", type=Path, help="JSON file for the figures")
    options = parser.parse_args()
    cores = [int(core) for core in options.cores.split(",")]
    figures: dict[str, list[dict[str, Any]]] = {}
    print("| run | PSNR (dB) | without the corrected view | steps | share of the cores | load before |")
    print("|---|---:|---:|---:|---:|---:|")
    for name in ("alone", "beside"):
        if options.only not in (None, name):
            continue
        runs = figures[name] = []
        with busy(cores[-1]) if name == "beside" else nullcontext():
            for _ in range(options.runs):
                runs.append(demo(cores, options.minutes))
                if options.out:
                    options.out.write_text(json.dumps(figures, indent=1) + "\n")
                if name == "alone" and runs[-1]["load"] > IDLE and len(runs) == 1:
                    print(f"The machine was not idle: load {runs[-1]['load']:.1f}.", file=sys.stderr)
        print(table(name, runs), flush=True)


if __name__ == "__main__":
    main()
