"""Progress on the terminal: opening a capture, counting frames or views, a summary of a capture."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from luxel.render.runs.notices import visible
from luxel.scenes.captures.initial_points.origins import OF_CAPTURE

console = Console(stderr=True, highlight=False, soft_wrap=True)


@contextmanager
def opening(what: str) -> Iterator[Callable[[str, float], None]]:
    """A progress bar for the stages of opening a capture; one line a stage if stderr is not a terminal.

    Args:
        what: label until the first stage begins.

    Yields:
        on_progress(stage, fraction done in 0..1).
    """
    if not console.is_terminal:
        last = [""]

        def say(stage: str, fraction: float) -> None:
            if stage != last[0]:
                last[0] = stage
                print(f"{stage} ...", file=sys.stderr, flush=True)

        yield say
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(what, total=1.0)

        def show(stage: str, fraction: float) -> None:
            progress.update(task, description=stage, completed=min(max(fraction, 0.0), 1.0))

        yield show


@contextmanager
def counting(what: str, total: int) -> Iterator[Callable[[], None]]:
    """A progress bar over ``total`` things; the yielded function advances it by one. Silent without a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=total)
        yield lambda: progress.advance(task)


def points_in_words(capture: Any) -> str:
    """How many points a capture has, and where they are from unless the capture has them."""
    count = f"{len(capture.points.xyz):,} points"
    return count if capture.points_from == OF_CAPTURE else f"{count} from {capture.points_from}"


def describe(capture: Any, *, warnings: bool = True) -> None:
    """Prints a summary of a capture to stderr: views, split, sizes, points and, if asked for, warnings."""
    views = [*capture.train, *capture.test]
    sizes = sorted({(view.camera.width, view.camera.height) for view in views})
    size = f"{sizes[0][0]}x{sizes[0][1]}" if len(sizes) == 1 else f"{len(sizes)} sizes"
    name = escape(visible(capture.name))
    console.print(
        f"[bold]{name}[/]: {capture.format}, {len(capture.train)} views to train on and "
        f"{len(capture.test)} held out ({escape(visible(capture.holdout))}), {size}, "
        f"{points_in_words(capture)}"
    )
    if capture.pose_report:
        console.print(f"[bold]{name}[/]: {escape(visible(capture.pose_report))}")
    for warning in capture.warnings if warnings else ():
        console.print("[yellow]note[/] " + escape(visible(str(warning))))
