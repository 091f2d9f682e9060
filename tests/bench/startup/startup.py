"""How long luxel takes from Enter to a help text, to the first training step and to the prompt.

What it measures
    Wall and processor seconds of help texts and of the version, each in a process of its own: the least of --repeats.
    Of `luxel demo` with few seconds of training: from the start of the process to the lines of the capture, of the run,
    of the first step and of the held-out PSNR, and to its end. Of what is imported before the first step: modules and
    time by package.

How to run
    python tests/bench/startup/startup.py [--repeats 7] [--seconds 5] [--device cpu]

    On a machine where nothing else runs: wall times are the ones that count, and only then. The first run of each
    fills the cache of files and is not counted.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict

HELPS = (
    ["--version"],
    ["--help"],
    *(
        [name, "--help"]
        for name in ("train", "view", "eval", "render", "export", "segment", "inspect", "demo")
    ),
    ["bench", "--help"],
    ["doctor", "--help"],
    ["train", "--primitive", "convexes", "--help"],
    ["train", "--field", "image", "--help"],
)
TARGETS = {"--help": 0.2, "train --help": 0.6}
LINES = {
    "capture opened": re.compile(r"views to train on"),
    "trainer ready": re.compile(r"^run: "),
    "first step done": re.compile(r"^step +\d+/"),
    "held-out PSNR": re.compile(r"held-out PSNR:"),
}
TARGET_OF_FIRST_STEP = 6.0


def luxel(*words: str) -> list[str]:
    """The command line of a luxel command in this environment."""
    return [sys.executable, "-c", "from luxel.viewer.console import run; run()", *words]


def timed(command: list[str]) -> tuple[float, float]:
    """Wall and processor seconds of a process."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def helps(repeats: int) -> None:
    """Prints the table of help texts."""
    print("| `luxel ...` | wall, s | processor, s | target |\n|---|---:|---:|---:|")
    for words in HELPS:
        timed(luxel(*words))
        runs = [timed(luxel(*words)) for _ in range(repeats)]
        wall, processor = min(run[0] for run in runs), min(run[1] for run in runs)
        target = TARGETS.get(" ".join(words))
        print(
            f"| {' '.join(words)} | {wall:.2f} | {processor:.2f} | {'' if target is None else f'{target:.1f}'} |"
        )


def times_of_lines(command: list[str], **environment: str) -> tuple[dict[str, float], list[str]]:
    """Seconds after the start of a process at which the lines of `LINES` came, and its end; and all its lines.

    Raises:
        SystemExit: it failed; with its output.
    """
    seen: dict[str, float] = {}
    lines: list[str] = []
    start = time.perf_counter()
    around = {**os.environ, "PYTHONUNBUFFERED": "1", **environment}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=around, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line)
        for name, pattern in LINES.items():
            if name not in seen and pattern.search(line):
                seen[name] = time.perf_counter() - start
    if process.wait():
        sys.exit("".join([*lines, f"ended with status {process.returncode}"]))
    seen["prompt"] = time.perf_counter() - start
    return seen, lines


def demo(seconds: float, device: str) -> dict[str, float]:
    """`times_of_lines` of the demo."""
    with tempfile.TemporaryDirectory() as folder:
        command = luxel("demo", "--run", f"{folder}/run", "--minutes", f"{seconds / 60}", "--device", device)
        return times_of_lines(command, LUXEL_DEMO_EXIT="1")[0]


def demos(repeats: int, seconds: float, device: str) -> None:
    """Prints the table of the demo."""
    demo(seconds, device)
    runs = [demo(seconds, device) for _ in range(repeats)]
    print("\n| of `luxel demo` | least, s | median, s | target |\n|---|---:|---:|---:|")
    for name in [*LINES, "prompt"]:
        times = sorted(run[name] for run in runs if name in run)
        if times:
            target = f"{TARGET_OF_FIRST_STEP:.0f}" if name == "first step done" else ""
            print(f"| {name} | {times[0]:.2f} | {times[len(times) // 2]:.2f} | {target} |")
    rest = sorted(run["prompt"] - seconds for run in runs)
    print(f"| all but {seconds:g} s of training | {rest[0]:.2f} | {rest[len(rest) // 2]:.2f} | |")


def imports() -> None:
    """Prints what the imports of a training take, by package."""
    loading, training = "luxel.viewer.scene_loading.capture_options", "luxel.viewer.training.train_scene"
    code = f"import {loading}, {training}, luxel.viewer.web.serving"
    run = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code], capture_output=True, text=True, check=True
    )
    spent, count = defaultdict(int), defaultdict(int)
    for own, name in re.findall(r"import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)", run.stderr):
        spent[name.split(".")[0]] += int(own)
        count[name.split(".")[0]] += 1
    print("\n| imported before the first step | modules | ms |\n|---|---:|---:|")
    for name in sorted(spent, key=spent.__getitem__, reverse=True)[:8]:
        print(f"| {name} | {count[name]} | {spent[name] / 1e3:.0f} |")


def main() -> None:
    """Prints all tables as Markdown."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds of training of the demo")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    helps(options.repeats)
    demos(max(1, options.repeats // 2), options.seconds, options.device)
    imports()


if __name__ == "__main__":
    main()
