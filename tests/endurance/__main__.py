"""Endurance of runs and readers: kill -9, full disks, damaged folders, files and databases, two processes.

``python -m tests.endurance kill pairs --count 200 --out build/endurance`` from the root of the repository. A part that
was ended continues with the same command. The exit status is 1 after a failure.
"""

from __future__ import annotations

import argparse
import importlib
import shutil
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from .outcomes import fewest, read, run_trials, table, table_of_readers

COUNTS = {
    "kill": 200,
    "disk": 100,
    "damage": 500,
    "fuzz": 1200,
    "pairs": 50,
    "ends": 150,
    "power": 60,
    "links": 200,
    "databases": 300,
    "reseal": 400,
    "paths": 300,
}  # of fuzz: batches
FIGURES = ("<!-- figures -->", "<!-- end of figures -->")
PAGE = Path("docs/reliability.md")
READERS = ("<!-- readers -->", "<!-- end of readers -->")


def main(arguments: list[str] | None = None) -> int:
    """Runs the parts; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.endurance", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(COUNTS)}; default: all")
    parser.add_argument("--seed", type=int, default=0, help="seed of all random numbers (default 0)")
    parser.add_argument(
        "--count",
        type=int,
        help=f"trials per part; default: {', '.join(f'{part} {count}' for part, count in COUNTS.items())}",
    )
    parser.add_argument(
        "--minutes", type=float, default=60, help="no trial of a part begins later (default 60)"
    )
    parser.add_argument("--jobs", type=int, default=1, help="worker processes (default 1)")
    parser.add_argument(
        "--out", type=Path, default=Path("build/endurance"), help="folder of the outcome files"
    )
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="NAME", help="of fuzz: samples whose names begin so"
    )
    parser.add_argument(
        "--inputs",
        type=int,
        default=0,
        help="of fuzz: instead of --count, batches until each NAME of --only had so many inputs",
    )
    parser.add_argument(
        "--write-docs",
        action="store_true",
        help="write the counts to docs/reliability.md and end; after `fuzz`, only those of its readers",
    )
    options = parser.parse_args(arguments)
    if unknown := set(options.parts) - set(COUNTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    parts = options.parts or list(COUNTS)
    if options.write_docs:
        write_docs(options.out, readers_only=options.parts == ["fuzz"])
        return 0
    if (options.only and parts != ["fuzz"]) or (options.inputs and not options.only):
        parser.error("--only needs the part fuzz alone, --inputs needs --only")
    base = "/dev/shm" if Path("/dev/shm").is_dir() else None
    work = Path(tempfile.mkdtemp(prefix="luxel-endurance-", dir=base))
    failures, end = 0, time.monotonic() + 60 * options.minutes
    try:
        for part in parts:
            module = importlib.import_module(f".{part}", __package__)
            getattr(module, "prepare", _prepare)(work)
            file = options.out / f"{part}.jsonl"
            run = partial(run_trials, part, module.trial, work, file, seed=options.seed, jobs=options.jobs)
            if options.only:
                module.only = tuple(options.only)
                for name in options.only:
                    module.chosen((name,))
            if not options.inputs:
                failures += run(count=options.count or COUNTS[part], seconds=60 * options.minutes)
                continue
            while time.monotonic() < end and (least := fewest(file, options.only, options.inputs)):
                module.only = (least,)
                done = sum(line["seed"] == options.seed for line in read(file))
                failures = run(count=done + options.jobs, seconds=60)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(table(sorted(options.out.glob("*.jsonl")), "python -m tests.endurance " + " ".join(sys.argv[1:])))
    return 1 if failures else 0


def _prepare(work: Path) -> None:
    from .processes import prepare_shared

    prepare_shared(work)


def write_docs(out: Path, readers_only: bool) -> None:
    """Replaces the figures of docs/reliability.md; those of readers that were not tested anew stay."""
    from .samples import samples

    recorded = PAGE.read_text().partition(READERS[0])[2].partition(READERS[1])[0]
    known = [sample.name for sample in samples()]
    _replace(READERS, table_of_readers(out / "fuzz.jsonl", recorded, known))
    if not readers_only:
        _replace(FIGURES, table(sorted(out.glob("*.jsonl")), "python -m tests.endurance"))


def _replace(marks: tuple[str, str], figures: str) -> None:
    before, _, rest = PAGE.read_text().partition(marks[0])
    PAGE.write_text(f"{before}{marks[0]}\n{figures}{marks[1]}{rest.partition(marks[1])[2]}")


if __name__ == "__main__":
    sys.exit(main())
