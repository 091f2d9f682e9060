"""The report of the training benchmark: who is ranked, the table, the curves of quality over time."""

from __future__ import annotations

import math
from typing import Any

from luxel.viewer.bench.quality import MAX_PSNR_LOSS
from luxel.viewer.bench.report import Section, Table, shown
from luxel.viewer.bench.svg import Series, line_plot
from luxel.viewer.bench.train import seconds_to

TITLE = "luxel: training benchmark"


def ranked(row: dict[str, Any]) -> dict[str, bool]:
    """Per backend, whether its result is within `MAX_PSNR_LOSS` of the best; all are where nothing was held out."""
    scores = {name: _finite(result["psnr"]) for name, result in row["results"].items()}
    best = max((psnr for psnr in scores.values() if psnr is not None), default=None)
    if best is None:
        return dict.fromkeys(scores, True)
    return {name: psnr is not None and psnr >= best - MAX_PSNR_LOSS for name, psnr in scores.items()}


def sections(report: dict[str, Any]) -> list[Section]:
    """What the report shows, in order."""
    failed = [
        [row["scene"], backend, text.strip().splitlines()[-1] + " !"]
        for row in report["rows"]
        for backend, text in row["failures"].items()
    ]
    out = [_results(report)]
    if failed:
        out.append(Section("What failed", "", [Table(["capture", "backend", "error"], failed, words=3)]))
    return out


def _results(report: dict[str, Any]) -> Section:
    head = [
        "capture",
        "backend",
        "PSNR (dB)",
        "SSIM",
        "LPIPS",
        "training (s)",
        "to common PSNR (s)",
        "steps",
        "steps/s",
    ]
    head += ["step (ms)", "Gaussians", "peak (GB)", "verdict"]
    table = Table(head, [], words=2)
    plots = []
    for row in report["rows"]:
        fit = ranked(row)
        common = min(
            (r["psnr"] for r in row["results"].values() if _finite(r["psnr"]) is not None), default=math.nan
        )
        reached = {name: seconds_to(r["curve"], common) for name, r in row["results"].items()}
        quickest = min(
            (reached[n] for n in reached if fit[n] and not math.isnan(reached[n])), default=math.nan
        )
        for name, result in row["results"].items():
            table.rows.append(
                [
                    row["scene"],
                    name,
                    shown(result["psnr"], ".2f"),
                    shown(result["ssim"], ".4f"),
                    shown(result["lpips"], ".4f"),
                    f"{result['seconds']:.2f}",
                    shown(reached[name], ".2f"),
                    f"{result['steps']:,}",
                    f"{result['steps_per_s']:.1f}",
                    _step(result["step_ms"]),
                    f"{result['count']:,}",
                    f"{result['peak_bytes'] / 1e9:.2f}" if result["peak_bytes"] else "–",
                    _verdict(fit[name], reached[name], quickest, len(row["results"])),
                ]
            )
        plots += _curves(row, report["backends"])
    text = (
        "The same data, first Gaussians, schedule, strategy, loss, optimiser, seed and held-out views. luxel takes "
        "steps in its own way (no autograd, a captured graph on a GPU); others are called through autograd. "
        "Evaluations and what a backend does once do not count as training time. The common PSNR is the lowest that "
        f"all of a capture's runs end with. A run that ends more than {MAX_PSNR_LOSS:g} dB under the best is marked "
        "with ! and not ranked."
    )
    return Section("Training", text, [table], plots)


def _curves(row: dict[str, Any], backends: list[str]) -> list[tuple[str, str]]:
    lines, steps = [], []
    for name, result in row["results"].items():
        style = f"s{backends.index(name)}"
        found = [point for point in result["curve"] if point["psnr"] is not None]
        lines.append(Series(name, style, [(p["seconds"], p["psnr"]) for p in found]))
        steps.append(Series(name, style, [(p["step"], p["psnr"]) for p in found]))
    if not any(line.points for line in lines):
        return []
    caption = f"{row['scene']}, {row['width']}x{row['height']}, {row['held_out']} views held out"
    label = "held-out PSNR (dB)"
    return [
        (f"{caption}: over time", line_plot(lines, "seconds of training", label, log_x=True)),
        (f"{caption}: over steps", line_plot(steps, "steps", label)),
    ]


def _verdict(fit: bool, reached: float, quickest: float, runs: int) -> str:
    if runs < 2:
        return "–"
    if not fit:
        return "not ranked !"
    if math.isnan(reached) or math.isnan(quickest):
        return "–"
    return "fastest" if reached == quickest else f"{reached / quickest:.2f}x slower"


def _step(times: dict[str, Any] | None) -> str:
    return f"{times['median']:.2f} [{times['p10']:.2f}, {times['p90']:.2f}]" if times else "–"


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
