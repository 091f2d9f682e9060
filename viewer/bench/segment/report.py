"""The report of the benchmark of segmentation: tables and plots, with published figures next to luxel's."""

from __future__ import annotations

from typing import Any

from luxel.render.primitives import PRIMITIVES
from luxel.viewer.bench.report import Section, Table, shown
from luxel.viewer.bench.segment import published
from luxel.viewer.bench.segment.label_maps import MISSING, REACH
from luxel.viewer.bench.segment.speed import COLOUR, GOALS, MAX_TO_COLOUR
from luxel.viewer.bench.svg import Series, line_plot

TITLE = "luxel: benchmark of segmentation"
PRINTED = 3  # sections whose tables the terminal shows, where all parts are measured
GOALS_ON, GOALS_COUNT, GOALS_SIZE = "H200", 1_000_000, (960, 540)
PROVIDERS = {
    "ids": "true ids",
    "noisy-ids": f"true ids, borders off by up to {REACH:g} px, {100 * MISSING:.0f} % missing",
    "mobile-sam": "MobileSAM, one click each",
}


def sections(report: dict[str, Any]) -> list[Section]:
    """What the report shows, in order."""
    rows: dict[str, list[dict[str, Any]]] = {"times": [], "network": [], "quality": []}
    for row in report["rows"]:
        if not row["failures"]:
            rows[row["part"]].append(row)
    parts = [
        *([_quality(rows["quality"])] if rows["quality"] else []),
        *([_times(rows["times"], report["machine"].get("gpu") or "")] if rows["times"] else []),
        *([_network(rows["network"])] if rows["network"] else []),
        _published(rows, report["machine"].get("gpu") or report["machine"]["processor"]),
        *_failures(report),
    ]
    return parts


def printed(report: dict[str, Any]) -> int:
    """How many sections the terminal shows: those of the parts that were measured."""
    return len({row["part"] for row in report["rows"] if not row["failures"]}) or 1


def _quality(rows: list[dict[str, Any]]) -> Section:
    head = ["primitive", "scene", "masks from", "views", "mIoU (%)", "bound (%)", "least (%)", "pixels (%)"]
    head += [
        "votes of a mask (ms)",
        "all (s)",
        "missing",
        "odd, even agree (%)",
        "left after deletion, mean, most (%)",
    ]
    table = Table(head, [], words=3)
    for row in rows:
        cells = [f"{row['count']:,} {PRIMITIVES[row['primitive']].noun}", row["scene"]]
        cells += [PROVIDERS[row["provider"]], str(row["views"])]
        cells += [shown(_percent(row[key]), ".2f") for key in ("miou", "bound", "least_iou", "accuracy")]
        cells += [shown(row["vote_ms"], ".2f"), shown(row["seconds"], ".2f"), str(row["missing"])]
        left = [shown(_percent(row.get(key)), ".2f") for key in ("halo", "most_halo")]
        table.rows.append([*cells, shown(_percent(row.get("stability")), ".2f"), ", ".join(left)])
    side = rows[0]["scene"].split("-")[1]
    text = (
        f"mIoU of the rendered labels on {rows[0]['held_out']} held-out views of made-up scenes of solids on a "
        f"platform, {side}x{side} pixels: at rest, or moving and filmed by a rig of cameras, where views are held out "
        "in position and time. Bound: labels from the true maps of the held-out views themselves. Least: of an object. "
        "Pixels: with their true label. All: from the masks, or from the clicks with the network, to the labels of the "
        "primitives (and, from masks, the images of the labels). Missing: masks that a view lacks or that disagree "
        "with the other views; they do not vote. Agree: primitives to which the odd and the even views give one "
        "label. Left after deletion: weight of other primitives in the masks of an object, borders of a pixel left out."
    )
    return Section("Quality", text, [table])


def _times(rows: list[dict[str, Any]], gpu: str) -> Section:
    names = [name for name in rows[0]["times"] if name != COLOUR and not name.endswith("stage")]
    stages = [name for name in rows[0]["times"] if name.endswith("stage")]
    head = ["scene", "image", "labels", f"{COLOUR} (ms)", *(f"{name} (ms)" for name in names)]
    full = Table([*head, "off the witness"], [], words=2)
    alone = Table(["scene", "image", "labels", *(f"{name} (ms)" for name in stages)], [], words=2)
    for row in rows:
        position = [f"{row['scene']}, {row['count']:,} {PRIMITIVES[row['primitive']].noun}"]
        position += [f"{row['width']}x{row['height']}", str(row["labels"])]
        cells = [_time(row, name, gpu) for name in (COLOUR, *names)]
        full.rows.append([*position, *cells, f"{max(row['off'].values()):.0e}"])
        alone.rows.append([*position, *(_time(row, name, gpu) for name in stages)])
    text = (
        "Median milliseconds of a view, all taken in turns in one process, and as multiples of the colour forward "
        "pass. Votes: one label map, with projection and lists. Click to labels: what follows a mask, which is votes, "
        "labels of all primitives, and their image. Stages: the kernels alone, from given lists. Off the witness: "
        "largest difference of votes from the gradient of blended features, and of label images from blended one-hot "
        "labels. ! marks votes over twice the colour pass, and on an NVIDIA H200 what misses a goal."
    )
    return Section("Votes and label images", text, [full, alone], _plots(rows))


def _plots(rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Times over the number of labels, where there are several; one line for each kind of pass of the first scene."""
    first = [row for row in rows if all(row[key] == rows[0][key] for key in ("scene", "width", "height"))]
    if len(first) < 2:
        return []
    plots = []
    for what, end in (("a view", ""), ("the kernels alone", ", stage")):
        lines = [
            Series(
                name, f"s{k}", sorted((row["labels"], row["times"][name + end]["median"]) for row in first)
            )
            for k, name in enumerate((COLOUR, "votes", "label image"))
        ]
        plots.append((f"Milliseconds of {what} by number of labels", line_plot(lines, "labels", "ms")))
    return plots


def _time(row: dict[str, Any], name: str, gpu: str) -> str:
    """Milliseconds and the multiple of the colour pass; marked where it misses its goal."""
    times = row["times"][name]
    text = f"{times['median']:.3g}"
    if not name.startswith(COLOUR):
        text += f" ({times['to_colour']:.2f}x)"
    goal = GOALS.get((row["labels"], name), GOALS.get((None, name)))
    sized = (row["width"], row["height"]) == GOALS_SIZE and row["count"] == GOALS_COUNT
    late = GOALS_ON in gpu and sized and goal is not None and times["median"] > goal
    return text + (" !" if late or (name == "votes" and times["to_colour"] > MAX_TO_COLOUR) else "")


def _network(rows: list[dict[str, Any]]) -> Section:
    names = list(rows[0]["times"])
    table = Table(["network", "image", *(f"{name} (ms)" for name in names)], [], words=2)
    for row in rows:
        cells = [_with_goal(row["times"][name]) for name in names]
        table.rows.append(["MobileSAM", f"{row['width']}x{row['height']}", *cells])
    text = (
        "Median milliseconds. The encoder sees an image once, at 1024 pixels of its longer side whatever its size; "
        f"the decoder makes masks for prompts. Threads where there is no GPU: {rows[0]['threads']}. ! marks "
        "what misses its goal."
    )
    return Section("Network", text, [table])


def _with_goal(times: dict[str, Any]) -> str:
    goal = times.get("goal")
    return f"{times['median']:.3g}" + (" !" if goal is not None and times["median"] > goal else "")


def _published(rows: dict[str, list[dict[str, Any]]], device: str) -> Section:
    head = [
        "method",
        "masks of a view (ms)",
        "preparation",
        "NVOS mIoU (%)",
        "SPIn-NeRF mIoU (%)",
        "hardware",
    ]
    table = Table(head, [], words=1)
    for row in rows["times"][:2]:
        milliseconds = f"{row['times']['label image']['median']:.3g}"
        name = f"luxel, {row['count']:,} {PRIMITIVES[row['primitive']].noun}, {row['labels']} labels"
        table.rows.append([name, milliseconds, "0 s", "–", "–", f"{device}, {row['width']}x{row['height']}"])
    for method in published.METHODS:
        cells = [method.method, method.frame_ms, method.preparation, shown(method.nvos, ".1f")]
        table.rows.append([*cells, shown(method.spin, ".1f"), published.HARDWARE])
    votes = Table(["masks", "SAGOnline, aggregation (ms)", "ms of a mask"], [], words=0)
    for masks, milliseconds in sorted(published.AGGREGATION.items()):
        votes.rows.append([str(masks), str(milliseconds), f"{milliseconds / masks:.1f}"])
    ours = [row["times"]["votes"]["median"] for row in rows["times"]]
    own = f" luxel's votes take {min(ours):.3g} to {max(ours):.3g} ms of a mask here." if ours else ""
    text = (
        f"Published by {published.SOURCE}, for {published.HARDWARE}: other scenes, other images and another GPU, "
        f"so that figures stand next to each other only as orders of magnitude. Its aggregation of labels takes "
        f"{published.AGGREGATION_MS:g} ms of a mask with 206 masks.{own}"
    )
    return Section("Published figures", text, [table, votes])


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value


def _failures(report: dict[str, Any]) -> list[Section]:
    lines = [
        [part, str(row.get("scene") or row.get("primitive") or ""), text]
        for row in report["rows"]
        for part, text in row["failures"].items()
    ]
    return [Section("Failures", "", [Table(["part", "of", "error"], lines, words=3)])] if lines else []
