"""Outcome files of the fuzzer: which reader is next, and the table of readers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from outcomes import fewest, table_of_readers


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Two batches of one reader, a failed one of another, one of a capture; the last line is cut."""
    lines = [
        {"sample": "scene .a: x", "counts": {"read": 10, "refused": 2990}, "failures": {}},
        {"sample": "scene .a: y", "counts": {"read": 20}, "failures": {}},
        {"sample": "scene .b: x", "counts": {"refused": 5}, "failures": {"MemoryError": 2}},
        {"sample": "capture video: VP9", "counts": {"read": 8}, "failures": {}},
    ]
    path = tmp_path / "fuzz.jsonl"
    path.write_text("\n".join(json.dumps({"part": "fuzz", **line}) for line in lines) + '\n{"part"')
    return path


def test_the_reader_with_the_fewest_inputs_is_next(file: Path, tmp_path: Path) -> None:
    assert fewest(file, ["scene .a", "scene .b"], 100) == "scene .b"
    assert fewest(file, ["scene .a", "scene .b", "scene .c"], 100) == "scene .c"
    assert fewest(file, ["scene .a: x", "scene .a: y"], 3000) == "scene .a: y"
    assert fewest(file, ["scene .a", "scene .b"], 7) is None
    assert fewest(tmp_path / "absent.jsonl", ["scene .a"], 1) == "scene .a"


def test_readers_are_counted_with_all_variants(file: Path) -> None:
    rows = table_of_readers(file).splitlines()[2:]
    assert rows.pop(0) == "| capture video: VP9 | 8 | 8 | 0 | 0 |"
    assert rows == ["| scene .a | 3,020 | 30 | 2,990 | 0 |", "| scene .b | 7 | 0 | 5 | 2 |"]


def test_readers_that_were_not_tested_anew_keep_their_counts(file: Path) -> None:
    recorded = table_of_readers(file).replace("| scene .b |", "| scene .c |").replace("3,020", "9,999")
    rows = table_of_readers(file, recorded).splitlines()[2:]
    assert rows[-1] == "| scene .c | 7 | 0 | 5 | 2 |" and len(rows) == 4
    assert "3,020" in rows[1], "a reader that was tested anew has the new counts"
    known = ["scene .a: x", "scene .b: x", "capture video: VP9"]
    assert len(table_of_readers(file, recorded, known).splitlines()) == 5, "of a reader that is no more"
