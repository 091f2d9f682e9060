"""Files of any bytes: readers return or raise LuxelError, in bounded memory and time."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from mutators import mutate
from samples import Sample, samples

from luxel.render.errors import LuxelError

MEMORY = 768 << 20  # bytes of address space above those of a child after its imports
SECONDS = 10.0  # of one file
OTHER_SUFFIX = 0.05  # share of files that are read under the suffix of another format


def fuzz(seed: int, count: int, folder: Path) -> dict[str, int]:
    """Reads damaged samples of every format; returns the number of files by outcome.

    Args:
        seed: of all choices.
        count: files of each sample.
        folder: an empty folder for them.

    Raises:
        AssertionError: something other than LuxelError was raised, or a file took longer than `SECONDS`; the file is
            left in the folder.
    """
    random = np.random.default_rng(seed)
    outcomes = {"read": 0, "refused": 0}
    every = samples()
    for _ in range(count):
        for sample in every:
            other = every[int(random.integers(len(every)))].suffix
            suffix = other if random.random() < OTHER_SUFFIX else sample.suffix
            path = folder / f"damaged{suffix}"
            path.write_bytes(mutate(sample.data, random))
            outcomes[_read(sample, path)] += 1
            path.unlink()
    return outcomes


def _read(sample: Sample, path: Path) -> str:
    start = time.monotonic()
    try:
        sample.read(path)
        outcome = "read"
    except LuxelError as error:
        assert error.problem and error.remedy, f"{sample.name}: no remedy in {error}"
        outcome = "refused"
    except Exception as error:
        raise AssertionError(f"{sample.name}: {path} lets out {error!r}") from error
    assert time.monotonic() - start < SECONDS, f"{sample.name}: {path} takes too long"
    return outcome


def limit_memory() -> None:
    """Allows this process `MEMORY` more address space than it has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * os.sysconf("SC_PAGE_SIZE") + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))


def in_child(seed: int, count: int) -> dict[str, int]:
    """`fuzz` in a process with limited memory."""
    command = [sys.executable, __file__, str(seed), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=170)
    assert done.returncode == 0, done.stderr[-3000:]
    read, refused = map(int, done.stdout.split()[-2:])
    return {"read": read, "refused": refused}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of memory are those of Linux")
def test_damaged_files_are_read_or_refused() -> None:
    outcomes = in_child(seed=0, count=4)
    assert sum(outcomes.values()) == 4 * len(samples()) and min(outcomes.values()) > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of memory are those of Linux")
def test_many_damaged_files_are_read_or_refused(seed: int) -> None:
    outcomes = in_child(seed, count=300)
    assert sum(outcomes.values()) == 300 * len(samples())


if __name__ == "__main__":
    samples()
    limit_memory()
    with tempfile.TemporaryDirectory() as scratch:
        result = fuzz(int(sys.argv[1]), int(sys.argv[2]), Path(scratch))
    print(result["read"], result["refused"])
