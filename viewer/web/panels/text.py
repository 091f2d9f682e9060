"""Numbers and messages of panels as HTML and Markdown."""

from __future__ import annotations

import html
from collections.abc import Sequence
from datetime import datetime

MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)


def table(rows: Sequence[tuple[str, str]]) -> str:
    """Rows of label and value as HTML that fits a narrow panel."""
    cells = "".join(
        f'<span style="color:var(--mantine-color-dimmed)">{html.escape(label)}</span>'
        f'<span style="text-align:right;overflow-wrap:anywhere;font-variant-numeric:tabular-nums">'
        f"{html.escape(value)}</span>"
        for label, value in rows
    )
    return (
        '<div style="display:grid;grid-template-columns:auto 1fr;gap:0.15em 0.8em;'
        f'font-size:13px;line-height:1.5;padding:0.3em 12px">{cells}</div>'
    )


def clock(seconds: float) -> str:
    """Seconds as h:mm:ss or m:ss; a dash where they are unknown."""
    if not 0 <= seconds < 1e7:
        return "–"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def day_and_time(then: float, now: float | None = None) -> str:
    """A moment such as "today, 9:05", "yesterday, 17:42", "3 November, 17:42" or "3 November 2024, 17:42".

    Args:
        then: seconds since 1970.
        now: likewise; None: the present.
    """
    moment = datetime.fromtimestamp(then)
    today = (datetime.now() if now is None else datetime.fromtimestamp(now)).date()
    days = (today - moment.date()).days
    date = f"{moment.day} {MONTHS[moment.month - 1]}" + (
        f" {moment.year}" if moment.year != today.year else ""
    )
    day = {0: "today", 1: "yesterday"}.get(days, date)
    return f"{day}, {moment.hour}:{moment.minute:02d}"


def as_text(message: str, limit: int = 400) -> str:
    """A message as Markdown that shows it literally, cut to ``limit`` characters."""
    short = message if len(message) <= limit else message[:limit] + " …"
    return "".join("\\" + c if c in "\\`*_{}[]()<>#+-!|~$&" else c for c in short).replace("\n", " ")
