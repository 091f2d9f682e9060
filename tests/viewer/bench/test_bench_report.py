"""What `luxel bench` writes and `luxel bench compare` reads: pages, plots, JSON, comparisons."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from luxel.render.errors import LuxelError
from luxel.render.storage.manifest import NAME as MANIFEST
from luxel.viewer.bench import report, svg
from luxel.viewer.bench.compare import compare
from luxel.viewer.cli import main


def test_the_page_stands_alone(read_page: Any, measured: Path) -> None:
    tags = read_page(measured / "raster.html")
    assert tags.count["svg"] == 4 and tags.count["table"] == 7  # by count, by pixels, stages of two passes
    assert tags.count["polyline"] == 4 and tags.count["rect"] == 4 * (5 + 3)
    text = (measured / "raster.md").read_text()
    assert text.count("| terrain-300 | 48x32 | ") == 3 and "## Rooflines" in text


def test_comparing_reports(
    strict: Any, measured: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = strict(measured / "raster.json")
    after = strict(measured / "raster.json")
    row = after["rows"][0]["results"]["luxel"]["times"]["inference"]
    row["median"] *= 2
    (tmp_path / "after.json").write_text(json.dumps(after))
    assert main(["bench", "compare", str(measured / "raster.json"), str(tmp_path / "after.json")]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "terrain" in line]
    assert len(lines) == 12 and sum("2.000x !" in line for line in lines) == 1 and "inference" in lines[0]
    assert sum("1.000x" in line for line in lines) == 11

    after["machine"]["processor"] = "another"
    with pytest.raises(LuxelError, match="different devices"):
        compare(before, after)
    assert len(compare(before, after, force=True).tables[0].rows) == 12
    after = {**before, "rows": before["rows"][1:]}
    with pytest.raises(LuxelError, match="Only one of the reports has terrain-300"):
        compare(before, after)
    assert len(compare(before, after, force=True).tables[0].rows) == 9
    with pytest.raises(LuxelError, match="one kind"):
        compare(before, {**before, "kind": "train"})


def test_plots_leave_out_what_cannot_be_drawn(read_tags: Any) -> None:
    nan = float("nan")
    series = svg.Series("a<b", "s0", [(0.0, 1.0), (1.0, nan), (10.0, 2.0), (100.0, 3.0)])
    text = svg.line_plot([series], "x & y", "ms", log_x=True)
    tags = read_tags(text)
    assert tags.count["circle"] == 2 and "a&lt;b" in text and "x &amp; y" in text
    assert "nan" not in text
    assert "Nothing" in svg.line_plot([svg.Series("a", "s0", [])], "x", "y")
    assert "Nothing" in svg.stacked_bars([("row", {})], ["a"], "ms")
    assert [svg.number(v) for v in (0.01234, 1.2, 123.4, 12_300, 2.5e6, nan)] == [
        "0.0123",
        "1.2",
        "123",
        "12,300",
        "2.5 M",
        "–",
    ]


def test_reports_hold_no_number_that_json_lacks() -> None:
    assert report.plain({"a": [float("nan"), (1.5, float("inf"))], 3: None}) == {
        "a": [None, [1.5, None]],
        "3": None,
    }


def test_a_report_replaces_only_one_of_luxel(strict: Any, measured: Path, tmp_path: Path) -> None:
    results = strict(measured / "raster.json")
    for _ in range(2):
        report.check_writable(tmp_path, "raster")
        report.write(tmp_path, "raster", results, "a title", [])
    names = [MANIFEST, "raster.html", "raster.json", "raster.md"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    (tmp_path / "raster.md").write_text("my notes")
    before = (tmp_path / "raster.json").read_bytes()
    with pytest.raises(LuxelError, match=r"raster\.md: luxel did not write .* another folder with --out\.$"):
        report.check_writable(tmp_path, "raster")
    with pytest.raises(LuxelError, match=r"raster\.md: luxel did not write"):
        report.write(tmp_path, "raster", results | {"rows": []}, "a title", [])
    assert (tmp_path / "raster.md").read_text() == "my notes"
    assert (tmp_path / "raster.json").read_bytes() == before, "all three files or none"
    report.check_writable(tmp_path, "train")
