"""Writes a report of a benchmark: JSON, Markdown and one self-contained page, from the same sections."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any

from luxel.render.storage.descriptors import ForeignFileError
from luxel.render.storage.folder import OutputFolder
from luxel.render.storage.journal import scratch_folder
from luxel.viewer.reports.evaluation_report import writing

SUFFIXES = ("json", "md", "html")


@dataclass
class Table:
    """A table: its head, and rows of as many cells; the first ``words`` columns hold words, the rest numbers."""

    head: Sequence[str]
    rows: list[list[str]]
    words: int = 1


@dataclass
class Section:
    """A part of a report.

    Args:
        title: heading.
        text: sentences under it.
        tables: shown in the Markdown and on the page.
        plots: (caption, SVG), on the page only.
        folded: label of the control that shows the tables on the page; empty: they are always shown.
    """

    title: str
    text: str = ""
    tables: list[Table] = field(default_factory=list)
    plots: list[tuple[str, str]] = field(default_factory=list)
    folded: str = ""


def markdown(title: str, sections: Sequence[Section], facts: dict[str, str]) -> str:
    """The report as Markdown."""
    parts = [f"# {title}", "\n".join(f"* {name}: {value}" for name, value in facts.items())]
    for section in sections:
        parts.append(f"## {section.title}")
        if section.text:
            parts.append(section.text)
        parts += [markdown_table(table) for table in section.tables]
    return "\n\n".join(parts) + "\n"


def markdown_table(table: Table) -> str:
    """One table as Markdown."""
    rule = ["---" if k < table.words else "---:" for k in range(len(table.head))]
    lines = [table.head, rule, *table.rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def page(title: str, sections: Sequence[Section], facts: dict[str, str]) -> str:
    """The report as one HTML page that loads no other files."""
    return _PAGE.substitute(
        title=html.escape(title),
        facts="".join(f"<dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd>" for k, v in facts.items()),
        sections="\n".join(_section(section) for section in sections),
    )


def write(
    folder: Path, name: str, report: dict[str, Any], title: str, sections: Sequence[Section]
) -> dict[str, Path]:
    """Writes NAME.json, NAME.md and NAME.html, which get their names together and replace an earlier report.

    Returns:
        Their paths by suffix.

    Raises:
        LuxelError: the folder cannot be written to, or a file of one of the names is not luxel's.
    """
    facts = describe_machine(report)
    texts = {
        "json": json.dumps(plain(report), indent=1, allow_nan=False) + "\n",
        "md": markdown(title, sections, facts),
        "html": page(title, sections, facts),
    }
    with _writing(folder), OutputFolder(folder).batch() as batch:
        for suffix, text in texts.items():
            batch.write(f"{name}.{suffix}", text.encode())
    return {suffix: folder / f"{name}.{suffix}" for suffix in texts}


def conclude(
    folder: Path,
    name: str,
    report: dict[str, Any],
    title: str,
    sections: Sequence[Section],
    printed: int = 1,
) -> int:
    """Writes the final report and prints the tables of its first sections and the path of the page.

    Args:
        printed: how many sections.

    Returns:
        The exit status: 1 where a part of any row failed.

    Raises:
        LuxelError: the folder cannot be written to, or a file of one of the names is not luxel's.
    """
    paths = write(folder, name, report, title, sections)
    tables = [markdown_table(table) for section in sections[:printed] for table in section.tables]
    for k, table in enumerate(tables):
        print(f"\n{table}" if k else table)
    print(f"report: {paths['html']}")
    return int(any(row["failures"] for row in report["rows"]))


def check_writable(folder: Path, name: str) -> None:
    """Raises LuxelError where a report could not be written, before hours are spent on measuring."""
    with _writing(folder):
        output = OutputFolder(folder)
        output.require(f"{name}.{suffix}" for suffix in SUFFIXES)
        output.make()
        with scratch_folder(folder):
            pass


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        with writing(folder):
            yield
    except ForeignFileError as error:
        raise ForeignFileError(
            error.problem, "Move it elsewhere, or give another folder with --out."
        ) from error


def shown(value: float | None, form: str) -> str:
    """A number in a format of its own; a dash where there is none."""
    return f"{value:{form}}" if value is not None and math.isfinite(value) else "–"


def plain(value: Any) -> Any:
    """A value made ready for JSON: numbers that are not finite become None."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def describe_versions(machine: dict[str, Any]) -> str:
    """Versions of luxel, torch and the peers that are installed, and of CUDA."""
    names = [name for name in ("luxel", "torch", "gsplat", "tinycudann") if machine.get(name)]
    versions = [f"{name} {machine[name]}" for name in names]
    return ", ".join([*versions, f"CUDA {machine['cuda']}"] if machine.get("cuda") else versions)


def describe_machine(report: dict[str, Any]) -> dict[str, str]:
    """The facts of a machine for display, by label."""
    machine, state = report["machine"], report["machine"].get("gpu_state") or {}
    facts = {
        "device": machine.get("gpu") or machine["processor"],
        "versions": describe_versions(machine),
        "commit": machine["commit"] or "unknown",
    }
    if state:
        facts["driver"] = state.get("driver_version", "")
        facts["GPU state at the start"] = (
            f"{state.get('clocks.sm')} of {state.get('clocks.max.sm')} SM, {state.get('clocks.mem')} memory, "
            f"{state.get('power.draw')} of {state.get('power.limit')}, {state.get('temperature.gpu')} °C"
        )
    if ceilings := report.get("ceilings"):
        facts["ceilings"] = (
            f"{ceilings['bytes_per_s'] / 1e9:,.1f} GB/s, {ceilings['flops_per_s'] / 1e9:,.0f} GFLOP/s "
            f"({ceilings['how']})"
        )
    return {**facts, "command": machine["command"]}


def _section(section: Section) -> str:
    figures = "".join(
        f"<figure class={'wide' if 'viewBox=' in svg and '0 0 880' in svg else 'half'}>"
        f"<figcaption>{html.escape(caption)}</figcaption>{svg}</figure>"
        for caption, svg in section.plots
    )
    text = f"<p class=note>{html.escape(section.text)}</p>" if section.text else ""
    tables = "".join(_table(table) for table in section.tables)
    if section.folded:
        tables = f"<details><summary>{html.escape(section.folded)}</summary>{tables}</details>"
    return f"<section><h2>{html.escape(section.title)}</h2>{text}<div class=plots>{figures}</div>{tables}</section>"


def _table(table: Table) -> str:
    def cells(row: Sequence[str], tag: str) -> str:
        return "".join(
            f"<{tag}{' class=word' if k < table.words else ''}>{_cell(cell)}</{tag}>"
            for k, cell in enumerate(row)
        )

    rows = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in table.rows)
    head = f"<thead><tr>{cells(table.head, 'th')}</tr></thead>"
    return f"<div class=scroll><table>{head}<tbody>{rows}</tbody></table></div>"


def _cell(text: str) -> str:
    """A cell; what is marked with "!" stands out."""
    return f"<b class=bad>{html.escape(text)}</b>" if text.endswith(" !") else html.escape(text)


_PAGE = Template("""<!doctype html>
<html lang=en><meta charset=utf-8><meta name=viewport content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
:root { color-scheme: light dark; --page: #f6f7f9; --card: #fff; --ink: #1c2430; --soft: #5d6878; --line: #dde2e9;
  --bad: #c02b2b; --s0: #d9641c; --s1: #2f6fd0; --s2: #2a9d74; --s3: #9a53c4; --s4: #b98a10; --s5: #5d6878;
  --p0: #2f6fd0; --p1: #7fb0ef; --p2: #d9641c; --p3: #f0a868; --p4: #2a9d74; --p5: #aab3c0; }
@media (prefers-color-scheme: dark) { :root { --page: #11151b; --card: #1a2029; --ink: #e6eaf0; --soft: #98a3b3;
  --line: #2b3442; --bad: #ff7b72; --s0: #ff9248; --s1: #6aa5ff; --s2: #4fd0a2; --s3: #c58af0; --s4: #e5bd4a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2.5rem 1.25rem 4rem; max-width: 1240px; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 1rem; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 0 0 .4rem; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 1.1rem 1.2rem;
  margin-top: 1.1rem; }
.note, figcaption { color: var(--soft); } .note { margin: 0 0 .8rem; max-width: 75em; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1.25rem; margin: 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; margin-top: .8rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .92rem; }
th, td { text-align: right; padding: .32rem .6rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { color: var(--soft); font-weight: 600; white-space: normal; vertical-align: bottom; }
.word { text-align: left; } tbody tr:last-child td { border-bottom: 0; } .bad { color: var(--bad); }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 480px), 1fr)); gap: 1rem 1.5rem; }
figure { margin: 0; min-width: 0; } figure.wide { grid-column: 1 / -1; } figcaption { font-weight: 600; }
summary { cursor: pointer; color: var(--soft); font-weight: 600; } details { margin-top: .6rem; }
svg { width: 100%; height: auto; display: block; } svg text { fill: var(--ink); font-size: 12px; }
svg .tick { text-anchor: middle; fill: var(--soft); } svg .label { text-anchor: end; fill: var(--soft); }
svg .axis { fill: var(--ink); } svg .grid { stroke: var(--line); } svg .line { fill: none; stroke-width: 2; }
svg .target { stroke: var(--soft); stroke-dasharray: 2 4; } figure.wide text.label { fill: var(--ink); }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .1rem 1.1rem; padding: 0; margin: .2rem 0 .3rem;
  font-size: .88rem; }
.legend i { display: inline-block; width: .75em; height: .75em; border-radius: 2px; margin-right: .4em; }
.s0 { stroke: var(--s0); } .s1 { stroke: var(--s1); } .s2 { stroke: var(--s2); } .s3 { stroke: var(--s3); }
.s4 { stroke: var(--s4); } .s5 { stroke: var(--s5); } .dot { stroke: var(--card); stroke-width: 1.5; }
i.s0, .dot.s0 { background: var(--s0); fill: var(--s0); } i.s1, .dot.s1 { background: var(--s1); fill: var(--s1); }
i.s2, .dot.s2 { background: var(--s2); fill: var(--s2); } i.s3, .dot.s3 { background: var(--s3); fill: var(--s3); }
i.s4, .dot.s4 { background: var(--s4); fill: var(--s4); } i.s5, .dot.s5 { background: var(--s5); fill: var(--s5); }
.p0 { fill: var(--p0); background: var(--p0); } .p1 { fill: var(--p1); background: var(--p1); }
.p2 { fill: var(--p2); background: var(--p2); } .p3 { fill: var(--p3); background: var(--p3); }
.p4 { fill: var(--p4); background: var(--p4); } .p5 { fill: var(--p5); background: var(--p5); }
</style>
<h1>$title</h1>
<section><dl>$facts</dl></section>
$sections
</html>
""")
