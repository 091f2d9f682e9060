"""The report of the benchmark of the viewer."""

from __future__ import annotations

from typing import Any

from luxel.viewer.bench.report import Section, Table, shown

TITLE = "luxel: benchmark of the viewer"
NAMES = {
    "stream": "luxel's stream",
    "jpeg": "luxel's stream without video",
    "viser": "viser's messages",
    "python": "luxel's stream, no browser",
}


def sections(report: dict[str, Any]) -> list[Section]:
    """What the report shows, in order."""
    if any(row["path"] == "python" for row in report["rows"]):
        return _of_clients(report)
    head = ["images by", "image", "encoder", "latency (ms)", "p95 (ms)", "images/s", "page frames/s"]
    head += ["render (ms)", "encode (ms)", "decode (ms)", "size (kB)"]
    table = Table(head, [], words=3)
    for row in report["rows"]:
        cells = [NAMES[row["path"]], row.get("image", "–"), row.get("encoder", "–")]
        for key in ("latency_ms", "latency_p95_ms", "fps", "page_fps", "render_ms"):
            cells.append(shown(row.get(key), ".1f"))
        cells += [shown(row.get(key), ".1f") for key in ("encode_ms", "decode_ms")]
        table.rows.append([*cells, shown(row.get("kilobytes"), ".0f")])
    link = "" if report.get("megabits") is None else f" over a link of {report['megabits']:g} Mbit/s"
    viser = (
        "; for viser's messages the page reads back pixels of every frame to know its camera, which costs it some time"
        if any(row["path"] == "viser" for row in report["rows"])
        else ""
    )
    text = (
        f"{report.get('browser', 'Browser')} without screen and GPU, window {report['window']}, panel open, on this "
        f"machine{link}. The camera turns in every animation frame; frames are prepared, so that the renderer is not "
        "measured. Latency: from the frame of the page to the displayed image of its camera, median and 95th "
        "percentile "
        f"over {report['seconds']:g} s{viser}."
    )
    return [Section("Latency", text, [table]), *_failures(report)]


def _of_clients(report: dict[str, Any]) -> list[Section]:
    head = ["clients", "image", "encoder", "latency (ms)", "p95 (ms)", "images/s of each", "of the slowest"]
    table = Table([*head, "render (ms)", "encode (ms)", "size (kB)"], [], words=3)
    for row in report["rows"]:
        cells = [str(row["clients"]), row.get("image", "–"), row.get("encoder", "–")]
        for key in ("latency_ms", "latency_p95_ms", "fps", "slowest_fps", "render_ms", "encode_ms"):
            cells.append(shown(row.get(key), ".1f"))
        table.rows.append([*cells, shown(row.get("kilobytes"), ".0f")])
    link = "" if report.get("megabits") is None else f", each over a link of {report['megabits']:g} Mbit/s"
    text = (
        f"Clients without a browser, in a process of their own on this machine{link}. They send {report['rate']:g} "
        f"cameras a second that circle the scene ({report['scene']}), read the images and acknowledge them like a "
        "page, but do not decode them. Latency: from the camera to its image received, median and 95th percentile over "
        f"{report['seconds']:g} s."
    )
    return [Section("Latency", text, [table]), *_failures(report)]


def _failures(report: dict[str, Any]) -> list[Section]:
    failed = [row for row in report["rows"] if row["failures"]]
    lines = [[NAMES[row["path"]], part, text] for row in failed for part, text in row["failures"].items()]
    if not lines:
        return []
    return [Section("Failures", "", [Table(["images by", "part", "error"], lines, words=3)])]
