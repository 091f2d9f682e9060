"""The report of the training benchmark: ranking, table, curves of quality over time."""

from __future__ import annotations

import math
from typing import Any

from luxel.viewer.bench.raster.quality import MAX_PSNR_LOSS
from luxel.viewer.bench.report import Section, Table, shown
from luxel.viewer.bench.svg import Series, line_plot
from luxel.viewer.bench.train.curves import seconds_to
from luxel.viewer.bench.train.seeds import half_range

TITLE = "luxel: training benchmark"
STYLES = 6  # colours of lines that a page has


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
        [row["scene"], name, text.strip().splitlines()[-1] + " !"]
        for row in report["rows"]
        for name, text in row["failures"].items()
    ]
    out = [_results(report)]
    if own := _own_settings(report["variants"]):
        out.append(own)
    if failed:
        out.append(Section("What failed", "", [Table(["capture", "backend", "error"], failed, words=3)]))
    return out


def _results(report: dict[str, Any]) -> Section:
    first, seeds = report["variants"][0]["name"], report.get("seeds", 1)
    head = ["capture", "backend", *(["seeds"] if seeds > 1 else [])]
    head += ["PSNR (dB)", "best PSNR (dB)", "final − best (dB)", "SSIM", "LPIPS"]
    head += ["training (s)", "to common PSNR (s)", f"{first} ahead from (s)", "steps", "steps/s", "step (ms)"]
    head += ["primitives", "scene (MB)", "peak (GB)", "verdict"]
    table = Table(head, [], words=3 if seeds > 1 else 2)
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
                    *([_trained(result, seeds)] if seeds > 1 else []),
                    _with_spread(result, "psnr"),
                    shown(result["best_psnr"], ".2f"),
                    _with_spread(result, "final_minus_best"),
                    shown(result["ssim"], ".4f"),
                    shown(result["lpips"], ".4f"),
                    f"{result['seconds']:.2f}",
                    shown(reached[name], ".2f"),
                    _ahead(result.get("ahead_from")),
                    f"{result['steps']:,}",
                    f"{result['steps_per_s']:.1f}",
                    _step(result["step_ms"]),
                    f"{result['count']:,}",
                    shown(result.get("scene_mb"), ".1f"),
                    f"{result['peak_bytes'] / 1e9:.2f}" if result["peak_bytes"] else "–",
                    _verdict(fit[name], reached[name], quickest, len(row["results"])),
                ]
            )
        plots += _curves(row, [one["name"] for one in report["variants"]])
    return Section("Training", _text(report, seeds), [table], plots)


def _text(report: dict[str, Any], seeds: int) -> str:
    """What the figures mean."""
    others = " but for the settings listed below" if any(map(_is_own, report["variants"])) else ""
    seed = "seeds" if seeds > 1 else "seed"
    return (
        f"The same data, start, schedule, strategy, loss, optimizer, {seed} and held-out views{others}. luxel takes "
        "steps in its own way (a captured graph on a GPU); other backends are called through autograd. Scene: its "
        "parameters as float32. Evaluations and what a backend does once do not count as training time. The common "
        "PSNR is the lowest that all of a capture's runs end with. A run that ends more than "
        f"{MAX_PSNR_LOSS:g} dB under the best is marked with ! and not ranked. Best is the best of a run's "
        "measurements; where the final one is far under it, the run overfitted. Milliseconds per step are the mean, "
        "in brackets the quickest and the slowest stretch between two measurements. "
        f"{report['definitions']['ahead_from']}{_about_seeds(seeds)}"
    )


def _about_seeds(seeds: int) -> str:
    """What several seeds mean for the figures, after the other sentences; empty with one."""
    if seeds == 1:
        return ""
    return (
        f" Each variant trained with {seeds} seeds: that of its configuration and the next ones. Figures are the means "
        "over them, peak is the largest; after ± stands half of the range, the highest less the lowest of the seeds. "
        "Curves are means at equal steps, from which best, final − best (its range is that of the single runs), ahead "
        "from and the time to the common PSNR are read."
    )


def _trained(result: dict[str, Any], seeds: int) -> str:
    """With how many of the seeds a variant has trained."""
    done = len(result["seeds"])
    return f"{done} seeds" if done == seeds else f"{done} of {seeds} seeds"


def _with_spread(result: dict[str, Any], name: str) -> str:
    """A figure in dB, and half of the range of its seeds where there are several."""
    half = half_range(result, name)
    return shown(result[name], ".2f") + ("" if half is None else f" ± {half:.2f}")


def _own_settings(variants: list[dict[str, Any]]) -> Section | None:
    """What each variant with settings of its own has otherwise than the first."""
    first = variants[0]["name"]
    rows = [
        [one["name"], name, _value(theirs), _value(own)]
        for one in filter(_is_own, variants)
        for name, (theirs, own) in one["differences"].items()
    ]
    if not rows:
        return None
    text = (
        "What a variant has otherwise than the first; of another strategy, what is not its default. Of gsplat's own "
        "trainings, all that they train with, lengths in its normalised scene: views, points, seed and metrics are "
        "those of the first, Adam is torch's fused one, the photometric loss is luxel's, and gsplat draws what "
        "is measured."
    )
    return Section(
        "Settings of their own", text, [Table(["backend", "setting", first, "its own"], rows, words=4)]
    )


def _is_own(one: dict[str, Any]) -> bool:
    return bool(one["differences"])


def _value(value: Any) -> str:
    return "–" if value is None else str(value)


def _curves(row: dict[str, Any], names: list[str]) -> list[tuple[str, str]]:
    lines, steps = [], []
    for name, result in row["results"].items():
        style = f"s{names.index(name) % STYLES}"
        scored = [point for point in result["curve"] if point["psnr"] is not None]
        lines.append(Series(name, style, [(p["seconds"], p["psnr"]) for p in scored]))
        steps.append(Series(name, style, [(p["step"], p["psnr"]) for p in scored]))
    if not any(line.points for line in lines):
        return []
    caption = f"{row['scene']}, {row['width']}x{row['height']}, {row['held_out']} views held out"
    label = "held-out PSNR (dB)"
    return [
        (f"{caption}: over time", line_plot(lines, "seconds of training", label, log_x=True)),
        (f"{caption}: over steps", line_plot(steps, "steps", label)),
    ]


def _ahead(seconds: float | str | None) -> str:
    return seconds if isinstance(seconds, str) else shown(seconds, ".2f")


def _verdict(fit: bool, reached: float, quickest: float, runs: int) -> str:
    if runs < 2:
        return "–"
    if not fit:
        return "not ranked !"
    if math.isnan(reached) or math.isnan(quickest):
        return "–"
    return "fastest" if reached == quickest else f"{reached / quickest:.2f}x slower"


def _step(times: dict[str, Any] | None) -> str:
    return f"{times['mean']:.2f} [{times['low']:.2f}, {times['high']:.2f}]" if times else "–"


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
