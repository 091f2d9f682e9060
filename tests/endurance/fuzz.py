"""Part fuzz: damaged files of every format through their readers, in batches, and words through the option parsers."""

from __future__ import annotations

import base64
import mmap
import os
import resource
import shutil
import signal
import struct
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch

from luxel.render.errors import LuxelError
from luxel.scenes.files.pixel_limit import set_max_megapixels
from luxel.viewer.cli import parse

from .mutators import NUMBERS, TOKENS, mutate
from .processes import trial_folder
from .samples import Sample, samples

BATCH, OPTIONS_BATCH = 3000, 20
OTHER_SUFFIX = 0.05  # share of files that are read under the suffix of another format
MEGAPIXELS = 20  # limit of images: Pillow takes up to 15 bytes for a pixel of WebP, 300 MB in all
HANG, BATCH_SECONDS = 10, 2  # seconds: of one input, after which a batch ends
KEPT = 20_000  # bytes of a file that failed, in the outcome file
ADDRESSES, GROWTH = 6 << 30, 512 << 20  # bytes: of address space beyond the present one; of resident memory
only: tuple[str, ...] = ()  # beginnings of the names of the samples that `trial` takes; none: all
OPTIONS = (
    "--steps",
    "--seed",
    "--batch",
    "--rates.means",
    "--max-size",
    "--holdout-every",
    "--run",
    "--checkpoints.keep",
)


def prepare(work: Path) -> None:
    """Reads every sample once: what is imported late is then present in all batches."""
    torch.set_num_threads(1)
    set_max_megapixels(MEGAPIXELS)
    warnings.simplefilter("ignore")
    folder = work / "shared" / "samples"
    folder.mkdir(parents=True, exist_ok=True)
    for sample in samples():
        path = folder / f"sample{sample.suffix}"
        path.write_bytes(sample.data)
        sample.read(path)


def trial(work: Path, random: Random) -> dict[str, Any]:
    """One batch in a process of its own, of one of the samples that `only` names, or of options."""
    index = random.choice(chosen(only))
    folder = trial_folder(work)
    try:
        name = samples()[index].name if index >= 0 else "options"
        result = _isolated(lambda note: _batch(index, folder, random, note))
        left = sorted(folder.glob("damaged*"))[: 0 if result["ok"] else 1]  # of a hang or a crash
        if result["outcome"] == "hang" and left:  # or of a process that was stopped meanwhile
            result = _isolated(lambda note: _again(samples()[index], left[0], note))
        for path in left[: 0 if result["ok"] else 1]:
            result["file"] = [path.name, base64.b64encode(path.read_bytes()[:KEPT]).decode()]
        return {"sample": name, **result}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def chosen(beginnings: tuple[str, ...]) -> list[int]:
    """Numbers of the samples whose names begin so, -1 for options; of all where there are no ``beginnings``.

    Raises:
        ValueError: there are none.
    """
    names = ["options", *(sample.name for sample in samples())]
    out = [number for number, name in enumerate(names, -1) if not beginnings or name.startswith(beginnings)]
    if not out:
        raise ValueError(f"no name of a sample begins with {', '.join(beginnings)}")
    return out


def _isolated(batch: Callable[[Callable[[int], None]], dict[str, Any]]) -> dict[str, Any]:
    """Runs a batch in a fork with bounded memory; a crash or a hang names its input."""
    import json

    shared = mmap.mmap(-1, 1 << 20)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, 1)
            os.dup2(null, 2)
            used = int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
            resource.setrlimit(resource.RLIMIT_AS, (used + ADDRESSES,) * 2)
            result = json.dumps(batch(lambda number: struct.pack_into("<q", shared, 0, number))).encode()[
                :60000
            ]
            struct.pack_into(f"<q{len(result)}s", shared, 8, len(result), result)
            status = 0
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    number, size = struct.unpack_from("<qq", shared)
    if status == 0:
        result = json.loads(shared[16 : 16 + size])
        return {**result, "outcome": "batch", "ok": not result["failures"]}
    name = "hang" if status == -signal.SIGALRM else f"process ended with status {status}"
    return {"outcome": name, "ok": False, "input": number, "counts": {}, "failures": {name: 1}}


def _batch(index: int, folder: Path, random: Random, note: Callable[[int], None]) -> dict[str, Any]:
    """Damaged files of a sample, or words of options (``index`` -1), until the batch is full or its time is over."""
    last = [b""]  # the present input
    if index < 0:
        return _read_inputs(_options, OPTIONS_BATCH, random, last, note)
    return _read_inputs(_file_input(samples()[index], folder, last), BATCH, random, last, note)


def _again(sample: Sample, path: Path, note: Callable[[int], None]) -> dict[str, Any]:
    """One file that is there, read alone."""
    return _read_inputs(lambda _: sample.read(path), 1, Random(), [path.read_bytes()], note)


def _read_inputs(
    one: Callable[[Random], object], size: int, random: Random, last: list[bytes], note: Callable[[int], None]
) -> dict[str, Any]:
    counts: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    examples: dict[str, Any] = {}
    end, before = time.monotonic() + BATCH_SECONDS, _peak()
    for number in range(size):
        note(number)
        signal.setitimer(signal.ITIMER_REAL, HANG)
        problem, said = "", ""
        try:
            one(random)
            counts["read"] += 1
        except LuxelError as error:
            counts["refused"] += 1
            problem = "" if error.problem and error.remedy else "refused without a remedy"
        except SystemExit:
            counts["refused"] += 1
        except MemoryError:
            problem = "MemoryError"
        except Exception as error:
            problem, said = type(error).__name__, str(error)[:200]
        if _peak() > before + GROWTH:
            problem, before = "memory", _peak()
        if problem:
            failures[problem] += 1
            kept = base64.b64encode(last[0][:KEPT]).decode() if len(examples) < 8 else ""
            examples.setdefault(problem, {"input": number, "error": said, "data": kept})
        if time.monotonic() > end:
            break
    signal.setitimer(signal.ITIMER_REAL, 0)
    return {"counts": counts, "failures": failures, "examples": examples}


def _file_input(sample: Sample, folder: Path, last: list[bytes]) -> Callable[[Random], object]:
    suffixes = [other.suffix for other in samples()]

    def one(random: Random) -> None:
        suffix = random.choice(suffixes) if random.random() < OTHER_SUFFIX else sample.suffix
        path = folder / f"damaged{suffix}"
        last[0] = mutate(sample.data, np.random.default_rng(random.getrandbits(64)))
        path.write_bytes(last[0])
        try:
            sample.read(path)
        finally:
            path.unlink(missing_ok=True)

    return one


def _options(random: Random) -> None:
    words = [random.choice(NUMBERS + TOKENS)[:300].decode("latin-1").replace("\0", "") for _ in range(2)]
    arguments = ["capture"]
    for word in words:
        arguments += [random.choice(OPTIONS), word]
    parse("train", arguments)


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
