"""Runs the parts of the protocol one after another and records their results."""

from __future__ import annotations

import contextlib
import time
import traceback
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import torch

from luxel.render.errors import LuxelError
from luxel.render.replay import release_memory
from luxel.viewer.bench.machine import machine_facts
from luxel.viewer.bench.record.part import Part, Setup
from luxel.viewer.bench.record.store import PartRecord, Results
from luxel.viewer.bench.report import plain

QUICK_SECONDS = 30.0  # expected of a part with tiny sizes


def run_parts(
    parts: Sequence[Part],
    setup: Setup,
    results: Results,
    version: str,
    save: Callable[[Results], None],
    *,
    budget: float | None = None,
) -> Results:
    """Runs the parts that have no figures of this commit yet; a part that fails is recorded and the others still run.

    Args:
        parts: to run, in this order.
        setup: device, data, sizes.
        results: of earlier calls.
        version: commit that runs, with "+" where files have changed since.
        save: called with the results after each part.
        budget: seconds of the complete call; a part with a longer expected wall time than is left is not started. None:
            no bound.

    Returns:
        The results, the new parts among them.

    Raises:
        LuxelError: a part broke the GPU's context, so that no other can run in this process.
    """
    started = time.monotonic()
    for number, part in enumerate(parts, start=1):
        position = f"[{number}/{len(parts)}] {part.name}"
        known = results.parts.get(part.name)
        if (
            known is not None
            and known.state == "done"
            and (known.version, known.quick) == (version, setup.quick)
        ):
            print(f"{position}: done already", flush=True)
            continue
        if missing := part.missing(setup):
            print(f"{position}: skipped, --data has no {', '.join(missing)}", flush=True)
            continue
        expected = QUICK_SECONDS if setup.quick else part.seconds
        if budget is not None and time.monotonic() - started + expected > budget:
            print(
                f"{position}: not started, it takes about {expected:.0f} s; call again to go on", flush=True
            )
            continue
        print(f"{position}: {part.title} (about {expected:.0f} s)", flush=True)
        record = run_part(part, setup, version)
        results = results.with_part(part.name, record)
        save(results)
        print(f"  {record.state} after {record.seconds:.1f} s {record.error}".rstrip(), flush=True)
        require_working(setup.device, part)
    return results


def run_part(part: Part, setup: Setup, version: str) -> PartRecord:
    """Runs one part; its failure is recorded, an interrupt is not caught."""
    about = {
        "commit": version.removesuffix("+"),
        "dirty": version.endswith("+"),
        "quick": setup.quick,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {**machine_facts(setup.device), "commit": version},
    }
    started = time.perf_counter()
    rows, error = [], ""
    try:
        rows = plain(part.measure(setup))
    except Exception as problem:
        print(traceback.format_exc(), flush=True)
        error = f"{type(problem).__name__}: {problem}".strip().splitlines()[0]
    seconds = time.perf_counter() - started
    with contextlib.suppress(RuntimeError):  # of a broken context, which `require_working` reports
        release_memory()
    return PartRecord("failed" if error else "done", seconds=seconds, rows=rows, error=error, **about)


def require_working(device: torch.device, part: Part) -> None:
    """Ends the call where a part left the GPU unusable.

    Raises:
        LuxelError: nothing can be launched any more.
    """
    if device.type != "cuda":
        return
    try:
        torch.cuda.synchronize(device)
    except RuntimeError as error:
        raise LuxelError(
            f"The GPU cannot be used any more after {part.name}: {str(error).splitlines()[0]}.",
            "What was measured is retained. Call the same command again to go on with the other parts.",
        ) from error
