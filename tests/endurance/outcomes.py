"""Outcome files: one JSON line per trial, so that a part continues where it ended."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

Trial = Callable[[Path, Random], dict[str, Any]]


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The whole lines of an outcome file; none where there is no file."""
    if path.exists():
        for line in path.read_text().splitlines():
            try:
                yield json.loads(line)
            except ValueError:  # cut by a kill
                continue


def run_trials(
    name: str, trial: Trial, work: Path, file: Path, *, seed: int, count: int, seconds: float, jobs: int
) -> int:
    """Runs the trials that an outcome file lacks.

    Args:
        name: of the part.
        trial: called in a worker process with an empty folder and the random numbers of the trial; returns
            ``outcome``, ``ok`` and details.
        work: where the folders are made; ``work/shared`` holds what all trials start from.
        file: outcome file, which grows.
        seed, count: of the part; the trials are those of 0 to count - 1.
        seconds: no trial begins later than this after the start.
        jobs: number of worker processes.

    Returns:
        The number of failures in the file.
    """
    done = {(line["seed"], line["trial"]) for line in read(file)}
    todo = iter([number for number in range(count) if (seed, number) not in done])
    end = time.monotonic() + seconds
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as out, ProcessPoolExecutor(jobs, mp_context=get_context("fork")) as pool:
        running: set[Future[dict[str, Any]]] = set()
        while True:
            while len(running) < jobs and time.monotonic() < end and (number := next(todo, None)) is not None:
                running.add(pool.submit(_one, name, trial, work, seed, number))
            if not running:
                break
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                line = future.result()
                out.write("\n" * _needs_newline(file) + json.dumps(line) + "\n")
                out.flush()
                if not line["ok"]:
                    print(f"{name} {line['trial']}: {line}", flush=True)
    return sum(not line["ok"] for line in read(file))


def _needs_newline(file: Path) -> bool:
    raw = file.read_bytes()[-1:]
    return raw not in (b"", b"\n")


def _one(name: str, trial: Trial, work: Path, seed: int, number: int) -> dict[str, Any]:
    started = time.monotonic()
    try:
        result = trial(work, Random(f"{name} {seed} {number}"))
    except Exception as error:  # of the tool itself, or of a reader in process: a failure too
        result = {"outcome": "exception", "ok": False, "detail": f"{type(error).__name__}: {error}"[:500]}
    seconds = round(time.monotonic() - started, 2)
    return {"part": name, "seed": seed, "trial": number, "seconds": seconds, **result}


def fewest(file: Path, names: Sequence[str], most: int) -> str | None:
    """Of readers, the one that had the fewest inputs by the outcome file of the fuzzer.

    Args:
        file: the outcome file.
        names: beginnings of the names of samples.
        most: inputs that are enough; None is returned where all had as many.
    """
    inputs = dict.fromkeys(names, 0)
    for line in read(file):
        for name in names:
            if line.get("sample", "").startswith(name):
                inputs[name] += sum(line["counts"].values()) + sum(line["failures"].values())
    least = min(names, key=inputs.__getitem__)
    return least if inputs[least] < most else None


def table_of_readers(file: Path, recorded: str = "", known: Sequence[str] | None = None) -> str:
    """Markdown: inputs of each reader, of captures of each file and codec, by the outcome file of the fuzzer.

    Args:
        file: the outcome file.
        recorded: an earlier table, whose rows of readers that the file does not name stay.
        known: names of samples; recorded readers that none of them has any more are left out. None: all stay.
    """
    counts: dict[str, Counter[str]] = {}
    for line in read(file):
        name = line["sample"]
        name = name if name.startswith("capture") else name.partition(":")[0]
        reader = counts.setdefault(name, Counter())
        reader.update({**line["counts"], "failure": sum(line["failures"].values())})
    rows = {
        name: f"| {name} | {sum(c.values()):,} | {c['read']:,} | {c['refused']:,} | {c['failure']:,} |"
        for name, c in counts.items()
    }
    for row in recorded.splitlines():
        name = row.strip("| ").partition(" | ")[0]
        if row.startswith("| ") and row[-3:-2].isdigit() and (known is None or _has(name, known)):
            rows.setdefault(name, row)
    lines = [rows[name] for name in sorted(rows)]
    return "\n".join(
        ["| reader | inputs | read | refused | failures |", "|---|---:|---:|---:|---:|", *lines, ""]
    )


def _has(name: str, samples: Sequence[str]) -> bool:
    return any(sample == name or sample.startswith(f"{name}:") for sample in samples)


def table(files: list[Path], command: str) -> str:
    """Markdown: counts by part and outcome."""
    counts: Counter[tuple[str, str, bool]] = Counter()
    for file in files:
        for line in read(file):
            for outcome, number in line.get("counts", {line["outcome"]: 1}).items():
                counts[line["part"], outcome, line["ok"] or "counts" in line] += number
            for outcome, number in line.get("failures", {}).items():
                counts[line["part"], outcome, False] += number
    rows = [
        f"| {part} | {outcome} | {number:,} | {'' if ok else 'failure'} |"
        for (part, outcome, ok), number in sorted(counts.items())
    ]
    return "\n".join([f"`{command}`", "", "| part | outcome | count | |", "|---|---|---:|---|", *rows, ""])
