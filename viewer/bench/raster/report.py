"""The report of the rasterizer's benchmark: ranking, tables and plots."""

from __future__ import annotations

from typing import Any

from luxel.render.primitives import PRIMITIVES
from luxel.viewer.bench.raster.quality import MAX_GRADIENT_ERROR, MIN_PSNR, good_enough
from luxel.viewer.bench.raster.roofline import STAGES
from luxel.viewer.bench.raster.variants import PASSES
from luxel.viewer.bench.report import Section, Table, shown
from luxel.viewer.bench.svg import Series, line_plot, stacked_bars

TITLE = "luxel: rasterizer benchmark"
KERNELS_SHOWN = 12


def best(row: dict[str, Any], backend: str, pass_name: str) -> dict[str, Any] | None:
    """The times of the fastest ranked variant of a backend; None if it has none."""
    candidates = [
        result["times"][pass_name]
        for result in row["results"].values()
        if result["backend"] == backend and result["ranked"]
    ]
    return min(candidates, key=lambda times: times["median"]) if candidates else None


def is_ranked(row: dict[str, Any], backend: str) -> bool:
    """Whether a backend's image was good enough for its time to count."""
    return good_enough(row.get("quality", {}).get(backend))


def sections(report: dict[str, Any]) -> list[Section]:
    """What the report shows, in order."""
    return [
        _times(report),
        *_published(report),
        _stages(report),
        _quality(report),
        _rooflines(report),
        _variants(report),
        _kernels(report),
        *_failures(report),
    ]


def _row(row: dict[str, Any]) -> str:
    return f"{row['scene']} {_image(row)}"


def _image(row: dict[str, Any]) -> str:
    return f"{row['width']}x{row['height']}"


def _times(report: dict[str, Any]) -> Section:
    backends = report["backends"]
    others = backends[1:]
    head = ["scene", "image", "pass", "primitives", *(f"{b} (ms)" for b in backends)]
    head += [f"{b} / {backends[0]}" for b in others]
    with_goals = any(row.get("goals") for row in report["rows"])
    head += ["goal on an H200 (ms)"] if with_goals else []
    table = Table(head, [], words=3)
    for row in report["rows"]:
        for pass_name in PASSES:
            fastest = [best(row, backend, pass_name) for backend in backends]
            noun = PRIMITIVES[row.get("primitive", "gaussians")].noun
            cells = [row["scene"], _image(row), pass_name, f"{row['gaussians']:,} {noun}"]
            cells += [_ms(times) for times in fastest]
            for other, times in zip(others, fastest[1:], strict=True):
                unfit = [b for b in (backends[0], other) if not is_ranked(row, b)]
                if unfit:
                    cells.append(f"not ranked: {' and '.join(unfit)} !")
                elif times and fastest[0]:
                    ratio = times["median"] / fastest[0]["median"]
                    cells.append(f"{ratio:.2f}x" + ("" if ratio >= 1 else " !"))
                else:
                    cells.append("–")
            cells += [_goal(row, pass_name)] if with_goals else []
            table.rows.append(cells)
    text = (
        "Median milliseconds [10th to 90th percentile]. Inference: without gradients; forward: recorded for a backward "
        "pass; forward + backward: from a given gradient of the image to every parameter. A goal that is missed and a "
        f"slower result are marked with !; a backend under {MIN_PSNR:g} dB to the float64 reference is not ranked."
    )
    return Section("Times", text, [table], _time_plots(report))


def _published(report: dict[str, Any]) -> list[Section]:
    """Published frames per second of other systems, alongside those of this report."""
    rows = []
    for primitive, spec in PRIMITIVES.items():
        ours = [row for row in report["rows"] if row.get("primitive") == primitive]
        if not ours or not spec.published:
            continue
        rows += [list(line) for line in spec.published]
        machine = report["machine"].get("gpu") or report["machine"].get("processor") or "this machine"
        for row in ours:
            times = best(row, report["backends"][0], PASSES[0])
            position = f"{row['scene']}, {row['gaussians']:,} {spec.noun}, {_image(row)}"
            fps = f"{1000 / times['median']:.0f}" if times else "–"
            rows.append([f"this report ({report['backends'][0]})", position, fps, str(machine)])
    if not rows:
        return []
    text = (
        "Frames per second, inference. The published ones are of trained scenes, at the sizes and on the hardware of "
        "their authors: they say how far apart systems are, not by how much one is faster."
    )
    return [
        Section(
            "Alongside published figures",
            text,
            [Table(["system", "scene", "FPS", "hardware"], rows, words=2)],
        )
    ]


def _time_plots(report: dict[str, Any]) -> list[tuple[str, str]]:
    """Time against the number of Gaussians, and of pixels, for the scenes with most (then largest) rows."""
    plots = []
    for by, label in (("gaussians", "primitives"), ("pixels", "pixels")):
        fixed = "pixels" if by == "gaussians" else "scene"
        groups: dict[Any, list[dict[str, Any]]] = {}
        for row in report["rows"]:
            visited = {
                **row,
                "pixels": row["width"] * row["height"],
                "family": row["scene"].rsplit("-", 1)[0],
            }
            key = (visited["family"], visited["pixels"]) if fixed == "pixels" else (visited["scene"],)
            groups.setdefault(key, []).append(visited)
        most = sorted(groups.values(), key=lambda group: (len({r[by] for r in group}), group[0]["gaussians"]))
        rows = most[-1] if most else []
        if len({r[by] for r in rows}) < 2:
            continue
        rows = sorted(rows, key=lambda r: r[by])
        lines = []
        for k, backend in enumerate(report["backends"]):
            for pass_name, dashed in ((PASSES[-1], False), (PASSES[0], True)):
                points = [
                    (r[by], fastest["median"]) for r in rows if (fastest := best(r, backend, pass_name))
                ]
                words = f"{backend}, {pass_name}" + (" (dashed)" if dashed else "")
                lines.append(Series(words, f"s{k}", points, dashed=dashed))
        first = rows[0]
        what = (
            f"{first['width']}x{first['height']}"
            if by == "gaussians"
            else f"{first['gaussians']:,} primitives"
        )
        caption = f"{first['family'] if by == 'gaussians' else first['scene']}, {what}"
        plots.append((caption, line_plot(lines, label, "ms", log_x=True, log_y=True)))
    return plots


def _stages(report: dict[str, Any]) -> Section:
    tables, plots = [], []
    for pass_name in (PASSES[-1], PASSES[0]):
        bars: list[tuple[str, dict[str, float]]] = []
        for row, name, result in _own_results(report):
            if stages := result["stages"].get(pass_name):
                bars.append((f"{_row(row)}, {name}" if len(report["backends"]) > 1 else _row(row), stages))
        used = [stage for stage in STAGES if any(stage in lengths for _, lengths in bars)]
        rows = [[label, *(shown(lengths.get(stage), ".3f") for stage in used)] for label, lengths in bars]
        tables.append(Table([f"{pass_name} (ms)", *used], rows))
        plots.append((f"{pass_name}: milliseconds per frame", stacked_bars(bars, STAGES, "ms")))
    where = (
        "on the device, from the profiler" if report["machine"].get("gpu") else "on the host, by operation"
    )
    text = f"Where the time goes {where}. Whole passes above also hold what lies between kernels."
    return Section("Stages", text, tables, plots, folded="Stages as tables")


def _kernels(report: dict[str, Any]) -> Section:
    table = Table(["row", "backend", "pass", "kernel", "launches", "ms"], [], words=4)
    for row, name, result in _own_results(report):
        for pass_name, kernels in result["kernels"].items():
            for line in kernels[:KERNELS_SHOWN]:
                launches = f"{line['launches']:g}"
                table.rows.append([_row(row), name, pass_name, line["kernel"], launches, f"{line['ms']:.4f}"])
    text = f"The {KERNELS_SHOWN} longest of each row and pass, launches and milliseconds per frame; the JSON has all."
    return Section("Kernels", text, [table], folded="Kernels")


def _rooflines(report: dict[str, Any]) -> Section:
    table = Table(
        [
            "row",
            "backend",
            "stage",
            "main kernel",
            "ms",
            "GB",
            "GFLOP",
            "floor (ms)",
            "bound by",
            "of the ceiling",
        ],
        [],
        words=4,
    )
    for row, name, result in _own_results(report):
        for line in result["rooflines"]:
            kernel = line["kernels"][0].split("::")[-1][:44] + (" ..." if len(line["kernels"]) > 1 else "")
            table.rows.append(
                [
                    _row(row),
                    name,
                    line["stage"],
                    kernel,
                    f"{line['ms']:.3f}",
                    f"{line['gb']:.4f}",
                    f"{line['gflop']:.3f}",
                    f"{line['floor_ms']:.4f}",
                    line["bound"],
                    f"{100 * line['share']:.0f} %",
                ]
            )
    text = (
        "GB and GFLOP are floors, counted from the scene (visible primitives, pairs, contributions): every array is "
        "moved once, only splats that change a pixel are evaluated there. Their time at the measured ceilings, as a "
        f"share of the time taken. Ceilings: {report['ceilings']['how']}."
    )
    return Section("Rooflines", text, [table], folded="Rooflines")


def _quality(report: dict[str, Any]) -> Section:
    table = Table(
        [
            "row",
            "backend",
            "to float64 (dB)",
            "to luxel (dB)",
            "worst gradient",
            "inference memory (GB)",
            "forward + backward (GB)",
        ],
        [],
        words=2,
    )
    for row in report["rows"]:
        for backend in report["backends"]:
            quality = row.get("quality", {}).get(backend) or {}
            gradients = quality.get("gradients") or {}
            worst = max(gradients, key=lambda name: gradients[name], default="")
            bad = worst and not gradients[worst] <= MAX_GRADIENT_ERROR
            decibels = f"{quality['psnr']:.1f}" + ("" if good_enough(quality) else " !") if quality else "–"
            peaks = (row["results"].get(backend) or {}).get("peak_bytes", {})
            table.rows.append(
                [
                    _row(row),
                    backend,
                    decibels,
                    shown(quality.get("to_luxel"), ".1f"),
                    f"{gradients[worst]:.1e} ({worst})" + (" !" if bad else "") if worst else "–",
                    *(_gigabytes(peaks.get(name)) for name in (PASSES[0], PASSES[-1])),
                ]
            )
    text = (
        "PSNR of the image to the float64 reference in plain torch over a sample of tiles (200: equal), with the "
        "backend's own cap of alpha; of the full image to luxel's with the same cap; the largest relative error of a "
        "parameter's gradient. Memory: parameters and the peak that a pass adds."
    )
    return Section("Quality and memory", text, [table])


def _variants(report: dict[str, Any]) -> Section:
    table = Table(
        ["row", "variant", *(f"{name} (ms)" for name in PASSES), "forward + backward (GB)"],
        [],
        words=2,
    )
    for row in report["rows"]:
        for name, result in row["results"].items():
            cells = [_ms(result["times"].get(pass_name)) for pass_name in PASSES]
            peak = _gigabytes(result["peak_bytes"].get(PASSES[-1]))
            table.rows.append([_row(row), name, *cells, peak])
    text = (
        "gsplat is given activated parameters outside of the timed part, packed and unpacked, and the better one "
        "counts above; raw: from unactivated parameters, as luxel always. Replayed: luxel as a "
        "captured CUDA graph, as in training; the peer cannot be captured, since it reads counts back to the host."
    )
    return Section("All variants", text, [table], folded="All variants")


def _failures(report: dict[str, Any]) -> list[Section]:
    rows = [
        [_row(row), what, text.strip().splitlines()[-1] + " !"]
        for row in report["rows"]
        for what, text in row["failures"].items()
    ]
    return [Section("What failed", "", [Table(["row", "part", "error"], rows, words=3)])] if rows else []


def _own_results(report: dict[str, Any]) -> list[tuple[dict[str, Any], str, dict[str, Any]]]:
    """(row, name, result) of each backend's default variant."""
    return [
        (row, name, result)
        for row in report["rows"]
        for name, result in row["results"].items()
        if name in report["backends"]
    ]


def _goal(row: dict[str, Any], pass_name: str) -> str:
    if not row.get("goals") or pass_name == PASSES[1]:
        return "–"
    which = 0 if pass_name == PASSES[0] else 1
    met = row.get("goals_met")
    return f"{row['goals'][which]:g}" + ("" if not met or met[which] else " !")


def _ms(times: dict[str, Any] | None) -> str:
    if not times:
        return "–"
    digits = 3 if times["median"] < 10 else 1
    median, low, high = (f"{times[name]:,.{digits}f}" for name in ("median", "p10", "p90"))
    return f"{median} [{low}, {high}]"


def _gigabytes(value: int | None) -> str:
    return f"{value / 1e9:.3f}" if value else "–"
