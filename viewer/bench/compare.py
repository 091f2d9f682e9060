"""Compares two reports of the same benchmark, row by row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from luxel.render.errors import LuxelError
from luxel.render.runs.strict_json import LARGEST
from luxel.render.storage.descriptors import open_regular
from luxel.viewer.bench.raster.measure import FORMAT
from luxel.viewer.bench.report import Section, Table, describe_machine, shown

Figures = dict[tuple[str, ...], dict[str, float | None]]  # by key of a row: its figures by name
NOISE = 0.02  # ratios that differ from 1 by no more are treated as equal


def load_report(path: Path) -> dict[str, Any]:
    """Reads a report.

    Raises:
        LuxelError: the file cannot be read, or is not a report of `luxel bench` that this version reads.
    """
    try:
        with open_regular(path) as file:
            report = json.loads(file.read(LARGEST + 1))
        if report["format"] != FORMAT or report["kind"] not in (
            "raster",
            "train",
            "fields",
            "segment",
            "view",
            "strangers",
        ):
            raise ValueError(f"kind {report['kind']!r}, format {report['format']!r}")
        if not isinstance(report["machine"]["device"], str) or not isinstance(report["rows"], list):
            raise ValueError("damaged")
    except OSError as error:
        raise LuxelError(
            f"{path}: {error.strerror}.", "Give the JSON file that `luxel bench` wrote."
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise LuxelError(
            f"{path}: is no report that this luxel can read ({error}).",
            "Give the JSON file that `luxel bench` wrote, from this version.",
        ) from error
    return report


def compare(before: dict[str, Any], after: dict[str, Any], *, force: bool = False) -> Section:
    """Figures of two reports side by side, with ratios after / before (of PSNR the difference).

    Args:
        before, after: reports of one kind.
        force: compare the rows that both have, even from different devices and scenes.

    Raises:
        LuxelError: they are of different kinds, devices or rows, or have nothing in common.
    """
    if before["kind"] != after["kind"]:
        raise LuxelError(
            f"One is a report of `bench {before['kind']}`, the other of `bench {after['kind']}`.",
            "Give two reports of one kind.",
        )
    devices = [describe_machine(report)["device"] for report in (before, after)]
    if devices[0] != devices[1] and not force:
        raise LuxelError(
            f"The reports are of different devices: {devices[0]} and {devices[1]}.",
            "Give reports of one device, or --force to compare all the same.",
        )
    old, new = _figures(before), _figures(after)
    alone = sorted({_what(key) for key in old.keys() ^ new.keys()})
    if alone and not force:
        raise LuxelError(
            f"Only one of the reports has {', '.join(alone[:5])}{' ...' if len(alone) > 5 else ''}.",
            "Give reports of the same scenes, sizes and backends, or --force to compare what both have.",
        )
    common = [key for key in old if key in new]
    if not common:
        raise LuxelError("The reports have no row in common.", "Give reports of the same scenes.")
    names = list(old[common[0]])
    head = ["scene", "backend", "row", *(f"{name}: before, after, ratio" for name in names)]
    rows = [
        [*key, *(_change(old[key].get(name), new[key].get(name), name) for name in names)] for key in common
    ]
    commits = [report["machine"]["commit"][:12] or "an unknown commit" for report in (before, after)]
    text = f"Before: {commits[0]} on {devices[0]}. After: {commits[1]} on {devices[1]}. A ratio is after / before."
    return Section("Comparison", text, [Table(head, rows, words=3)])


def _figures(report: dict[str, Any]) -> Figures:
    out: Figures = {}
    if report["kind"] == "fields":
        return _field_figures(report)
    if report["kind"] == "segment":
        return _segment_figures(report)
    if report["kind"] == "view":
        return _view_figures(report)
    if report["kind"] == "strangers":
        return _stranger_figures(report)
    for row in report["rows"]:
        size = f"{row['width']}x{row['height']}"
        for name, result in row["results"].items():
            if report["kind"] == "train":
                key = (row["scene"], name, f"{size}, {result['steps']:,} steps")
                out[key] = {
                    "seconds": result["seconds"],
                    "PSNR (dB)": result["psnr"],
                    "Gaussians": result["count"],
                    "peak (GB)": _gigabytes(result["peak_bytes"]),
                }
                continue
            for pass_name, times in result["times"].items():
                peak = _gigabytes(result["peak_bytes"].get(pass_name))
                quality = (row.get("quality") or {}).get(result["backend"]) or {}
                out[(row["scene"], name, f"{row['gaussians']:,} at {size}, {pass_name}")] = {
                    "ms": times["median"],
                    "PSNR (dB)": quality.get("psnr"),
                    "peak (GB)": peak,
                }
    return out


def _field_figures(report: dict[str, Any]) -> Figures:
    out: Figures = {}
    for row in report["rows"]:
        for frame in row["frames"]:
            position = f"{row['field']} at {frame['width']}x{frame['height']}"
            out[(row["scene"], row["encoding"], position)] = {
                "frame (ms)": frame["times"]["median"],
                "step (ms)": (row.get("steps") or {}).get("median"),
                "PSNR (dB)": (row["training"].get("scores") or {}).get("psnr"),
            }
    return out


def _segment_figures(report: dict[str, Any]) -> Figures:
    out: Figures = {}
    for row in (row for row in report["rows"] if not row["failures"]):
        if row["part"] == "quality":
            key = (row["scene"], row["provider"], f"{row['primitive']}, {row['views']} views")
            out[key] = {"ms": row["vote_ms"], "mIoU (%)": 100 * row["miou"]}
            continue
        position = f"{row['width']}x{row['height']}" + (
            f", {row['labels']} labels" if "labels" in row else ""
        )
        for name, times in row["times"].items():
            out[(row.get("scene", "MobileSAM"), name, position)] = {"ms": times["median"], "mIoU (%)": None}
    return out


def _stranger_figures(report: dict[str, Any]) -> Figures:
    """Of other seeds nothing is compared: their captures are others."""
    return {
        (row["capture"], f"{row['kind']}-{row['preset']}", f"seed {report['seed']}"): {
            "PSNR (dB)": row["psnr"],
            "seconds": row["seconds"],
            "wall (s)": row["wall_seconds"],
        }
        for row in report["rows"]
        if "psnr" in row
    }


def _view_figures(report: dict[str, Any]) -> Figures:
    out: Figures = {}
    link = "" if report.get("megabits") is None else f", {report['megabits']:g} Mbit/s"
    for row in report["rows"]:
        position = f"{row.get('clients', 1)} at {report['window']}{link}"
        out[(report.get("scene", "prepared frames"), row["path"], position)] = {
            "latency (ms)": row.get("latency_ms"),
            "p95 (ms)": row.get("latency_p95_ms"),
            "between images (ms)": 1e3 / row["fps"] if row.get("fps") else None,
        }
    return out


def _change(before: float | None, after: float | None, name: str) -> str:
    """Both numbers and their ratio (of decibels and percent the difference); marked where it became clearly worse."""
    if before is None or after is None:
        return "–"
    if "dB" in name or "%" in name:
        off = after - before
        return f"{before:.2f}, {after:.2f}, {off:+.2f}" + (" !" if off < -0.1 and after < 100 else "")
    ratio = after / before if before else 1.0
    worse = ratio > 1 + NOISE and name != "Gaussians"
    return f"{before:,.4g}, {after:,.4g}, {shown(ratio, '.3f')}x" + (" !" if worse else "")


def _what(key: tuple[str, ...]) -> str:
    return " ".join(key)


def _gigabytes(value: int | None) -> float | None:
    return value / 1e9 if value else None
