"""The report of the benchmark: a row per capture, kind of scene and preset, and what is not as promised."""

from __future__ import annotations

from typing import Any

from luxel.viewer.bench.report import Section, Table, shown
from luxel.viewer.bench.strangers.promises import RULES

TITLE = "luxel: benchmark on captures that nothing was tuned to"
PRINTED = 1  # sections whose tables the terminal shows


def sections(report: dict[str, Any]) -> list[Section]:
    """What the report shows, in order."""
    return [_rows(report), *_captures(report), *_skipped(report), *_failures(report)]


def summary(report: dict[str, Any]) -> str:
    """What is not as promised, in a line; with ``quick`` nothing is checked."""
    if report["quick"]:
        return "promises: not checked, tiny captures mean nothing"
    broken = [f"{one['capture']}: {one['text']}" for one in report["promises"]]
    return f"promises: {len(broken)} broken: {'; '.join(broken)}" if broken else "promises: none broken"


def _rows(report: dict[str, Any]) -> Section:
    head = ["capture", "kind", "preset", "steps", "primitives", "PSNR (dB)", "SSIM", "LPIPS"]
    head += ["training (s)", "wall time (s)", "mesh accuracy", "mesh completeness"]
    table = Table(head, [], words=3)
    for row in report["rows"]:
        if "psnr" not in row:
            continue
        table.rows.append(
            [
                row["capture"],
                row["kind"],
                row["preset"],
                shown(row["steps"], ",d"),
                shown(row["count"], ",d"),
                shown(row["psnr"], ".2f"),
                shown(row["ssim"], ".4f"),
                shown(row["lpips"], ".4f"),
                shown(row["seconds"], ".1f"),
                shown(row["wall_seconds"], ".1f"),
                shown(row.get("mesh_accuracy"), ".2f"),
                shown(row.get("mesh_completeness"), ".2f"),
            ]
        )
    text = (
        f"Captures made from the seed {report['seed']}. Each training is `luxel train CAPTURE` with the options of its "
        f"kind and preset alone, in a process of its own; wall time is that of the process.{_repeated(report)} gsplat "
        "trains on the same "
        "views and points, in at most as many Gaussians as luxel's default ended with, its schedules scaled to its "
        "steps; its wall time begins when the capture is opened. Accuracy: mean distance of the mesh from the exact "
        "surface; completeness: of the surface that is seen from outside from the mesh; in thousandths of the solid's "
        f"radius. Promised: {RULES}. {_sentence(report)}"
    )
    return Section("Trainings", text, [table])


def _repeated(report: dict[str, Any]) -> str:
    """How often each training ran, where that is more than once."""
    times = report.get("trainings", 1)
    return "" if times == 1 else f" Figures are medians of {times} trainings with the seeds 0 to {times - 1}."


def _sentence(report: dict[str, Any]) -> str:
    text = summary(report)
    return f"{text[:1].upper()}{text[1:]}."


def _captures(report: dict[str, Any]) -> list[Section]:
    rows = [[name, made["about"], f"{made['seconds']:.1f}"] for name, made in report["captures"].items()]
    return [Section("Captures", "", [Table(["capture", "what", "written in (s)"], rows, words=2)])] * bool(
        rows
    )


def _skipped(report: dict[str, Any]) -> list[Section]:
    rows = [[one["capture"], one["method"], one["reason"]] for one in report["skipped"]]
    text = f"The budget was {report['budget']:g} s."
    return [Section("What did not run", text, [Table(["capture", "training", "why"], rows, words=3)])] * bool(
        rows
    )


def _failures(report: dict[str, Any]) -> list[Section]:
    rows = [
        [row["capture"], f"{row['kind']}-{row['preset']}", part, text.strip().splitlines()[-1] + " !"]
        for row in report["rows"]
        for part, text in row["failures"].items()
    ]
    head = ["capture", "training", "part", "error"]
    return [Section("What failed", "", [Table(head, rows, words=4)])] if rows else []
