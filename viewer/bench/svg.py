"""Plots as inline SVG: lines over logarithmic or linear axes, and stacked bars. Colours come from the page's CSS."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 560, 300
LEFT, RIGHT, TOP, BOTTOM = 58, 28, 14, 44
BAR, GAP = 22, 14


@dataclass(frozen=True)
class Series:
    """One line of a plot: its name, its CSS class (s0, s1, ...), and its points (x, y), in order of x."""

    name: str
    style: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False


def line_plot(
    series: Sequence[Series],
    x_label: str,
    y_label: str,
    *,
    log_x: bool = False,
    log_y: bool = False,
    target: float | None = None,
) -> str:
    """Lines with markers; a point's numbers are its tooltip.

    Args:
        series: the lines; points that are not finite (or not positive on a logarithmic axis) are left out.
        x_label, y_label: what the axes are, with unit.
        log_x, log_y: logarithmic axes.
        target: a horizontal line to be reached.
    """
    retained = [(s, [p for p in s.points if _drawable(p, log_x, log_y)]) for s in series]
    every = [p for _, points in retained for p in points]
    if not every:
        return "<p class=note>Nothing to plot.</p>"
    heights = [y for _, y in every] + ([target] if target is not None else [])
    x_axis = _Axis([x for x, _ in every], log_x, LEFT, WIDTH - RIGHT)
    y_axis = _Axis(heights, log_y, HEIGHT - BOTTOM, TOP)
    parts = [_grid(x_axis, y_axis, x_label, y_label)]
    if target is not None:
        y = y_axis(target)
        parts.append(f"<line class=target x1={LEFT} x2={WIDTH - RIGHT} y1={y:.1f} y2={y:.1f} />")
    for s, points in retained:
        at = [(x_axis(x), y_axis(y)) for x, y in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
        dash = " stroke-dasharray='5 4'" if s.dashed else ""
        parts.append(f"<polyline class='line {s.style}' points='{path}'{dash} />")
        for (x, y), (px, py) in zip(points, at, strict=True):
            tip = html.escape(f"{s.name}: {number(x)}, {number(y)}")
            parts.append(
                f"<circle class='dot {s.style}' cx={px:.1f} cy={py:.1f} r=3.5><title>{tip}</title></circle>"
            )
    label = html.escape(f"{y_label} against {x_label}", quote=True)
    keys = [(s.name, s.style) for s in series]
    drawing = f"<svg viewBox='0 0 {WIDTH} {HEIGHT}' role=img aria-label='{label}'>{''.join(parts)}</svg>"
    return f"<div class=plot>{_legend(keys)}{drawing}</div>"


def stacked_bars(rows: Sequence[tuple[str, dict[str, float]]], parts: Sequence[str], unit: str) -> str:
    """One bar per row, its parts side by side in the order of ``parts`` (CSS classes p0, p1, ...).

    Args:
        rows: label and the length of each part.
        parts: names of all parts.
        unit: of the lengths.
    """
    longest = max((sum(lengths.values()) for _, lengths in rows), default=0.0)
    if not longest > 0:
        return "<p class=note>Nothing to plot.</p>"
    label_width, width = 230, 880
    scale = (width - label_width - 90) / longest
    height = len(rows) * (BAR + GAP)
    out = []
    for k, (label, lengths) in enumerate(rows):
        y, x = k * (BAR + GAP) + GAP / 2, float(label_width)
        out.append(
            f"<text class=label x={label_width - 10} y={y + BAR * 0.7:.1f}>{html.escape(label)}</text>"
        )
        for index, part in enumerate(parts):
            length = lengths.get(part, 0.0)
            if not length > 0:
                continue
            tip = html.escape(f"{part}: {length:.3g} {unit}")
            out.append(
                f"<rect class=p{index} x={x:.1f} y={y:.1f} width={max(length * scale, 0.5):.1f} height={BAR}>"
                f"<title>{tip}</title></rect>"
            )
            x += length * scale
        total = number(sum(lengths.values()))
        out.append(f"<text x={x + 8:.1f} y={y + BAR * 0.7:.1f}>{total} {html.escape(unit)}</text>")
    keys = [(p, f"p{k}") for k, p in enumerate(parts) if any(lengths.get(p) for _, lengths in rows)]
    svg = f"<svg viewBox='0 0 {width} {height}' role=img aria-label='{html.escape(unit)} by part'>{''.join(out)}</svg>"
    return f"<div class=plot>{_legend(keys)}{svg}</div>"


def number(value: float) -> str:
    """A number of about three digits as people write it: 0.0123, 1.23, 123, 12,300, 1.2 M."""
    if not math.isfinite(value):
        return "–"
    size = abs(value)
    if size >= 1e6:
        return f"{value / 1e6:.3g} M"
    if size >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


class _Axis:
    """Maps values to pixels, over a range that ends on ticks."""

    def __init__(self, values: Sequence[float], log: bool, start: float, end: float) -> None:
        self.log, self.start, self.end = log, start, end
        low, high = min(values), max(values)
        self.ticks = _log_ticks(low, high) if log else _linear_ticks(low, high)
        self.low, self.high = self.ticks[0], self.ticks[-1]

    def __call__(self, value: float) -> float:
        low, high, at = (math.log(v) if self.log else v for v in (self.low, self.high, value))
        return self.start + (at - low) / (high - low) * (self.end - self.start)


def _linear_ticks(low: float, high: float) -> list[float]:
    span = high - low or abs(high) or 1.0
    step = 10 ** math.floor(math.log10(span / 4))
    step *= next(f for f in (1, 2, 5, 10) if span / (f * step) <= 5)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [k * step for k in range(first, max(last, first + 1) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    """1, 2, 5 of each power of ten where the range is short, powers of ten where it is long."""
    steps = (1, 2, 5) if high / low < 1000 else (1,)
    first, last = math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1
    marks = [f * 10.0**e for e in range(first, last + 1) for f in steps]
    start = max(i for i, m in enumerate(marks) if m <= low * 1.0001)
    end = min(i for i, m in enumerate(marks) if m >= high * 0.9999)
    return marks[start : max(end, start + 1) + 1]


def _drawable(point: tuple[float, float], log_x: bool, log_y: bool) -> bool:
    x, y = point
    return math.isfinite(x) and math.isfinite(y) and (x > 0 or not log_x) and (y > 0 or not log_y)


def _grid(x_axis: _Axis, y_axis: _Axis, x_label: str, y_label: str) -> str:
    bottom, right, out = HEIGHT - BOTTOM, WIDTH - RIGHT, []
    for tick in x_axis.ticks:
        x = x_axis(tick)
        out.append(f"<line class=grid x1={x:.1f} x2={x:.1f} y1={TOP} y2={bottom} />")
        out.append(f"<text class=tick x={x:.1f} y={bottom + 16}>{number(tick)}</text>")
    for tick in y_axis.ticks:
        y = y_axis(tick)
        out.append(f"<line class=grid x1={LEFT} x2={right} y1={y:.1f} y2={y:.1f} />")
        out.append(f"<text class=label x={LEFT - 8} y={y + 4:.1f}>{number(tick)}</text>")
    middle, centre = (LEFT + right) / 2, (TOP + bottom) / 2
    out.append(f"<text class='tick axis' x={middle} y={HEIGHT - 6}>{html.escape(x_label)}</text>")
    out.append(
        f"<text class='tick axis' transform='translate(13 {centre}) rotate(-90)'>{html.escape(y_label)}</text>"
    )
    return "".join(out)


def _legend(keys: Sequence[tuple[str, str]]) -> str:
    items = "".join(f"<li><i class={style}></i>{html.escape(name)}</li>" for name, style in keys)
    return f"<ul class=legend>{items}</ul>"
