"""The report of the benchmark of the viewer."""

from __future__ import annotations

from typing import Any

from luxel.viewer.bench.report import Section, Table, shown

TITLE = "luxel: benchmark of the viewer"
NAMES = {"stream": "luxel's stream", "viser": "viser's messages"}


def sections(report: dict[str, Any]) -> list[Section]:
    """What the report shows, in order."""
    head = ["images by", "image", "latency (ms)", "p95 (ms)", "images/s", "page frames/s"]
    head += ["render (ms)", "encode (ms)", "decode (ms)", "size (kB)"]
    table = Table(head, [], words=2)
    for row in report["rows"]:
        cells = [NAMES[row["path"]], row.get("image", "–")]
        for key in ("latency_ms", "latency_p95_ms", "fps", "page_fps", "render_ms"):
            cells.append(shown(row.get(key), ".1f"))
        cells += [shown(row.get(key), ".1f") for key in ("encode_ms", "decode_ms")]
        table.rows.append([*cells, shown(row.get("kilobytes"), ".0f")])
    text = (
        f"Headless {report.get('browser', 'browser')} without a GPU, window {report['window']}, panel open, on this "
        "machine. The camera turns in every animation frame; frames are prepared, so that the renderer is not "
        "measured. Latency: from the frame of the page to the drawn image of its camera, median and 95th percentile "
        f"over {report['seconds']:g} s; for viser's messages the page reads back pixels of every frame to know its "
        "camera, which costs it some time."
    )
    failed = [row for row in report["rows"] if row["failures"]]
    lines = [[NAMES[row["path"]], part, text] for row in failed for part, text in row["failures"].items()]
    failures = (
        [Section("Failures", "", [Table(["images by", "part", "error"], lines, words=3)])] if lines else []
    )
    return [Section("Latency", text, [table]), *failures]
