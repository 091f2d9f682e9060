"""A new encoding is one file and one line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from additions import changed_lines, extended
from PIL import Image

HERE = Path(__file__).resolve().with_name("encoding")
SMALL = ["--sizes", "32x18", "--seconds", "0.05", "--quick", "--batch", "256", "--log2-entries", "10"]


def test_it_is_one_file_and_one_line() -> None:
    assert len([file for file in (HERE / "files").rglob("*") if file.is_file()]) == 1
    assert changed_lines(HERE) == 1


@pytest.mark.slow
def test_it_is_trained_and_measured(tmp_path: Path) -> None:
    luxel = extended(HERE, tmp_path)
    values = np.random.default_rng(0).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    Image.fromarray(values).resize((64, 48), Image.Resampling.BICUBIC).save(tmp_path / "image.png")
    run, bench = tmp_path / "run", tmp_path / "bench"
    assert "triangle" in luxel.luxel("train", "--field", "image", "--help")
    options = ["--encoding", "triangle", "--frequencies", "4", "--steps", "60", "--batch", "1024"]
    luxel.luxel(
        "train",
        str(tmp_path / "image.png"),
        "--field",
        "image",
        "--run",
        str(run),
        "--device",
        "cpu",
        *options,
    )
    assert json.loads((run / "config.json").read_text())["config"]["encoding"] == "triangle"
    code = "from luxel.render.fields.files import load_field\nprint(load_field(sys.argv[1]).field.encoding)"
    assert "TriangleEncoding" in luxel.python(code, str(run / "field.safetensors"))
    chosen = ["--only", "image", "sdf", "--encodings", "triangle", "--device", "cpu", "--out", str(bench)]
    luxel.luxel("bench", "fields", *SMALL, *chosen)
    rows = json.loads((bench / "fields.json").read_text())["rows"]
    assert [(row["field"], row["encoding"]) for row in rows] == [("image", "triangle"), ("sdf", "triangle")]
    for row in rows:
        assert not row["failures"] and row["frames"] and row["peers"]["torch"]["difference"] < 1e-5
