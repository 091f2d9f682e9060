"""The samples of the fuzzers: one per format, each read without error."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from mutators import EDITS, mutate
from samples import formats_without_sample, samples


def test_every_registered_format_has_a_sample() -> None:
    assert formats_without_sample() == []
    names = [sample.name for sample in samples()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("number", range(len(samples())), ids=[sample.name for sample in samples()])
def test_samples_are_valid(tmp_path: Path, number: int) -> None:
    sample = samples()[number]
    path = tmp_path / f"sample{sample.suffix}"
    path.write_bytes(sample.data)
    assert sample.read(path) is not None or sample.name.startswith("image")
    assert len(sample.data) < 1 << 16


def test_mutations_follow_the_seed() -> None:
    data = samples()[0].data
    first, again = ([mutate(data, np.random.default_rng(seed)) for seed in range(50)] for _ in range(2))
    assert first == again and len(set(first)) > 40
    for edit in EDITS:
        assert isinstance(edit(b"", np.random.default_rng(0)), bytes)
