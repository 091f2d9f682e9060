"""What luxel promises of its presets and kinds of scenes on any capture, and where a report breaks it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from luxel.viewer.bench.strangers import methods
from luxel.viewer.bench.strangers.made import CAPTURES, MadeCapture
from luxel.viewer.bench.strangers.methods import Method

PRESET_TOLERANCE = 0.1  # dB by which a slower preset may be worse
COPY_TOLERANCE = (
    0.2  # dB between the same views in other coordinates; two trainings of one capture differ too
)
MAX_RADIANCE_LOSS = 1.5  # dB of a radiance field below Gaussians, on objects
MAX_SURFACE_LOSS = 1.5  # dB of the surface preset below the default of surfels
MAX_WAITING = 4.0  # seconds of wall time that are not training, on a GPU

# Better or equal, worse or equal, tolerance in dB; checked on each capture.
ORDERED = (
    (methods.GAUSSIANS_DEFAULT, methods.GAUSSIANS_FAST, PRESET_TOLERANCE),
    (methods.GAUSSIANS_BEST, methods.GAUSSIANS_DEFAULT, PRESET_TOLERANCE),
    (methods.SURFACE, methods.SURFELS, MAX_SURFACE_LOSS),
)
RULES = (
    f"fast ≤ default ≤ best within {PRESET_TOLERANCE:g} dB; on objects a radiance field within "
    f"{MAX_RADIANCE_LOSS:g} dB of Gaussians; surfels with --preset surface within {MAX_SURFACE_LOSS:g} dB of their "
    f"default; a copy in other coordinates within {COPY_TOLERANCE:g} dB of the original; on a GPU at most "
    f"{MAX_WAITING:g} s of wall time besides training"
)


def broken_promises(
    report: dict[str, Any], captures: Sequence[MadeCapture] = CAPTURES
) -> list[dict[str, str]]:
    """Each promise that a report breaks: name of the capture, and a sentence; what was not measured breaks none.

    Args:
        report: of `luxel.viewer.bench.strangers.run.run`.
        captures: what may be in it.
    """
    rows = {
        (row["capture"], row["kind"], row["preset"]): row for row in report["rows"] if not row["failures"]
    }

    def psnr(name: str, method: Method) -> float:
        value = rows.get((name, method.kind, method.preset), {}).get("psnr")
        return math.nan if value is None else value

    out = []
    for made in captures:
        for better, worse, tolerance in _expected(made):
            ours, theirs = psnr(*better), psnr(*worse)
            if theirs - ours > tolerance:
                where = f" of {worse[0]}" if worse[0] != made.name else ""
                text = (
                    f"{better[1].name} has {ours:.2f} dB, {worse[1].name}{where} {theirs:.2f} dB "
                    f"(promised: at most {tolerance:g} dB less)"
                )
                out.append({"capture": made.name, "text": text})
    return out + list(_waiting(report))


def _expected(made: MadeCapture) -> Iterator[tuple[tuple[str, Method], tuple[str, Method], float]]:
    """Pairs of trainings (capture, method) of which the first may be worse by a tolerance at most."""
    for better, worse, tolerance in ORDERED:
        yield (made.name, better), (made.name, worse), tolerance
    if made.is_object:
        yield (made.name, methods.RADIANCE), (made.name, methods.GAUSSIANS_DEFAULT), MAX_RADIANCE_LOSS
    if made.copy_of:
        for method in made.methods:
            yield (made.name, method), (made.copy_of, method), COPY_TOLERANCE


def _waiting(report: dict[str, Any]) -> Iterator[dict[str, str]]:
    if not report["machine"].get("gpu"):
        return
    for row in report["rows"]:
        if row["kind"] == methods.GSPLAT or row["failures"]:
            continue
        waiting = row["wall_seconds"] - row["seconds"]
        if waiting > MAX_WAITING:
            text = (
                f"{row['kind']}-{row['preset']} takes {waiting:.1f} s besides training "
                f"(promised: at most {MAX_WAITING:g} s)"
            )
            yield {"capture": row["capture"], "text": text}
