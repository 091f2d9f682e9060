"""The report of the benchmark of neural fields: tables and plots."""

from __future__ import annotations

from typing import Any

from luxel.render.fields.training.trainer import in_words
from luxel.viewer.bench.fields import accelerator
from luxel.viewer.bench.fields.peers import TINY, TORCH, WORK
from luxel.viewer.bench.fields.stages import PARTS
from luxel.viewer.bench.report import Section, Table, shown
from luxel.viewer.bench.svg import stacked_bars

TITLE = "luxel: benchmark of neural fields"
PRINTED = 3  # sections whose tables the terminal shows
KERNELS_SHOWN = 12
NAMES = ("luxel", TORCH, TINY)


def sections(report: dict[str, Any]) -> list[Section]:
    """What the report shows, in order."""
    return [
        _frames(report),
        _training(report),
        _peers(report),
        _shares(report),
        *([_accelerator(report)] if report["settings"].get("ngpc") else []),
        _rooflines(report),
        _kernels(report),
        *_failures(report),
    ]


def _frames(report: dict[str, Any]) -> Section:
    head = ["field", "encoding", "image", "frame (ms)", "FPS", "60 FPS", *PARTS, "field queries (M)"]
    table = Table(head, [], words=3)
    for row in report["rows"]:
        for frame in row["frames"]:
            cells = [row["field"], row["encoding"], _image(frame), ms(frame["times"])]
            cells += [f"{frame['fps']:.1f}", "yes" if frame["reaches_goal"] else "no !"]
            cells += [_percent(frame.get("shares", {}).get(part)) for part in PARTS]
            table.rows.append([*cells, f"{frame['field_rows'] / 1e6:.3g}"])
    text = (
        "Median milliseconds [10th to 90th percentile] of a full frame, from the camera to the image on the device, "
        "over all views. A median within 16.7 ms is 60 FPS; what misses it is marked with !. Queries: positions at "
        "which a frame evaluates the field, mean over the views."
    )
    return Section("Frames", text, [table])


def _training(report: dict[str, Any]) -> Section:
    head = ["field", "encoding", "scene", "parameters", "steps", "seconds"]
    head += ["step (ms)", "samples of a step", "M samples/s", "after the training"]
    table = Table(head, [], words=3)
    for row in report["rows"]:
        if not (training := row["training"]):
            continue
        steps = row.get("steps") or {}
        cells = [
            row["field"],
            row["encoding"],
            row["scene"],
            f"{row['parameters']:,}",
            f"{training['steps']:,}",
        ]
        cells += [f"{training['seconds']:.1f}", ms(steps), f"{training['batch']:,}"]
        cells += [_millions(steps.get("samples_per_s")), in_words(training["scores"])]
        table.rows.append(cells)
    text = (
        "Steps of the real trainer, replayed from a CUDA graph where there is a GPU: samples are drawn, encoded, "
        "evaluated, and their gradients and Adam's step follow. Samples/s are of the mean step; of a radiance field "
        "they are the capacity for samples along rays, of which it aims to fill 15/16. Frames are rendered right after "
        "the "
        "training, before the steps that are timed."
    )
    return Section("Training", text, [table])


def _peers(report: dict[str, Any]) -> Section:
    head = ["field", "encoding", "work", *(f"{name} (M/s)" for name in NAMES)]
    head += [f"luxel / {name}" for name in NAMES[1:]]
    table, absent, off = Table(head, [], words=3), set(), 0.0
    for row in report["rows"]:
        peers = row["peers"]
        absent |= {one["absent"] for one in peers.values() if "absent" in one}
        off = max(off, peers.get(TORCH, {}).get("difference") or 0.0)
        for work in WORK if peers else ():
            rates = [(peers[name].get(work) or {}).get("rows_per_s") for name in NAMES]
            cells = [row["field"], row["encoding"], work, *(_millions(rate) for rate in rates)]
            for rate in rates[1:]:
                ratio = rates[0] / rate if rate and rates[0] else None
                cells.append("–" if ratio is None else f"{ratio:.2f}x" + ("" if ratio >= 1 else " !"))
            table.rows.append(cells)
    settings = report["settings"]
    text = (
        f"Millions of positions per second through encoding and network alone, {settings['rows']:,} random positions a "
        "call (of a radiance field: its density). Training is forward and backward to table and weights, without an "
        "optimizer. torch: index_select and nn.Sequential, in half on a GPU, neither compiled nor captured, with the "
        f"same parameters; its result is within {off:.1e} of luxel's. What is slower than a peer is marked with !. "
    )
    if absent:
        reasons = "; ".join(reason.rstrip(".") for reason in sorted(absent))
        text += f"tiny-cuda-nn is not measured: {reasons}."
    else:
        text += (
            "tiny-cuda-nn: the same sizes with parameters of its own; its levels with more points than entries are "
            "hashed, also where luxel's wrap around."
        )
    return Section("Against torch and tiny-cuda-nn", text, [table])


def _shares(report: dict[str, Any]) -> Section:
    table = Table(
        ["frame", *(f"{part} (ms)" for part in PARTS), "frame (ms)", "encoding's share of the fused kernel"],
        [],
    )
    bars: dict[str, list[tuple[str, dict[str, float]]]] = {}
    for row, frame in _drawn(report):
        label = f"{row['field']}, {row['encoding']}"
        bars.setdefault(_image(frame), []).append((label, {p: 100 * frame["shares"][p] for p in PARTS}))
        cells = [f"{label}, {_image(frame)}", *(f"{frame['parts'][part]:.3f}" for part in PARTS)]
        share = _percent(frame["encoding_share_of_fused"])
        table.rows.append([*cells, f"{frame['frame_ms']:.3f}", share])
    plots = [(f"{size}: shares of the frame", stacked_bars(rows, PARTS, "%")) for size, rows in bars.items()]
    if report["machine"].get("gpu"):
        where = "Kernels from the profiler; gaps: what the frame takes beyond them, as the device waits for the host."
    else:
        where = "luxel's operations by the host's clock; rest is what the frame takes beyond encoding and network."
    text = (
        f"{where} One kernel encodes and evaluates the network: its time is split in the proportion that the two take "
        "alone at the same positions, where the features pass through memory, so both shares are estimates. Encoding "
        "holds that of directions and the rounding of tables to half; rest holds rays, marching, tracing, compositing "
        "and writing the image."
    )
    return Section("Shares of a frame", text, [table], plots, folded="Milliseconds as a table")


def _accelerator(report: dict[str, Any]) -> Section:
    counts = accelerator.PROCESSORS
    head = ["frame", "encoding", "network", "rest", *(f"{n} processors" for n in counts), "ceiling"]
    table = Table(head, [])

    def add(label: str, shares: dict[str, float], speedups: list[str], most: str) -> None:
        rest = 1 - shares["encoding"] - shares["network"]
        parts = [_percent(share) for share in (shares["encoding"], shares["network"], rest)]
        table.rows.append([label, *parts, *speedups, most])

    def times(value: float) -> str:
        return f"{value:.1f}x"

    frames = [(f"{row['field']}, {row['encoding']}, {_image(frame)}", frame) for row, frame in _drawn(report)]
    labelled = [(label, frame["shares"]) for label, frame in frames]
    for label, shares in [*labelled, ("published mean shares, RTX 3090", accelerator.PUBLISHED_SHARES)]:
        speedups = [times(accelerator.speedup(shares, n)) for n in counts]
        add(label, shares, speedups, times(accelerator.ceiling(shares)))
    published = [times(accelerator.PUBLISHED_SPEEDUPS[n]) for n in counts]
    add("published mean speed-ups", accelerator.PUBLISHED_SHARES, published, "–")
    text = (
        "What the accelerator of Mubarik et al. 2023 (NGPC) would do for a frame by its authors' model, Amdahl's law: "
        f"with 64 processors encoding is {accelerator.ENCODING:g} times and the network {accelerator.NETWORK:g} times "
        f"as fast, in proportion with fewer; the rest, gaps included, {accelerator.REST:g} times by fused kernels with "
        "any number, which gives the ceiling. luxel's kernels are fused already, so for its frames this overstates. "
        "The published mean speed-ups are means over applications and follow from no mean share: an estimate, no "
        "reproduction."
    )
    return Section("With the accelerator NGPC, estimated", text, [table])


def _rooflines(report: dict[str, Any]) -> Section:
    head = ["field", "encoding", "stage", "rows", "ms", "GB", "gathered (GB)", "GFLOP", "floor (ms)"]
    table = Table([*head, "bound by", "of the ceiling"], [], words=3)
    for row in report["rows"]:
        for line in row["rooflines"]:
            cells = [row["field"], row["encoding"], line["stage"], f"{line['rows']:,}", f"{line['ms']:.4f}"]
            cells += [f"{line['gb']:.4f}", f"{line['gathered_gb']:.3f}", f"{line['gflop']:.3f}"]
            cells += [f"{line['floor_ms']:.4f}", line["bound"], _percent(line["share"])]
            table.rows.append(cells)
    ceilings = report["ceilings"]
    text = (
        "The stages alone at the positions of a frame's largest call. GB: every array moved once; gathered: all "
        "corners of all cells, most of which caches serve, so that the encoding meets their limit before that of "
        "memory. Floors are at the measured ceilings, networks in half at that of tensor cores: "
        f"{ceilings['half_flops_per_s'] / 1e12:,.3g} TFLOP/s ({ceilings['half_how']}). {ceilings['how']}."
    )
    return Section("Rooflines", text, [table], folded="Rooflines")


def _kernels(report: dict[str, Any]) -> Section:
    table = Table(["frame", "kernel", "launches", "ms"], [], words=2)
    for row, frame in _drawn(report):
        for line in frame["kernels"][:KERNELS_SHOWN]:
            position = f"{row['field']}, {row['encoding']}, {_image(frame)}"
            table.rows.append([position, line["kernel"], f"{line['launches']:g}", f"{line['ms']:.4f}"])
    text = (
        f"The {KERNELS_SHOWN} longest of each frame, launches and milliseconds per frame; the JSON has all."
    )
    return Section("Kernels", text, [table], folded="Kernels")


def _failures(report: dict[str, Any]) -> list[Section]:
    rows = [
        [f"{row['field']}, {row['encoding']}", what, text.strip().splitlines()[-1] + " !"]
        for row in report["rows"]
        for what, text in row["failures"].items()
    ]
    return [Section("What failed", "", [Table(["field", "part", "error"], rows, words=3)])] if rows else []


def _drawn(report: dict[str, Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """(row, frame) of all frames that were taken apart."""
    return [(row, frame) for row in report["rows"] for frame in row["frames"] if "shares" in frame]


def _image(frame: dict[str, Any]) -> str:
    return f"{frame['width']}x{frame['height']}"


def ms(times: dict[str, Any]) -> str:
    """Median and percentiles; a dash where there are none."""
    if not times:
        return "–"
    digits = 3 if times["median"] < 10 else 1
    median, low, high = (f"{times[name]:,.{digits}f}" for name in ("median", "p10", "p90"))
    return f"{median} [{low}, {high}]"


def _millions(rate: float | None) -> str:
    return shown(None if rate is None else rate / 1e6, ",.4g")


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"
